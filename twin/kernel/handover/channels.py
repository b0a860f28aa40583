"""Handover of channels: paths, hops, and the lanes of records under way; ports with their partitioners and waiting
records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.engine.keys.aligned import AlignedKeys
from twin.engine.keys.groups import KeyGroups
from twin.engine.partitioners import AlignedPartitioner, HashPartitioner, RandomPartitioner, SharedQueue
from twin.engine.record import Record
from twin.engine.station.pool import Pool
from twin.engine.station.task import Task
from twin.engine.streams.buffers import BufferPort
from twin.engine.streams.channel import UNBOUNDED, Path, Port, Receiver
from twin.engine.streams.network import Jitter, Leg, Nic
from twin.engine.streams.ports import GatheringPort, SheddingPort
from twin.kernel import layout as k
from twin.kernel.arena import LEG, addresses, view
from twin.kernel.handover.records import arrive_at, chain, channel, ends, link, lower_items, record

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


NO_HEADS = np.zeros(0, k.JOB)
POOL = ["pool", "used", "most", "full"]
"""Attributes of ports with buffers that are fields, too."""


def lower_cards(low: Lowered) -> None:
    """Makes the lanes of records between two hops, by card or link."""
    if low.world.links:
        lanes = low.arena.make(k.LANE, len(low.cards))
        for row, here, card in zip(lanes, addresses(lanes), low.card_rows, strict=True):
            low.lane(row, here)
            row["card"], row["slot"] = card["here"], low.slot(k.LANES, int(row["here"]))
            card["lane"] = row["here"]
            low.flying.append(row)


def lane(low: Lowered, end: Receiver, nic: Nic | None, latency_s: float) -> int:
    """Lane of the records that come to a task or pool over a card or link; made when it is first asked for."""
    key = id(end), id(nic), latency_s
    if key not in low.wires:
        card, state = 0 if nic is None else low.here[id(nic)], low.state[0]
        if isinstance(end, Pool):
            here = low.arena.add(k.LANE, card=card, after=state["lanes"], pool=low.here[id(end)])
            row = view(k.LANE, here)
            row["slot"] = low.slot(k.LANES, here)
            low.flying.append(row)
        else:
            assert isinstance(end, Task)
            owner = low.row(end)
            here = low.arena.add(
                k.LANE, slot=k.NONE, card=card, after=state["lanes"], task=owner["here"], next=owner["lane"]
            )
            owner["lane"] = here
            owner["lanes"] += 1
            heads = low.blocks.get((id(end), "heads"), NO_HEADS)
            if len(heads) <= owner["lanes"]:  # the heap needs room for one more than the lanes
                made = low.array(k.JOB, id(end), "heads", 2 * int(owner["lanes"]))
                made[: len(heads)] = heads
                owner["heads"] = made.ctypes.data
        state["lanes"] = low.wires[key] = here
    return low.wires[key]


def path(low: Lowered, path: Path) -> int:
    """Address of the structure of a path, made when it is first asked for."""
    if id(path) not in low.here:
        nic, fields = path.nic, arrive_at(low, path.inbox, path.channel, path.fetch_s)
        if not isinstance(nic, Leg):
            fields["lane"] = lane(low, path.inbox.task, nic, path.latency_s if nic is not None else 0.0)
            if nic is not None:
                fields |= {"card": low.here[id(nic)], "latency_s": path.latency_s, "bytes_each": path.bytes_each}
        here = low.here[id(path)] = low.arena.add(k.PATH, replica=path.replica, **fields)
        low.object_at[here] = path
        if isinstance(nic, Leg):
            view(k.PATH, here)["leg"] = _leg(low, nic, path)
    return low.here[id(path)]


def nowhere(low: Lowered) -> int:
    """Makes a path to an inbox that takes all records and does nothing with them; returns its address."""
    pool = low.arena.add(k.POOL, count=1, members=low.arena.wholes([0]))
    return low.arena.add(k.PATH, inbox=low.arena.add(k.INBOX, pool=pool, credits=UNBOUNDED))


def _leg(low: Lowered, leg: Leg, path: Path) -> int:
    """Address of the structure of a hop of a path; makes it, and those of the hops after it."""
    if id(leg) not in low.here:
        row = low.make(k.LEG, [leg], LEG, held="arrival_s")[0]
        row["latency_s"], row["bytes_each"] = leg.latency_s, leg.bytes_each
        low.leg_addresses.add(int(row["here"]))
        row["card"], row["path"] = low.here[id(leg.nic)], low.here[id(path)]
        if leg.jitter is not None:
            row["jitter"] = _jitter(low, leg.jitter)
        if leg.onward is None:
            row["lane"] = lane(low, path.inbox.task, leg.nic, leg.latency_s)
        else:
            row["lane"], row["onward"] = view(k.CARD, low.here[id(leg.nic)])["lane"], _leg(low, leg.onward, path)
    return low.here[id(leg)]


def _jitter(low: Lowered, jitter: Jitter) -> int:
    if id(jitter) not in low.here:
        low.jitters.append(jitter)
        read_jitter(jitter, low.make(k.JITTER, [jitter])[0])
    return low.here[id(jitter)]


def read_jitter(jitter: Jitter, row: Any) -> None:
    """Writes the state of a jitter into its structure."""
    row["knot"], row["low"], row["high"] = jitter.knot, jitter.low, jitter.high


def lift_hops(low: Lowered) -> None:
    """Gives back the state of jitters."""
    for jitter in low.jitters:
        row = view(k.JITTER, low.here[id(jitter)])
        jitter.knot, jitter.low, jitter.high = int(row["knot"]), float(row["low"]), float(row["high"])


def lower_ports(low: Lowered) -> None:
    """Fills the structures of all ports, and of the inboxes of all streams."""
    for port, row in zip(low.ports, low.port_rows, strict=True):
        count, here = len(port.partitioner.weights), int(row["here"])
        row["task"], row["replicas"] = low.here[id(port.task)], count
        used = [each > 0.0 and number in port.paths for number, each in enumerate(port.partitioner.weights)]
        known = [path(low, port.path_to(number)) if each else 0 for number, each in enumerate(used)]
        row["paths"] = low.block(here, "paths", known, count, np.int64)
        _partitioner(low, port.partitioner, row)
        if isinstance(port, BufferPort):
            _buffers(low, port, row, count)
        elif isinstance(port, SheddingPort):
            row["kind"] = k.SHEDDING
        elif isinstance(port, GatheringPort):
            _gather(low, port, row, count)
        held = lower_items(low, [each for _, each in port.outbox], [path(low, way) for way, _ in port.outbox])
        row["first_held"], row["last_held"] = ends(held)
        row["held"] = len(held)
    for each, row in low.channels:
        held = lower_items(low, [one for _, one in each.unsent], [path(low, way) for way, _ in each.unsent])
        row["first_unsent"], row["last_unsent"] = ends(held)
        row["unsent"] = len(held)
    for inbox, row in zip(low.inboxes, low.inbox_rows, strict=True):
        if inbox.gate is not None:
            gate = inbox.gate
            row["exclusive"], row["free"] = gate.exclusive, gate.free
            gated = [low.here[id(each)] for each in gate.waiters]
            row["first_gated"], row["last_gated"] = link(k.CHANNEL, gated, "next_gated")
        row["pool" if isinstance(inbox.task, Pool) else "task"] = low.here[id(inbox.task)]
        waiting = [low.here[id(port)] for port in inbox.waiters]
        row["first_waiting"], row["last_waiting"] = link(k.PORT, waiting, "next_waiting")


def _partitioner(low: Lowered, partitioner: Any, row: Any) -> None:
    if isinstance(partitioner, HashPartitioner):
        row["dealing"], row["keys"] = k.BY_KEY, _keys(low, partitioner._groups)
        row["stream"] = low.stream(partitioner._draws)
        if isinstance(partitioner, AlignedPartitioner):
            row["dealing"], row["aligned"] = k.ALONG, _aligned(low, partitioner._aligned)
            row["sends"] = low.arena.floats(partitioner._aligned.sent_steps(partitioner._producer))
        if partitioner._chooser is not None:
            row["sent"] = low.block(
                int(row["here"]), "sent", partitioner._chooser._sent, len(partitioner.weights), np.int64
            )
    elif isinstance(partitioner, SharedQueue) or len(partitioner.live) == 1:
        row["dealing"], row["only"] = k.ONLY, partitioner.live[0]
    elif isinstance(partitioner, RandomPartitioner):
        row["dealing"], row["stream"] = k.AT_RANDOM, low.stream(partitioner._draws)
        row["keys"] = low.arena.floats(partitioner._steps)
    else:
        row["dealing"], row["turn"] = k.COPIES if partitioner.copies else k.IN_TURN, partitioner.turn
        row["keys"], row["shares"] = low.arena.wholes(partitioner.live), len(partitioner.live)


def _gather(low: Lowered, port: GatheringPort, row: Any, count: int) -> None:
    here, batching = int(row["here"]), port.batching
    row["kind"], row["slot"] = k.GATHERING, low.slot(k.PORTS, here)
    row["batch"], row["flush_s"], row["phase_s"] = batching.tuples, batching.flush_s, batching.phase_s
    buffers = low.array(k.BUFFER, here, "buffers", count)
    buffers["tail"] = -1
    row["buffers"] = buffers.ctypes.data
    order = list(port._buffers)
    row["open_order"], row["opened"] = low.block(here, "open_order", order, count, np.int64), len(order)
    for number, records in port._buffers.items():
        buffers[number] = (*ends(lower_items(low, records, [0] * len(records))), len(records))
    row["armed"] = port._armed
    low.pending[id(port._alarm)] = int(row["slot"])


def _buffers(low: Lowered, port: BufferPort, row: Any, count: int) -> None:
    if port.gathers:
        _gather(low, port, row, count)
    elif port.sheds:
        row["kind"] = k.SHEDDING
    for each in port.channels.values():
        channel(low, each)
    row["batch"], row["stopped"] = port.size, port.stopped
    for field in POOL:
        row[field] = getattr(port, field)


def _keys(low: Lowered, groups: KeyGroups) -> int:
    """Address of the structure of an operator's key groups."""
    if id(groups) not in low.here:
        row = low.make(k.KEYS, [groups])[0]
        here = int(row["here"])
        low.keyed.append(groups)
        row["groups"] = len(groups)
        row["steps"] = low.block(here, "steps", groups.group_steps, len(groups))
        row["owners"] = low.block(here, "owners", groups.owner, len(groups), np.int64)
        if groups.two_choice:
            row["second"] = low.block(here, "second", groups.second, len(groups), np.int64)
        row["firsts"] = low.arena.wholes(groups.first)
        if groups._within:
            row["within"] = low.arena.floats(groups._within)
        else:
            row["scales"] = low.arena.floats([each.scale for each in groups._splits])
            row["counts"] = low.arena.wholes([each.keys for each in groups._splits])
    return low.here[id(groups)]


