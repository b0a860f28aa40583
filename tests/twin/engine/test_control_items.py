"""Control items: in order with tuples, to all replicas, aligned where inputs meet."""

from __future__ import annotations

from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.engine.tiny import Listener, aggregate, connect, deliver_at, inbox_of, map_task, record, window
from twin.engine.partitioners.partitioner import Partitioner
from twin.engine.record import Alignment, Mark, Record
from twin.engine.station.pool import make_pool
from twin.engine.station.task import Task
from twin.engine.streams.channel import Path, Paths, Port
from twin.engine.streams.network import Nic
from twin.engine.streams.ports import Batching, GatheringPort
from twin.engine.streams.route import Leg


class Order(Listener):
    """Notes tuples by their number, in `key`, and marks by their value."""

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self.order: list[Any] = []

    def deliver(self, record: Record) -> None:
        super().deliver(record)
        self.order.append(("mark", record.value) if isinstance(record, Mark) else record.key)


def numbered(task: Task, numbers: range) -> None:
    """Sends records that bear these numbers, now."""
    for number in numbers:
        item = record(task.env.now)
        item.key = number
        task.output.send(item)


def hearing(task: Task, inputs: list[tuple[int, str]]) -> list[tuple[float, str, float]]:
    """Lets a task align; when it got how far."""
    heard: list[tuple[float, str, float]] = []
    task.alignment = Alignment(inputs, lambda kind, value: heard.append((round(task.env.now, 9), kind, value)))
    return heard


def test_a_mark_goes_to_all_replicas_in_order() -> None:
    env = simpy.Environment()
    task, outs = map_task(env), [Order(env) for _ in range(3)]
    connect(task, [inbox_of(out) for out in outs])
    numbered(task, range(3))
    task.output.mark("watermark", 7.0)
    numbered(task, range(3, 6))
    assert [out.order for out in outs] == [[0, ("mark", 7.0), 3], [1, ("mark", 7.0), 4], [2, ("mark", 7.0), 5]]
    assert task.output.tuples_out == 6


def test_a_mark_waits_its_turn_in_the_queue_and_goes_on() -> None:
    """Two tuples before it, one behind: it is heeded when the second's service ends, and leaves before the third."""
    env = simpy.Environment()
    first, second, out = map_task(env, 0.0, name="first"), map_task(env, 2.0, name="second"), Order(env)
    heard = hearing(second, [(0, "first")])
    connect(first, [inbox_of(second)])
    connect(second, [inbox_of(out)])
    numbered(first, range(2))
    first.output.mark("watermark", 5.0)
    numbered(first, range(2, 3))
    env.run()
    assert heard == [(4.0, "watermark", 5.0)]
    assert out.order == [0, 1, ("mark", 5.0), 2]
    assert [at for at, _ in out.heard] == [2.0, 4.0, 4.0, 6.0]


def test_a_mark_waits_behind_what_a_full_channel_holds_back() -> None:
    env = simpy.Environment()
    first, second, out = map_task(env, 0.0, name="first"), map_task(env, 1.0, name="second"), Order(env)
    connect(first, [inbox_of(second, capacity=1)])
    connect(second, [inbox_of(out)])
    heard = hearing(second, [(0, "first")])
    numbered(first, range(4))
    assert first.output.blocked
    first.output.mark("watermark", 1.0)
    first.output.mark("watermark", 2.0)
    env.run()
    assert heard == [(4.0, "watermark", 1.0), (4.0, "watermark", 2.0)]
    assert out.order == [0, 1, 2, 3, ("mark", 1.0), ("mark", 2.0)] and not first.output.blocked


@pytest.mark.parametrize("hops", [1, 3])
@given(
    records=st.lists(st.booleans(), min_size=1, max_size=30),
    gap_s=st.sampled_from([0.0, 0.01, 0.2]),
)
def test_nothing_overtakes_on_the_network(hops: int, records: list[bool], gap_s: float) -> None:
    """Records and marks. 1,000 bytes a second, 20 a record."""
    env = simpy.Environment()
    task, out = map_task(env, 0.0), Order(env)
    inbox, way = inbox_of(out, 10**6), None
    for _ in range(hops):
        way = Leg(Nic(env, 8e-3), 20.0, 0.3, way, inbox)
    nic: Any = way
    if hops == 1:
        nic = Nic(env, 8e-3)
    task.ports.append(
        Port(task, Paths(lambda _: Path(inbox, nic, 0.3, 20.0, 0.0, 0.0), [0.0], lambda _: inbox), Partitioner([1.0]))
    )

    def run() -> Any:
        for number, is_record in enumerate(records):
            if is_record:
                numbered(task, range(number, number + 1))
            else:
                task.output.mark("watermark", float(number))
            yield env.timeout(gap_s)

    env.process(run())
    env.run()
    assert out.order == [number if each else ("mark", number) for number, each in enumerate(records)]


