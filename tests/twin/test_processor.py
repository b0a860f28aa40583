"""Processors, and the times of services on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.twin.changing import column
from tests.twin.worlds import HOST, chain, deployment, joined, simulated, sink, source, world_of
from twin.errors import BadInput
from twin.events import AnyEvent, Failure
from twin.machine import layout as k
from twin.profiles import STORM
from twin.run import Run
from twin.simulation import measure

# processors ----------------------------------------------------------------------------------------------------------
# Processor sharing: what is kept from one change to the next equals brute force over the whole.


CAPACITIES = st.sampled_from([0.3, 1.0, 1.5, 2.0, 5.0])


@dataclass
class Fluid:
    """Jobs as fluids, computed from scratch: at each moment every job runs at min(1, C / k)."""

    capacity: float
    now_s: float = 0.0
    left: dict[int, float] = field(default_factory=dict)
    ends: dict[int, list[float]] = field(default_factory=dict)

    def run(self, until_s: float) -> None:
        while self.left:
            level = min(1.0, self.capacity / len(self.left))
            end_s = min(until_s, self.now_s + min(self.left.values()) / level)
            self.left = {each: work - level * (end_s - self.now_s) for each, work in self.left.items()}
            self.now_s = end_s
            if end_s == until_s:
                break
            for each in [each for each, work in self.left.items() if work <= 1e-10]:
                del self.left[each]
                self.ends.setdefault(each, []).append(end_s)
        self.now_s = until_s


@dataclass
class Pair:
    """Subtasks on one socket of a world without records, and the same work as fluids."""

    capacity: float
    count: int = 9

    def __post_init__(self) -> None:
        names = [f"m{number}" for number in range(self.count)]
        small = HOST | {"name": "small", "cpu_percent": 100.0 * self.capacity}
        job = deployment(
            [source(), *({"kind": "map", "name": name} for name in names), sink()],
            [*(("source", name) for name in names), *((name, "sink") for name in names)],
            {"source": {"law": "constant", "rate_per_s": 1e-8}},  # the first record comes years later
            hosts=[HOST, small],
            placement=dict.fromkeys(names, "small"),
        )
        self.world = world_of(job)
        self.fluid = Fluid(self.capacity)
        self.tasks = [self.world.tasks[name][0] for name in names]
        self.processor = self.tasks[0].processor

    def start(self, key: int, work_s: float) -> None:
        """Gives a subtask work, which waits if it has some already."""
        self.world.memory.do(k.OCCUPY, self.tasks[key].here, asked=work_s)

    def apply(self, what: str, key: int, amount: float) -> None:
        """Makes a change that is possible for the subtask as it is."""
        task, fluid = self.tasks[key], self.fluid
        if what == "start" and key not in fluid.left:
            fluid.left[key] = amount
            self.start(key, amount)
        elif what == "cancel" and key in fluid.left:
            self.world.memory.do(k.CANCEL_JOB, task.here)
            task.busy = task.evaluating = 0
            del fluid.left[key]
        elif what == "block" and task.busy:  # what is begun goes on
            task.block()
            task.unblock()

    def advance(self, until_s: float) -> None:
        """Goes on to a time; what ends until then ends at the same moment."""
        before = set(self.fluid.left)
        self.world.advance(until_s)
        self.fluid.run(until_s)
        for key in before.difference(self.fluid.left):
            assert not self.tasks[key].busy
            assert self.tasks[key].free_s == pytest.approx(self.fluid.ends[key][-1], abs=1e-6)
        assert all(self.tasks[key].busy for key in self.fluid.left)


OPERATIONS = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["start", "start", "start", "cancel", "block"]),
    st.integers(0, 8),
    st.floats(0.01, 4.0),
)


@settings(deadline=None)
@given(capacity=CAPACITIES, operations=st.lists(OPERATIONS, max_size=60))
def test_jobs_end_when_fluids_that_are_filled_from_scratch_end(
    capacity: float, operations: list[tuple[int, str, int, float]]
) -> None:
    pair = Pair(capacity)
    for steps, what, key, amount in operations:
        if steps:
            pair.advance(pair.world.env.now + 0.37 * steps)
        assume(all(work > 1e-8 for work in pair.fluid.left.values()))  # else which comes first is rounding's choice
        pair.apply(what, key, amount * math.pi / 3.0)
    pair.advance(pair.world.env.now + 1000.0)
    assert not pair.fluid.left and not pair.processor.jobs


def test_many_jobs_that_end_at_one_moment_start_their_successors_at_that_moment() -> None:
    pair = Pair(2.0, 10)
    for key in [*range(10), *range(10)]:
        pair.start(key, 1.0)
    pair.world.advance(11.0)
    assert [task.free_s for task in pair.tasks] == pytest.approx([10.0] * 10)


def test_nothing_proceeds_in_a_pause() -> None:
    pair = Pair(1.0)
    pair.start(0, 1.0)
    pair.world.advance(0.5)
    pair.processor.pause(2.0)
    pair.world.advance(3.0)
    assert pair.tasks[0].free_s == pytest.approx(2.5)


# service times -------------------------------------------------------------------------------------------------------
# Operators alone: measured times follow the given law.


SAMPLES = 8000


@pytest.mark.parametrize("scv", [0.05, 0.5, 1.0])
def test_times_follow_the_gamma_law_that_was_given(scv: float) -> None:
    """Times pass Kolmogorov-Smirnov against the gamma law, at the 0.1 % level, with the mean within 5 deviations."""
    job = chain([{"kind": "map", "name": "work", "service_time_s": 0.002, "service_scv": scv}], 50)
    times = np.sort(measure(job, "work", {"source": 50.0}, SAMPLES, seed=1).times_s)
    law = np.sort(np.random.default_rng(2).gamma(1 / scv, 0.002 * scv, 4 * SAMPLES))
    every = np.concatenate([times, law])
    distance = np.abs(
        np.searchsorted(times, every, "right") / len(times) - np.searchsorted(law, every, "right") / len(law)
    ).max()
    assert distance < 1.95 * math.sqrt(1 / len(times) + 1 / len(law))
    assert times.mean() == pytest.approx(0.002, abs=5 * 0.002 * math.sqrt(scv / SAMPLES))


def test_neither_distance_nor_pauses_nor_neighbours_are_in_a_profile() -> None:
    work = {"kind": "map", "name": "work", "service_time_s": 1e-4, "service_scv": 0}
    host = {"name": "h", "cpu_percent": 200, "ram_mb": 9000, "bandwidth_mbps": 10, "latency_ms": 5}
    numa = {"sockets": [{"cores": 1}, {"cores": 1}], "numa": {"latency_ns": [[0, 9e5], [9e5, 0]]}}
    placement = {"source": "h", "work": "h/1", "sink": "h/1"}
    job = chain([work], 50, hosts=[host | numa], placement=placement)
    assert set(measure(job, "work", {"source": 50.0}, 100, seed=0).times_s) == {1e-4}


def test_time_by_the_engine_and_evaluations_of_windows_count() -> None:
    """The mean time has the service, and an evaluation for one record of 100: the scan of 100 records and the
    result."""
    window = {"policy": "count", "size_records": 100}
    job = chain([{"kind": "aggregate", "name": "mean", "window": window, "service_scv": 0}], 50)
    measured = measure(job, "mean", {"source": 50.0}, 10_050, seed=0)
    engine, spec = job.engine, job.query.operator("mean")
    expected_s = engine.service_s(job.query, spec) + engine.scan_s(job.query, spec) + engine.result_s(spec) / 100
    assert measured.times_s.mean() == pytest.approx(expected_s, rel=1e-3)
    assert measured.results_per_input == pytest.approx(0.01, rel=0.02)
    assert len(np.unique(measured.times_s.round(9))) == 2


def test_a_window_of_time_holds_what_the_given_rate_brings() -> None:
    aggregate = {"kind": "aggregate", "name": "sum", "window": {"policy": "time", "size_s": 2}}
    job = chain([aggregate], 50)
    measured = measure(job, "sum", {"source": 50.0}, 100, seed=0)
    assert len(measured.times_s) == pytest.approx(5 * 2 * 50, rel=0.02), "five windows"
    assert measured.results_per_input == pytest.approx(1 / 100, rel=1e-9)


def test_sessions_and_windows_of_event_time_come_at_the_given_rate() -> None:
    """Sessions and event-time windows are measured at the given rate: always busy, hardly any would end."""
    visits = {"kind": "session", "name": "visits", "keys": 500, "gap_s": 2, "service_time_s": 1e-4}
    measured = measure(chain([visits], 200), "visits", {"source": 200.0}, 10_000, seed=0)
    assert measured.results_per_input == pytest.approx(math.exp(-200 * 2 / 500), rel=0.03)
    windows = [{"length_s": 2, "every_s": 1}]
    sums = {"kind": "compute", "name": "sums", "keys": 20, "key_groups": 4, "windows": windows, "service_time_s": 1e-4}
    measured = measure(chain([sums], 200), "sums", {"source": 200.0}, 500, seed=0)
    assert measured.results_per_input == pytest.approx(20 / 200, rel=0.02)


def test_a_window_is_full_though_a_core_could_not_keep_up_with_its_input() -> None:
    match = {"kind": "join", "name": "match", "window": {"policy": "time", "size_s": 1}, "selectivity": 0.002}
    rates = {"a": 600.0, "b": 500.0}
    job = joined({**match, "service_time_s": 2e-3, "service_scv": 0}, rates)
    measured = measure(job, "match", rates, 1000, seed=0)
    assert measured.results_per_input == pytest.approx(600 * 500 * 0.002 / 1100, rel=0.05)
    assert measured.times_s.mean() > 2e-3


def test_more_than_the_records_show_is_refused_with_how_many_do() -> None:
    hour = {"kind": "aggregate", "name": "hour", "window": {"policy": "time", "size_s": 3600}}
    with pytest.raises(
        BadInput, match=r"'hour' .* on 1000 records: 180000 come in the 3600 s .* give --samples 9000 or"
    ):
        measure(chain([hour], 50), "hour", {"source": 50.0}, 1000, seed=0)


def test_an_operator_without_cost_is_refused() -> None:
    job = chain([{"kind": "map", "name": "free", "service_time_s": 0}], 50)
    with pytest.raises(BadInput, match=r"'free' has a profile with zero cost.*give it a service_time_s above 0"):
        measure(job, "free", {"source": 50.0}, 10, seed=0)


# utilisation by period -----------------------------------------------------------------------------------------------
# Utilisation of tasks and hosts by period where services are longer than periods, by hand.


def run(
    work: dict[str, Any], gap_s: float, cores: int, parallelism: int = 1, events: Sequence[AnyEvent] = (), **more: Any
) -> Run:
    """Run with a record every `gap_s`, in periods of a second."""
    arrivals = {"law": "constant", "rate_per_s": 1.0 / gap_s}
    host = HOST | {"cpu_percent": 100 * cores, "latency_ms": 0}
    what = chain([{"name": "work"} | work], arrivals, hosts=[host], placement={"work": ["h"] * parallelism}, **more)
    return simulated(what, *events, horizon_s=40.0, period_s=1.0, warmup_s=0.0)


def used(result: Run) -> np.ndarray:
    """Utilisation of the host in each period."""
    return np.array([row["cpuUtilisation"] for row in result.host_rows])


def overlaps(starts_s: np.ndarray, each_s: float, periods: int = 40) -> np.ndarray:
    """Part of each period that lies within any of the spans."""
    edges = np.arange(periods)[:, None]
    return np.clip(np.minimum(starts_s + each_s, edges + 1) - np.maximum(starts_s, edges), 0.0, None).sum(axis=1)


def slow(service_s: float) -> dict[str, Any]:
    return {"kind": "map", "service_time_s": service_s, "service_scv": 0}


CORES = pytest.mark.parametrize("cores", [1, 8], ids=["shared", "of its own"])


@CORES
def test_a_host_is_used_when_services_are_done_not_when_they_begin(cores: int) -> None:
    result = run(slow(3.25), gap_s=5.0, cores=cores)
    assert used(result) == pytest.approx(overlaps(np.arange(5.0, 40.0, 5.0), 3.25) / cores)


def test_tasks_that_share_a_host_use_all_of_it_and_no_more() -> None:
    """Three tasks that have work all the time use two cores fully, and no more."""
    result = run(slow(3.25), gap_s=0.25, cores=2, parallelism=3)
    assert used(result)[2:] == pytest.approx(1.0)
    assert used(result).max() <= 1.0 + 1e-9


@CORES
def test_a_host_is_used_when_windows_are_evaluated(cores: int) -> None:
    """A host is used while windows are evaluated: each 10 s, for 2.5 s."""
    window = {"kind": "aggregate", "window": {"policy": "time", "size_s": 10.0}}
    engine = STORM.model_copy(update={"result_us": 2.5e6}).model_dump(mode="json")
    result = run(window, gap_s=2.0, cores=cores, engine=engine)
    assert used(result) == pytest.approx(overlaps(np.array([10.0, 20.0, 30.0]), 2.5) / cores, abs=0.005)  # and records


def busy(result: Run) -> np.ndarray:
    """Busy share of the operator's subtasks in each period."""
    return np.array(column(result, "work", "busyTimeMsPerSecond")) / 1000.0


@CORES
def test_a_task_is_busy_in_the_periods_in_which_it_works(cores: int) -> None:
    result = run(slow(2.25), gap_s=5.0, cores=cores)
    assert busy(result) == pytest.approx(overlaps(np.arange(5.0, 40.0, 5.0), 2.25))


@CORES
def test_a_task_that_fails_was_busy_until_then(cores: int) -> None:
    """A task was busy until its failure, half a second after a service began; there is no other afterwards."""
    result = run(slow(2.25), gap_s=5.0, cores=cores, events=[Failure(host="h", at_s=5.5)])
    assert busy(result) == pytest.approx([0.0] * 5 + [0.5] + [0.0] * 34)
