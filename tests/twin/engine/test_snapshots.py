"""A task that goes back to a snapshot does again what it did: whatever it remembers is in there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import simpy

from tests.twin.engine.tiny import (
    Listener,
    aggregate,
    connect,
    deliver_at,
    inbox_of,
    join,
    map_task,
    record,
    setup,
    window,
)
from twin.engine.draws import Draws
from twin.engine.logics.source import ReplayableSource
from twin.engine.station.task import Task
from twin.engine.windows.content import Content


def contents(task: Task) -> tuple[Content, ...]:
    """Of a window."""
    return task.logic.contents  # type: ignore[attr-defined,no-any-return]


COUNT, TIME = window("count", 60, 10), window("time", 2.0, 0.5)


def trial(make: Any, over: Any, twice: bool) -> list[tuple[float, ...]]:
    """What comes out after 10 s: straight on, or from a snapshot that was taken then, after other input came."""
    env = simpy.Environment()
    task, out = make(env, over), Listener(env)
    inboxes = [inbox_of(task, 10**6, side) for side in range(len(contents(task)))]
    connect(task, [inbox_of(out, 10**6)])

    def feed(start_s: float, end_s: float) -> None:
        for inbox in inboxes:
            times = np.arange(start_s, end_s, 0.01) + 0.003 * inbox.side
            deliver_at(env, task, [record(float(at_s), inbox) for at_s in times])

    feed(0.0, 10.0)
    env.run(until=10.4)
    snapshot = task.snapshot()
    if twice:
        deliver_at(env, task, [record(10.41 + 0.001 * k, inboxes[k % len(inboxes)]) for k in range(30)])
        env.run(until=10.45)
        task.stop()
        for inbox in inboxes:
            inbox.credits = inbox.capacity
        task.restore(snapshot, 10.4, 10.4)
    else:
        env.run(until=10.45)
    task.draws = Draws(np.random.default_rng(5), 0.0)
    out.records.clear()
    feed(10.46, 14.0)
    env.run(until=16.0)
    return [tuple(round(at_s, 6) for at_s in (each.at_s, each.born_s, each.taken_s)) for each in out.records]


@pytest.mark.parametrize("over", [COUNT, TIME], ids=["count", "time"])
@pytest.mark.parametrize("make", [aggregate, join])
def test_after_a_restore_the_same_comes_out(make: Any, over: Any) -> None:
    straight, again = (trial(make, over, twice) for twice in (False, True))
    assert len(straight) > 5
    assert straight == again


def test_a_snapshot_can_be_gone_back_to_twice() -> None:
    env = simpy.Environment()
    task = join(env, COUNT)
    connect(task, [inbox_of(Listener(env), 10**6)])
    inboxes = [inbox_of(task, 10**6, side) for side in range(2)]
    deliver_at(env, task, [record(0.01 * k, inboxes[k % 2]) for k in range(1, 600)])
    env.run(until=5.0)
    snapshot, held = task.snapshot(), task.logic.held()
    for until_s in (6.0, 7.0):
        env.run(until=until_s)
        task.stop()
        task.restore(snapshot, 5.0, until_s)
        assert task.logic.held() == held == snapshot.windows > 0
        contents(task)[0].forget(1e9)


def test_what_a_map_serves_is_served_again_and_first() -> None:
    env = simpy.Environment()
    task = map_task(env, 2.0)
    connect(task, [inbox_of(Listener(env))])
    deliver_at(env, task, [record(0.0), record(1.0), record(1.5)])
    env.run(until=1.8)
    snapshot = task.snapshot()
    assert [record.at_s for record in snapshot.queue] == [0.0, 1.0, 1.5]
    assert (snapshot.queued, snapshot.serving) == (3, None)
    assert snapshot.queue[1] is not task.queue[0]


@pytest.mark.parametrize("make", [aggregate, join])
def test_what_a_window_serves_is_in_it_already(make: Any) -> None:
    """Served again it would be there twice; only its results have still to be sent."""
    env = simpy.Environment()
    task: Task = make(env, window("count", 2, 1), **({"groups": 1} if make is aggregate else {}))
    task.service_s = 2.0
    out = Listener(env)
    connect(task, [inbox_of(out)])
    inbox = inbox_of(task, side=0)
    deliver_at(env, task, [record(0.0, inbox), record(1.0, inbox)])
    env.run(until=1.5)
    snapshot = task.snapshot()
    assert [record.at_s for record in snapshot.queue] == [1.0]
    assert snapshot.serving is not None and snapshot.serving.at_s == 0.0 and snapshot.windows == 1.0
    task.stop()
    task.restore(snapshot, 1.5, 1.5)
    task.finish(snapshot)
    assert out.heard == ([(1.5, 1)] if make is aggregate else [])


def test_the_results_of_an_evaluation_under_way_are_sent() -> None:
    env = simpy.Environment()
    task, out = aggregate(env, window("time", 1.0, 1.0), groups=1), Listener(env)
    task.logic.combiner.scan_s = 0.5  # type: ignore[attr-defined]
    connect(task, [inbox_of(out)])
    deliver_at(env, task, [record(0.5, inbox_of(task))])
    env.run(until=1.2)
    snapshot = task.snapshot()
    assert snapshot.serving is None and not snapshot.queue
    task.stop()
    env.run(until=3.0)
    assert out.heard == []  # it was stopped
    task.restore(snapshot, 1.2, 3.0)
    task.finish(snapshot)
    assert out.heard == [(3.0, 1)]


def test_a_source_reads_again_what_it_took_since() -> None:
    env = simpy.Environment()
    source = Task(*setup(env, 1.0), ReplayableSource(), polls=True)
    connect(source, [inbox_of(Listener(env))])
    deliver_at(env, source, [record(0.0) for _ in range(5)])
    env.run(until=1.5)
    snapshot = source.snapshot()  # the first has been emitted, the second is in service
    assert not snapshot.queue
    env.run(until=3.5)
    assert (source.queued, source.lost()) == (1, 0)
    source.stop()
    assert source.restore(snapshot, 1.5, 3.5) == 3
    assert source.queued == len(source.queue) == 4  # and what it had not taken yet


def test_a_task_without_windows_holds_nothing() -> None:
    task: Task = map_task(simpy.Environment())
    logic = task.logic
    assert (logic.held(), logic.held_bytes(), task.window_bytes(), logic.take(0.5).bytes) == (0.0, 0.0, 0.0, 0.0)
