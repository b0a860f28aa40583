"""Work of one Spark task: it simulates a chunk of runs and writes their trace, whole or not at all."""

from __future__ import annotations

import faulthandler
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from twin.corpus.manifest import CHUNKS, MANIFEST
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.scenario import Scenario, config_hash
from twin.trace import TABLES, Rows, write_trace
from twin.version import VERSION

MAX_ERROR_LENGTH = 500
HANGING = 10.0
"""Multiple of the CPU time limit after which a run is given up: on a busy machine, it gets only part of a core."""


class HasRows(Protocol):
    """Part of `twin.simulation.Run` that a corpus keeps."""

    def rows(self, run: str, index: int, name: str) -> Rows:
        """Trace of the run, as rows by table."""


Make = Callable[[int], Scenario]
"""Function that makes the scenario of a run from its index. It is pickled and called in a worker."""

Simulate = Callable[[Scenario], HasRows]


class RunTimeLimit(BaseException):
    """Raised in a run that takes too long. It is no Exception, so that no simulation that swallows those swallows
    it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Runs first, first + 1, ... stop - 1 of a corpus."""

    number: int
    first: int
    stop: int

    @property
    def name(self) -> str:
        return f"chunk-{self.number:06d}"

    @property
    def runs(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class ChunkTask:
    """Description of a chunk's work, without the chunk. run_limit_s: CPU seconds after which a run is given up; one
    that hangs without using CPU time is given up after HANGING times as many seconds."""

    corpus: str
    seed: int
    make: Make
    simulate: Simulate
    run_limit_s: float


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """Outcome of a chunk. cpu_s: of simulations alone. problem: why nothing was written, in the user's terms, or
    empty."""

    failed: int = 0
    cpu_s: float = 0.0
    problem: str = ""


def simulate_chunk(task: ChunkTask, chunk: Chunk, attempt: int) -> ChunkResult:
    """Simulates the chunk's runs and writes them; a run that raises or hangs becomes a row that says so."""
    corpus = Path(task.corpus)
    if not (corpus / MANIFEST).exists():
        return ChunkResult(problem=f"executors do not see {corpus}; name a folder that all of them share")
    folder = corpus / CHUNKS / chunk.name
    killers = _Killers(folder.with_name(f".{chunk.name}.attempts"), attempt)
    rows: dict[str, list[Any]] = {table: [] for table in TABLES}
    failed, cpu_s = 0, 0.0
    for index in range(chunk.first, chunk.stop):
        if index in killers.known:
            found, spent_s = _failure(task, index, None, killers.message), 0.0
        else:
            killers.note(index)
            found, spent_s = _simulate_one(task, index)
        failed += sum(row["status"] != "ok" for row in found["runs"])
        cpu_s += spent_s
        for table, collected in rows.items():
            collected.extend(found.get(table, ()))
    try:
        write_trace(rows, folder)
    except (OSError, BadInput) as error:
        if not folder.exists():  # if it does, another attempt at the same chunk was first, with the same runs
            return ChunkResult(problem=f"cannot write {folder} ({error}); free space or name another folder")
    killers.forget()
    return ChunkResult(failed, cpu_s)


def run_name(index: int) -> str:
    """Name of a run; names sort as indices do."""
    return f"run-{index:08d}"


def _simulate_one(task: ChunkTask, index: int) -> tuple[Rows, float]:
    """Simulates a run. Returns its rows, and the CPU seconds of the simulation."""
    scenario = None
    started_s = time.process_time()
    try:
        with _time_limit(task.run_limit_s):
            made = task.make(index)
            scenario = made.with_run(seed=child_seed(task.seed, index))
            started_s = time.process_time()
            run = task.simulate(scenario)
            spent_s = time.process_time() - started_s
            return run.rows(run_name(index), index, scenario.name), spent_s
    except RunTimeLimit as error:
        message = f"RunTimeLimit: not done after {error}"
    except Exception as error:
        message = _describe(error)
    return _failure(task, index, scenario, message), time.process_time() - started_s


def _failure(task: ChunkTask, index: int, scenario: Scenario | None, message: str) -> Rows:
    """Trace of a failed run: one row with its scenario, if that was made, and the reason."""
    row: dict[str, Any] = {
        "run": run_name(index),
        "index": index,
        "status": "failed",
        "error": " ".join(message.split())[:MAX_ERROR_LENGTH],
        "seed": child_seed(task.seed, index),
        "version": VERSION,
    }
    if scenario is not None:
        settings = scenario.run
        row |= {"name": scenario.name, "horizon_s": settings.horizon_s}
        row |= {"warmup_s": settings.warmup_s, "period_s": settings.period_s}
        row |= {"config_hash": config_hash(scenario)}
        row |= {"deployment": scenario.deployment.model_dump_json(exclude_none=True)}
    return {"runs": [row], "operators": [], "hosts": []}


def _describe(error: Exception) -> str:
    """Kind of an error, its message, and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


@contextmanager
def _time_limit(limit_s: float) -> Iterator[None]:
    """Raises RunTimeLimit inside after `limit_s` of CPU time, or HANGING times as long on the clock. If code blocks
    signals, the process ends after 2 HANGING times as long.

    Signals reach the main thread only; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        raise RunTimeLimit(f"{limit_s:g} s of CPU time" if number == signal.SIGPROF else f"{HANGING * limit_s:g} s")

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    signal.setitimer(signal.ITIMER_REAL, HANGING * limit_s)
    faulthandler.dump_traceback_later(2 * HANGING * limit_s, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Killers:
    """Runs that end the worker itself (a crash in native code, no memory left), found by the attempts after the first.

    The first attempt keeps no notes, so an innocent run caught in a lost machine gets a second chance.
    """

    message = "WorkerDied: the process that simulated it ended, at the second attempt again"

    def __init__(self, notes: Path, attempt: int) -> None:
        self._notes = notes
        self._attempt = attempt
        lines = notes.read_text().splitlines() if attempt > 1 and notes.exists() else []
        by_attempt = {before: int(index) for before, _, index in (line.partition(" ") for line in lines)}
        self.known = frozenset(by_attempt.values())  # each attempt's last note is where it ended

    def note(self, index: int) -> None:
        """Records which run is about to start, if this is not the first attempt."""
        if self._attempt:
            with self._notes.open("a") as notes:
                notes.write(f"{self._attempt} {index}\n")

    def forget(self) -> None:
        """Removes the notes, once the chunk is done."""
        if self._attempt:
            self._notes.unlink(missing_ok=True)
