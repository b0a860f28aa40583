"""Migrations and changes of subtasks over event time."""

from __future__ import annotations

import json
import math
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.changing import HOSTS
from tests.twin.event_jobs import compute, consolidate, ended, job, sink, source
from tests.twin.machine.runs import same_however
from tests.twin.random_event_jobs import GROUPS, event_time_scenario
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Migration, Scale, mobility
from twin.guards.conservation import ConservationError
from twin.operators.watermark import TimedLogic
from twin.profiles import STORM
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

# migrations ----------------------------------------------------------------------------------------------------------
# Key groups over event time change hands while a job runs: no window is lost, doubled or wrong.


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_whatever_happens_no_window_is_lost_doubled_or_other_than_it_should_be(seed: int) -> None:
    """Windows of random changes, also those that a failure undid, are those of brute force."""
    simulate(event_time_scenario(Random(seed)))


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_at_thousands_of_records_a_second(seed: int) -> None:
    simulate(event_time_scenario(Random(seed), rate_per_s=2000.0))


@pytest.mark.parametrize("to_subtask", [1, 2])
def test_who_had_a_key_group_before_both_owners_sends_what_it_has(to_subtask: int) -> None:
    """A former owner sends its part of windows that it had begun, with a state each, before it gave the key group away
    and the two became one component: subtask 1, also where it is the new owner."""
    moved = {"kind": "migration", "operator": "compute", "key_groups": [2]}
    events = [
        {**moved, "strategy": "instant", "at_s": 1.341, "to_subtask": 0},
        {"kind": "combine", "operator": "merge", "at_s": 1.493, "strategy": "disruptive"},
        {**moved, "strategy": "smooth", "at_s": 3.3, "to_subtask": to_subtask},
    ]
    chain = [source(), compute(sharing="windows"), consolidate(), sink()]
    simulate(job(chain, events=events))


def test_what_comes_too_late_for_one_of_two_owners_is_no_loss() -> None:
    """A record sent to both owners around a smooth migration's cut may be late at one and in windows of the other."""
    chain = [source(disorder_s=1.5), compute(), consolidate(combined=True), sink()]
    move = {"kind": "migration", "operator": "compute", "key_groups": GROUPS, "strategy": "smooth"}
    simulate(
        job(chain, events=[{**move, "at_s": 1.0, "to_subtask": 1}, {**move, "at_s": 4.0, "to_subtask": 2}], seed=3)
    )


def test_without_holding_back_windows_would_be_closed_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new owner that tells its progress while records wait for their state closes windows too early."""

    def proceed(self: TimedLogic, inputs_us: float) -> None:
        held, self.held_us = self.held_us, []
        try:
            going_on(self, inputs_us)
        finally:
            self.held_us = held

    going_on = TimedLogic.proceed
    monkeypatch.setattr(TimedLogic, "proceed", proceed)
    move = {"kind": "migration", "operator": "compute", "key_groups": [0, 1, 2], "to_subtask": 2}
    events = [{**move, "at_s": 1.493 + k, "to_subtask": k % 3, "strategy": "disruptive"} for k in range(6)]
    slow = [source(), compute(state_bytes_per_key=1e6), consolidate(), sink()]
    with pytest.raises(ConservationError, match="window over event time"):
        simulate(job(slow, rate_per_s=300.0, events=events))


# what migrations cost ------------------------------------------------------------------------------------------------


def moved(strategy: str, at_s: float = 4.2, **more: Any) -> tuple[dict[str, Any], int]:
    """Record of a move of half of the keys, and the partial results of the run. Panes last 2 s."""
    event = {"kind": "migration", "operator": "compute", "at_s": at_s, "key_groups": [0, 1], "to_subtask": 2}
    windows = [{"length_s": 4, "every_s": 2}]
    chain = [source(), compute(partial_s=2, keys=400, **more), consolidate(keys=400, windows=windows), sink()]
    run = simulate(job(chain, rate_per_s=300.0, events=[{**event, "strategy": strategy}]))
    rows = {each.operator: each for each in run.operators}
    return run.event_rows[0], rows["compute"].records_out


def test_a_disruptive_pause_grows_with_the_state_and_an_instant_one_is_none() -> None:
    small, _ = moved("disruptive", state_bytes_per_key=1e3)
    large, _ = moved("disruptive", state_bytes_per_key=1e5)
    instant, _ = moved("instant", state_bytes_per_key=1e5)
    assert instant["paused_s"] == instant["bytes"] == 0.0
    assert large["bytes"] == pytest.approx(100 * small["bytes"])
    assert large["paused_s"] > 20 * small["paused_s"] > 0.0
    per_byte_s = 8.0 / 1e9 + 2 * 60e-9  # on the wire, and at both ends
    assert large["paused_s"] == pytest.approx(large["bytes"] * per_byte_s, rel=0.05)


def test_an_instant_migration_leaves_keys_at_two_places_for_a_pane() -> None:
    """After an instant migration, keys that came before and after it in a pane are sent by two subtasks."""
    (_, none), (record, expanded), (_, disruptive) = (
        moved("disruptive", 4.0),
        moved("instant", 5.0),
        moved("disruptive", 5.0),
    )
    assert none == disruptive  # the same records: partial results are the same wherever they are
    keys = 200 * -math.expm1(-150 / 200)  # of one of two seconds, in the key groups that moved
    whole = 200 * -math.expm1(-300 / 200)
    assert expanded - disruptive == pytest.approx(2 * keys - whole, abs=4 * math.sqrt(50))
    assert record["detail"]["left_bytes"] == pytest.approx(100 * keys, rel=0.2)


def test_smooth_migration_of_a_combined_component_sends_records_twice_while_windows_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For 3 s after the cut, records are in windows (4 s every second) of both owners."""
    event = {"kind": "migration", "operator": "compute", "at_s": 3.5, "key_groups": GROUPS, "to_subtask": 2}
    chain = [source(), compute(), consolidate(combined=True, windows=[{"length_s": 4, "every_s": 1}]), sink()]
    owners = [0, 1, 0, 1]
    scenario = job(
        chain,
        events=[{**event, "strategy": "smooth"}],
        rate_per_s=200.0,
        key_groups={"compute": owners, "merge": owners},
    )
    run, world = ended(scenario, monkeypatch)
    record = run.event_rows[0]
    came = [at_us for at_us, _, _ in world.audits["compute"].came]
    assert world.streams["source", "compute"].counts.copies == sum(4_000_000 <= at_us < 7_000_000 for at_us in came)
    assert record["paused_s"] == 0.0
    assert record["end_s"] == pytest.approx(7.0, abs=0.1)  # when the last window that began before 4 s is complete


