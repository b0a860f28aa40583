"""Tests of aggregation: tiny traces give training rows worked out by hand, which equal a run's own metrics."""

from __future__ import annotations

import json
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
from twin.trace import EVENTS, OPERATORS, RUNS, TRAINING_ROWS, read_table, write_trace

pytestmark = pytest.mark.spark

QUANTILE_COLUMNS = "run string, " + ", ".join(f"processing_latency_p{q}_s double" for q in (50, 95, 99))


def frame(spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema) -> DataFrame:
    """Data frame of rows; columns that a row does not give are null."""
    full = [tuple(row.get(name) for name in schema.names) for row in rows]
    return spark.createDataFrame(full, from_arrow_schema(schema))


def run_row(run: str, **changes: Any) -> dict[str, Any]:
    about = {"run": run, "index": 0, "status": "ok", "seed": 1, "config_hash": "c", "deployment": "{}"}
    return {**about, "horizon_s": 40.0, "warmup_s": 0.0, "crashed": False, **changes}


def source_row(run: str, start_s: float, arrived: int, taken: int, backlog: int = 0) -> dict[str, Any]:
    span = {"run": run, "start_s": start_s, "end_s": start_s + 10}
    return {**span, "kind": "source", "arrived": arrived, "numRecordsIn": taken, "backlog": backlog}


def checkpoint_row(run: str, at_s: float, took_s: float, size: float, status: str = "completed") -> dict[str, Any]:
    span = {"run": run, "at_s": at_s, "end_s": at_s + took_s, "bytes": size}
    return {**span, "kind": "checkpoint", "detail": json.dumps({"status": status})}


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
        ("a", representative_s(10), representative_s(20), representative_s(400)),
        ("b", *(representative_s(3),) * 3),
    ]
    assertDataFrameEqual(found, spark.createDataFrame(expected, QUANTILE_COLUMNS), rtol=1e-12)


def test_one_more_result_above_moves_the_median_up(spark: SparkSession) -> None:
    periods = [sink_row("even", 0.0, {1: 5, 2: 5}), sink_row("more", 0.0, {1: 5, 2: 6})]
    found = latency_quantiles(frame(spark, periods, OPERATORS), "e2e").collect()
    assert {row["run"]: row["e2e_latency_p50_s"] for row in found} == pytest.approx(
        {"even": representative_s(1), "more": representative_s(2)}
    )


def test_training_rows_by_hand(spark: SparkSession) -> None:
    """Training rows by hand. a: keeps up. b: its broker grows by 2 % of the rate, and has more from before, and it
    crashes. c: failed. d: no result. Checkpoints that failed, or began before the warm-up, do not count."""
    runs = [run_row("a"), run_row("b", crashed=True), run_row("c", status="failed", crashed=None), run_row("d")]
    runs += [run_row("e", warmup_s=10.0, checkpoints="{}")]
    periods = [source_row("a", 0.0, 100, 100), sink_row("a", 0.0, {10: 40}, 2.0)]
    periods += [source_row("b", 0.0, 100, 98, 20), sink_row("b", 0.0, {10: 1}, 0.5)]
    periods += [source_row("c", 0.0, 1, 1), source_row("d", 0.0, 99, 100), sink_row("d", 0.0, {})]
    for start_s, backlog in ((0.0, 99), (10.0, 10), (20.0, 11), (30.0, 0)):
        periods += [source_row("e", start_s, 100, 100, backlog), sink_row("e", start_s, {10: 1}, 0.5)]
    events = [checkpoint_row("e", 9.0, 5.0, 9e9), checkpoint_row("e", 10.0, 1.0, 100.0)]
    events += [checkpoint_row("e", 20.0, 2.0, 300.0), checkpoint_row("e", 30.0, 5.0, 9e9, "failed")]
    described = {"index": 0, "seed": 1, "config_hash": "c", "horizon_s": 40.0, "warmup_s": 0.0, "deployment": "{}"}
    middle = representative_s(10)
    alike = {f"{name}_p{q}_s": middle for name in ("processing_latency", "e2e_latency") for q in (50, 95, 99)}
    expected = [
        {"run": "a", "throughput_per_s": 4.0, "processing_latency_s": 0.05, "e2e_latency_s": 0.1, **alike}
        | {"backpressure_per_s": 0.0, "backpressured": False, "success": True, "records_out": 40}
        | {"behind_share": 0.0, "backlog_max": 0},
        {"run": "b", "throughput_per_s": 0.1, "processing_latency_s": 0.5, "e2e_latency_s": 1.0, **alike}
        | {"backpressure_per_s": 0.2, "backpressured": True, "success": False, "records_out": 1}
        | {"behind_share": 1.0, "backlog_max": 20},
        {"run": "d", "throughput_per_s": 0.0, "backpressure_per_s": 0.0, "backpressured": False, "success": False}
        | {"records_out": 0, "behind_share": 0.0, "backlog_max": 0},
        {"run": "e", "throughput_per_s": 0.1, "processing_latency_s": 0.5, "e2e_latency_s": 1.0, **alike}
        | {"backpressure_per_s": 0.0, "backpressured": False, "success": True, "records_out": 3, "warmup_s": 10.0}
        | {"behind_share": 1 / 3, "backlog_max": 11, "checkpoints": "{}"}
        | {"checkpoint_duration_s": 1.5, "checkpoint_bytes": 200.0},
    ]
    tables = frame(spark, runs, RUNS), frame(spark, periods, OPERATORS), frame(spark, events, EVENTS)
    found = training_rows(*tables)
    assertDataFrameEqual(found, frame(spark, [described | each for each in expected], TRAINING_ROWS), rtol=1e-12)


