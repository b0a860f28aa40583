"""From a corpus to a dataset: tables are read, aggregated to training rows, and written."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import ValidationError
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark.session import run_job
from twin import same_runs
from twin.corpus.card import card, card_text
from twin.corpus.chunks import CARD, Chunk, cut, failed_in, finished, require_whole
from twin.corpus.manifest import CHUNKS, read_manifest, write_json
from twin.corpus.rows import BEHIND, CHECKPOINT, COMPLETED, TITLE, describe, first_fault, of_corpora
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.files import new_folder, write_text
from twin.histograms import COLUMNS as HISTOGRAMS
from twin.histograms import GROWTH, LOWEST_S
from twin.kinds.registry import SINKS, SOURCES
from twin.metrics import METRICS, SAME, TABLE, Metric, Totals
from twin.trace import TABLES, TRAINING_ROWS, of_table, read_table

# from periods to training rows ---------------------------------------------------------------------------------------
# Aggregates per-period traces to training rows: pure DataFrame -> DataFrame, no session, files or Python functions.
#
# The sums over a trace are those that `twin.run.metrics_of` takes over a run in memory; `twin.metrics` computes the
# metrics from either.


QUANTILES = {"p50_s": 0.50, "p95_s": 0.95, "p99_s": 0.99}
OF_LATENCIES = {"processing": "processing_latency", "e2e": "e2e_latency", "delay": "result_delay"}
"""Beginnings of the names of labels, by latency (of twin.histograms.COLUMNS)."""

_RUNS_READ = (
    "run",
    "index",
    "status",
    "seed",
    "horizon_s",
    "warmup_s",
    "config_hash",
    "deployment",
    "checkpoints",
    "crashed",
)
_OPERATORS_READ = (
    *("run", "kind", "start_s", "end_s", "numRecordsIn", "arrived", "latencyCount"),
    *("processingLatencySum_s", "processingLatencyBuckets", "processingLatencyCounts"),
    *("e2eLatencySum_s", "e2eLatencyBuckets", "e2eLatencyCounts"),
    *("resultDelaySum_s", "resultDelayBuckets", "resultDelayCounts", "backlog"),
)
_EVENTS_READ = ("run", "at_s", "end_s", "kind", "bytes", "detail")


def training_rows(runs: DataFrame, operators: DataFrame, events: DataFrame) -> DataFrame:
    """Training rows (twin.trace.TRAINING_ROWS), one for each run of status "ok", of a trace's tables `runs`,
    `operators` and `events`.

    A run without any period after its warm-up has null labels. Raises BadInput if a column is missing.
    """
    labelled = labels(runs, operators)
    require_columns(events, _EVENTS_READ, "events")
    succeeded = _succeeded(runs)
    periods = after_warmup(operators, succeeded)
    described = succeeded.select(
        "run", "index", "seed", "config_hash", "horizon_s", "warmup_s", "deployment", "checkpoints"
    )
    further = [result_delays(periods), behind(periods), checkpoint_means(events, succeeded)]
    parts = [labelled, *(latency_quantiles(periods, kind) for kind in OF_LATENCIES), *further]
    rows = reduce(lambda rows, part: rows.join(part, "run", how="left"), parts, described)
    return rows.select(TRAINING_ROWS.names)


def labels(runs: DataFrame, operators: DataFrame) -> DataFrame:
    """Metrics of each run of status "ok", but for quantiles, which take far longer than all the rest.

    A run without any period after its warm-up has null labels. Raises BadInput if a column is missing.
    """
    require_columns(runs, _RUNS_READ, "runs")
    require_columns(operators, _OPERATORS_READ, "operators")
    succeeded = _succeeded(runs)
    totals = succeeded.join(run_totals(after_warmup(operators, succeeded)), "run", how="left")
    grows_by = F.col("arrived") - F.col("taken")
    return totals.select(
        "run",
        *[_metric(metric).alias(name) for name, metric in TABLE.items()],
        F.greatest(F.lit(0.0), grows_by / F.col("seconds")).alias("backpressure_per_s"),
        F.col("results").alias("records_out"),
    )


def _metric(metric: Metric) -> Column:
    """Column of a metric, from a run's totals. A latency is null without results (Spark cannot divide by zero)."""
    sums = {name: F.col(name) for name in ("seconds", "results", "processing_s", "e2e_s", "arrived", "taken")}
    found: Column = metric.of(Totals(**sums, alive=~F.col("crashed")))
    return F.when(F.col("results") > 0, found) if metric.kind == "latency" else found