def test_windows_of_all_key_groups_wait_for_one_that_moves_disruptively() -> None:
    held, _ = moved("disruptive", at_s=5.9, state_bytes_per_key=1e5)
    assert held["detail"]["held_s"] >= held["paused_s"]


# what is admitted ----------------------------------------------------------------------------------------------------


def test_table_1_and_section_5() -> None:
    split = job().query
    assert str(mobility(split, "compute", combined=False)) == "stateful flexible"
    assert str(mobility(split, "merge", combined=False)) == "stateless rigid"
    assert str(mobility(split, "compute", combined=True)) == "stateful rigid"
    mapped = job([source(), {"kind": "map", "name": "map"}, compute(), consolidate(), sink()]).query
    assert str(mobility(mapped, "map", combined=False)) == "stateless flexible"


REFUSED: list[tuple[str, list[dict[str, Any]], dict[str, Any], str]] = [
    ("instant, combined", [compute(), consolidate(combined=True)], {"strategy": "instant"}, "does not admit instant"),
    ("own windows", [compute(windows=[{"length_s": 1}])], {"strategy": "instant"}, "does not admit instant"),
    ("no windows", [compute(partial_s=None)], {"strategy": "smooth"}, "does not admit smooth"),
    (
        "of a consolidate",
        [compute(), consolidate(combined=True)],
        {"operator": "merge"},
        "one component with 'compute'",
    ),
    (
        "of a subtask",
        [compute(), consolidate()],
        {"key_groups": [], "to_subtask": None, "subtask": 0, "to": "h1"},
        "overtake",
    ),
    ("unknown", [compute(), consolidate()], {"strategy": "gentle"}, "strategy"),
]


