"""Makes corpora and training rows for experiments: by Spark, or in this process where there are too few runs for one.

Both write the same files, so that either can finish what the other began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenarios.executing.progress import Audience, Progress
from scenarios.spaces.families import Make
from twin.atomic import new_folder
from twin.checksums import seal
from twin.corpus.chunk import ChunkTask, Simulate, simulate_chunk
from twin.corpus.chunks import cut, keep_whole
from twin.corpus.manifest import (
    CHUNKS,
    MANIFEST,
    CorpusSpec,
    content_hash,
    open_corpus,
    read_manifest,
    sole_writer,
    write_json,
)
from twin.errors import BadInput
from twin.run import metrics_of
from twin.simulation import simulate
from twin.trace import TRAINING_ROWS, read_table
from twin.version import VERSION

FEW_RUNS = 64
"""Largest number of runs for which starting Spark takes longer than it saves."""

_CHUNK_RUNS = 4
_RUN_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class CorpusJob:
    """Corpus to be simulated into a folder, and aggregated into another that does not exist yet."""

    corpus: Path
    dataset: Path
    make: Make
    spec: CorpusSpec


FanOut = Callable[[Sequence[CorpusJob], Audience], None]
"""Function that does all jobs; what it finished before an interruption stays."""


def fan_out(master: str = "local[*]") -> FanOut:
    """Function that does jobs in this process if there are few runs, else by Spark."""

    def do(jobs: Sequence[CorpusJob], audience: Audience) -> None:
        few = sum(job.spec.runs for job in jobs) <= FEW_RUNS
        (in_process if few else by_spark(master))(jobs, audience)

    return do


def by_spark(master: str) -> FanOut:
    """Function that does all jobs in one Spark session."""

    def do(jobs: Sequence[CorpusJob], audience: Audience) -> None:
        from spark.corpus import write_corpus
        from spark.pipeline import write_dataset
        from spark.session import session

        audience.stage("starting Spark")
        with session(master) as spark:
            for job in jobs:
                audience.stage(f"simulating {job.spec.runs} runs into {job.corpus}; Ctrl-C keeps what is finished")
                with audience.progress("runs") as report:
                    write_corpus(spark, job.corpus, job.spec, job.make, simulate, progress=report, note=audience.stage)
                audience.stage(f"aggregating {job.corpus}")
                write_dataset(spark, job.corpus, job.dataset)

    return do


def in_process(jobs: Sequence[CorpusJob], audience: Audience, simulate: Simulate = simulate) -> None:
    """Simulates and aggregates one run after the other, without Spark."""
    for job in jobs:
        audience.stage(f"simulating {job.spec.runs} runs into {job.corpus}")
        with audience.progress("runs") as report:
            _simulate(job, simulate, report, audience.stage)
        _aggregate(job)


def _simulate(job: CorpusJob, simulate: Simulate, report: Progress, note: Callable[[str], None]) -> None:
    with sole_writer(job.corpus):
        chunks = cut(job.spec.runs, open_corpus(job.corpus, job.spec, _CHUNK_RUNS))
        task = ChunkTask(str(job.corpus), job.spec.seed, job.make, simulate, _RUN_LIMIT_S)
        whole = keep_whole(job.corpus, chunks, note)
        for chunk in chunks:
            if chunk not in whole:
                result = simulate_chunk(task, chunk, attempt=0)
                if result.problem:
                    raise BadInput(result.problem)
            report(chunk.stop, job.spec.runs)


def _aggregate(job: CorpusJob) -> None:
    chunks = sorted((job.corpus / CHUNKS).glob("chunk-*"))
    rows = [row for chunk in chunks for row in _training_rows(chunk)]
    if not rows:
        raise BadInput(f"no run of {job.corpus} succeeded; its runs.parquet files say why")
    corpus = read_manifest(job.corpus)
    counts = {"runs": job.spec.runs, "rows": len(rows), "failed": job.spec.runs - len(rows)}
    with new_folder(job.dataset) as aside:
        pq.write_table(pa.Table.from_pylist(rows, schema=TRAINING_ROWS), aside / "rows.parquet")
        about = {"version": VERSION, "corpus": corpus, "corpus_hash": content_hash(corpus), **counts}
        write_json(aside / MANIFEST, about)
        seal(aside, ["rows.parquet"])


def _training_rows(chunk: Path) -> list[dict[str, Any]]:
    """Training rows of the chunk's runs that ended well, as `spark.aggregate` computes them."""
    periods: dict[str, list[dict[str, Any]]] = {}
    for period in read_table(chunk, "operators").to_pylist():
        periods.setdefault(period["run"], []).append(period)
    runs = [run for run in read_table(chunk, "runs").to_pylist() if run["status"] == "ok"]
    return [_training_row(run, periods[run["run"]]) for run in runs]


def _training_row(run: dict[str, Any], periods: list[dict[str, Any]]) -> dict[str, Any]:
    found = metrics_of(periods, run["warmup_s"], run["crashed"])
    kept = ("run", "index", "seed", "config_hash", "horizon_s", "warmup_s", "deployment")
    row = {name: run[name] for name in kept}
    row |= {name: getattr(found, name) for name in ("throughput_per_s", "backpressure_per_s", "backpressured")}
    row |= {"success": found.success, "tuples_out": found.tuples_out}
    for name in ("processing_latency", "e2e_latency"):
        latency = getattr(found, f"{name}_s")
        if latency is not None:
            row |= {f"{name}_s": latency.mean, f"{name}_p50_s": latency.p50, f"{name}_p95_s": latency.p95}
    return row
