"""The calendar does what SimPy's environment does."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import simpy

from twin.engine.calendar import Alarm, Calendar, once

Seen = list[tuple[str, float]]


def busy(env: simpy.Environment) -> Seen:
    """Log of what happens, and when: a process, an alarm that is set again, and two events of one moment."""
    seen: Seen = []

    def ticks() -> Generator[simpy.Event, object, None]:
        while True:
            yield env.timeout(0.3)
            seen.append(("tick", env.now))

    def ring(_: object) -> None:
        seen.append(("alarm", env.now))
        once(env, env.now, lambda _: seen.append(("once", env.now)), None)
        alarm.set(env.now + 0.1)

    env.process(ticks())
    alarm = Alarm(env, ring)
    alarm.set(0.0)
    return seen


def test_all_happens_in_simpys_order_at_simpys_times():
    ours, theirs = Calendar(), simpy.Environment()
    seen, expected = busy(ours), busy(theirs)
    for until_s in (0.5, 1.5, 7.0):  # an end is before what happens at that time
        ours.run(until=until_s)
        theirs.run(until=until_s)
        assert ours.now == theirs.now == until_s
        assert seen == expected


def test_step_by_step_and_until_an_event():
    ours, theirs = Calendar(), simpy.Environment()
    seen, expected = busy(ours), busy(theirs)
    while ours.peek() < 2.0:
        ours.step()
        theirs.step()
        assert (ours.now, seen) == (theirs.now, expected)
    assert ours.run(until=ours.timeout(0.5, "done")) == theirs.run(until=theirs.timeout(0.5, "done")) == "done"
    assert (ours.now, seen) == (theirs.now, expected)


def test_what_a_process_raises_ends_the_run():
    env = Calendar()

    def breaks() -> Generator[simpy.Event, object, None]:
        yield env.timeout(1.0)
        raise LookupError("gone")

    env.process(breaks())
    with pytest.raises(LookupError, match="gone"):
        env.run(until=5.0)
    assert env.now == 1.0


def test_time_passes_without_events_and_never_backwards():
    env = Calendar()
    env.run(until=2.0)
    assert env.now == 2.0
    with pytest.raises(ValueError, match="greater"):
        env.run(until=1.0)
