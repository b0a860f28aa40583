"""Handover of the calendar: the kernel takes the events of its structures, and the engine keeps the rare ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.engine.calendar import Alarm
from twin.engine.logics.calls import CallLogic
from twin.engine.partitioners import SharedQueue
from twin.engine.record import Record
from twin.engine.station.task import Task
from twin.engine.streams.network import Leg, Nic
from twin.kernel import layout as k
from twin.kernel.arena import view
from twin.kernel.handover.channels import lane
from twin.kernel.handover.logics import lower_answer
from twin.kernel.handover.records import arrived, chain, link, lower_items

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered

IN_FLIGHT = -1.0
"""Stands for the latency of records that are under way already, whose arrivals are known."""
Flying = dict[int, list[tuple[float, int, int]]]
"""Records under way as (arrival, number, item), by lane."""


def lower_calendar(low: Lowered) -> None:
    """Takes over the events of all structures, with the records under way."""
    env, flying, rest = low.world.env, Flying(), []
    landing = sorted([entry for entry in env._queue if entry[3].callbacks], key=lambda entry: entry[:3])
    later = sum([isinstance(port.partitioner, SharedQueue) for port in low.ports])  # lanes that may be made later
    room = 1 << max(1, (len(low.slots) + later + len(landing)).bit_length())
    low.times, low.orders = np.full(room, math.inf), np.zeros(room, np.int64)
    for entry in landing:
        at_s, _, order, event = entry
        slot = low.pending.get(id(event))
        owner: Any = getattr(event.callbacks[0], "__self__", None)
        if slot is not None:
            low.times[slot], low.orders[slot] = at_s, order
        elif isinstance(owner, CallLogic) and not isinstance(event, Alarm):
            lower_answer(low, owner, event._value, at_s, order)
        elif isinstance(event, Alarm) and id(event.owner) in low.here:
            continue  # its owner has set another in its place
        elif isinstance(event._value, Record) and id(event._value.inbox) in low.here:
            _fly(low, event._value, owner, (at_s, order), flying)
        else:
            if isinstance(event._value, Record):
                low.others[owner] += 1
            rest.append(entry)
    env._queue[:] = rest
    heapify(env._queue)
    for here, items in flying.items():
        _launch(low, view(k.LANE, here), items)
    for task, row in zip(low.tasks, low.task_rows, strict=True):
        _line_up(low, task, row)
    _tree(low, 1 << max(1, (len(low.slots) + later - 1).bit_length()))


def _fly(low: Lowered, record: Record, nic: Nic, when: tuple[float, int], flying: Flying) -> None:
    stop = record.inbox
    if isinstance(stop, Leg):
        path = low.here[id(stop)]
        (here,), way = lower_items(low, [record], [path]), int(view(k.LEG, path)["lane"])
    else:
        (here,), way = arrived(low, [record]), lane(low, stop.task, nic, IN_FLIGHT)
    item = low.item(here)
    item["order"], item["sent_s"], item["latency_s"] = when[1], record.sent_s, record.latency_s
    flying.setdefault(way, []).append((*when, here))


def _launch(low: Lowered, row: Any, items: Sequence[tuple[float, int, int]]) -> None:
    row["head"], row["tail"] = link(k.ITEM, [here for _, _, here in items], "next")
    row["coming"], row["total"] = row["head"], len(items)
    if row["slot"] >= 0:
        low.times[row["slot"]], low.orders[row["slot"]] = items[0][:2]


def _line_up(low: Lowered, task: Task, row: Any) -> None:
    """Makes the heap of the first items of a task's lanes; an idle task begins with the first of them."""
    heads = []
    for here in chain(row["lane"], k.NEXT_LANE):
        if head := int(view(k.LANE, here)["head"]):
            item = low.item(head)
            heads.append((float(item["at_s"]), int(item["order"]), here))
    for number, (at_s, order, here) in enumerate(sorted(heads)):
        low.blocks[id(task), "heads"][number] = order, here, at_s
    row["coming"] = len(heads)
    if heads and not (row["busy"] or row["blocked"] or row["halted"] or row["broker"]):
        low.times[row["slot"]], low.orders[row["slot"]], _ = min(heads)


def _tree(low: Lowered, count: int) -> None:
    """Makes the tournament of `count` slots."""
    state, times, orders = low.state[0], low.times[:count], low.orders[:count]
    tree = np.zeros(2 * count, np.int64)
    winners: np.ndarray = np.arange(count)
    tree[count:] = winners
    while len(winners) > 1:
        left, right = winners[::2], winners[1::2]
        later = (times[right] < times[left]) | ((times[right] == times[left]) & (orders[right] < orders[left]))
        winners = np.where(later, right, left)
        tree[len(winners) : 2 * len(winners)] = winners
    low.arena.kept += [low.times, low.orders, tree]
    state["here"], state["slots"], state["tree"] = low.state.ctypes.data, count, tree.ctypes.data
    state["times"], state["orders"] = low.times.ctypes.data, low.orders.ctypes.data
    low.kinds, low.owners = np.zeros((2, count), np.int64)
    low.kinds[: len(low.slots)], low.owners[: len(low.slots)] = zip(*low.slots, strict=True)
    state["kinds"], state["owners"] = low.kinds.ctypes.data, low.owners.ctypes.data
    state["now"] = low.world.env.now
