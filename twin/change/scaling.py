"""Scale-out and scale-in: new replicas are built and wired, shares of the input and the state redistributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.fan import NO_SHARE, Fan
from twin.change.joining import depart, has_past
from twin.change.migration import Flow
from twin.change.strategies import migrations
from twin.engine.measure.ledger import EventRecord
from twin.engine.station.task import Task
from twin.plan import Location

if TYPE_CHECKING:
    from twin.change.reconfiguration import Reconfigurer


def rescale(
    change: Reconfigurer, operator: str, wanted: Sequence[Location], record: EventRecord
) -> Generator[simpy.Event, Any, bool]:
    """Gives an operator replicas at the wanted places, with even shares; whether it was not interrupted."""
    wiring, fan = change.wiring, change.wiring.fan(operator)
    tasks = change.world.tasks[operator]
    record.detail.setdefault("before", len(tasks))
    record.detail["after"] = len(wanted)
    if migrations.is_together(change, operator):
        change.refuse(record, f"{operator!r} is one component with another; split it first")
        return True
    missing = Counter(wanted)
    leaving = []
    for task in tasks:
        if missing[wiring.places[task]] > 0:
            missing[wiring.places[task]] -= 1
        else:
            leaving.append(task)
    for place in wanted:
        if missing[place] > 0:
            missing[place] -= 1
            change.added(operator, place)
    leave = {fan.index(task) for task in leaving}
    stay = [fan.index(task) for task in change.world.tasks[operator] if fan.index(task) not in leave]
    if fan.keys is None and not any(task.logic.keeps for task in tasks):
        fan.shares = [1.0 / len(stay) if index in stay else 0.0 for index in range(len(fan.slots))]
        fan.refresh()
        change.on_change()
    elif operator in wiring.event_times.heeding:
        if not (yield from migrations.move_groups(change, operator, group_flows(fan, stay), None, record)):
            return False
    else:
        flows = group_flows(fan, stay) if fan.keys is not None else even_flows(fan.shares, stay)
        if not (yield from change.together([(flow, record) for flow in flows], fan)):
            return False
    for task in leaving:
        yield from dismiss(change, operator, task)
    return True


def dismiss(change: Reconfigurer, operator: str, task: Task) -> Generator[simpy.Event, Any, None]:
    """Takes away a replica that gets no more input, once it has nothing left to do."""
    heeds = operator in change.wiring.event_times.heeding
    yield change.env.until(lambda: _idle(change, task))
    if heeds:
        depart(task)
    change.statistics.left(operator, task, change.env.now)
    change.wiring.remove_replica(operator, task)
    if heeds:
        change.on_change()


def _idle(change: Reconfigurer, task: Task) -> bool:
    """Whether a replica that gets no more input has nothing left to do or to send."""
    return not (
        change.outage is not None
        or task.busy
        or task.blocked
        or task.queued
        or task.logic.away()
        or has_past(task)
        or any(port.waiting() for port in task.ports)
        or change.outstanding(task)
    )


def even_flows(shares: Sequence[float], stay: Sequence[int]) -> list[Flow]:
    """The fewest flows that give each index of `stay` the same share and all others none."""
    even = 1.0 / len(stay)
    surplus = {k: share - (even if k in stay else 0.0) for k, share in enumerate(shares)}
    givers = [k for k, more in surplus.items() if more > NO_SHARE]
    flows = []
    for taker in (k for k, more in surplus.items() if more < -NO_SHARE):
        while givers and surplus[taker] < -NO_SHARE:
            amount = min(surplus[givers[0]], -surplus[taker])
            flows.append(Flow(givers[0], taker, amount))
            surplus[givers[0]] -= amount
            surplus[taker] += amount
            if surplus[givers[0]] <= NO_SHARE:
                givers.pop(0)
    return flows


def group_flows(fan: Fan, stay: Sequence[int]) -> list[Flow]:
    """Key groups from replicas that leave or carry too much to those that carry least, to few targets each."""
    keys = fan.keys
    assert keys is not None
    load = dict.fromkeys(stay, 0.0)
    homeless: list[int] = []
    even = sum(keys.weights) / len(stay)
    order = sorted(range(len(keys.owner)), key=lambda group: (-keys.weights[group], group))
    for group in order:
        owner = keys.owner[group]
        if owner in load and load[owner] + keys.weights[group] <= even * (1.0 + 1e-9):
            load[owner] += keys.weights[group]
        else:
            homeless.append(group)
    moves: dict[tuple[int, int], list[int]] = {}
    target = stay[0]
    for group in sorted(homeless, key=lambda group: keys.owner[group]):  # stable: heaviest first of each owner
        if load[target] + keys.weights[group] > even * (1.0 + 1e-9):
            target = min(stay, key=lambda index: (load[index], index))
        load[target] += keys.weights[group]
        if target != keys.owner[group]:
            moves.setdefault((keys.owner[group], target), []).append(group)
    return [
        Flow(source, target, float(sum(keys.weights[group] for group in groups)), tuple(groups))
        for (source, target), groups in moves.items()
    ]
