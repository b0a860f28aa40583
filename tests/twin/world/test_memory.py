"""The memory of a run: Python and compiled code read and write the same structures, calendar and random numbers."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import chain
from twin.checkpoints import Checkpoints
from twin.machine import layout as k
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.world.memory import Draws, RunMemory, StructView

TIMES = st.one_of(st.just(math.inf), st.floats(0.0, 10.0))


@given(st.lists(st.tuples(st.integers(0, 199), TIMES), min_size=1, max_size=60))
def test_the_calendar_knows_what_is_due_first(events: list[tuple[int, float]]) -> None:
    """The first of all places is the one with the least time and number, however often places are set, or made."""
    memory = RunMemory(0)
    slots, due = memory.slots, dict[int, tuple[float, int]]()
    for order, (slot, at_s) in enumerate(events, 1):
        while slots.used <= slot:
            slots.add(k.TASKS, 0)
        slots.set(slot, at_s, order)
        due[slot] = at_s, order
        first = int(slots.tree[1])
        least = min(due.values())
        assert (slots.times[first], slots.orders[first]) == least or least[0] == slots.times[first] == math.inf


class Named(StructView, layout=k.TASK):
    """View that has an attribute of its own by the name of a field."""

    processor: object


def test_a_field_is_an_attribute_unless_the_class_has_one_of_that_name() -> None:
    memory = RunMemory(0)
    here = memory.add(k.TASK, records_in=3, processor=7, service_s=0.5)
    view, other = Named(here), Named(here)
    view.processor = "its own"
    view.service_s = 0.25
    assert (other.records_in, other.raw_processor, other.service_s) == (3, 7, 0.25)
    assert other.processor is None


@given(st.integers(0, 7), st.integers(0, 8))
def test_arrays_that_grow_keep_their_content_in_order(first: int, count: int) -> None:
    memory = RunMemory(0)
    view = Named(memory.add(k.TASK, timers_room=8, timers_first=first, timers_count=count))
    view.timers = memory.array(k.TIMER, view.here, "timers", 8)
    rows = memory.blocks[view.here, "timers"]
    for number in range(count):
        rows[(first + number) % 8] = number, number
    memory.grow(view, "timers", "timers_room", "timers_count", "timers_first")
    assert (view.timers_room, view.timers_first, view.timers_count) == (16, 0, count)
    assert memory.blocks[view.here, "timers"]["window"][:count].tolist() == list(range(count))
    assert view.timers == memory.blocks[view.here, "timers"].ctypes.data


def test_random_numbers_are_those_of_the_generator() -> None:
    """Blocks are drawn as the generator gives them, and taken from their ends, by Python as by compiled code."""
    draws, again = Draws(RunMemory(0), np.random.default_rng(5), 2.0), np.random.default_rng(5)
    block = again.random(1024)
    assert [draws.uniform() for _ in range(1024)] == block[::-1].tolist()
    services = again.standard_gamma(0.5, 1024) * 2.0
    assert [draws.service() for _ in range(3)] == services[::-1][:3].tolist()


def test_barriers_that_cost_nothing_change_nothing() -> None:
    """On one host, where each subtask has one input, barriers wait for nothing: all rows are those without them."""
    middle = [
        {"kind": "filter", "name": "some", "selectivity": 0.7, "service_time_s": 1e-3},
        {
            "kind": "aggregate",
            "name": "sums",
            "window": {"policy": "time", "size_s": 0.5},
            "group_by": "int",
            "groups": 5,
            "service_time_s": 1e-3,
        },
    ]
    plain = Scenario(**dict(chain(middle, 500.0)), run=RunSettings(horizon_s=5.0, period_s=1.0))
    kept = plain.model_copy(update={"checkpoints": Checkpoints(interval_s=0.3, sync_ms=0.0)})
    with_them, without = simulate(kept), simulate(plain)
    assert len(with_them.event_rows) > 10
    assert with_them.operator_rows == without.operator_rows and with_them.host_rows == without.host_rows
