"""From the kernel's structures back to the engine's objects, so that anything may happen to them."""

from __future__ import annotations

from collections import defaultdict, deque
from heapq import heapify
from itertools import count, repeat
from typing import Any

from twin.engine.record import Record
from twin.engine.streams.ports import GatheringPort
from twin.kernel import layout as k
from twin.kernel.arena import view
from twin.kernel.handover.brokers import lift_brokers
from twin.kernel.handover.counters import counters
from twin.kernel.handover.logics import lift_logics
from twin.kernel.handover.network import lift_hops
from twin.kernel.handover.pools import lift_pools
from twin.kernel.handover.ports import lift_ports
from twin.kernel.handover.tasks import lift_tasks
from twin.kernel.lower import Lowered

ANY: Any = (None, Record(0.0, 0.0, 0.0))
"""Stands for a record that waits to be sent somewhere."""


def close(low: Lowered) -> None:
    """Gives a world back that has come to its end: it can be counted, and not go on. Records that wait are many at
    times; all that is asked of them then is how many.
    """
    counters(low)
    for port, row in zip(low.ports, low.port_rows, strict=True):
        port.outbox = deque(repeat(ANY, int(row["held"])))
        if isinstance(port, GatheringPort):
            counts = low.blocks[int(row["here"]), "buffers"]["count"].tolist()
            held = {number: [ANY[1]] * count for number, count in enumerate(counts) if count}
            port._buffers = defaultdict(list, held)
    lift_logics(low, closing=True)


def lift(low: Lowered) -> None:
    """Gives the world back. The structures are of no use afterwards."""
    env = low.world.env
    counters(low)
    env._eid = count(int(low.state[0]["sequence"]))
    for draws in low.streams:
        row = view(k.STREAM, low.here[id(draws)])
        draws._uniforms, draws._services = (
            low.blocks[int(row["here"]), field][: int(row[f"{field}_left"])].tolist()
            for field in ("uniforms", "services")
        )
    lift_logics(low)
    for lift in (lift_hops, lift_brokers, lift_ports, lift_tasks, lift_pools):
        lift(low)
    heapify(env._queue)
