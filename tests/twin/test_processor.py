"""Sharing of a processor: what is kept from one change to the next equals what brute force makes of the whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import simpy
from hypothesis import assume, example, given
from hypothesis import strategies as st

from twin.engine.compute.collisions import collisions, mean_rate
from twin.engine.compute.crowding import calm_rate, crowded_rate
from twin.engine.compute.flats import Flats, grained
from twin.engine.compute.processor import Processor
from twin.engine.compute.share import Share

CAPACITIES = st.sampled_from([0.3, 1.0, 1.5, 2.0, 5.0])
DEMANDS = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 1e-9]))


def filled(capacity: float, jobs: int, flats: list[float]) -> tuple[float, list[float]]:
    """(level, demands below it): the largest demands are treated as jobs as long as they exceed the level.

    Who asks for nothing is not there.
    """
    below, members = sorted(each for each in flats if each > 0.0), jobs
    while below and below[-1] > (capacity - math.fsum(below)) / members:
        below.pop()
        members += 1
    return (capacity - math.fsum(below)) / members, below


# water filling -------------------------------------------------------------------------------------------------------


@given(
    capacity=CAPACITIES,
    changes=st.lists(st.tuples(st.integers(0, 30), DEMANDS, st.integers(0, 4)), max_size=60),
)
def test_the_level_after_any_changes_is_that_of_a_fresh_start(capacity, changes):
    """A change: a slot, its new demand (gone if it had one), and how many jobs then ask for the level, if any."""
    flats, slots = Flats(), dict[int, float]()
    for slot, demand, jobs in changes:
        if slot in slots:
            flats.remove(slots.pop(slot))
        else:
            slots[slot] = grained(demand)
            flats.add(slots[slot])
        assert flats.total == math.fsum(slots.values())  # exactly: it cannot drift
        if jobs:
            level, below = filled(capacity, jobs, list(slots.values()))
            assert flats.level(capacity, jobs) == pytest.approx(level, rel=1e-12, abs=1e-15)
            tied = [each for each in slots.values() if each == pytest.approx(level, rel=1e-9, abs=1e-12)]
            assert tied or (flats.low, flats.demand) == (len(below), math.fsum(below))


def test_sums_of_hundreds_of_demands_stay_exact():
    flats, demands = Flats(), [grained(1.0 / (3.0 + each)) for each in range(500)]
    for each in demands:
        flats.add(each)
    for _ in range(100):
        for each in demands[::7]:
            flats.remove(each)
            flats.add(each)
    assert flats.total == math.fsum(demands)
    for each in demands:
        flats.remove(each)
    assert (flats.total, flats.low, flats.demand) == (0.0, 0, 0.0)


# the processor -------------------------------------------------------------------------------------------------------


@dataclass
class Fluid:
    """The same tasks as fluids, from scratch: at each moment every job runs at the level of the whole."""

    capacity: float
    now_s: float = 0.0
    tasks: dict[int, Share] = field(default_factory=dict)  # for their flat demands
    left: dict[int, float] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    ends: dict[int, list[float]] = field(default_factory=dict)

    def level(self) -> float:
        flats = [task.flat for key, task in self.tasks.items() if key not in self.left and key not in self.blocked]
        level, below = filled(self.capacity, len(self.left), flats)
        return min(1.0, level) * collisions(self.capacity, len(self.left), len(below), math.fsum(below))

    def run(self, until_s: float) -> None:
        while self.left:
            level = self.level()
            key = min(self.left, key=lambda each: self.left[each])
            end_s = min(until_s, self.now_s + self.left[key] / level)
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
    """A processor and its fluid, told the same."""

    processor: Processor
    fluid: Fluid
    ends: dict[int, list[float]] = field(default_factory=dict)

    def apply(self, what: str, key: int, amount: float) -> None:
        """Does what can be done to that task as it is; a new one comes where there is none."""
        processor, fluid = self.processor, self.fluid
        if key not in fluid.tasks:
            fluid.tasks[key] = processor.attach()
            return
        share = fluid.tasks[key]
        assert share.running == (key in fluid.left)
        if what == "start" and not share.running and not share.blocked:
            fluid.left[key] = amount
            processor.start(share, amount, lambda: self.ends.setdefault(key, []).append(processor.env.now))
        elif what == "kept up" and not share.running and not share.blocked:
            processor.kept_up(share, amount / 5.0, 1.0)
        elif what == "block" and not share.running:
            processor.block(share, not share.blocked)
            fluid.blocked ^= {key}
        elif what == "cancel":
            processor.cancel(share)
            fluid.left.pop(key, None)
        elif what == "detach" and len(fluid.tasks) > 1:
            processor.detach(share)
            fluid.left.pop(key, None)
            fluid.blocked.discard(key)
            del fluid.tasks[key]


OPERATIONS = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["start", "start", "start", "kept up", "kept up", "block", "cancel", "detach"]),
    st.integers(0, 8),
    st.floats(0.01, 4.0),
)


BEGUN_S = 1000.0
"""Since the beginning: what is said of tasks that kept up is never ahead of the cores, so that nobody stands still."""


@example(capacity=0.3, operations=[(0, "start", 0, 1.0), (0, "kept up", 1, 1.0)])
@given(capacity=CAPACITIES, operations=st.lists(OPERATIONS, max_size=60))
def test_jobs_end_when_fluids_that_are_filled_from_scratch_end(capacity, operations):
    env = simpy.Environment(BEGUN_S)
    pair = Pair(Processor(env, capacity), Fluid(capacity, BEGUN_S))
    for key in range(4):
        pair.apply("attach", key, 0.0)
    for steps, what, key, amount in operations:
        if steps:
            env.run(until=env.now + 0.37 * steps)
            pair.fluid.run(env.now)
        assume(all(work > 1e-8 for work in pair.fluid.left.values()))  # else which comes first is rounding's choice
        pair.apply(what, key, amount * math.pi / 3.0)
    env.run(until=env.now + 1000.0)
    pair.fluid.run(env.now)
    assume(not pair.processor.overdrawn_s)  # it stands still for what was worked beyond its cores
    assert not pair.fluid.left
    assert pair.ends.keys() == pair.fluid.ends.keys()
    for key, ends in pair.ends.items():
        assert ends == pytest.approx(pair.fluid.ends[key], abs=1e-6)


@given(capacity=CAPACITIES, demands=st.lists(DEMANDS, min_size=2, max_size=8), jobs=st.integers(0, 3))
def test_what_is_available_to_a_task_is_what_jobs_and_others_leave(capacity, demands, jobs):
    env = simpy.Environment()
    processor = Processor(env, capacity)
    shares = [processor.attach() for _ in range(len(demands) + jobs)]
    env.run(until=1.0)
    for share, demand in zip(shares, demands, strict=False):
        processor.kept_up(share, demand, 1.0)
    for share in shares[len(demands) :]:
        processor.start(share, 1e6, lambda: None)
    env.run(until=200.0)  # where they did more than there are cores for, that has been made up for
    for share in shares:
        processor.block(share, True)
        processor.block(share, False)  # begins a fresh average
    env.run(until=201.0)
    own, *others = [share.usual for share in shares[: len(demands)]]
    like = sum(others) ** 2 / sum(other**2 for other in others) if sum(others) > 1e-9 else 0.0
    rate = crowded_rate(capacity, jobs, own, like, sum(others)) if jobs else calm_rate(capacity, own, like, sum(others))
    floor = min(1.0, capacity / len(shares))
    assert processor.available(shares[0]) == pytest.approx(min(1.0, max(rate, floor)), abs=0.02)
    assert processor.available(shares[0]) <= 1.0


@given(burst=st.integers(1, 12), gap_s=st.floats(0.05, 2.0), demand=st.floats(0.01, 0.24))
def test_a_job_gets_all_that_a_task_leaves_whose_segments_come_in_bursts(burst, gap_s, demand):
    env = simpy.Environment()
    processor = Processor(env, 0.5)
    ends: list[float] = []
    keeps_up, works = processor.attach(), processor.attach()
    processor.start(works, 1e6, lambda: None)
    for _ in range(30):
        env.run(until=env.now + gap_s)
        for _ in range(burst):
            processor.kept_up(keeps_up, demand * gap_s / burst, 1.0)
    processor.cancel(works)
    begun_s = env.now
    processor.start(works, 1.0, lambda: ends.append(env.now))
    env.run(until=begun_s + 100.0)
    assert ends == [pytest.approx(begun_s + 1.0 / (0.5 - demand))]


def test_many_jobs_that_end_at_one_moment_start_their_successors_at_that_moment():
    env = simpy.Environment()
    processor = Processor(env, 2.0)
    shares = [processor.attach() for _ in range(10)]
    ends: list[float] = []

    def again(share: Share) -> Callable[[], Any]:
        return lambda: processor.start(share, 1.0, lambda: ends.append(env.now))

    for share in shares:
        processor.start(share, 1.0, again(share))
    env.run()
    assert ends == pytest.approx([10.0] * 10)


# collisions ----------------------------------------------------------------------------------------------------------


@given(capacity=st.floats(1.0, 20.0), served=st.integers(1, 40), others=st.integers(0, 300), busy=st.floats(0.0, 1.0))
def test_the_mean_rate_is_that_of_the_binomial_law(capacity, served, others, busy):
    terms = [
        math.comb(others, k) * busy**k * (1.0 - busy) ** (others - k) * min(1.0, capacity / (served + k))
        for k in range(others + 1)
    ]
    assert mean_rate(capacity, served, others, busy) == pytest.approx(math.fsum(terms), rel=1e-9)


@given(
    capacity=st.sampled_from([1.5, 2.0, 7.3, 16.0]),
    jobs=st.integers(1, 60),
    flats=st.integers(1, 250),
    step=st.integers(1, 32),
)
def test_collisions_lower_the_level_to_that_of_busy_probabilities(capacity, jobs, flats, step):
    """The factor equals the one with b from bisection: b times the rate of a flat task is its demand."""
    assume(jobs + flats > capacity)
    demand = min(flats, capacity) * step / 32
    low, high = demand / flats, 1.0
    for _ in range(60):
        b = (low + high) / 2.0
        low, high = (b, high) if b * mean_rate(capacity, jobs + 1, flats - 1, b) < demand / flats else (low, b)
    fluid = min(1.0, max((capacity - demand) / jobs, capacity / (jobs + flats)))
    expected = min(1.0, mean_rate(capacity, jobs, flats, low) / fluid)
    assert collisions(capacity, jobs, flats, demand) == pytest.approx(expected, rel=1e-8)