@pytest.mark.parametrize("what", [each[0] for each in REFUSED])
def test_what_a_component_does_not_admit(what: str) -> None:
    _, middle, change, why = next(each for each in REFUSED if each[0] == what)
    event = {"kind": "migration", "operator": "compute", "at_s": 1.0, "key_groups": [0], "to_subtask": 1} | change
    with pytest.raises(BadInput, match=why):
        job([source(), *middle, sink()], events=[{key: value for key, value in event.items() if value is not None}])


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"kind": "combine", "operator": "compute"}, "no consolidate"),
        ({"kind": "split", "operator": "merge"}, "is not combined"),
        ({"kind": "repartition", "operator": "source", "owners": [0]}, "not over event time"),
        ({"kind": "repartition", "operator": "compute", "owners": [0, 1]}, "2 owners for the 4 key groups"),
        ({"kind": "repartition", "operator": "compute", "owners": [0, 1, 2, 3]}, "no subtask 3"),
    ],
)
def test_operations_that_cannot_be(event: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        job(events=[{"at_s": 1.0, **event}])


def test_a_combined_component_gets_no_subtask_of_one_part_alone() -> None:
    event = {"kind": "migration", "operator": "compute", "at_s": 1.0, "key_groups": [0], "to": "ends"}
    run = simulate(job([source(), compute(), consolidate(combined=True), sink()], events=[event]))
    assert "split it first" in run.event_rows[0]["detail"]["refused"]


def test_combining_during_a_migration_is_refused_and_said() -> None:
    slow = [source(), compute(state_bytes_per_key=1e7), consolidate(), sink()]
    move = {"kind": "migration", "operator": "compute", "at_s": 4.2, "key_groups": [0, 1], "to_subtask": 2}
    combine = {"kind": "combine", "operator": "merge", "at_s": 4.25}
    run = simulate(job(slow, rate_per_s=200.0, events=[{**move, "strategy": "disruptive"}, combine]))
    record = next(each for each in run.event_rows if each["kind"] == "combine")
    assert "under way" in record["detail"]["refused"]
    assert any("combine when it has ended" in line for line in run.warnings)


@pytest.mark.parametrize(
    ("chain", "why"),
    [
        ([compute(), consolidate(windows=[{"length_s": 2, "every_s": 0}])], "every_s"),
        ([compute(), consolidate(windows=[{"length_s": 2, "every_s": 3}])], "every_s must be <= length_s"),
        ([compute(), consolidate(windows=[])], "at least 1"),
        ([compute(partial_s=0.3), consolidate()], "do not make up all windows"),
        ([compute(), {"kind": "map", "name": "map"}], "hands partial results to 'map'"),
        ([compute(windows=[{"length_s": 1}]), consolidate()], "sends none"),
        ([compute(keys=13), consolidate()], "give both the same"),
        ([compute(key_groups=None), consolidate()], "has no key_groups"),
        ([compute(key_groups=1), consolidate(key_groups=1)], "1 key groups for 3 subtasks"),
        ([compute(sharing="panes", windows=[{"length_s": 1}])], "sharing without partial_s"),
        (
            [compute(), consolidate(windows=[{"length_s": 2}]), consolidate("long", windows=[{"length_s": 3}])],
            "whole windows",
        ),
    ],
)
def test_jobs_that_cannot_be(chain: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        job([source(), *chain, sink()])


def test_negative_slack_and_other_subtasks_of_a_combined_component_are_refused() -> None:
    with pytest.raises(BadInput, match="slack_s"):
        job([source(slack_s=-1), compute(), consolidate(), sink()])
    with pytest.raises(BadInput, match="give both the same subtasks"):
        job([source(), compute(), consolidate(combined=True), sink()], placement={"merge": ["h1", "h0", "h2"]})


@pytest.mark.parametrize("owners", [(0, 0, 2, 2), (0, 0, 0, 0), (0, 1, 2, 2), (1, 1, 1, 1)])
def test_what_was_left_where_a_key_group_comes_back_to_is_not_lost(owners: tuple[int, ...]) -> None:
    """A scale takes key groups away at once, and leaves partial results; a repartition brings some of them back before
    these are handed over. The run checks that every window has all of its records."""
    found = event_time_scenario(Random(860347))
    events = [each.model_copy(update={"owners": owners}) if hasattr(each, "owners") else each for each in found.events]
    rows = simulate(found.with_events(*events)).event_rows
    assert {row["kind"] for row in rows} == {"scale", "repartition"}


# who gets how much ---------------------------------------------------------------------------------------------------


def test_a_skew_gives_key_groups_so_many_times_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skew gives one of four key groups three times its part, 3 of 6, in steps over 2 s; within 4 standard errors."""
    events = [{"kind": "skew", "operator": "compute", "key_groups": [1], "factor": 3.0, "at_s": 1.0, "over_s": 2.0}]
    _, world = ended(job(events=events, rate_per_s=400.0), monkeypatch)
    keys = [key for at_us, key, _ in world.audits["compute"].came if at_us > 3_000_000]
    share = sum(3 <= key < 6 for key in keys) / len(keys)
    assert share == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / len(keys)))


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"operator": "sink", "key_groups": [0]}, "has no key groups"),
        ({"operator": "compute", "key_groups": [4]}, "no key group 4"),
        ({"operator": "compute", "key_groups": []}, "at least 1"),
    ],
)
def test_skews_that_cannot_be(event: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        job(events=[{"kind": "skew", "factor": 2.0, "at_s": 1.0, **event}])


# windows taken over --------------------------------------------------------------------------------------------------
# Subtasks that take over windows evaluate each once, also where it ends while the state is away.


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


def results_of(operator: dict[str, Any], window: dict[str, Any], change: str, how: str) -> int:
    """Results of a job, of which none is run twice."""
    return _results_of(json.dumps(operator), json.dumps(window), change, how)


@cache
def _results_of(operator: str, window: str, change: str, how: str) -> int:
    return results(simulate(scenario(json.loads(operator), json.loads(window), change, how)))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", ["restart", "reactive"])
def test_all_groups_are_in_every_window(change: str, how: str) -> None:
    """Six windows of 32 groups are whole; that from 10 s to 15 s ends while the job is down."""
    assert results_of(GROUPED, TUMBLING, "", how) == 6 * 32
    assert results_of(GROUPED, TUMBLING, change, how) == 6 * 32


@pytest.mark.parametrize("window", [TUMBLING, SLIDING])
@pytest.mark.parametrize("operator", [GROUPED, JOIN])
@pytest.mark.parametrize("change", [change for change in CHANGES if change != "move"])
def test_what_comes_out_does_not_depend_on_who_takes_over(
    change: str, operator: dict[str, Any], window: dict[str, Any]
) -> None:
    """Results are those after a move, in which no state changes hands; downtimes differ by milliseconds."""
    moved = results_of(operator, window, "move", "restart")
    assert results_of(operator, window, change, "restart") == moved > 0


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
    assert results_of(heavy, window, change, "live") == results_of(heavy, window, "", "live")