def _aligned(low: Lowered, aligned: AlignedKeys) -> int:
    """Address of the structure of aligned key groups."""
    if id(aligned) not in low.here:
        row, count = low.make(k.ALIGNED, [aligned])[0], len(aligned.producer)
        receivers = [aligned.receivers_of(group) for group in range(count)]
        row["producer"], row["share"] = _keys(low, aligned.producer), aligned.share
        row["own_steps"] = low.arena.floats(aligned.consumer.own_steps)
        row["rows"] = low.arena.wholes(np.cumsum([0, *[len(groups) for groups, _ in receivers]]))
        row["receivers"] = low.arena.wholes([each for groups, _ in receivers for each in groups])
        row["steps"] = low.arena.floats([each for _, steps in receivers for each in steps])
    return low.here[id(aligned)]


def lift_ports(low: Lowered) -> None:
    """Gives back the state of ports, channels and inboxes."""
    for inbox, row in zip(low.inboxes, low.inbox_rows, strict=True):
        inbox.waiters.clear()
        inbox.waiters.extend(low.object_at[each] for each in chain(row["first_waiting"], k.NEXT_WAITING))
        if inbox.gate is not None:
            inbox.gate.free = int(row["free"])
            inbox.gate.waiters.clear()
            inbox.gate.waiters.extend(low.object_at[each] for each in chain(row["first_gated"], k.NEXT_GATED))
    for each, row in low.channels:
        each.waits = bool(row["waits"])
        each.unsent.clear()
        if row["unsent"]:
            each.unsent.extend(_waiting(low, row["first_unsent"]))
    for port, row in zip(low.ports, low.port_rows, strict=True):
        _lift_port(low, port, row)


