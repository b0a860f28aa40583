"""A channel, a sender and their control of each other, event by event."""

from __future__ import annotations

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.engine.tiny import Listener, connect, deliver_at, inbox_of, map_task, record
from twin.engine.station.barriers import occupy
from twin.engine.streams.ports import SheddingPort


def test_services_follow_each_other() -> None:
    env = simpy.Environment()
    task, out = map_task(env, service_s=1.0), Listener(env)
    connect(task, [inbox_of(out)])
    deliver_at(env, task, [record(0.0), record(0.5), record(5.0)])
    env.run()
    assert out.heard == [(1.0, 1), (2.0, 1), (6.0, 1)]
    assert (task.tuples_in, task.output.tuples_out, task.busy_s) == (3, 3, 3.0)


@pytest.mark.parametrize("other_work", [False, True])
def test_what_is_under_way_ends_later_by_a_pause(other_work: bool) -> None:
    """Of two seconds, amid a second of work: the next record waits for both."""
    env = simpy.Environment()
    task, out = map_task(env, service_s=1.0), Listener(env)
    connect(task, [inbox_of(out)])
    deliver_at(env, task, [record(0.0), *([] if other_work else [record(2.0)]), record(2.2)])
    env.run(until=2.1)
    if other_work:
        occupy(task, 0.9)
    env.run(until=2.5)
    task.pause(4.5)
    env.run()
    assert out.heard == [(1.0, 1), *([] if other_work else [(5.0, 1)]), (6.0, 1)]
    assert task.busy_s == pytest.approx(5.0 - 0.1 * other_work)


def test_a_full_channel_holds_its_producer_back() -> None:
    """Room for two: the third waits in the producer's port until the consumer takes one up, at 10 s, then at 20 s."""
    env = simpy.Environment()
    first, second, out = map_task(env, 1.0, name="first"), map_task(env, 10.0, name="second"), Listener(env)
    inbox = inbox_of(second, capacity=2)
    connect(first, [inbox])
    connect(second, [inbox_of(out)])
    deliver_at(env, first, [record(0.0), record(0.0), record(0.0), record(0.0), record(0.0)])
    seen: list[tuple[float, int, int]] = []

    def look() -> object:
        yield env.timeout(0.5)
        while True:
            seen.append((env.now, inbox.credits, first.output.blocked))
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
    assert first.output.blocked_s == (11.0 - 4.0) + (21.0 - 12.0)


def test_a_credit_comes_back_as_its_service_starts() -> None:
    env = simpy.Environment()
    task = map_task(env, service_s=0.1)
    connect(task, [inbox_of(Listener(env))])
    inbox = inbox_of(task, capacity=3)
    for _ in range(3):
        task.deliver(record(0.0, inbox))
    seen = [inbox.credits]
    for at_s in (0.05, 0.15, 0.25):
        env.run(until=at_s)
        seen.append(inbox.credits)
    assert seen == [1, 1, 2, 3]


@given(waits_s=st.floats(0.0, 10.0))
def test_what_is_held_back_leaves_when_there_is_room(waits_s: float) -> None:
    env = simpy.Environment()
    task, out = map_task(env), Listener(env)
    inbox = inbox_of(out, capacity=1)
    port = connect(task, [inbox])
    inbox.credits = 0
    port.send(record(0.0))
    env.run(until=waits_s + 1e-9)
    inbox.credits = 1
    inbox.wake()
    (left,) = out.records
    assert (left.at_s, left.born_s, task.output.blocked) == (env.now, 0.0, 0)


def test_a_shedding_port_loses_what_finds_no_room() -> None:
    env = simpy.Environment()
    first, second = map_task(env, 0.0), map_task(env, 10.0)
    connect(second, [inbox_of(Listener(env))])
    inbox = inbox_of(second, capacity=2)
    plain = connect(first, [inbox])
    first.ports[0] = port = SheddingPort(first, plain.paths, plain.partitioner)
    for _ in range(5):
        first.deliver(record(0.0))
    assert (port.dropped, inbox.sent, first.output.blocked) == (2, 3, 0)


def test_a_task_sends_a_copy_on_every_stream() -> None:
    env = simpy.Environment()
    task, left, right = map_task(env, 1.0), Listener(env), Listener(env)
    connect(task, [inbox_of(left)])
    connect(task, [inbox_of(right)])
    deliver_at(env, task, [record(0.0)])
    env.run()
    assert left.heard == right.heard == [(1.0, 1)]
    assert left.records[0] is not right.records[0] and task.output.tuples_out == 1


def test_tuples_are_dealt_in_turn() -> None:
    env = simpy.Environment()
    task, outs = map_task(env, 1.0), [Listener(env) for _ in range(3)]
    connect(task, [inbox_of(out) for out in outs])
    deliver_at(env, task, [record(0.0) for _ in range(6)])
    env.run()
    assert [[at for at, _ in out.heard] for out in outs] == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
