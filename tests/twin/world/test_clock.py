"""The clock does what SimPy's environment does, and knows conditions."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import simpy

from twin.world.clock import Clock, Watch
from twin.world.memory import RunMemory

Seen = list[tuple[str, float]]


def clock() -> tuple[RunMemory, Clock]:
    """Clock, and the memory that its time lies in."""
    memory = RunMemory(0)
    return memory, Clock(memory.state, Watch())


def busy(env: simpy.Environment) -> Seen:
    """Log of what happens, and when: two processes, of which one ends the other's wait."""
    seen: Seen = []
    bell = env.event()

    def ticks() -> Generator[simpy.Event, object, None]:
        while True:
            yield env.timeout(0.3)
            seen.append(("tick", env.now))
            if env.now > 1.0 and not bell.triggered:
                bell.succeed()

    def waits() -> Generator[simpy.Event, object, None]:
        yield bell
        seen.append(("bell", env.now))

    env.process(waits())
    env.process(ticks())
    return seen


def test_all_happens_in_simpys_order_at_simpys_times() -> None:
    (memory, ours), theirs = clock(), simpy.Environment()
    seen, expected = busy(ours), busy(theirs)
    while theirs.peek() < 4.0:
        ours.step()
        theirs.step()
        assert (ours.now, seen) == (theirs.now, expected)
    assert memory.state.now == theirs.now


def test_what_comes_first_comes_before_all_else_of_its_time() -> None:
    _, env = clock()
    seen = list[str]()
    env.timeout(1.0).callbacks.append(lambda _: seen.append("second"))
    env.first(1.0).callbacks.append(lambda _: seen.append("first"))
    env.step()
    env.step()
    assert seen == ["first", "second"]


def test_a_condition_is_told_after_the_event_that_makes_it_hold() -> None:
    _, env = clock()
    seen = list[float]()

    def waits() -> Generator[simpy.Event, object, None]:
        yield env.until(lambda: env.now >= 2.0)
        seen.append(env.now)

    env.process(waits())
    for at_s in (1.0, 2.0, 3.0):
        env.timeout(at_s)
    while env.peek() < 2.5:
        env.step()
    assert seen == [2.0]


def test_what_a_process_raises_ends_the_run() -> None:
    _, env = clock()

    def breaks() -> Generator[simpy.Event, object, None]:
        yield env.timeout(1.0)
        raise LookupError("gone")

    env.process(breaks())
    with pytest.raises(LookupError, match="gone"):
        env.run()
    assert env.now == 1.0