def _lift_port(low: Lowered, port: Port, row: Any) -> None:
    here, partitioner = int(row["here"]), port.partitioner
    port.outbox.clear()
    if row["held"]:
        port.outbox.extend(_waiting(low, row["first_held"]))
    if isinstance(port, BufferPort):
        port.stopped, port.used, port.full = bool(row["stopped"]), int(row["used"]), int(row["full"])
    if row["dealing"] == k.IN_TURN:
        partitioner.turn = int(row["turn"])
    elif isinstance(partitioner, HashPartitioner) and partitioner._chooser is not None:
        partitioner._chooser._sent = low.blocks[here, "sent"].tolist()
    if row["kind"] == k.GATHERING:
        assert isinstance(port, GatheringPort)
        buffers = low.blocks[here, "buffers"]
        port._buffers.clear()
        for number in low.blocks[here, "open_order"][: int(row["opened"])].tolist():
            full = chain(buffers[number]["head"]) if buffers[number]["count"] else ()
            port._buffers[number] = [record(low, each) for each in full]
        port._armed = bool(row["armed"])
        low.resume(port._alarm, int(row["slot"]))


def _waiting(low: Lowered, here: Any) -> Iterator[tuple[Path, Record]]:
    """Records that wait in a list to be sent, with their paths."""
    return ((low.object_at[int(low.item(each)["path"])], record(low, each)) for each in chain(here))
