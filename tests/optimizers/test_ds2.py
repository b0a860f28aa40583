"""DS2 in a closed loop, kept from oscillating by its options: it settles, also under noise; a step moves it once;
misleading periods do not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from optimizers.policies.ds2 import Ds2Spec
from tests.optimizers.plant import LENGTH_S, SERVICE_S, ByPeriod, Plant, changes, plant_job
from tests.twin.worlds import chain
from twin.control import PeriodStatistics
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, RateChange
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

LOADS = np.linspace(0.5, 8, 26)
JOB = plant_job()
LOWEST, HIGHEST = 0.65, 0.95
"""Dead band of the utilisation under STEADY."""
STEADY = Ds2Spec(
    target_utilisation=0.8,
    margin=0.15,
    catch_up_s=60.0,
    minor_change=0,
    smoothing_periods=5,
    calm_periods=8,
    patience=8,
)
"""Options that keep it from oscillating, and plan the backlog away."""


def closed_loop(load: ByPeriod, periods: int = 60, **plant: Any) -> list[int]:
    return Plant(load, **plant).run(STEADY.start(JOB), periods)


# the loop on a perfect plant ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 12])
def test_a_constant_load_is_met_with_one_or_two_changes(parallelism: int) -> None:
    for load in LOADS:
        counts = closed_loop(load, parallelism=parallelism)
        assert len(changes(counts)) <= 2, (load, counts)
        assert counts[20:] == counts[20:21] * 40
        fewest = max(1, int(np.ceil(load / 0.8 - 1e-9)))
        assert load / counts[-1] <= HIGHEST
        assert counts[-1] <= fewest or load / counts[-1] >= LOWEST, (load, counts)


def test_noise_of_a_tenth_makes_it_neither_flip_nor_wander() -> None:
    found = []
    for load in LOADS:
        for seed in range(4):
            counts = closed_loop(load, 100, noise=0.1, seed=seed)
            found.append(len(changes(counts)))
            assert found[-1] <= 3, (load, seed, counts)
            ways = [after > before for before, after in changes(counts)]
            assert sum(one != other for one, other in pairwise(ways)) <= 1 + (found[-1] > 2)
    assert np.mean(np.array(found) > 2) < 0.03


@pytest.mark.parametrize(("low", "high"), [(0.5, 2.0), (2.0, 6.0), (0.7, 8.0)])
def test_a_step_moves_it_once_up_and_once_down(low: float, high: float) -> None:
    start = closed_loop(low)[-1]
    counts = closed_loop(lambda period: high if 30 <= period < 70 else low, 120, parallelism=start)
    (up, down) = changes(counts)
    assert up[0] == start and up[1] >= high / 0.8 and down == (up[1], max(1, int(np.ceil(low / 0.8))))
    assert counts[31] == up[1], "in the first period"
    assert 70 + 8 <= counts.index(down[1], 40) <= 70 + 10, "after calm ones"


def test_a_shrink_that_is_undone_makes_it_patient() -> None:
    """A shrink that is undone is not repeated: twelve calm periods and twelve others lead to one shrink."""
    counts = closed_loop(lambda period: 0.79 if period % 24 < 12 else 1.0, 100, parallelism=2)
    assert changes(counts) == [(2, 1), (1, 2)]


def test_a_step_within_a_period_takes_one_more() -> None:
    def load(period: int) -> float:
        return 4.0 if period in (30, 70) else 6.0 if 30 < period < 70 else 2.0

    assert len(changes(closed_loop(load, 120, parallelism=3))) <= 3


def test_a_step_that_leaves_no_backlog_is_believed_at_once() -> None:
    counts = closed_loop(lambda period: 1.95 if period >= 30 else 0.85, parallelism=2)
    assert changes(counts) == [(2, 3)] and counts[31] == 3


def test_slower_records_are_seen_as_soon_as_a_backlog_grows() -> None:
    def slower(period: int) -> float:
        return 3.0 if period >= 30 else 1.0

    counts = closed_loop(lambda period: 1.5 * slower(period), parallelism=2, slower=slower)
    assert counts[31] >= 4.5 / HIGHEST
    assert len(changes(counts)) <= 2


# what is no steady demand ---------------------------------------------------------------------------------------------


def test_a_backlog_is_worked_off_and_then_forgotten() -> None:
    """A backlog of 240 s of work is worked off in 60 s by more subtasks besides the load, and then forgotten."""
    plant = Plant(2.0, parallelism=3)
    plant.backlog = 240 / SERVICE_S
    counts = plant.run(STEADY.start(JOB), 60)
    assert counts[1] == np.ceil(2.0 / 0.8 + 230 / 60)
    assert plant.backlog < 1 and changes(counts)[1:] == [(counts[1], 3)]


def test_nothing_shrinks_while_there_is_a_backlog() -> None:
    plant = Plant(2.0, parallelism=8)
    plant.backlog = 2000 / SERVICE_S  # more than five subtasks to spare can do in 30 periods
    policy = STEADY.model_copy(update={"catch_up_s": 1e9}).start(JOB)
    assert plant.run(policy, 30) == [8] * 30


def test_what_a_fixed_operator_cannot_take_does_not_reach_the_others() -> None:
    """The map does not grow with the backlog of a source that takes half of what arrives and cannot be scaled."""
    policy = STEADY.start(JOB)
    for period in range(40):
        found = statistics(period, arrived=40_000, backlog=20_000.0 * (period + 1), taken=20_000, parallelism=3)
        found.operators["source"]["busyTimeMsPerSecond"] = 1000.0  # type: ignore[index]
        decision = policy.decide(found)
        assert decision is not None and not decision.rescales, "2 of 3 subtasks are busy with all that can come"
        assert decision.warnings[0].startswith("would scale 'source' up and cannot")


def statistics(
    period: int, arrived: float, backlog: float = 0.0, taken: float | None = None, parallelism: int = 1, **m: float
) -> PeriodStatistics:
    """Statistics of the plant's job; taken: None if all that arrived. m: more of the map's row."""
    plant = Plant(arrived * SERVICE_S / LENGTH_S, parallelism=parallelism)
    plant.period = period
    found = plant.step()
    row = {name: dict(values) for name, values in found.operators.items()}
    taken = arrived if taken is None else taken
    for each in row.values():
        each |= {"numRecordsIn": taken, "numRecordsOut": taken}
    row["source"] |= {"arrived": arrived, "backlog": backlog}
    row["m"] |= {"busyTimeMsPerSecond": 1000 * taken * SERVICE_S / LENGTH_S / parallelism} | m
    return replace(found, operators=row)


# periods that mislead -------------------------------------------------------------------------------------------------


def test_backpressure_hides_no_true_rate() -> None:
    """The true rate of a map that is blocked half of the time, and so takes half of it, is still found."""
    policy = STEADY.start(JOB)
    wanted = policy.subtasks_wanted(statistics(0, arrived=15_000, taken=5_000, backPressuredTimeMsPerSecond=500))
    assert wanted == {"m": 2}


def test_a_period_in_which_the_job_was_down_says_nothing() -> None:
    policy, plant = STEADY.start(JOB), Plant(2.0, parallelism=3)
    plant.run(policy, 5)
    assert policy.subtasks_wanted(plant.step(runs=0.3)) == {}
    plant.step(runs=0.0)
    plant.step(runs=0.0)  # no policy is asked meanwhile
    assert policy.subtasks_wanted(plant.step()) == {}, "the job was up again some time within it"
    assert policy.subtasks_wanted(plant.step())["m"] >= 3


def test_the_period_of_a_change_says_nothing() -> None:
    policy, plant = STEADY.start(JOB), Plant(4.0, parallelism=1)
    assert policy.decide(plant.step()) is not None
    plant.places = ("h0",) * 2  # a change that is not the policy's
    assert policy.decide(plant.step()) is None
    assert policy.decide(plant.step()) is not None


def test_an_operator_behind_a_window_is_not_judged_between_its_results() -> None:
    """An operator behind a window, idle between its results, gets the two subtasks that it needs on average."""
    window = {"policy": "time", "size_s": 12 * LENGTH_S}
    middle = [
        {"kind": "aggregate", "name": "a", "window": window, "group_by": "int", "groups": 120_000},
        {"kind": "map", "name": "m"},
    ]
    hosts = [{"name": "h0", "cpu_percent": 6400, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 1}]
    job = chain(middle, 1000.0, hosts=hosts, placement=dict.fromkeys(("source", "a", "m", "sink"), "h0"))
    policy, counts = STEADY.start(job), [2]
    for period in range(100):
        ends = period % 12 == 11
        base = statistics(period, arrived=10_000)
        quiet = base.operators["sink"] | {"numRecordsIn": 0, "numRecordsOut": 0, "busyTimeMsPerSecond": 0.0}
        burst = {"numRecordsIn": 120_000, "numRecordsOut": 0, "parallelism": counts[-1]}
        rows = {
            "source": base.operators["source"],
            "a": base.operators["sink"] | {"numRecordsOut": 120_000 * ends, "busyTimeMsPerSecond": 300.0},
            "m": quiet
            | (burst | {"busyTimeMsPerSecond": 1000 * 12 * 1.5 / counts[-1]} if ends else {"parallelism": 2}),
            "sink": quiet,
        }
        placement = {"source": ("h0",), "a": ("h0",), "m": ("h0",) * counts[-1], "sink": ("h0",)}
        decision = policy.decide(replace(base, operators=rows, placement=placement, hosts={}))
        counts.append(len(decision.rescales[0].placement) if decision else counts[-1])
    assert set(counts[24:]) == {2}


# what there is room for -----------------------------------------------------------------------------------------------


def test_no_more_subtasks_than_idle_cores_and_key_groups() -> None:
    def full(share: float, job: Deployment, why: str = "") -> int:
        found = Plant(6.0).step()
        used = {name: {"host": name, "cpuUtilisation": share} for name in ("h0", "h1")}
        decision = STEADY.start(job).decide(replace(found, hosts=used))
        assert decision is not None
        assert [why in text for text in decision.warnings] == [True] * bool(why), decision.warnings
        return len(decision.rescales[0].placement) if decision.rescales else 1

    assert full(0.2, JOB) > 6
    assert full(62 / 64, JOB, "would scale 'm' up further and cannot: no host that can take it") == 1 + 2
    assert full(1.0, JOB, "no host that can take it has an idle core") == 1
    assert full(0.2, plant_job(key_groups=4), "it has 4 key groups; give it more") == 4


@pytest.mark.parametrize(
    "option",
    [{"target_utilisation": 1.1}, {"margin": 1.0}, {"catch_up_s": 0}, {"calm_periods": 0}, {"smoothing_periods": 0}],
)
def test_options_that_make_no_sense_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(option))):
        parse(Ds2Spec, option)


# in exact runs --------------------------------------------------------------------------------------------------------


def decisions(load: float, *events: AnyEvent, seed: int = 0, horizon_s: float = 60.0) -> list[str]:
    """Decisions for 200 records a second in periods of one: noise of 7 % from arrivals, and as much from services."""
    hosts = [
        {"name": name, "cpu_percent": 3200, "ram_mb": 64_000, "bandwidth_mbps": 1000, "latency_ms": 1}
        for name in ("h0", "h1")
    ]
    middle = {"kind": "map", "name": "m", "service_time_s": load / 200}
    job = chain([middle], 200, hosts=hosts, placement=dict.fromkeys(("source", "m", "sink"), "h0"))
    about = RunSettings(horizon_s=horizon_s, period_s=1, seed=seed)
    run = simulate(Scenario.of(job, about, events), STEADY.start(job))
    assert run.operator_rows[-1]["queueLength"] + run.operator_rows[-3]["backlog"] < 200
    return [row["detail"]["reason"] for row in run.event_rows if row["kind"] == "decision"]


def test_steps_and_failures_in_exact_runs() -> None:
    up = RateChange(at_s=20, source="source", factor=3)
    down = RateChange(at_s=40, source="source", factor=1)
    for seed in range(3):
        before, step, *back = decisions(1.5, up, down, seed=seed)
        assert before == "m 1->2" and step in ("m 2->6", "m 2->7")
        assert 1 <= len(back) <= 2
        failure = Failure(at_s=20.5, host="h0", recover_after_s=5)
        assert decisions(1.5, failure, seed=seed) == ["m 1->2"]