def test_a_run_without_measured_period_has_null_labels(spark: SparkSession) -> None:
    runs = frame(spark, [run_row("a", warmup_s=15.0)], RUNS)
    periods = frame(spark, [source_row("a", 0.0, 1, 1)], OPERATORS)
    found = training_rows(runs, periods, frame(spark, [], EVENTS)).collect()
    assert [row["throughput_per_s"] for row in found] == [None]


def test_missing_columns_are_named_with_those_present(spark: SparkSession) -> None:
    table = spark.createDataFrame([], "run string, kind string")
    with pytest.raises(BadInput, match="table 'operators' lacks end_s; it has run, kind;"):
        require_columns(table, ("run", "end_s"), "operators")
    with pytest.raises(BadInput, match="table 'runs' lacks"):
        training_rows(table, table, table)


@pytest.mark.parametrize("index", [0, 499])
def test_labels_equal_the_metrics_of_the_run_itself(spark: SparkSession, tmp_path: Any, index: int) -> None:
    """Labels of a trace by the pipeline are the metrics of the run in memory, to rounding."""
    settings = RunSettings(horizon_s=45, warmup_s=12, period_s=10, seed=index)
    run = simulate(Scenario.of(make(index).deployment, settings))
    write_trace(run.rows("r", index, "law"), tmp_path / "trace")
    tables = {"runs": RUNS, "operators": OPERATORS, "events": EVENTS}
    frames = [frame(spark, read_table(tmp_path / "trace", name).to_pylist(), each) for name, each in tables.items()]
    (row,) = training_rows(*frames).collect()
    metrics = run.metrics
    assert metrics.processing_latency_s is not None
    assert metrics.e2e_latency_s is not None
    assert metrics.result_delay_s is not None
    expected = {
        "horizon_s": 45.0,
        "warmup_s": run.manifest["warmup_s"],
        "throughput_per_s": metrics.throughput_per_s,
        "processing_latency_s": metrics.processing_latency_s.mean,
        "processing_latency_p50_s": metrics.processing_latency_s.p50,
        "processing_latency_p95_s": metrics.processing_latency_s.p95,
        "processing_latency_p99_s": metrics.processing_latency_s.p99,
        "e2e_latency_s": metrics.e2e_latency_s.mean,
        "e2e_latency_p50_s": metrics.e2e_latency_s.p50,
        "e2e_latency_p95_s": metrics.e2e_latency_s.p95,
        "e2e_latency_p99_s": metrics.e2e_latency_s.p99,
        "result_delay_s": metrics.result_delay_s.mean,
        "result_delay_p99_s": metrics.result_delay_s.p99,
        "backpressure_per_s": metrics.backpressure_per_s,
        "backpressured": metrics.backpressured,
        "success": metrics.success,
        "records_out": metrics.records_out,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("space", ["costream", "flink"])
def test_both_ways_to_aggregate_agree(spark: SparkSession, tmp_path: Path, space: str) -> None:
    recipe = CorpusRecipe(runs=5, seed=2, space=space, horizon_s=20.0)
    job = CorpusJob(tmp_path / "corpus", tmp_path / "ours", *recipe.plan())
    in_process([job], Lines(lambda _: None))
    write_dataset(spark, [job.corpus], tmp_path / "spark")
    ours, sparks = (pq.read_table(tmp_path / name / "rows.parquet").to_pylist() for name in ("ours", "spark"))
    assert len(ours) == len(sparks) == 5
    for one, other in zip(ours, sparks, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert value == (pytest.approx(other[name]) if isinstance(value, float) else other[name]), name