def _succeeded(runs: DataFrame) -> DataFrame:
    return runs.where(F.col("status") == "ok")


def after_warmup(operators: DataFrame, runs: DataFrame) -> DataFrame:
    """Periods of these runs that start at or after their warm-up. Reads run, start_s; run, warmup_s."""
    measured = operators.join(runs.select("run", "warmup_s"), "run", how="inner")
    return measured.where(F.col("start_s") >= F.col("warmup_s") * F.lit(SAME)).drop("warmup_s")


def run_totals(periods: DataFrame) -> DataFrame:
    """Totals, one row a run: seconds measured, results at sinks with sums of latencies [s], arrived and taken
    records."""
    is_source, is_sink = (F.col("kind").isin(*kinds) for kinds in (SOURCES, SINKS))
    totals = periods.groupBy("run").agg(
        (F.max("end_s") - F.min("start_s")).alias("seconds"),
        _sum_where(is_sink, "latencyCount").alias("results"),
        _sum_where(is_sink, "processingLatencySum_s").alias("processing_s"),
        _sum_where(is_sink, "e2eLatencySum_s").alias("e2e_s"),
        _sum_where(is_source, "arrived").alias("arrived"),
        _sum_where(is_source, "numRecordsIn").alias("taken"),
    )
    return totals.select("run", "seconds", "results", "processing_s", "e2e_s", "arrived", "taken")


def latency_quantiles(periods: DataFrame, kind: str) -> DataFrame:
    """Latency quantiles [s], one row a run with results, as from `twin.histograms.quantile_s`. kind: of OF_LATENCIES.

    The histograms of all sinks and periods are merged; the quantile is the middle of the first bucket at which a
    share q of all results is reached.
    """
    buckets, counts = f"{HISTOGRAMS[kind]}Buckets", f"{HISTOGRAMS[kind]}Counts"
    entries = periods.where(F.col("kind").isin(*SINKS)).select(
        "run", F.explode(F.arrays_zip(buckets, counts)).alias("entry")
    )
    merged = entries.groupBy("run", F.col(f"entry.{buckets}").alias("bucket")).agg(
        F.sum(f"entry.{counts}").alias("results")
    )
    of_run = Window.partitionBy("run")
    up_to_here = of_run.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    cumulative = merged.select(
        "run",
        "bucket",
        F.sum("results").over(up_to_here).alias("reached"),
        F.sum("results").over(of_run).alias("total"),
    )
    reached = {name: F.col("reached") >= F.lit(q) * F.col("total") for name, q in QUANTILES.items()}
    quantiles = cumulative.groupBy("run").agg(
        *[
            _middle_s(F.min(F.when(done, F.col("bucket")))).alias(f"{OF_LATENCIES[kind]}_{name}")
            for name, done in reached.items()
        ]
    )
    return quantiles.select("run", *[f"{OF_LATENCIES[kind]}_{name}" for name in QUANTILES])


def result_delays(periods: DataFrame) -> DataFrame:
    """Mean delay of results [s], one row a run whose sinks all tell it."""
    sinks = periods.where(F.col("kind").isin(*SINKS)).groupBy("run")
    means = sinks.agg(
        F.sum("resultDelaySum_s").alias("sum_s"),
        F.sum("latencyCount").alias("results"),
        F.bool_and(F.col("resultDelaySum_s").isNotNull()).alias("known"),
    )
    told = means.where(F.col("known") & (F.col("results") > 0))
    return told.select("run", (F.col("sum_s") / F.col("results")).alias("result_delay_s"))


