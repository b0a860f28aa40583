"""Chunks of a corpus: the work of one Spark task, and which chunks are there."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import pyarrow.parquet as pq

from twin import VERSION
from twin.corpus.manifest import CHUNKS, MANIFEST, CorpusSpec, read_manifest, remove
from twin.errors import BadInput
from twin.files import parse_json
from twin.randomness import child_seed
from twin.scenario import Scenario, config_hash
from twin.trace import TABLES, Rows, damage, read_table, write_trace

# the work of a chunk -------------------------------------------------------------------------------------------------
# Work of one Spark task: it simulates a chunk of runs and writes their trace, whole or not at all.


MAX_ERROR_LENGTH = 500
HANGING = 10.0
"""Multiple of the CPU time limit after which a run is given up: on a busy machine, it gets only part of a core."""


class HasRows(Protocol):
    """Part of `twin.run.Run` that a corpus keeps."""

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


# chunks on disk ------------------------------------------------------------------------------------------------------
# Chunks of a corpus on disk: how runs are divided into them, and which are there and undamaged.


CARD = "card"


Note = Callable[[str], None]
"""Function that tells the user something, in one line."""


@dataclass(frozen=True, slots=True)
class ChunkAudit:
    """State of the chunks that are there. whole: with all their runs. short: the last ones of a smaller corpus that has
    grown. damaged: the damaged ones, and what is wrong with each."""

    whole: frozenset[Chunk]
    short: frozenset[Chunk]
    damaged: Mapping[Chunk, str]


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """Result of making a corpus. runs, failed: of the whole corpus. resumed: runs that were there already. The seconds
    are of this invocation."""

    runs: int
    failed: int
    resumed: int
    wall_s: float
    simulation_cpu_s: float


def cut(runs: int, chunk_runs: int) -> list[Chunk]:
    """Divides runs 0 to runs - 1 into consecutive chunks. Raises BadInput if chunk_runs < 1."""
    if chunk_runs < 1:
        raise BadInput(f"chunk_runs must be >= 1, got {chunk_runs}")
    starts = range(0, runs, chunk_runs)
    return [Chunk(number, first, min(first + chunk_runs, runs)) for number, first in enumerate(starts)]


def finished(folder: Path, chunks: Iterable[Chunk]) -> set[Chunk]:
    """Chunks that are in the corpus, damaged or not."""
    present = set(os.listdir(folder / CHUNKS))
    return {chunk for chunk in chunks if chunk.name in present}


def audit(folder: Path, chunks: Iterable[Chunk]) -> ChunkAudit:
    """Reads every file of every chunk that is there, and tells whole, short and damaged chunks apart."""
    whole, short, damaged = set[Chunk](), set[Chunk](), dict[Chunk, str]()
    for chunk in sorted(finished(folder, chunks), key=lambda each: each.number):
        runs = 0
        why = damage(folder / CHUNKS / chunk.name)
        if not why:
            runs = int(pq.read_metadata(folder / CHUNKS / chunk.name / "runs.parquet").num_rows)
            why = f"runs.parquet holds {runs} runs, not {chunk.runs}" if runs > chunk.runs else ""
        if why:
            damaged[chunk] = why
        else:
            (whole if runs == chunk.runs else short).add(chunk)
    return ChunkAudit(frozenset(whole), frozenset(short), damaged)


def keep_whole(folder: Path, chunks: Sequence[Chunk], note: Note) -> frozenset[Chunk]:
    """Removes the chunks that must be simulated again, and notes why. Returns the others."""
    there = audit(folder, chunks)
    for chunk, why in there.damaged.items():
        note(f"{chunk.name} is damaged ({why}); its {chunk.runs} runs are simulated again")
    remove(folder / CHUNKS / chunk.name for chunk in (*there.short, *there.damaged))
    return there.whole


def complete(folder: Path, spec: CorpusSpec) -> CorpusSummary | None:
    """Summary of a complete corpus of that spec with its card; None if anything is missing."""
    if not (folder / MANIFEST).exists() or not (folder / CHUNKS).is_dir():
        return None
    manifest = read_manifest(folder)
    chunks = cut(spec.runs, manifest["chunk_runs"])
    if _described(folder) != manifest["config_hash"] or audit(folder, chunks).whole != set(chunks):
        return None
    return CorpusSummary(spec.runs, failed_in(folder, chunks), resumed=spec.runs, wall_s=0.0, simulation_cpu_s=0.0)


def failed_in(folder: Path, chunks: Iterable[Chunk]) -> int:
    """Number of failed runs in chunks that are not damaged."""
    statuses = (read_table(folder / CHUNKS / chunk.name, "runs")["status"].to_pylist() for chunk in chunks)
    return sum(status != "ok" for column in statuses for status in column)


def _described(folder: Path) -> str | None:
    """`config_hash` of the corpus that the card describes; None if there is no whole card."""
    try:
        card = parse_json((folder / f"{CARD}.json").read_text())
        return str(card["recipe"]["config_hash"]) if (folder / f"{CARD}.md").exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def require_whole(corpus: Path, chunks: Sequence[Chunk]) -> None:
    """Raises BadInput for a chunk that is damaged or lacks runs."""
    there = audit(corpus, chunks)
    lacking = dict.fromkeys(there.short, "runs are missing")
    for chunk, why in {**there.damaged, **lacking}.items():
        raise BadInput(
            f"{corpus / CHUNKS / chunk.name} is damaged ({why}); "
            f"repeat the command that began {corpus}, which simulates damaged chunks again"
        )
