"""Filters, maps and sinks fused with sources of event times, or with makers of event-time windows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.event_jobs import compute, consolidate, ended, job, sink, source
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

WORKERS = ["h0", "h1", "h2"]
FUSED = [["source", "parse", "keep"], ["merge", "format", "sink"]]
EACH_S = {"source": 1e-5, "parse": 1e-3, "keep": 5e-4, "format": 3e-3}
PARSE = {"kind": "map", "name": "parse", "service_time_s": EACH_S["parse"]}
KEEP = {"kind": "filter", "name": "keep", "selectivity": 0.7, "service_time_s": EACH_S["keep"]}
FORMAT = {"kind": "map", "name": "format", "service_time_s": EACH_S["format"]}


def chained(fused: list[list[str]], events: Any = (), **run: Any) -> Scenario:
    """Job with source, parse and keep on one host; windows, format and sink on three."""
    late = {"disorder_s": 0.4, "slack_s": 0.4}
    chain = [source(**late), PARSE, KEEP, compute(), consolidate(), FORMAT, sink()]
    places = {"parse": "ends", "keep": "ends", "format": WORKERS, "sink": WORKERS}
    document = job(chain, placement=places, **{"rate_per_s": 200.0, "horizon_s": 12.0} | run).model_dump(mode="json")
    for number in (0, 1, 4, 5):
        document["query"]["streams"][number]["partitioning"] = "forward"
    document["plan"]["fused"] = fused
    document["events"] = list(events)
    return parse(Scenario, document)


def counted(run: Run) -> dict[str, tuple[int, int]]:
    """Records in and out, by operator."""
    return {each.operator: (each.records_in, each.records_out) for each in run.operators}


def test_windows_are_whole_and_nothing_is_sent_within_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are whole, work of fused operators is on one thread, and records pass through every operator."""
    run, world = ended(chained(FUSED), monkeypatch)
    assert set(world.tasks) == {"source", "compute", "merge"}
    assert set(world.streams) == {("keep", "compute"), ("compute", "merge")}
    counts, busy = counted(run), {each.operator: each.busy for each in run.operators}
    assert counts["source"][1] == counts["parse"][0] == counts["keep"][0]
    assert counts["merge"][1] == counts["format"][0] == counts["sink"][0] > 0
    work_s = sum(counts[name][0] * EACH_S[name] for name in ("source", "parse", "keep"))
    assert busy["source"] == busy["keep"] == pytest.approx(work_s / 12.0, rel=0.05)
    format_s = counts["format"][0] * EACH_S["format"] / len(WORKERS)
    assert busy["merge"] == busy["sink"] == pytest.approx(format_s / 12.0, rel=0.1)


def test_the_sum_of_what_waits_on_one_thread_is_what_the_rate_model_says() -> None:
    """The rate model has the waits on one thread at 77 % load; results are as many, and as old, as apart. The first
    windows, of which a part is before the run, are not counted."""
    run_s: dict[str, Any] = {"horizon_s": 30.0, "warmup_s": 10.0, "period_s": 5.0}
    fused, apart = (chained(each, rate_per_s=500.0, **run_s) for each in (FUSED, []))
    runs, said = (
        [simulate(each) for each in (fused, apart)],
        [RateModel().predict(each, [each.plan]) for each in (fused, apart)],
    )
    for run, estimate in zip(runs, said, strict=True):
        latency = run.metrics.processing_latency_s
        assert estimate.by_metric["processing_latency_s"][0] == pytest.approx(latency.mean, rel=0.05)
    assert counted(runs[0])["sink"][0] == pytest.approx(counted(runs[1])["sink"][0], rel=0.02)


def test_migrations_failures_and_scalings_of_what_is_fused() -> None:
    """Windows are whole over migrations, failures and scalings of fused operators."""
    move = {"kind": "migration", "key_groups": [0, 1, 2]}
    events = [
        {**move, "operator": "compute", "at_s": 2.2, "to_subtask": 2},
        {**move, "operator": "merge", "at_s": 3.3, "to_subtask": 1, "strategy": "disruptive"},
        {"kind": "failure", "host": "h1", "at_s": 5.1, "recover_after_s": 0.5},
        {"kind": "scale", "operator": "merge", "at_s": 6.1, "placement": ["h0", "ends"]},
    ]
    run = simulate(chained(FUSED, events, rate_per_s=60.0))
    assert all("refused" not in each["detail"] for each in run.event_rows)
    assert run.duplicates > 0


@pytest.mark.parametrize(
    ("fused", "why"),
    [
        ([["keep", "compute"]], "its keys are dealt on a stream"),
        ([["compute", "merge"]], "its keys are dealt on a stream"),
    ],
)
def test_what_cannot_follow(fused: list[list[str]], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        chained(fused)


def test_windows_over_processing_time_do_not_follow_windows_over_event_time() -> None:
    window = {
        "kind": "aggregate",
        "name": "sum",
        "window": {"policy": "count", "size_records": 4},
        "service_time_s": 1e-4,
    }
    operators = [source(), compute(), consolidate(), window, sink()]
    document = job(operators, placement={"sum": WORKERS}).model_dump(mode="json")
    document["plan"]["fused"] = [["merge", "sum"]]
    with pytest.raises(BadInput, match="only filters, maps and sinks follow"):
        parse(Scenario, document)