def behind(periods: DataFrame) -> DataFrame:
    """Share of the time in which a run is behind, and its highest backlog, as `twin.corpus.rows.further_labels`."""
    sources = periods.where(F.col("kind").isin(*SOURCES) & F.col("backlog").isNotNull())
    each = sources.groupBy("run", "start_s", "end_s").agg(
        F.sum("backlog").alias("waiting"), F.sum("numRecordsIn").alias("taken")
    )
    seconds, late = F.col("end_s") - F.col("start_s"), F.col("waiting") > F.lit(BEHIND) * F.col("taken")
    return each.groupBy("run").agg(
        (F.sum(F.when(late, seconds).otherwise(0.0)) / F.sum(seconds)).alias("behind_share"),
        F.max("waiting").alias("backlog_max"),
    )


def checkpoint_means(events: DataFrame, runs: DataFrame) -> DataFrame:
    """Means of the duration [s] and size [bytes] of the completed checkpoints that began after the warm-up of these
    runs."""
    began = events.where(F.col("kind") == CHECKPOINT).join(runs.select("run", "warmup_s"), "run", how="inner")
    done = began.where((F.col("at_s") >= F.col("warmup_s")) & (F.get_json_object("detail", "$.status") == COMPLETED))
    return done.groupBy("run").agg(
        F.avg(F.col("end_s") - F.col("at_s")).alias("checkpoint_duration_s"), F.avg("bytes").alias("checkpoint_bytes")
    )


def require_columns(table: DataFrame, columns: Iterable[str], name: str) -> None:
    """Raises BadInput if columns are missing; it names these, and those which are there."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise BadInput(
            f"table {name!r} lacks {', '.join(missing)}; it has {', '.join(table.columns)}; simulate the corpus again"
        )


def _sum_where(condition: Column, column: str) -> Column:
    """Sum of a column where a condition holds; 0 if there is nothing to sum."""
    return F.coalesce(F.sum(F.when(condition, F.col(column))), F.lit(0))


def _middle_s(bucket: Column) -> Column:
    return F.lit(LOWEST_S) * F.pow(F.lit(GROWTH), bucket + F.lit(0.5))


# tables in and out ---------------------------------------------------------------------------------------------------
# Reading and writing of tables in the pipeline: a corpus in, a dataset out.


ROWS = "rows.parquet"
CARD_COLUMNS = ["run", "status", "error", "cpu_s", "deployment"]
TABLES_READ = ("runs", "operators", "events")
LABELLED_BY = TABLES_READ[:2]
"""Tables that datasets are made of, and those of the labels of a card."""
CHECKED = ["run", "index", "warmup_s", "horizon_s", *METRICS, "deployment"]
LOOK_S, LOOKS = 0.1, 10
"""Seconds between looks, and number of looks, for a folder that was removed while Spark's tasks were ending."""


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """Summary of a dataset. runs: read from the corpora, = rows written + failed + duplicates. duplicates: runs that an
    earlier corpus has, too."""

    runs: int
    rows: int
    failed: int
    duplicates: int = 0


