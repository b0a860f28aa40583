"""Runs of windows over event time: each once and whole, by brute force over all records that came; and warnings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tests.twin.event_jobs import compute, consolidate, ended, job, logic_of, sink, source
from twin.guards.conservation import ConservationError
from twin.operators.consolidate import ConsolidateLogic
from twin.operators.ownership import Shipping
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.windows import EventWindow
from twin.world.world import World

SHORT = [{"length_s": 1}, {"length_s": 2, "every_s": 1}]
LONG = [{"length_s": 4, "every_s": 2}, {"length_s": 3}]
TILED = (
    [source(), compute(), consolidate("short", windows=SHORT), consolidate("long", windows=LONG), sink()],
    None,
    [("short", ["compute"]), ("long", ["compute"])],
)
CASES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]] | None, list[tuple[str, list[str]]]]] = {
    "5.1, panes": ([source(), compute(sharing="panes"), consolidate(), sink()], None, [("merge", ["compute"])]),
    "5.1, a state a window": (
        [source(), compute(sharing="windows"), consolidate(), sink()],
        None,
        [("merge", ["compute"])],
    ),
    "5.2, into a map": (
        [source(), compute(windows=LONG), {"kind": "map", "name": "map", "service_time_s": 1e-5}, sink()],
        None,
        [("compute", ["compute"])],
    ),
    "5.2, into a compute": (
        [source(), compute(windows=SHORT), compute("second", windows=LONG), sink()],
        None,
        [("compute", ["compute"]), ("second", ["second"])],
    ),
    "5.3": TILED,
    "5.4": (
        [source(), compute("eager", partial_s=None), compute(), consolidate(), sink()],
        None,
        [("merge", ["compute"])],
    ),
    "two sources, two computes into one": (
        [source(), source("other"), compute("a"), compute("b", partial_s=0.25), consolidate(), sink()],
        [("source", "a"), ("other", "a"), ("other", "b"), ("a", "merge"), ("b", "merge"), ("merge", "sink")],
        [("merge", ["a", "b"])],
    ),
    "disorder within the slack": (
        [source(disorder_s=0.8, slack_s=0.8), compute(), consolidate(), sink()],
        None,
        [("merge", ["compute"])],
    ),
    "one subtask of each, and thinned before": (
        [
            source(),
            {"kind": "filter", "name": "filter", "selectivity": 0.5, "service_time_s": 1e-5},
            compute(key_groups=1),
            consolidate(key_groups=1, windows=[{"length_s": 2, "every_s": 0.5, "start_s": -3.5}]),
            sink(),
        ],
        None,
        [("merge", ["compute"])],
    ),
}


def by_force(world: World, computes: list[str], windows: tuple[EventWindow, ...], far_us: float) -> Counter[Any]:
    """Every instance that is over, with every key in it: records, counted one by one."""
    found: Counter[Any] = Counter()
    for name in computes:
        for at_us, key, _ in world.audits[name].came:
            for window in windows:
                near = at_us // window.every_us
                for number in range(near - 20, near + 20):
                    start_us = window.start_us + number * window.every_us
                    if start_us <= at_us < start_us + window.length_us <= far_us:
                        found[window, start_us, key] += 1
    same: defaultdict[Any, set[int]] = defaultdict(set)
    for (window, start_us, key), count in found.items():
        same[start_us, start_us + window.length_us, key].add(count)
    assert all(len(counts) == 1 for counts in same.values())
    return Counter({span: counts.pop() for span, counts in same.items()})


@pytest.mark.parametrize("name", CASES)
def test_windows_are_those_of_brute_force(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operators, streams, checked = CASES[name]
    placement = {"compute": "h1", "merge": "h2"} if name.startswith("one subtask") else {}
    scenario = job(operators, streams, placement=placement, rate_per_s=30.0)
    _, world = ended(scenario, monkeypatch)
    for operator, computes in checked:
        far = [logic_of(task).watermark_us for task in world.tasks[operator]]
        windows = scenario.query.operator(operator).windows  # type: ignore[union-attr]
        expected = by_force(world, computes, windows, min(far))
        emitted = {each[:3]: each[3] for each in world.audits[operator].emitted}
        assert len(emitted) == len(world.audits[operator].emitted)
        assert len(expected) > 20
        assert {span: count for span, count in emitted.items() if span[1] <= min(far)} == expected


def test_records_that_come_too_late_are_dropped_and_counted_in_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are late, within 1 s of disorder and no slack, are dropped; the others are in their windows."""
    scenario = job([source(disorder_s=1.0), compute(), consolidate(), sink()], rate_per_s=200.0)
    _, world = ended(scenario, monkeypatch)
    audit = world.audits["compute"]
    assert 0 < len(audit.late) < len(audit.came)
    assert sum(logic_of(task).dropped for task in world.tasks["compute"]) == len(audit.late)


