"""Paths, hops, and the lanes in which records are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twin.engine.station.pool import Pool
from twin.engine.station.task import Task
from twin.engine.streams.channel import UNBOUNDED, Path, Receiver
from twin.engine.streams.network import Nic
from twin.engine.streams.route import Jitter, JitteredLeg, Leg
from twin.kernel import columns
from twin.kernel import layout as k
from twin.kernel.arena import addresses, view
from twin.kernel.handover.records import arrive_at

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_cards(low: Lowered) -> None:
    """What is under way between two hops, by card or link."""
    if low.world.links:
        lanes = low.arena.make(k.LANE, len(low.cards))
        for row, here, card in zip(lanes, addresses(lanes), low.card_rows, strict=True):
            low.lane(row, here)
            row["card"], row["slot"] = card["here"], low.slot(k.LANES, int(row["here"]))
            card["lane"] = row["here"]
            low.flying.append(row)


def lane(low: Lowered, end: Receiver, nic: Nic | None, latency_s: float) -> int:
    """Where what comes to a task or pool over a card or link waits; made when it is first asked for."""
    key = id(end), id(nic), latency_s
    if key not in low.wires:
        row = low.arena.make(k.LANE, 1)[0]
        here = low.wires[key] = int(low.arena.kept[-1].ctypes.data)
        low.lane(row, here)
        row["card"] = 0 if nic is None else low.here[id(nic)]
        if isinstance(end, Pool):
            row["slot"], row["pool"] = low.slot(k.LANES, here), low.here[id(end)]
            low.flying.append(row)
        else:
            assert isinstance(end, Task)
            owner = low.row(end)
            row["slot"], row["task"] = k.NONE, owner["here"]
            row["next"], owner["lane"] = owner["lane"], here
    return low.wires[key]


def path(low: Lowered, path: Path) -> int:
    """The structure of a path."""
    if id(path) not in low.here:
        row = low.make(k.PATH, [path])[0]
        arrive_at(low, row, path.inbox, path.fetch_s)
        nic = path.nic
        if isinstance(nic, Leg):
            row["leg"] = _leg(low, nic, path)
        else:
            row["lane"] = lane(low, path.inbox.task, nic, path.latency_s if nic is not None else 0.0)
            if nic is not None:
                row["card"], row["latency_s"], row["bytes_each"] = low.here[id(nic)], path.latency_s, path.bytes_each
    return low.here[id(path)]


def nowhere(low: Lowered) -> int:
    """The structure of a path whose end takes all that comes and does nothing with it."""
    path, inbox, pool = (low.arena.make(each, 1) for each in (k.PATH, k.INBOX, k.POOL))
    path["inbox"], inbox["pool"], inbox["credits"] = inbox.ctypes.data, pool.ctypes.data, UNBOUNDED
    pool["count"], pool["members"] = 1, low.arena.wholes([0])
    return int(path.ctypes.data)


def _leg(low: Lowered, leg: Leg, path: Path) -> int:
    """The structure of a hop of a path, and those of the hops after it."""
    if id(leg) not in low.here:
        low.legs.append(leg)
        row = low.make(k.LEG, [leg], columns.LEG)[0]
        low.leg_addresses.add(int(row["here"]))
        row["card"], row["path"] = low.here[id(leg.nic)], low.here[id(path)]
        if isinstance(leg, JitteredLeg):
            row["jitter"], row["arrival_s"] = _jitter(low, leg.jitter), leg.arrival_s
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
    """Where the factor is."""
    row["knot"], row["low"], row["high"] = jitter.knot, jitter.low, jitter.high


def write_jitter(row: Any, jitter: Jitter) -> None:
    """The same, back."""
    jitter.knot, jitter.low, jitter.high = int(row["knot"]), float(row["low"]), float(row["high"])


def lift_hops(low: Lowered) -> None:
    """What hops remember."""
    for leg in low.legs:
        row = view(k.LEG, low.here[id(leg)])
        if isinstance(leg, JitteredLeg):
            leg.arrival_s = float(row["arrival_s"])
    for jitter in low.jitters:
        write_jitter(view(k.JITTER, low.here[id(jitter)]), jitter)