def write_dataset(spark: SparkSession, corpora: Sequence[Path], folder: Path) -> DatasetSummary:
    """Aggregates corpora to training rows: FOLDER/rows.parquet, in the order of the corpora and of the index in each,
    and beside it a manifest, a card that explains the columns, and checksums, which readers of the folder's tables pass
    over.

    Runs of equal configuration and seed are the same run, which is kept once, of the corpus that comes first. Of
    several corpora, names of runs begin with the name of their corpus. The folder appears whole or not at all. With
    executors on other machines all folders must be on storage that they share. Raises BadInput as `check_dataset`; if
    nothing succeeded; or if a row is not sound.
    """
    folders, folder = [corpus.absolute() for corpus in corpora], folder.absolute()
    runs = check_dataset(folders, folder)
    names = corpus_names(folders)
    parts = [training_rows(*(read_corpus_table(spark, each, table) for table in TABLES_READ)) for each in folders]
    rows = parts[0].sort("index") if len(parts) == 1 else _together(dict(zip(names, parts, strict=True)))
    with _made_aside(folder) as made:
        run_job(spark, lambda: rows.write.parquet(_uri(made / ROWS)))
        count = _check_rows(made / ROWS, folders)
        failed = sum(failed_in(each, _chunks(each, read_manifest(each))) for each in folders)
        summary = DatasetSummary(runs=runs, rows=count, failed=failed, duplicates=runs - failed - count)
        files = sorted(part.relative_to(made).as_posix() for part in made.rglob("*.parquet") if part.is_file())
        manifests = dict(zip(names, map(read_manifest, folders), strict=True))
        describe(made, TITLE, of_corpora(manifests, asdict(summary)), TRAINING_ROWS.names, files)
    return summary


def write_card(spark: SparkSession, corpus: Path, command: str) -> Path:
    """Describes a complete corpus in CORPUS/card.json and, for readers, in CORPUS/card.md; returns the latter.

    command: the one that made the corpus, as users write it. Raises BadInput if the corpus is incomplete or damaged.
    """
    corpus = corpus.absolute()
    manifest = read_manifest(corpus)
    chunks = _chunks(corpus, manifest)
    require_whole(corpus, chunks)
    folders = [corpus / CHUNKS / chunk.name for chunk in chunks]
    tables = (read_corpus_table(spark, corpus, table) for table in LABELLED_BY)
    labelled = run_job(spark, labels(*tables).collect)
    runs = (row for each in folders for row in read_table(each, "runs").select(CARD_COLUMNS).to_pylist())
    found = card({"command": command, **manifest}, runs, (row.asDict() for row in labelled))
    write_json(corpus / f"{CARD}.json", found)
    write_text(corpus / f"{CARD}.md", card_text(found))
    return corpus / f"{CARD}.md"


def check_dataset(corpora: Sequence[Path], folder: Path) -> int:
    """Number of runs that a dataset would come from; needs no Spark, so it can be checked before one starts.

    Raises BadInput if a corpus is none, is incomplete, holds a damaged file, is named twice or is of a version that
    simulates other runs than that of the first; or if `folder` exists.
    """
    manifests = {corpus.resolve(): read_manifest(corpus) for corpus in corpora}
    if len(manifests) < len(corpora):
        twice = next(each for number, each in enumerate(corpora) if each.resolve() in _resolved(corpora[:number]))
        raise BadInput(f"{twice} is named twice; name each corpus once")
    first, *others = zip(corpora, manifests.values(), strict=True)
    for corpus, manifest in others:
        versions = [str(each.get("version")) for each in (first[1], manifest)]
        if not same_runs(*versions):
            raise BadInput(
                f"{first[0]} is of streamtwin {versions[0]} and {corpus} of {versions[1]}, which simulate other runs; "
                "simulate one of them again, or make a dataset of each"
            )
    if folder.exists():
        raise BadInput(f"{folder} exists; remove it or name another folder")
    runs = 0
    for corpus, manifest in zip(corpora, manifests.values(), strict=True):
        chunks = _chunks(corpus, manifest)
        require_whole(corpus, chunks)
        _check_schemas(corpus, chunks)
        runs += sum(chunk.runs for chunk in chunks)
    return runs


def _resolved(paths: Sequence[Path]) -> set[Path]:
    return {path.resolve() for path in paths}


def corpus_names(corpora: Sequence[Path]) -> list[str]:
    """Names of corpora: those of their folders, with a number where several folders have the same name."""
    names = [corpus.absolute().name for corpus in corpora]
    return [
        name if names.count(name) == 1 else f"{name}-{names[: number + 1].count(name)}"
        for number, name in enumerate(names)
    ]


