"""`twin export` and `twin run --plot`: other programs read what the run was."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files import scenario_file
from scenarios.files.run_folder import KeptRun, read_run
from streamtwin.export import MICROS, OPERATORS, PAUSES, export, files_of, lanes
from tests.commands import done, refused
from tests.scenarios.questions.jobs import queue, shop
from tests.streamtwin.trace_event_rules import broken
from tests.twin.test_router import routing
from twin.events import Failure, Migration, RateChange, SlowDown
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


@pytest.fixture(scope="module")
def kept() -> KeptRun:
    job = shop(horizon_s=10, checkpoint_interval_s=2).with_events(
        Migration(at_s=3, operator="per-page", subtask=0, to="w-3"),
        Migration(at_s=3, operator="per-page", subtask=1, to="w-3"),
        SlowDown(at_s=4, host="w-2", factor=2),
        RateChange(at_s=4, source="clicks", factor=2),
        Failure(at_s=6, host="w-1", recover_after_s=1),
    )
    return KeptRun("shop", job, simulate(job))


@pytest.fixture(scope="module")
def trace(kept, tmp_path_factory) -> dict:
    out = tmp_path_factory.mktemp("export") / "t.json"
    export(kept, "perfetto", out)
    return json.loads(out.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def of(trace: dict, phase: str, process: int) -> list[dict]:
    return [each for each in trace["traceEvents"] if each["ph"] == phase and each["pid"] == process]


def test_a_trace_keeps_the_rules_of_its_format(trace):
    assert broken(trace) == []
    assert len(trace["traceEvents"]) > 100
    assert trace["otherData"]["simulated"] is True


def test_what_breaks_a_rule_would_be_noticed():
    one = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 2}
    instant, counter = {**one, "ph": "i", "s": "everywhere"}, {**one, "ph": "C", "args": {"x": "much"}}
    for event in ({**one, "ph": "Z"}, {**one, "dur": None}, {**one, "ts": -1}, {**one, "name": ""}, instant, counter):
        assert len(broken({"traceEvents": [event]})) == 1
    assert broken({"traceEvents": [one, {**one, "ts": 1}]}), "they overlap in part"
    assert not broken({"traceEvents": [one, {**one, "ts": 1, "dur": 0.5}, {**one, "ts": 1, "tid": 2}]})


def test_operators_are_tracks_queues_are_counters_pauses_are_slices(trace, kept):
    names = {each["tid"]: each["args"]["name"] for each in of(trace, "M", OPERATORS) if each["name"] == "thread_name"}
    assert set(names.values()) == {each.operator for each in kept.run.operators}
    rows = {(row["operator"], row["start_s"]): row for row in kept.run.operator_rows}
    slices = of(trace, "X", OPERATORS)
    assert len(slices) == len(rows)
    for each in slices:
        row = rows[names[each["tid"]], each["ts"] / MICROS]
        assert each["args"]["numRecordsIn"] == row["numRecordsIn"]
        assert each["dur"] == pytest.approx((row["end_s"] - row["start_s"]) * MICROS)
    counted = {(each["name"], each["ts"]): each["args"]["records"] for each in of(trace, "C", OPERATORS)}
    for row in kept.run.operator_rows:
        assert counted[f"queue of {row['operator']}", row["end_s"] * MICROS] == row["queueLength"]
    paused = sorted(each["dur"] / MICROS for each in of(trace, "X", PAUSES))
    assert paused == pytest.approx(sorted(row["paused_s"] for row in kept.run.event_rows if row["paused_s"]))
    assert any(each == pytest.approx(1.0) for each in paused)  # the failure's


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: (pair[0], pair[0] + pair[1], {}))))
def test_no_two_slices_of_a_track_overlap_and_none_is_lost(slices):
    tracks = lanes(slices)
    assert sorted(each[:2] for track in tracks for each in track) == sorted(each[:2] for each in slices)
    for track in tracks:
        assert all(one[1] <= other[0] and one[0] < other[0] for one, other in pairwise(track))
    depth = max((sum(a <= at < b or at == a for a, b, _ in slices) for at in range(31)), default=0)
    assert len(tracks) <= max(depth, 0)


def test_tables_hold_what_the_run_held(kept, tmp_path):
    export(kept, "csv", tmp_path / "csv")
    export(kept, "parquet", tmp_path / "parquet")
    with (tmp_path / "csv" / "operators.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["numRecordsIn"]) for row in rows] == [row["numRecordsIn"] for row in kept.run.operator_rows]
    assert [float(row["end_s"]) for row in rows] == [row["end_s"] for row in kept.run.operator_rows]
    buckets = [json.loads(row["e2eLatencyBuckets"]) for row in rows if row["e2eLatencyBuckets"]]
    assert buckets == [row["e2eLatencyBuckets"] for row in kept.run.operator_rows if "e2eLatencyBuckets" in row]
    assert json.loads((tmp_path / "csv" / "result.json").read_text()) == json.loads(json.dumps(kept.run.to_dict()))
    assert read_run(tmp_path / "parquet").run.operators == kept.run.operators
    assert pq.read_table(tmp_path / "parquet" / "events.parquet").num_rows == len(kept.run.event_rows)


def test_the_command_writes_one_new_file_or_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("queue.yaml").write_text(scenario_file.dump(queue(horizon_s=2, warmup_s=0)))
    for words in (["export", "queue.yaml"], ["run", "queue.yaml", "--plot", "q.svg"]):
        done(*words)
    assert broken(json.loads(Path("queue.perfetto.json").read_text())) == []
    assert "<svg" in Path("q.svg").read_text()
    assert "exists" in refused("export", "queue.yaml")
    assert "exists" in refused("run", "queue.yaml", "--plot", "q.svg")
    assert "did you mean 'perfetto'" in refused("export", "queue.yaml", "--format", "perfeto")
    assert "ends in one of .png" in refused("run", "queue.yaml", "--plot", "q.gif")
    assert "nowhere" in refused("run", "queue.yaml", "--plot", "nowhere/q.png")
    Path("empty").mkdir()
    assert "holds no run" in refused("export", "empty", "--format", "csv")
    assert "empty" in refused("run", "queue.yaml", "--plot", "empty") and not [*Path("empty").iterdir()]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "q.svg", "queue.perfetto.json", "queue.yaml"]


def test_samples_of_latency_are_means_over_the_records_of_all_sinks() -> None:
    """Samples of latency are means over records: most go to one sink at once, a few to another after long service."""
    job = Scenario.of(routing({"main": 0.95, "late": 0.05}, service_time_s=0.05), RunSettings(horizon_s=60, warmup_s=0))
    run = simulate(job)
    samples = [row for _, text in files_of(run) for row in csv.DictReader(text.splitlines())]
    found = [float(row["value"]) for row in samples if row["metric"] == "processing_latency_s"]
    assert len(found) == len({row["time"] for row in samples}), "one a period"
    assert sum(found) / len(found) == pytest.approx(run.metrics.processing_latency_s.mean, rel=0.02)
