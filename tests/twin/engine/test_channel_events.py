"""A channel, a sender and their control of each other, event by event."""

from __future__ import annotations

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.engine.tiny import Listener, burst, connect, deliver_at, inbox_of, map_task
from twin.engine.streams.shedding import SheddingPort


def test_services_follow_each_other() -> None:
    env = simpy.Environment()
    task, out = map_task(env, service_s=1.0), Listener(env)
    connect(task, [inbox_of(out)])
    deliver_at(env, task, [burst(0.0), burst(0.5), burst(5.0)])
    env.run()
    assert out.heard == [(1.0, 1), (2.0, 1), (6.0, 1)]
    assert (task.tuples_in, task.tuples_out, task.busy_s) == (3, 3, 3.0)


def test_a_full_channel_holds_its_producer_back() -> None:
    """Room for two: the third waits in the producer's port until the consumer takes one up, at 10 s, then at 20 s."""
    env = simpy.Environment()
    first, second, out = map_task(env, 1.0, name="first"), map_task(env, 10.0, name="second"), Listener(env)
    inbox = inbox_of(second, capacity=2)
    connect(first, [inbox])
    connect(second, [inbox_of(out)])
    deliver_at(env, first, [burst(0.0), burst(0.0), burst(0.0), burst(0.0), burst(0.0)])
    seen: list[tuple[float, int, int]] = []

    def look() -> object:
        yield env.timeout(0.5)
        while True:
            seen.append((env.now, inbox.credits, first.blocked))
            yield env.timeout(1.0)

    env.process(look())  # type: ignore[arg-type]
    env.run(until=25.0)
    assert out.heard == [(11.0, 1), (21.0, 1)]
    # one is taken up at 1, two wait from 2 and 3, one is held back from 4 until the next is taken up at 11
    assert [each for each in seen if each[0] in (1.5, 2.5, 3.5, 4.5, 10.5, 11.5, 12.5, 20.5, 21.5)] == [
        (1.5, 2, 0),
        (2.5, 1, 0),
        (3.5, 0, 0),
        (4.5, 0, 1),
        (10.5, 0, 1),
        (11.5, 0, 0),
        (12.5, 0, 1),
        (20.5, 0, 1),
        (21.5, 0, 0),
    ]
    assert first.blocked_s == (11.0 - 4.0) + (21.0 - 12.0)


def test_credits_come_back_half_at_the_start_and_half_at_the_end() -> None:
    env = simpy.Environment()
    task = map_task(env, service_s=0.1, exact=False)
    connect(task, [inbox_of(Listener(env))])
    inbox = inbox_of(task, capacity=10)
    task.deliver(burst(0.0, 5, inbox))
    assert inbox.credits == 8  # 3 of 5
    env.run()
    assert (env.now, inbox.credits) == (0.5, 10)


@given(room=st.integers(0, 99), made_s=st.floats(0.1, 10.0), waits_s=st.floats(0.0, 10.0))
def test_what_is_held_back_leaves_as_late_as_its_tuples(room: int, made_s: float, waits_s: float) -> None:
    """So many of 100 tuples leave evenly while all of them are made, the others evenly until there is room for all."""
    env = simpy.Environment()
    task, out = map_task(env, exact=False), Listener(env)
    inbox = inbox_of(out, capacity=200)
    port = connect(task, [inbox])
    inbox.credits = room
    env.run(until=made_s)
    port.send(burst(made_s, 100, since_s=0.0))
    env.run(until=made_s + waits_s + 1e-9)
    inbox.credits = 100
    inbox.wake()
    (left,) = out.segments
    mean_s = (room * made_s / 2 + (100 - room) * (made_s + env.now) / 2) / 100
    assert left.b_s == env.now
    assert left.a_s == pytest.approx(max(0.0, 2 * mean_s - env.now))


def test_streams_that_are_held_back_evenly_have_no_gaps() -> None:
    """Room for a tuple each 0.1 s; each segment is made in 2 s as soon as the one before has left, after 10."""
    env = simpy.Environment()
    task, out = map_task(env, exact=False), Listener(env)
    inbox = inbox_of(out, capacity=1000)
    port = connect(task, [inbox])
    inbox.credits = 0
    for begun_s in (0.0, 10.0, 20.0):
        env.run(until=begun_s + 2.0)
        inbox.credits += 20
        port.send(burst(env.now, 100, since_s=begun_s))
        env.run(until=begun_s + 10.0)
        inbox.credits += 80
        inbox.wake()
    assert [(each.a_s, each.b_s) for each in out.segments] == [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)]


def test_a_shedding_port_loses_what_finds_no_room() -> None:
    env = simpy.Environment()
    first, second = map_task(env, 0.0), map_task(env, 10.0)
    connect(second, [inbox_of(Listener(env))])
    inbox = inbox_of(second, capacity=2)
    plain = connect(first, [inbox])
    first.ports[0] = port = SheddingPort(first, plain.paths, plain.deal, 1000)
    for _ in range(5):
        first.deliver(burst(0.0))
    assert (port.dropped, inbox.sent, first.blocked) == (2, 3, 0)


def test_a_task_sends_a_copy_on_every_stream() -> None:
    env = simpy.Environment()
    task, left, right = map_task(env, 1.0), Listener(env), Listener(env)
    connect(task, [inbox_of(left)])
    connect(task, [inbox_of(right)])
    deliver_at(env, task, [burst(0.0)])
    env.run()
    assert left.heard == right.heard == [(1.0, 1)]
    assert left.segments[0] is not right.segments[0] and task.tuples_out == 1


def test_tuples_are_dealt_in_turn() -> None:
    env = simpy.Environment()
    task, outs = map_task(env, 1.0), [Listener(env) for _ in range(3)]
    connect(task, [inbox_of(out) for out in outs])
    deliver_at(env, task, [burst(0.0) for _ in range(6)])
    env.run()
    assert [[at for at, _ in out.heard] for out in outs] == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
