"""Runs a Spark job while the main thread stays free for Ctrl-C and a progress display."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

CANCEL_TIMEOUT_S = 15.0
POLLED_S = 0.25
"""Seconds between calls of `poll`: quick enough for Ctrl-C and a display, and next to no work."""
MOST_CHARACTERS = 300
"""Most characters of an error's line."""

T = TypeVar("T")


def last_line(error: Exception) -> str:
    """Last line of a worker's traceback; otherwise the longest cause that the JVM names, or the first line of its
    message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception")) and "Caused by" not in line]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    told = python[-1:] or sorted(causes, key=len)[-1:] or lines[:1] or [type(error).__name__]
    return told[0][:MOST_CHARACTERS]


def run_job(spark: SparkSession, action: Callable[[], T], *, poll: Callable[[], None] = lambda: None) -> T:
    """Returns or raises what `action` does; it runs in a thread of its own while this one calls `poll`.

    Whatever is raised here meanwhile (KeyboardInterrupt, or an error in `poll`) cancels the action's Spark jobs.
    """
    group = f"streamtwin-{uuid.uuid4()}"
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            spark.sparkContext.setJobGroup(group, "streamtwin", interruptOnCancel=True)
            outcome.set_result(action())
        except BaseException as error:
            outcome.set_exception(error)

    thread = InheritableThread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLLED_S)
            poll()
    except BaseException:
        with suppress(Py4JError, OSError):  # the JVM may be gone
            spark.sparkContext.cancelJobGroup(group)
        thread.join(CANCEL_TIMEOUT_S)
        raise
    return outcome.result()
