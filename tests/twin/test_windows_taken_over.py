"""Subtasks that take over windows evaluate each once, also where it ends while the state is away."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.changing import HOSTS
from tests.twin.machine.runs import same_however
from twin.deployment import Deployment
from twin.events import AnyEvent, Migration, Scale
from twin.profiles import STORM
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

AT_S = 12.5
CHANGES: dict[str, AnyEvent] = {
    "up": Scale(at_s=AT_S, operator="x", placement=("h1", "h1", "h2", "h2")),
    "one more": Scale(at_s=AT_S, operator="x", placement=("h1", "h2", "h3")),
    "down": Scale(at_s=AT_S, operator="x", placement=("h1",)),
    "together": Scale(at_s=AT_S, operator="x", placement=("h3",)),
    "elsewhere": Scale(at_s=AT_S, operator="x", placement=("h3", "h3")),
    "move": Migration(at_s=AT_S, operator="x", subtask=1, to="h3"),
    "groups": Migration(at_s=AT_S, operator="x", key_groups=(0, 1, 2, 3, 4, 5), to_subtask=1),
}
TUMBLING = {"policy": "time", "size_s": 5}
SLIDING = {"policy": "time", "size_s": 6, "slide_s": 1}
GROUPED = {"kind": "aggregate", "function": "sum", "group_by": "int", "groups": 32, "key_groups": 32}
JOIN = {"kind": "join", "selectivity": 0.01, "key_groups": 32}  # keys that match do so once


def scenario(operator: dict[str, Any], window: dict[str, Any], change: str, how: str) -> Scenario:
    sources = ["l", "r"] if operator["kind"] == "join" else ["l"]
    rate_per_s = 60 if operator["kind"] == "join" else 320
    operators = [{"name": name, "kind": "source", "service_time_s": 1e-6} for name in sources]
    operators += [{"name": "x", "window": window, "service_time_s": 1e-4, **operator}]
    operators += [{"name": "out", "kind": "sink", "service_time_s": 1e-6}]
    streams = [{"producer": name, "consumer": "x"} for name in sources] + [{"producer": "x", "consumer": "out"}]
    rescaling = {"how": how, "redeploy_s": 4.3, "state_mbps": 80}
    data = {
        "query": {"operators": operators, "streams": streams},
        "cluster": {"hosts": HOSTS},
        "plan": {"placement": dict.fromkeys(sources, "h0") | {"x": ["h1", "h2"], "out": "h0"}},
        "workload": {"arrivals": {name: {"law": "constant", "rate_per_s": rate_per_s} for name in sources}},
        "engine": STORM.model_dump(mode="json") | {"rescaling": rescaling, "service_scv": 0},
    }
    events = [CHANGES[change]] if change else []
    run = RunSettings(horizon_s=32.5, period_s=0.5, warmup_s=0, seed=3, checkpoint_interval_s=2.2)
    return Scenario.of(parse(Deployment, data), run, events)


def results(found: Run) -> int:
    return found.metrics.records_out - found.duplicates


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", ["restart", "reactive"])
def test_all_groups_are_in_every_window(change: str, how: str) -> None:
    """Six windows of 32 groups are whole; that from 10 s to 15 s ends while the job is down."""
    assert results(simulate(scenario(GROUPED, TUMBLING, "", how))) == 6 * 32
    assert results(simulate(scenario(GROUPED, TUMBLING, change, how))) == 6 * 32


@pytest.mark.parametrize("window", [TUMBLING, SLIDING])
@pytest.mark.parametrize("operator", [GROUPED, JOIN])
@pytest.mark.parametrize("change", [change for change in CHANGES if change != "move"])
def test_what_comes_out_does_not_depend_on_who_takes_over(
    change: str, operator: dict[str, Any], window: dict[str, Any]
) -> None:
    """Results are those after a move, in which no state changes hands; downtimes differ by milliseconds."""
    moved = results(simulate(scenario(operator, window, "move", "restart")))
    assert results(simulate(scenario(operator, window, change, "restart"))) == moved > 0


@pytest.mark.parametrize("change", ["together", "one more", "down"])
def test_windows_that_only_one_of_two_former_subtasks_knows_of_are_evaluated(change: str) -> None:
    """Windows in which only one of two former subtasks can have records, at one a second, are evaluated."""
    few = GROUPED | {"groups": 12, "key_groups": 12}
    moved, changed = (
        scenario(few, {"policy": "time", "size_s": 3, "slide_s": 0.1}, each, "restart")
        .with_set("workload.arrivals.l.rate_per_s", 1)
        .with_run(seed=0)
        for each in ("move", change)
    )
    assert results(simulate(changed)) == results(simulate(moved)) > 0


@pytest.mark.parametrize("operator", [GROUPED, JOIN])
def test_a_run_is_the_same_however_code_runs(operator: dict[str, Any]) -> None:
    for how in ("restart", "live"):
        same_however(scenario(operator, SLIDING, "up", how))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("window", [TUMBLING, SLIDING])
def test_windows_that_end_while_state_travels_live(change: str, window: dict[str, Any]) -> None:
    """Windows are whole whose end comes while state moves live, if it is there before the next one ends."""
    heavy = GROUPED | {"state_bytes_per_group": 1.2e6 if change == "together" else 2e6}
    still = results(simulate(scenario(heavy, window, "", "live")))
    assert results(simulate(scenario(heavy, window, change, "live"))) == still