@pytest.mark.parametrize(("sharing", "disorder_s"), [("panes", 0.8), ("windows", 0.0)])
def test_keys_in_windows_are_as_many_as_chance_has(sharing: str, disorder_s: float) -> None:
    """Keys in a window are K (1 - exp(-n / K)) on average, within 4 standard errors over all windows."""
    chain = [
        source(disorder_s=disorder_s, slack_s=disorder_s),
        compute(sharing=sharing, keys=200),
        consolidate(keys=200),
    ]
    run = simulate(job([*chain, sink()], rate_per_s=100.0, horizon_s=20.0))
    found = next(each.records_out for each in run.operators if each.operator == "merge")
    expected = 200 * -math.expm1(-100 * 2 / 200) * 9 + 200 * -math.expm1(-100 * 3 / 200) * 16
    error = 4.0 * math.sqrt(200 * 0.25 * (9 + 18))
    assert abs(found - expected) < error + 4 * 200  # which of the first and last windows are in the run


def test_the_form_that_costs_less_is_chosen_and_changes_with_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheaper form is chosen: merging panes if records are many, else logic for each window. The cut is the same
    for all subtasks, and windows on both sides of it are whole."""
    windows = [{"length_s": 2, "every_s": 0.5}]
    chain = [source(), compute(execute_time_s=2e-4, keys=40), consolidate(keys=40, merge_time_s=3e-4, windows=windows)]
    rising = [{"kind": "rate-change", "source": "source", "at_s": 2.0, "factor": 50.0}]
    scenario = job([*chain, sink()], rate_per_s=10.0, events=rising, horizon_s=7.0)
    _, world = ended(scenario, monkeypatch)
    forms = {tuple(logic_of(task).forms.since) for task in world.tasks["compute"]}
    assert len(forms) == 1
    assert [form for _, form in forms.pop()] == ["windows", "panes"]


# provoked ------------------------------------------------------------------------------------------------------------


def lose_one(send: Callable[..., float]) -> Callable[..., float]:
    """Function that loses every tenth partial result on its way."""
    count = 0

    def sends(self: Shipping, piece: Any, owner: int) -> float:
        nonlocal count
        count += 1
        if count % 10 == 0:
            self.counts.copies -= piece.n
            return 0.0
        return send(self, piece, owner)

    return sends


def test_a_lost_partial_result_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shipping, "_send", lose_one(Shipping._send))
    with pytest.raises(ConservationError, match="window over event time"):
        simulate(job())


def test_a_window_that_is_emitted_by_all_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsolidateLogic, "allowed", lambda _self, _span, content, **_: content)
    moves = [{"kind": "migration", "operator": "merge", "at_s": 3.0, "key_groups": [0], "to_subtask": 2}]
    with pytest.raises(ConservationError, match="window over event time"):
        simulate(job(events=moves, rate_per_s=200.0))


BOTH = [("source", "compute"), ("other", "compute"), ("compute", "merge"), ("merge", "sink")]


def test_late_records_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run warns of as many late records as computes left out; of none where the slack covers the disorder."""
    operators = [source(disorder_s=0.8, slack_s=0.1), compute(), consolidate(), sink()]
    run, world = ended(job(operators), monkeypatch)
    late = len(world.audits["compute"].late)
    assert late and any(f"compute: {late:,} of " in each and "larger slack_s" in each for each in run.warnings)
    operators[0] = source(disorder_s=0.8, slack_s=0.8)
    assert not any("slack_s" in each for each in simulate(job(operators)).warnings)


def two_sources(other: dict[str, Any], **run: Any) -> Scenario:
    operators = [source(), source("other"), compute(), consolidate(windows=[{"length_s": 2}]), sink()]
    given = job(operators, BOTH, horizon_s=20.0, period_s=2.0, **run)
    return Scenario.model_validate(
        given.model_dump() | {"workload": {"arrivals": given_laws(given) | {"other": other}}}
    )


def given_laws(given: Scenario) -> dict[str, Any]:
    return {name: law.model_dump() for name, law in given.workload.arrivals.items()}


def test_a_source_that_falls_silent_holds_all_windows() -> None:
    """A source that falls silent holds all windows: no results come, and the run says why."""
    silent = {"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 20}, {"at_s": 7, "rate_per_s": 0}]}
    run = simulate(two_sources(silent))
    results = [row["latencyCount"] for row in run.operator_rows if row["operator"] == "sink"]
    assert sum(results[:5]) > 0 and not sum(results[5:])
    assert any("no record came from 'other' since 8 s" in each for each in run.warnings)
    going_on = simulate(two_sources({"law": "poisson", "rate_per_s": 20}))
    assert not any("event time stops" in each for each in going_on.warnings)


def test_standard_errors_are_of_the_sinks_alone() -> None:
    """Standard errors are of sinks: every window has all twelve keys, so as many results every two seconds."""
    run = simulate(two_sources({"law": "poisson", "rate_per_s": 60}))
    assert run.standard_errors.throughput_per_s == 0.0
    assert run.standard_errors.e2e_latency_s is not None and run.standard_errors.e2e_latency_s < 0.1
