"""Queues that replicas share."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from twin.kernel import layout as k
from twin.kernel.handover.network import lane
from twin.kernel.handover.records import arrived, chain, ends, items, record

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_pools(low: Lowered) -> None:
    """Who is idle, and what waits with whom."""
    for pool, row in zip(low.pools, low.pool_rows, strict=True):
        row["members"] = low.arena.wholes([low.here[id(member)] for member in pool.members])
        row["count"], row["turn"] = len(pool.members), pool.turn
        for member in pool.members:
            low.row(member)["pool"] = row["here"]
            lane(low, member, None, 0.0)
        idle = [low.row(member) for member in pool.idle]
        for each in idle:
            each["listed"] = 1
        for one, following in pairwise(idle):
            one["next_idle"] = following["here"]
        row["first_idle"], row["last_idle"] = (idle[0]["here"], idle[-1]["here"]) if idle else (0, 0)
        waiting = arrived(low, [each for each, _ in pool.queue])
        for here, (_, keeper) in zip(waiting, pool.queue, strict=True):
            low.item(here)["order"] = low.here[id(keeper)]
        row["head"], row["tail"] = ends(waiting)


def lift_pools(low: Lowered) -> None:
    """The same, back."""
    for pool, row in zip(low.pools, low.pool_rows, strict=True):
        pool.turn = int(row["turn"])
        pool.idle.clear()
        pool.idle.extend(low.object_at[here] for here in chain(k.TASK, row["first_idle"], "next_idle"))
        pool.listed = set(pool.idle)
        pool.queue.clear()
        for here in items(row["head"]):
            keeper = low.object_at[int(low.item(here)["order"])]
            keeper.queued += 1
            pool.queue.append((record(low, here), keeper))
