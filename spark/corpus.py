"""Distributes simulations over Spark: one task and one atomic folder a chunk of runs, resumable at any moment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark.executor import fan_out
from twin.corpus.chunks import (
    Chunk,
    ChunkResult,
    ChunkTask,
    CorpusSummary,
    Make,
    Note,
    Simulate,
    cut,
    failed_in,
    finished,
    keep_whole,
    simulate_chunk,
)
from twin.corpus.manifest import CorpusSpec, open_corpus, sole_writer
from twin.errors import BadInput

CHUNK_RUNS = 16
"""Most runs of a chunk: many enough to outweigh a task's overhead (about 0.05 s), few enough to lose little."""

RUN_LIMIT_S = 300.0

Progress = Callable[[int, int], None]
"""Reports the runs finished so far, those of earlier invocations included, and the runs of the corpus."""


def write_corpus(
    spark: SparkSession,
    folder: Path,
    spec: CorpusSpec,
    make: Make,
    simulate: Simulate,
    *,
    chunk_runs: int | None = None,
    run_limit_s: float = RUN_LIMIT_S,
    progress: Progress | None = None,
    note: Note = lambda _: None,
) -> CorpusSummary:
    """Simulates the runs of `spec` that `folder` does not hold yet; the same call resumes after any interruption.

    A call with more runs lets the corpus grow. Chunks that are not as they were written are simulated again.

    A run's seed is child_seed(spec.seed, index), so its trace (but for cpu_s) depends on nothing but spec and `make`.
    A run that raises, ends its process, or takes more than `run_limit_s` of CPU time becomes a row of status "failed".
    An interrupt (KeyboardInterrupt) leaves the chunks that are done. With executors on other machines `folder` must
    be on storage that they share. Raises BadInput if the folder holds something else or another corpus, is in use, or
    cannot be written; Unfinished if Spark gives up.
    """
    started_s = time.monotonic()
    folder = folder.absolute()
    slots = spark.sparkContext.defaultParallelism
    with sole_writer(folder):
        wanted = chunk_runs or default_chunk_runs(spec.runs, slots)
        chunks = cut(spec.runs, open_corpus(folder, spec, wanted))
        whole = keep_whole(folder, chunks, note)
        kept_failed = failed_in(folder, whole)
        todo = [chunk for chunk in chunks if chunk not in whole]
        task = ChunkTask(str(folder), spec.seed, make, simulate, run_limit_s)
        results = _simulated(spark, task, todo, _watcher(folder, chunks, spec.runs, progress))
        return CorpusSummary(
            runs=spec.runs,
            failed=kept_failed + sum(result.failed for result in results),
            resumed=sum(chunk.runs for chunk in whole),
            wall_s=time.monotonic() - started_s,
            simulation_cpu_s=sum(result.cpu_s for result in results),
        )


def default_chunk_runs(runs: int, slots: int) -> int:
    """Runs of a chunk by default: at most CHUNK_RUNS, and so few that every slot gets four chunks or more."""
    chunks_a_slot = max(4, math.ceil(runs / (CHUNK_RUNS * slots)))
    return math.ceil(runs / (chunks_a_slot * slots))


def _watcher(folder: Path, chunks: Sequence[Chunk], runs: int, progress: Progress | None) -> Callable[[], None]:
    """Function that reports the number of runs on disk, when it has changed."""
    reported = -1

    def look() -> None:
        nonlocal reported
        now = sum(chunk.runs for chunk in finished(folder, chunks))
        if progress is not None and now != reported:
            progress(now, runs)
            reported = now

    return look


def _simulated(
    spark: SparkSession, task: ChunkTask, todo: Sequence[Chunk], look: Callable[[], None]
) -> list[ChunkResult]:
    look()
    results: list[ChunkResult] = []

    def work(chunk: Chunk) -> ChunkResult:
        context = TaskContext.get()
        return simulate_chunk(task, chunk, context.attemptNumber() if context else 0)

    fan_out(spark, work, todo, lambda _position, result: results.append(result), poll=look, tasks=len(todo))
    for result in results:
        if result.problem:
            raise BadInput(result.problem)
    return results
