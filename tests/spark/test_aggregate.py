"""Tests of aggregation: tiny traces give training rows worked out by hand, which equal a run's own metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.testing import assertDataFrameEqual

from papers.workspace import CorpusJob, in_process
from scenarios.executing import Lines
from scenarios.learning import CorpusRecipe
from spark.pipeline import latency_quantiles, require_columns, training_rows, write_dataset
from tests.spark.fakes import make
from twin.errors import BadInput
from twin.histograms import representative_s
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.trace import OPERATORS, RUNS, TRAINING_ROWS, read_table, write_trace

pytestmark = pytest.mark.spark

QUANTILE_COLUMNS = "run string, processing_latency_p50_s double, processing_latency_p95_s double"


def frame(spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema) -> DataFrame:
    """Data frame of rows; columns that a row does not give are null."""
    full = [tuple(row.get(name) for name in schema.names) for row in rows]
    return spark.createDataFrame(full, from_arrow_schema(schema))


def run_row(run: str, **changes: Any) -> dict[str, Any]:
    about = {"run": run, "index": 0, "status": "ok", "seed": 1, "config_hash": "c", "deployment": "{}"}
    return {**about, "horizon_s": 40.0, "warmup_s": 0.0, "crashed": False, **changes}


def source_row(run: str, start_s: float, arrived: int, taken: int) -> dict[str, Any]:
    span = {"run": run, "start_s": start_s, "end_s": start_s + 10}
    return {**span, "kind": "source", "arrived": arrived, "numRecordsIn": taken}


def sink_row(run: str, start_s: float, buckets: dict[int, int], sum_s: float = 0.0) -> dict[str, Any]:
    """Row of a sink with equal histograms of processing and end-to-end latency; the latter has twice the sum."""
    row = {"run": run, "start_s": start_s, "end_s": start_s + 10, "kind": "sink", "latencyCount": sum(buckets.values())}
    for kind, total_s in (("processing", sum_s), ("e2e", 2 * sum_s)):
        row |= {f"{kind}LatencySum_s": total_s, f"{kind}LatencyBuckets": list(buckets)}
        row |= {f"{kind}LatencyCounts": list(buckets.values())}
    return row


def test_quantiles_come_from_the_merged_histograms(spark: SparkSession) -> None:
    """Quantiles are those of the periods' merged histograms; of one result, all quantiles are the same."""
    periods = [sink_row("a", 0.0, {10: 20, 20: 44}), sink_row("a", 0.0, {10: 30, 400: 5}), sink_row("a", 10.0, {20: 1})]
    periods += [sink_row("b", 0.0, {3: 1}), sink_row("none", 0.0, {})]
    found = latency_quantiles(frame(spark, periods, OPERATORS), "processing")
    expected = [
        ("a", representative_s(10), representative_s(20)),
        ("b", representative_s(3), representative_s(3)),
    ]
    assertDataFrameEqual(found, spark.createDataFrame(expected, QUANTILE_COLUMNS), rtol=1e-12)


def test_one_more_result_above_moves_the_median_up(spark: SparkSession) -> None:
    periods = [sink_row("even", 0.0, {1: 5, 2: 5}), sink_row("more", 0.0, {1: 5, 2: 6})]
    found = latency_quantiles(frame(spark, periods, OPERATORS), "e2e").collect()
    assert {row["run"]: row["e2e_latency_p50_s"] for row in found} == pytest.approx(
        {"even": representative_s(1), "more": representative_s(2)}
    )


