"""Expected cost of a run against its actual one: services are counted, not timed."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.files import registry
from scenarios.files.scenario_file import load
from tests.twin.event_jobs import compute, consolidate, source
from tests.twin.event_jobs import job as event_job
from tests.twin.worlds import HOST, chain, deployment, sink
from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.guards.effort import (
    BARRIER,
    CHANNEL,
    ENDING,
    KERNEL_S,
    PANE,
    SESSION,
    TAKEN_OVER,
    estimate,
    native,
    require_feasible,
)
from twin.guards.memory import MOST_BYTES, MOST_S
from twin.job import compile
from twin.kernel.bridge import WORTH
from twin.kernel.traits import unsupported_part
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.wiring.build import build
from twin.wiring.wiring import Wiring

SHORT = RunSettings(horizon_s=8, warmup_s=2, period_s=2)


def maps(count: int, rate_per_s: float, cores: float, load: float) -> Deployment:
    """Chain on one host, whose maps together ask for `load` cores."""
    middle = [
        {"kind": "map", "name": f"m{number}", "service_time_s": load / count / rate_per_s} for number in range(count)
    ]
    return chain(middle, rate_per_s, hosts=[{**HOST, "cpu_percent": 100 * cores}])


def taken(scenario: Scenario) -> float:
    """Tuples that all operators are expected to take in."""
    return sum(load.services for load in estimate(scenario).loads if "takes in" in load.cause)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(maps(4, 500, 8, 2), id="idle"),
        pytest.param(maps(6, 3000, 2, 3), id="overloaded"),
        pytest.param(load("page-views").deployment, id="windows"),
        pytest.param(load("smart-grid").deployment, id="overloaded replicas"),
    ],
)
def test_services_are_those_that_there_will_be(job: Deployment) -> None:
    scenario = Scenario.of(job, SHORT)
    done = sum(row["numRecordsIn"] for row in simulate(scenario).operator_rows)
    assert done / 1.5 < taken(scenario) < 1.5 * done


def test_no_more_is_served_than_can_be() -> None:
    """Expected services are bounded by capacity: a map serves 1,000 tuples a second of the 100,000 that are offered."""
    job = Scenario.of(chain([{"kind": "map", "name": "m", "service_time_s": 1e-3}], 1e5), SHORT)
    served = [load.services for load in estimate(job).loads if "takes in" in load.cause]
    assert served == pytest.approx([1000 * SHORT.horizon_s] * 3, rel=0.2)


def test_checkpoints_cost_a_barrier_at_each_replica_and_leave_the_rest_to_the_kernel() -> None:
    scenario = Scenario.of(maps(4, 500, 8, 2), SHORT)
    without = estimate(scenario)
    told = estimate(scenario.model_copy(update={"checkpoints": Checkpoints(interval_s=1)}))
    (barriers,) = set(told.loads) - set(without.loads)
    replicas, channels = 6, 5
    assert barriers.services == (BARRIER * replicas + CHANNEL * channels) * SHORT.horizon_s
    assert "barriers" in barriers.cause
    assert any(each.each_s == KERNEL_S for each in told.loads)


@pytest.mark.parametrize(("state", "least", "most"), [("full", 20, 200), ("incremental", 3, 20)])
def test_state_on_its_way_keeps_the_kernel_from_working(state: str, least: float, most: float) -> None:
    """The engine works while state is uploaded: 8 s of each 10 s for 1 GB a replica, little for increments."""
    window = {"policy": "count", "size_tuples": 10}
    keyed = {"group_by": "string", "groups": 8_000_000, "key_groups": 8, "state_bytes_per_group": 2.5e8}
    aggregate = {"kind": "aggregate", "name": "a", "window": window, "service_time_s": 1e-5} | keyed
    hosts = [HOST | {"name": name, "bandwidth_mbps": 1000} for name in ("h", "i", "store")]
    job = Scenario.of(
        chain([aggregate], 2e4, hosts=hosts, placement={"a": ["h", "i"]}), SHORT.model_copy(update={"horizon_s": 60})
    )
    free, paid = (Checkpoints(storage=storage, state=state) for storage in (None, "store"))
    costs = [estimate(job.model_copy(update={"checkpoints": each})).cpu_s for each in (free, paid)]
    assert least < costs[1] / costs[0] < most


def test_the_engine_takes_over_for_as_long_as_it_says() -> None:
    assert TAKEN_OVER == WORTH


@pytest.mark.parametrize("name", registry.names())
def test_whether_the_kernel_runs_a_job_is_what_the_kernel_says(name: str) -> None:
    scenario = load(name)
    job = compile(scenario)
    world = build(Wiring(job, scenario.run, False, scenario.checkpoints))
    assert native(job, scenario) == (unsupported_part(world) is None)


def test_a_chain_sends_nothing_within_and_costs_less() -> None:
    apart = maps(4, 500, 8, 2)
    chained = apart.with_plan(apart.plan.model_copy(update={"fused": (("m0", "m1", "m2", "m3"),)}))
    one, other = (estimate(Scenario.of(each, SHORT)) for each in (chained, apart))
    sending = [[each.cause for each in told.loads if each.cause.endswith(" sends")] for told in (one, other)]
    assert len(sending[0]) == len(sending[1]) - 3
    assert one.cpu_s < other.cpu_s


def test_a_chain_deeper_than_the_stack_passes_barriers() -> None:
    job = Scenario.of(maps(400, 20, 8, 1), RunSettings(horizon_s=3, warmup_s=0, period_s=1))
    checkpoints = Checkpoints(interval_s=1)
    assert simulate(job.model_copy(update={"checkpoints": checkpoints})).metrics.tuples_out > 0


def test_what_would_take_hours_is_refused_unless_it_may_end_sooner() -> None:
    job = Scenario.of(maps(4, 5e5, 64, 2), RunSettings(horizon_s=1e5, period_s=1e3))
    with pytest.raises(BadInput, match=r"takes in; lower rates .* \(--precision 1%\)"):
        require_feasible(job)
    assert require_feasible(job.with_run(precision=0.01)).cpu_s > MOST_S


def test_windows_over_event_time_cost_their_panes() -> None:
    """Event-time windows cost work for their 1,000 panes, every 10 ms, also where nearly no tuple comes."""
    windows, rare = [{"length_s": 10, "every_s": 0.01}], {"rate_per_s": 10.0, "horizon_s": 20.0}
    merged = event_job([source(), compute(partial_s=0.01), consolidate(windows=windows), sink()], **rare)
    whole = event_job([source(), compute(windows=windows), sink()], **rare)
    for scenario, name, panes in ((merged, "merge", 1000), (whole, "compute", 10 / 3 * 10)):
        ends = next(load for load in estimate(scenario).loads if f"windows of '{name}'" in load.cause)
        assert ends.services == pytest.approx(3 * 20.0 / 0.01 * (ENDING + PANE * panes), rel=0.05)
        assert estimate(scenario).loads[0] == ends


@pytest.mark.parametrize("keys", [10, 10**7])
def test_sessions_that_are_open_at_the_end_are_handed_over(keys: int) -> None:
    """Sessions open at the end count: with gaps of a minute in 8 s, as many as there are keys, or tuples."""
    sessions = {"kind": "session", "name": "a", "gap_s": 60.0, "keys": keys, "service_time_s": 0}
    scenario = Scenario.of(chain([sessions], 500.0), SHORT)
    load = next(load for load in estimate(scenario).loads if "open sessions" in load.cause)
    assert load.services == pytest.approx(SESSION * min(keys, 500 * SHORT.horizon_s), rel=0.05)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"channel": 10**6, "rate": 1e6}, "tuples in the channels"),
        ({"window_s": 100.0, "rate": 1e6}, "tuples in the windows of 'a'"),
        ({"period_s": 1e-5}, "rows of statistics"),
        ({"read_s": 0.1, "rate": 1e8}, "records that 'source' has not read"),
        ({"gap_s": 20.0, "rate": 1e6}, "open sessions of 'a'"),
    ],
)
def test_what_no_memory_holds_is_refused_by_name(what: dict[str, Any], words: str) -> None:
    window = {"policy": "time", "size_s": what.get("window_s", 1.0)}
    holds = {"kind": "session", "gap_s": what["gap_s"], "keys": 10**9} if "gap_s" in what else {"window": window}
    operators = [
        {"kind": "source", "name": "source", "service_time_s": what.get("read_s", 0)},
        {"kind": "aggregate", "name": "a", "service_time_s": 0} | holds,
        sink(),
    ]
    engine = load("word-count").engine.model_copy(update={"channel_tuples": what.get("channel", 100)})
    job = deployment(
        operators,
        [("source", "a"), ("a", "sink")],
        {"source": what.get("rate", 100.0)},
        placement={"a": {"h": 100}},
        hosts=[{**HOST, "cpu_percent": 1_000_000}],
        engine=engine.model_dump(mode="json"),
    )
    settings = RunSettings(horizon_s=200.0, period_s=what.get("period_s", 10.0))
    with pytest.raises(BadInput, match=rf"would hold .*{words}.*the limit is {MOST_BYTES / 1e9:g} GB"):
        require_feasible(Scenario.of(job, settings))