def _together(parts: Mapping[str, DataFrame]) -> DataFrame:
    """Rows of several corpora in order, without runs that an earlier one has. parts: rows by name of the corpus."""
    named = [
        part.withColumn("run", F.concat(F.lit(f"{name}/"), F.col("run"))).withColumn("corpus", F.lit(number))
        for number, (name, part) in enumerate(parts.items())
    ]
    order = ("corpus", "index")
    same = Window.partitionBy("config_hash", "seed").orderBy(*order)
    rows = reduce(DataFrame.unionByName, named).withColumn("before", F.row_number().over(same) - 1)
    return rows.where(F.col("before") == 0).sort(*order).select(TRAINING_ROWS.names)


def read_corpus_table(spark: SparkSession, corpus: Path, table: str) -> DataFrame:
    """Reads one table of all finished chunks, with the schema of twin.trace."""
    schema = from_arrow_schema(TABLES[table])
    reader = spark.read.schema(schema).option("recursiveFileLookup", True)
    escaped = re.sub(r"([\[\]{}*?\\])", r"\\\1", _uri(corpus / CHUNKS))  # a path here is a pattern
    return reader.option("pathGlobFilter", f"{table}.parquet").parquet(escaped)


def _chunks(corpus: Path, manifest: dict[str, Any]) -> list[Chunk]:
    expected = cut(manifest["runs"], manifest["chunk_runs"])
    done = sorted(finished(corpus, expected), key=lambda chunk: chunk.number)
    runs = sum(chunk.runs for chunk in done)
    if runs < manifest["runs"]:
        raise BadInput(f"{corpus} holds {runs} of its {manifest['runs']} runs; repeat the command that began it")
    return done


def _check_schemas(corpus: Path, chunks: list[Chunk]) -> None:
    """Raises BadInput for a file that lacks more than the columns that older versions did not write: Spark would fill
    these with nulls, too."""
    for chunk in chunks:
        for table in TABLES_READ:
            file = corpus / CHUNKS / chunk.name / f"{table}.parquet"
            if not of_table(pq.read_schema(file), table):
                raise BadInput(f"{file} has another schema than this version reads; simulate {corpus} again")


@contextmanager
def _made_aside(folder: Path) -> Iterator[Path]:
    """Folder to write to, which becomes `folder` if all goes well and vanishes if not."""
    made: Path | None = None
    try:
        with new_folder(folder) as made:
            yield made
            for left in [*made.rglob(".*.crc"), *made.rglob("_SUCCESS")]:
                left.unlink()
    except OSError as error:
        raise BadInput(f"cannot write to {folder.parent} ({error.strerror}); name another folder") from None
    finally:
        if made is not None:
            _remove_for_good(made)


def _remove_for_good(folder: Path) -> None:
    """Removes a folder, and again for a moment: a task of a cancelled job may still be writing, and make it anew."""
    for _ in range(LOOKS if folder.exists() else 0):
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(LOOK_S)


def _check_rows(written: Path, corpora: Sequence[Path]) -> int:
    """Number of rows. Raises BadInput if there are none, or one that no model could learn from."""
    rows = pq.read_table(written, columns=CHECKED)
    corpus = ", ".join(map(str, corpora))
    numbers = rows["index" if len(corpora) == 1 else "run"].to_pylist()
    if not len(rows):
        raise BadInput(f"no run of {corpus} succeeded; see the column 'error' of its runs.parquet files")
    if empty := rows["throughput_per_s"].null_count:
        raise BadInput(f"{empty} runs of {corpus} have no period after their warm-up; simulate again")
    columns = rows.to_pydict()
    if fault := first_fault(columns):
        row, words = fault
        raise BadInput(f"run {numbers[row]} of {corpus} has {words}, which no run has; simulate again")
    for index, deployment in zip(numbers, columns["deployment"], strict=True):
        try:
            Deployment.model_validate_json(deployment)
        except ValidationError as error:
            words = error.errors()[0]["msg"]
            raise BadInput(f"run {index} of {corpus} has no valid deployment ({words}); simulate again") from None
    return len(rows)


def _uri(path: Path) -> str:
    return f"file:{path}"
