"""Aggregates per-period traces to training rows: pure DataFrame -> DataFrame, no session, files or Python functions.

The sums over a trace are those that `twin.run.metrics_of` takes over a run in memory; `twin.metrics` computes the
metrics from either.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from twin.engine.sketch import GROWTH, LOWEST_S
from twin.errors import BadInput
from twin.kinds.registry import SINKS, SOURCES
from twin.metrics import SAME, TABLE, Metric, Totals
from twin.trace import TRAINING_ROWS

QUANTILES = {"p50_s": 0.50, "p95_s": 0.95}

_RUNS_READ = ("run", "index", "status", "seed", "horizon_s", "warmup_s", "config_hash", "deployment", "crashed")
_OPERATORS_READ = (
    *("run", "kind", "start_s", "end_s", "numRecordsIn", "arrived", "latencyCount"),
    *("processingLatencySum_s", "processingLatencyBuckets", "processingLatencyCounts"),
    *("e2eLatencySum_s", "e2eLatencyBuckets", "e2eLatencyCounts"),
)


def training_rows(runs: DataFrame, operators: DataFrame) -> DataFrame:
    """Training rows (twin.trace.TRAINING_ROWS), one for each run of status "ok", of a trace's tables `runs`,
    `operators`.

    A run without any period after its warm-up has null labels. Raises BadInput if a column is missing.
    """
    labelled = labels(runs, operators)
    periods = after_warmup(operators, _succeeded(runs))
    described = _succeeded(runs).select("run", "index", "seed", "config_hash", "horizon_s", "warmup_s", "deployment")
    rows = (
        described.join(labelled, "run", how="left")
        .join(latency_quantiles(periods, "processing"), "run", how="left")
        .join(latency_quantiles(periods, "e2e"), "run", how="left")
    )
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
        F.col("results").alias("tuples_out"),
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
    tuples."""
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
    """Latency quantiles [s], one row a run with results, as from `sketch.quantile_s`. kind: "processing" or "e2e".

    The histograms of all sinks and periods are merged; the quantile is the middle of the first bucket at which a
    share q of all results is reached.
    """
    buckets, counts = f"{kind}LatencyBuckets", f"{kind}LatencyCounts"
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
            _middle_s(F.min(F.when(done, F.col("bucket")))).alias(f"{kind}_latency_{name}")
            for name, done in reached.items()
        ]
    )
    return quantiles.select("run", *[f"{kind}_latency_{name}" for name in QUANTILES])


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