def test_training_rows_by_hand(spark: SparkSession) -> None:
    """Training rows by hand. a: keeps up. b: its broker grows by 2 % of the rate, and it crashes. c: failed. d: no
    result."""
    runs = [run_row("a"), run_row("b", crashed=True), run_row("c", status="failed", crashed=None), run_row("d")]
    periods = [source_row("a", 0.0, 100, 100), sink_row("a", 0.0, {10: 40}, 2.0)]
    periods += [source_row("b", 0.0, 100, 98), sink_row("b", 0.0, {10: 1}, 0.5)]
    periods += [source_row("c", 0.0, 1, 1), source_row("d", 0.0, 99, 100), sink_row("d", 0.0, {})]
    middle = representative_s(10)
    expected = [
        ("a", 0, 1, "c", 40.0, 0.0, "{}", 4.0, 0.05, middle, middle, 0.1, middle, middle, 0.0, False, True, 40),
        ("b", 0, 1, "c", 40.0, 0.0, "{}", 0.1, 0.5, middle, middle, 1.0, middle, middle, 0.2, True, False, 1),
        ("d", 0, 1, "c", 40.0, 0.0, "{}", 0.0, None, None, None, None, None, None, 0.0, False, False, 0),
    ]
    found = training_rows(frame(spark, runs, RUNS), frame(spark, periods, OPERATORS))
    assertDataFrameEqual(found, spark.createDataFrame(expected, from_arrow_schema(TRAINING_ROWS)), rtol=1e-12)


def test_a_run_without_measured_period_has_null_labels(spark: SparkSession) -> None:
    runs = frame(spark, [run_row("a", warmup_s=15.0)], RUNS)
    found = training_rows(runs, frame(spark, [source_row("a", 0.0, 1, 1)], OPERATORS)).collect()
    assert [row["throughput_per_s"] for row in found] == [None]


def test_missing_columns_are_named_with_those_present(spark: SparkSession) -> None:
    table = spark.createDataFrame([], "run string, kind string")
    with pytest.raises(BadInput, match="table 'operators' lacks end_s; it has run, kind;"):
        require_columns(table, ("run", "end_s"), "operators")
    with pytest.raises(BadInput, match="table 'runs' lacks"):
        training_rows(table, table)


@pytest.mark.parametrize("index", [0, 499])
def test_labels_equal_the_metrics_of_the_run_itself(spark: SparkSession, tmp_path: Any, index: int) -> None:
    """Labels of a trace by the pipeline are the metrics of the run in memory, to rounding."""
    settings = RunSettings(horizon_s=45, warmup_s=12, period_s=10, seed=index)
    run = simulate(Scenario.of(make(index).deployment, settings))
    write_trace(run.rows("r", index, "law"), tmp_path / "trace")
    runs, operators = (frame(spark, read_table(tmp_path / "trace", name).to_pylist(), schema)
                       for name, schema in (("runs", RUNS), ("operators", OPERATORS)))  # fmt: skip
    (row,) = training_rows(runs, operators).collect()
    metrics = run.metrics
    assert metrics.processing_latency_s is not None
    assert metrics.e2e_latency_s is not None
    expected = {
        "horizon_s": 45.0,
        "warmup_s": run.manifest["warmup_s"],
        "throughput_per_s": metrics.throughput_per_s,
        "processing_latency_s": metrics.processing_latency_s.mean,
        "processing_latency_p50_s": metrics.processing_latency_s.p50,
        "processing_latency_p95_s": metrics.processing_latency_s.p95,
        "e2e_latency_s": metrics.e2e_latency_s.mean,
        "e2e_latency_p50_s": metrics.e2e_latency_s.p50,
        "e2e_latency_p95_s": metrics.e2e_latency_s.p95,
        "backpressure_per_s": metrics.backpressure_per_s,
        "backpressured": metrics.backpressured,
        "success": metrics.success,
        "records_out": metrics.records_out,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_both_ways_to_aggregate_agree(spark: SparkSession, tmp_path: Path) -> None:
    job = CorpusJob(tmp_path / "corpus", tmp_path / "ours", *CorpusRecipe(runs=5, seed=2, horizon_s=20.0).plan())
    in_process([job], Lines(lambda _: None))
    write_dataset(spark, [job.corpus], tmp_path / "spark")
    ours, sparks = (pq.read_table(tmp_path / name / "rows.parquet").to_pylist() for name in ("ours", "spark"))
    assert len(ours) == len(sparks) == 5
    for one, other in zip(ours, sparks, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert value == (pytest.approx(other[name]) if isinstance(value, float) else other[name]), name
