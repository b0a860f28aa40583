"""Input that cannot be run, would never end or says nothing: one line with a remedy, or a warning; and extremes."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest

from tests.twin.worlds import chain, deployment, simulated, sink, source, world_of
from twin.errors import MOST_CHARACTERS, BadInput, one_line
from twin.guards import watch
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

HOST = {"cpu_percent": 400, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}


def scenario(changes: dict[str, Any] | None = None) -> Scenario:
    """Chain s -> f -> m -> a -> k on two hosts; `changes`: values by dotted path. Raises BadInput as a file does."""
    names = ("s", "f", "m", "a", "k")
    data: dict[str, Any] = {
        "query": {
            "operators": [
                {"name": "s", "kind": "source"},
                {"name": "f", "kind": "filter", "selectivity": 0.5},
                {"name": "m", "kind": "map", "key_groups": 8},
                {
                    "name": "a",
                    "kind": "aggregate",
                    "group_by": "int",
                    "groups": 10,
                    "window": {"policy": "time", "size_s": 2},
                },
                {"name": "k", "kind": "sink"},
            ],
            "streams": [{"producer": a, "consumer": b} for a, b in itertools.pairwise(names)],
        },
        "cluster": {"hosts": [{"name": "h1", **HOST}, {"name": "h2", **HOST}]},
        "plan": {"placement": {"s": "h1", "f": "h1", "m": ["h1", "h2"], "a": ["h2", "h2"], "k": "h1"}},
        "workload": {"arrivals": {"s": {"law": "poisson", "rate_per_s": 300}}},
        "run": {"horizon_s": 10, "period_s": 5},
    }
    for path, value in (changes or {}).items():
        node: Any = data
        *parents, last = path.split(".")
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value
    return parse(Scenario, data)


def run(changes: dict[str, Any]) -> Run:
    made = scenario(changes)
    return simulate(made)


RATE, WINDOW, FILTER = "workload.arrivals.s", "query.operators.3.window", "query.operators.1"
LATE = {"law": "steps", "steps": [{"at_s": 50, "rate_per_s": 5}]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cluster.hosts.0.cpu_percent": math.nan}, r"cpu_percent.*finite.*nan"),
        ({"cluster.hosts.0.bandwidth_mbps": 1e-300}, r"bandwidth_mbps.*got 1e-300"),
        ({"plan.placement.f": "h1/²"}, r"location 'h1/²': write"),
        ({f"{WINDOW}.size_s": 1e-300}, r"size_s.*got 1e-300"),
        ({WINDOW: {"policy": "count", "size_records": 0}}, r"size_records.*got 0"),
        ({"run.horizon_s": 1e-9}, r"horizon_s.*got 1e-09"),
        ({"run.period_s": 5e-324}, r"period_s.*got 5e-324"),
        ({"query.operators.1.service_time_s": 1e300}, r"service_time_s.*got 1e\+300"),
        ({"workload.keys.m": {"drift_every_s": 1e-9}}, r"drift_every_s.*got 1e-09"),
        ({"events": [{"kind": "slow-down", "at_s": -1, "host": "h1", "factor": 2}]}, r"events.0.at_s.*got -1"),
        (
            {"events": [{"kind": "slow-down", "at_s": 1, "host": "h3", "factor": 2}]},
            r"unknown host 'h3'; known",
        ),
        ({"events": [{"kind": "link-degradation", "at_s": 1, "host": "h1"}]}, r"both factors are 1.*give"),
        ({"events": [{"kind": "scale", "at_s": 1, "operator": "m", "placement": {"h2": 9}}]}, r"8 key groups for 9"),
    ],
)
def test_what_cannot_be_is_refused(changes, says):
    with pytest.raises(BadInput, match=says) as refused:
        scenario(changes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {f"{RATE}.rate_per_s": 1e9, "run.horizon_s": 1e7, "run.period_s": 1e6},
            r"(h|min) of CPU time, mostly for records: [\d,]+ at 's' so far; lower rates",
        ),
        (
            {f"{RATE}.rate_per_s": 2000, "run.horizon_s": 1e7, "run.period_s": 1e6},
            r"(h|min) of CPU time, mostly for .*; .*\(--precision 1%\)",
        ),
        ({f"{WINDOW}.slide_s": 1e-6, "run.horizon_s": 1e6, "run.period_s": 1e5}, r"windows of 'a'.*its slide longer"),
        (
            {RATE: {"law": "diurnal", "rate_per_s": 9, "period_s": 1e-3}, "run.horizon_s": 1e5},
            r"arrivals\.s so far; make its",
        ),
        ({"run.period_s": 1e-6}, r"rows of statistics.*make run.period_s \(1e-06\) longer"),
        (
            {"workload.keys.m": {"drift_every_s": 1e-6}, "run.horizon_s": 1e3},
            r"keys\.m so far; make drift_every_s longer",
        ),
    ],
)
def test_what_would_not_end_is_refused_after_a_moment(monkeypatch, changes, says):
    monkeypatch.setattr(watch, "FIRST_S", 0.2)
    with pytest.raises(BadInput, match=says):
        run(changes)


def test_results_of_one_evaluation_that_fill_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr(watch, "MOST_BYTES", 1e8)
    operators = [
        {"name": "s", "kind": "source"},
        {"name": "t", "kind": "source"},
        {"name": "j", "kind": "join", "amplification": 1e6, "window": {"policy": "time", "size_s": 2}},
        {"name": "k", "kind": "sink"},
    ]
    streams = [{"producer": a, "consumer": b} for a, b in (("s", "j"), ("t", "j"), ("j", "k"))]
    law = {"law": "constant", "rate_per_s": 5000}
    with pytest.raises(BadInput, match=r"results of one evaluation of the window of 'j'.*make the window"):
        run(
            {
                "query.operators": operators,
                "query.streams": streams,
                "plan.placement": {"s": "h1", "t": "h1", "j": "h2", "k": "h2"},
                "workload.arrivals": {"s": law, "t": law},
                "engine": "flink",
            }
        )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({f"{FILTER}.selectivity": 0}, r"nothing reached 'k': 'f' took in \d+ records and passed none on"),
        (
            {"query.operators.2.selectivity": 1e-12},
            r"'m' took in \d+ records and passed none on, 1.* expected",
        ),
        ({RATE: LATE}, r"no record arrived at source 's'; raise"),
        ({"cluster.hosts.0.latency_ms": 1e6}, r"took in none of the \d+ records"),
        ({"cluster.hosts.1.cpu_percent": 1e-6}, r"give it more CPU"),
        (
            {"checkpoints": {"interval_s": 1e4, "sinks": "exactly-once"}},
            r"'k' holds 40 results: .* none did within 10 s",
        ),
        ({"events": [{"kind": "slow-down", "at_s": 1, "host": "h1", "factor": 1e6}]}, r"nothing reached 'k'"),
        ({f"{WINDOW}.size_s": 10}, r"the window of 'a' was never evaluated"),
        ({WINDOW: {"policy": "count", "size_records": 10**9}}, r"a: its window slides every 1e\+09 records"),
        ({WINDOW: {"policy": "count", "size_records": 1000}}, r"a: its window.*to its 2 subtasks"),
    ],
)
def test_a_run_without_results_says_where_the_flow_ends(changes, says):
    result = run(changes)
    assert result.metrics.records_out == 0 and result.metrics.processing_latency_s is None
    assert any(re.search(says, line) for line in result.warnings), result.warnings


def test_results_of_the_warm_up_only():
    law = {"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 300}, {"at_s": 4, "rate_per_s": 0}]}
    result = run({RATE: law, "run.horizon_s": 20, "run.warmup_s": 10})
    assert any("after the warm-up of 10 s" in line for line in result.warnings)


def test_a_subtask_without_key_groups_is_named():
    assert any("gives subtask 1 no key group" in line for line in run({"plan.key_groups.m": [0] * 8}).warnings)


def test_a_window_of_1e9_seconds_holds_no_more_than_came():
    assert run({WINDOW: {"policy": "time", "size_s": 1e9, "slide_s": 1}}).metrics.success
    assert run({WINDOW: {"policy": "count", "size_records": 10**9, "slide_records": 100}}).metrics.success


def test_a_run_with_results_has_no_warning():
    assert run({"run.warmup_s": 2, "run.horizon_s": 16}).warnings == ()


def test_many_subtasks_on_a_processor_and_tiny_windows_run():
    assert run({"plan.placement.f": {"h1": 1500}}).metrics.records_in > 0
    exact = run({WINDOW: {"policy": "time", "size_s": 1e-5}, "run.horizon_s": 0.1})
    assert exact.metrics.records_in > 0


@pytest.mark.parametrize("service_s", [5e-324, 1e-308, 1e-160, 1e-30])
def test_work_that_takes_no_time_worth_naming(service_s: float) -> None:
    middle = [{"kind": "map", "name": name, "service_time_s": service_s} for name in ("one", "two")]
    metrics = simulated(chain(middle, 100), horizon_s=5, period_s=1).metrics
    assert metrics.records_out == metrics.records_in > 300


def test_a_chain_deeper_than_the_stack_is_wired() -> None:
    middle = [{"kind": "map", "name": f"m{number}"} for number in range(1500)]
    assert len(world_of(chain(middle, 10), RunSettings()).tasks) == 1502


def test_a_record_has_no_more_columns_than_a_number_can_count() -> None:
    with pytest.raises(BadInput, match=r"columns\.ints.*less than or equal to 1000000000"):
        deployment([source(columns={"ints": 10**305}), sink()], [("source", "sink")], {"source": 100})


@pytest.mark.parametrize("value", ["x" * 5000, "a b " * 5000, "line\n" * 5000])
def test_a_long_value_does_not_hide_its_place_and_remedy(value: str) -> None:
    message = str(BadInput(f"query.operators.o.kind: unknown kind {value!r}; known: filter, map"))
    assert len(message) < MOST_CHARACTERS + 60
    assert message.startswith("query.operators.o.kind: unknown kind 'x") or "unknown kind" in message
    assert message.endswith("; known: filter, map")
    assert "\n" not in message and "characters ...]" in message


def test_a_message_that_fits_is_left_alone() -> None:
    assert one_line("a" * MOST_CHARACTERS) == "a" * MOST_CHARACTERS
