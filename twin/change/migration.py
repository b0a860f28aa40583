"""Direct state migration (ALBIC, section 3): redirect, buffer, serialise, transfer, deserialise, replay.

A whole replica stops, takes its state and its queue along, and goes on elsewhere. Key groups, or a share of a keyed
operator without them, move between replicas that go on working: their new tuples wait in a buffer at the target
until the state is there; their old ones are processed at the source before it is serialised.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.fan import Fan
from twin.change.transfer import carry
from twin.engine.calendar import Calendar
from twin.engine.measure.ledger import Buffer, EventRecord, Ledger
from twin.engine.station.barriers import occupy
from twin.engine.station.task import Task
from twin.engine.windows.content import Leaves
from twin.plan import Location

if TYPE_CHECKING:
    from twin.change.reconfiguration import Reconfigurer
    from twin.engine.keys.groups import KeyGroups

Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True)
class Flow:
    """A share of an operator's tuples, with its state, from one index of its fan to another."""

    source: int
    target: int
    amount: float
    groups: tuple[int, ...] = ()


def group_flows(fan: Fan, groups: Sequence[int], target: int) -> list[Flow]:
    """What it takes to bring key groups to an index: one flow from each of their owners."""
    keys = fan.keys
    assert keys is not None
    owners = dict.fromkeys(keys.owner[group] for group in groups if keys.owner[group] != target)
    return [
        Flow(owner, target, float(sum(keys.weights[group] for group in mine)), tuple(mine))
        for owner in owners
        for mine in [[group for group in groups if keys.owner[group] == owner]]
    ]


# a replica to another place ----------------------------------------------------------------------------------------


def move_replica(change: Reconfigurer, task: Task, operator: str, place: Location, record: EventRecord) -> Process:
    """Stops a replica, moves it with its state and queue, and lets it go on."""
    env, wiring = change.env, change.wiring
    start = wiring.places[task]
    if place == start:
        change.refuse(record, f"it is at {place} already")
        return
    task.block()
    yield from _at_rest(env, task)
    paused_s = env.now
    size = wiring.state_bytes(task, operator) + wiring.queue_bytes(task, operator)
    send_s, fetch_s = wiring.network.costs_s(start, place, size)
    yield from _work(change.world.ledger, task, send_s)
    yield from carry(wiring, start, place, size)
    wiring.relocate(task, operator, place)
    yield from _work(change.world.ledger, task, fetch_s)
    record.paused_s = float(env.now - paused_s)
    record.bytes = float(size)
    task.unblock()


def _at_rest(env: Calendar, task: Task) -> Process:
    """Waits until what a blocked task had taken up is done, and a pause of its host is over."""
    while task.busy or task.engaged_until_s > env.now or task.logic.away():
        yield env.until(lambda: not (task.busy or task.logic.away()))
        if task.engaged_until_s > env.now:
            yield env.timeout(task.engaged_until_s - env.now)


def _work(ledger: Ledger, task: Task, work_s: float) -> Process:
    """CPU work of a paused task, at the speed that its processor gives it; none was done if it is interrupted."""
    if work_s <= 0.0:
        return
    processor = task.processor
    work_s *= processor.slowdown
    processor.work_s += work_s
    ledger.moving_s[processor] += work_s
    try:
        yield _served(task, work_s) if processor.shared else task.env.timeout(work_s / processor.speed)
    except simpy.Interrupt:
        processor.cancel(task)
        processor.work_s -= work_s
        raise
    finally:
        ledger.moving_s[processor] -= work_s


def _served(task: Task, work_s: float) -> simpy.Event:
    """That its processor, shared with others, has done that work for the task."""
    done = task.env.event()

    def finished() -> None:
        done.succeed()

    task.processor.start(task, work_s, finished)
    return done


# a share of an operator to another replica -------------------------------------------------------------------------


def move_part(change: Reconfigurer, fan: Fan, flow: Flow, record: EventRecord) -> Process:
    """Moves a share of a replica's input and state to another; if interrupted, everything stays as it was."""
    env, wiring = change.env, change.wiring
    source, target = fan.slots[flow.source], fan.slots[flow.target]
    assert isinstance(source, Task) and isinstance(target, Task)
    buffer = Buffer()
    change.world.ledger.buffers.append(buffer)
    slot = fan.add(buffer, fan.places[flow.target])
    part = min(1.0, flow.amount / fan.shares[flow.source]) if flow.amount > 0.0 else 0.0
    fan.shift(flow.source, slot, flow.amount, flow.groups)
    try:
        until = source.tuples_in + change.outstanding(source)
        yield env.until(lambda: _drained(source, until, alone=not fan.shares[flow.source]))
        paused_s = env.now
        state = source.logic.take(part, _leaving(fan.keys, flow))
        size = state.bytes + (len(flow.groups) * fan.keys.state_bytes_each if fan.keys else 0.0)
        start, place = fan.places[flow.source], fan.places[flow.target]
        send_s, fetch_s = wiring.network.costs_s(start, place, size)
        yield from _beside(source, send_s)
        yield from carry(wiring, start, place, size)
        yield from _beside(target, fetch_s)
        target.logic.give(state)
        record.paused_s = float(max(record.paused_s or 0.0, env.now - paused_s))
        record.bytes = float((record.bytes or 0.0) + size)
    except simpy.Interrupt:  # the job is down; the state comes back from the checkpoint
        _settle(fan, buffer, flow, flow.source)
        raise
    _settle(fan, buffer, flow, flow.target)


def _drained(source: Task, until: int, alone: bool) -> bool:
    """Whether it has served so many tuples. alone: whether any that it serves is of what moves."""
    if source.tuples_in < until:
        return False
    return not (source.busy and (source.tuples_in == until or alone))


def _leaving(keys: KeyGroups | None, flow: Flow) -> Leaves | None:
    """Records of the key groups that move."""
    if keys is None:
        return None
    known, groups = keys, set(flow.groups)
    return lambda key: known.group_of(key) in groups


def _settle(fan: Fan, buffer: Buffer, flow: Flow, index: int) -> None:
    """The share, and what was buffered of it, goes to that index."""
    fan.shift(fan.index(buffer), index, flow.amount, flow.groups)
    fan.leave(buffer)
    receiver = fan.slots[index]
    assert isinstance(receiver, Task)
    buffer.open(receiver, receiver.env.now)


def _beside(task: Task, work_s: float) -> Process:
    """CPU work of a task that goes on working: it is done before the next record, and takes its time here."""
    if work_s > 0.0:
        occupy(task, work_s)
        yield task.env.timeout(work_s * task.processor.slowdown / task.processor.speed)


def reshare(fan: Fan) -> None:
    """After shares have changed: how many groups live on a replica, and how likely two of its tuples match."""
    if fan.keys is not None:
        return  # they see to it themselves
    operators, replicas = fan.wiring.job.component(fan.operator).operators, len(fan.slots)
    for task, share in zip(fan.slots, fan.shares, strict=True):
        if share > 0.0 and isinstance(task, Task):
            task.logic.know_share(share, [each.values(replicas) for each in operators])
