"""Processor sharing: what is kept from one change to the next equals brute force over the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.twin.worlds import HOST, deployment, sink, source, world_of
from twin.machine import layout as k

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