def test_a_batch_leaves_before_a_mark() -> None:
    env = simpy.Environment()
    task, out = map_task(env), Order(env)
    plain = connect(task, [inbox_of(out)])
    task.ports[0] = GatheringPort(task, plain.paths, plain.partitioner, Batching(100, 5.0, 0.0))
    numbered(task, range(3))
    assert not out.order
    task.output.mark("watermark", 1.0)
    assert out.order == [0, 1, 2, ("mark", 1.0)]


def test_a_shared_queue_tells_all_its_replicas_when_the_marks_turn_has_come() -> None:
    env = simpy.Environment()
    feeder, out = map_task(env, 0.0, name="feeder"), Order(env)
    members = [map_task(env, service_s, name=f"m{service_s:g}") for service_s in (1.0, 10.0)]
    heard = [hearing(member, [(0, "feeder")]) for member in members]
    for member in members:
        connect(member, [inbox_of(out)])
    connect(feeder, [inbox_of(make_pool(members))])
    numbered(feeder, range(4))
    feeder.output.mark("watermark", 1.0)
    numbered(feeder, range(4, 5))
    env.run()
    # the fast one serves 0, 2, 3 and then 4; the slow one is at 1 until 10
    assert heard == [[(3.0, "watermark", 1.0)], [(10.0, "watermark", 1.0)]]
    assert out.order == [0, 2, 3, ("mark", 1.0), 4, 1, ("mark", 1.0)]


def test_a_station_is_as_far_as_the_least_of_its_inputs() -> None:
    """Two producers of one stream and one of another; what is held at one input does not hold tuples up."""
    env = simpy.Environment()
    station, out = map_task(env, 0.0, name="station"), Order(env)
    connect(station, [inbox_of(out)])
    left, right = inbox_of(station), inbox_of(station, side=1)
    feeders = [map_task(env, 0.0, name=name) for name in ("a", "b", "c")]
    for feeder, inbox in zip(feeders, (left, left, right), strict=True):
        connect(feeder, [inbox])
    heard = hearing(station, [(0, "a"), (0, "b"), (1, "c")])
    a, b, c = feeders
    a.output.mark("watermark", 5.0)
    b.output.mark("watermark", 3.0)
    numbered(a, range(1))
    assert out.order == [0]
    c.output.mark("watermark", 4.0)
    b.output.mark("watermark", 9.0)
    a.output.mark("watermark", 2.0)  # values never fall
    c.output.mark("barrier", 1.0)
    assert [value for _, _, value in heard] == [3.0, 4.0]
    assert out.order == [0, ("mark", 3.0), ("mark", 4.0)]
    assert station.alignment is not None and station.alignment.least("barrier") == float("-inf")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), max_size=40))
def test_alignment_is_the_least_of_the_greatest(marks: list[tuple[int, int]]) -> None:
    inputs = [(0, "a"), (0, "b"), (1, "a")]
    alignment = Alignment(inputs, lambda *_: None)
    best = dict.fromkeys(inputs, float("-inf"))
    for index, value in marks:
        side, origin = inputs[index]
        before = min(best.values())
        best[side, origin] = max(best[side, origin], value)
        assert alignment.take(side, Mark("watermark", value, origin, 0.0)) == (min(best.values()) > before)
        assert alignment.least("watermark") == min(best.values())


def test_a_window_heeds_marks_between_its_records() -> None:
    env = simpy.Environment()
    task, out = aggregate(env, window("time", 1.0, 1.0), groups=1), Order(env)
    connect(task, [inbox_of(out)])
    feeder = map_task(env, 0.0, name="feeder")
    connect(feeder, [inbox_of(task)])
    heard = hearing(task, [(0, "feeder")])
    deliver_at(env, feeder, [record(0.2), record(0.4)])
    env.run(until=0.5)
    feeder.output.mark("watermark", 0.4)
    env.run(until=2.5)
    assert heard == [(0.5, "watermark", 0.4)]
    assert task.logic.fires == 2 and task.tuples_in == 2 and ("mark", 0.4) in out.order


def test_a_snapshot_knows_how_far_the_inputs_were_and_what_waits() -> None:
    env = simpy.Environment()
    task = map_task(env, 5.0, name="task")
    connect(task, [inbox_of(Listener(env))])
    inbox = inbox_of(task)
    hearing(task, [(0, "x")])
    assert task.alignment is not None
    task.alignment.take(0, Mark("watermark", 2.0, "x", 0.0))
    task.deliver(record(0.0, inbox))
    mark = Mark("watermark", 3.0, "x", 0.0)
    mark.inbox = inbox
    task.deliver(mark)
    snapshot = task.snapshot()
    assert [type(each) for each in snapshot.queue] == [Record, Mark] and snapshot.queued == 1
    env.run()
    assert task.alignment.least("watermark") == 3.0
    task.restore(snapshot, 0.0, 5.0)
    assert task.alignment.least("watermark") == 2.0
