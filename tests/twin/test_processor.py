"""Processor sharing: what is kept from one change to the next equals brute force over the whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import simpy
from hypothesis import assume, given
from hypothesis import strategies as st

from twin.engine.processor import Processor

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
    """Processor and its fluid, with the same changes."""

    processor: Processor
    fluid: Fluid
    tasks: dict[int, Any] = field(default_factory=dict)
    ends: dict[int, list[float]] = field(default_factory=dict)

    def apply(self, what: str, key: int, amount: float) -> None:
        """Applies a change that is possible for the task as it is; attaches a new task where there is none."""
        processor, fluid = self.processor, self.fluid
        if key not in self.tasks:
            self.tasks[key] = object()
            processor.attach(self.tasks[key])
            return
        task = self.tasks[key]
        if what == "start" and key not in fluid.left:
            fluid.left[key] = amount
            processor.start(task, amount, lambda: self.ends.setdefault(key, []).append(processor.env.now))
        elif what == "refresh":
            processor.refresh()
        elif what == "cancel":
            processor.cancel(task)
            fluid.left.pop(key, None)
        elif what == "detach" and len(self.tasks) > 1:
            processor.detach(task)
            fluid.left.pop(key, None)
            del self.tasks[key]


OPERATIONS = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["start", "start", "start", "refresh", "cancel", "detach"]),
    st.integers(0, 8),
    st.floats(0.01, 4.0),
)


@given(capacity=CAPACITIES, operations=st.lists(OPERATIONS, max_size=60))
def test_jobs_end_when_fluids_that_are_filled_from_scratch_end(capacity, operations):
    env = simpy.Environment()
    pair = Pair(Processor(env, capacity), Fluid(capacity))
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
    assert not pair.fluid.left and not pair.processor.jobs
    assert pair.ends.keys() == pair.fluid.ends.keys()
    for key, ends in pair.ends.items():
        assert ends == pytest.approx(pair.fluid.ends[key], abs=1e-6)


def test_many_jobs_that_end_at_one_moment_start_their_successors_at_that_moment():
    env = simpy.Environment()
    processor = Processor(env, 2.0)
    tasks: list[Any] = [object() for _ in range(10)]
    ends: list[float] = []

    def again(task: Any) -> Callable[[], Any]:
        return lambda: processor.start(task, 1.0, lambda: ends.append(env.now))

    for task in tasks:
        processor.attach(task)
        processor.start(task, 1.0, again(task))
    env.run()
    assert ends == pytest.approx([10.0] * 10)


def test_nothing_proceeds_in_a_pause():
    env = simpy.Environment()
    processor, ends = Processor(env, 1.0), list[float]()
    task: Any = object()
    processor.attach(task)
    processor.start(task, 1.0, lambda: ends.append(env.now))
    env.run(until=0.5)
    processor.pause(2.0)
    env.run()
    assert ends == [pytest.approx(2.5)]
