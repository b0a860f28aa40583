"""Distributes independent pieces of work over a Spark master, and reports each as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

from py4j.protocol import Py4JError
from pyspark import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.session import check_master, last_line, run_job, session
from twin.errors import BadInput, Unfinished

TASKS_A_SLOT = 16
"""Tasks for each slot: enough for an even load and little loss with one, few enough to cost little (0.05 s each)."""

Made = tuple[int, Any]
"""A position, and the item there or the result for it."""


class RefusedJob(NamedTuple):
    """Result of work that raised BadInput. It is reported, not raised in the worker, as another attempt would end
    alike; other errors may be the worker's own."""

    error: BadInput


def fan_out(
    spark: SparkSession,
    work: Callable[[Any], Any],
    items: Sequence[Any],
    done: Callable[[int, Any], None],
    *,
    poll: Callable[[], None] = lambda: None,
    tasks: int | None = None,
) -> None:
    """Calls `done` with the result of `work` for each item, task by task; once, even if a lost worker has it redone.

    poll: called now and then. tasks: their number; absent: a few a slot. Raises BadInput if `work` does; Unfinished if
    it raises something else at each of four attempts, or Spark gives up for another reason.
    """
    told: set[int] = set()
    arrived = spark.sparkContext.accumulator({}, _ByPosition())

    def look() -> None:
        poll()
        for position, found in arrived.value.copy().items():
            if position not in told:
                told.add(position)
                if isinstance(found, RefusedJob):
                    raise found.error
                done(position, found)

    def task(part: Iterable[Made]) -> None:
        for position, item in part:
            arrived.add({position: _tried(work, item)})

    if not items:
        return
    slices = min(len(items), tasks or TASKS_A_SLOT * spark.sparkContext.defaultParallelism)
    numbered = spark.sparkContext.parallelize([*enumerate(items)], numSlices=slices)
    try:
        run_job(spark, lambda: numbered.foreachPartition(task), poll=look)
    except (PySparkException, Py4JError) as error:
        raise Unfinished(
            f"Spark gave up ({last_line(error)}); what is finished stays in the folder, the same command resumes"
        ) from error
    look()


class OnSpark:
    """Executor (twin.work.Executor) on Spark; its session begins with the first work.

    say: called when it starts. Raises BadInput as `check_master` does.
    """

    def __init__(self, master: str, say: Callable[[str], None] = lambda _text: None) -> None:
        check_master(master)
        self._master = master
        self._say = say
        self._spark: SparkSession | None = None
        self._open = ExitStack()

    def each(self, work: Callable[[Any], Any], items: Sequence[Any], done: Callable[[int, Any], None]) -> None:
        """Calls `done` with the result of `work` for each item, as `twin.work.Executor.each`."""
        if items:
            fan_out(self._started(), work, items, done)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.__exit__(kind, error, at)

    def _started(self) -> SparkSession:
        if self._spark is None:
            self._say(f"starting Spark on {self._master}")
            self._spark = self._open.enter_context(session(self._master))
        return self._spark


class _ByPosition(AccumulatorParam[dict[int, Any]]):
    """Results by position; a repeated position has the same result."""

    def zero(self, value: dict[int, Any]) -> dict[int, Any]:
        del value
        return {}

    def addInPlace(self, value1: dict[int, Any], value2: dict[int, Any]) -> dict[int, Any]:  # noqa: N802
        value1.update(value2)
        return value1


def _tried(work: Callable[[Any], Any], item: Any) -> Any:
    try:
        return work(item)
    except BadInput as error:
        return RefusedJob(error)
