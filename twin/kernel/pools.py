"""Replicas that take from one queue (twin.engine.station.pool)."""

from __future__ import annotations

from typing import Any

from twin.kernel.items import append, first_lane, put
from twin.kernel.layout import item_at, lane_at, pool_at, task_at
from twin.kernel.native import call, compiled, whole_at


@compiled
def deliver_to_pool(s: Any, pool: Any, here: int) -> None:
    """Hands a record to the replica that has been idle longest, or lets it wait."""
    item = item_at(here)
    while pool.first_idle != 0:
        member = task_at(pool.first_idle)
        pool.first_idle = member.next_idle
        member.listed = 0
        if not member.busy and not member.blocked and not member.halted and first_lane(member) == 0:
            item.at_s, item.order = s.now, s.event_sequence
            put(lane_at(member.lane), here)
            call(s.work_on, s.here, member.here)
            return
    item.order = whole_at(pool.members + 8 * pool.turn).value
    pool.turn = pool.turn + 1 if pool.turn + 1 < pool.count else 0
    append(pool, here)


@compiled
def next_of_pool(task: Any) -> int:
    """What has waited longest, for a free replica; if nothing waits, the replica does."""
    pool = pool_at(task.pool)
    here = pool.head
    if here != 0:
        pool.head = item_at(here).next
    elif task.listed == 0:
        task.listed, task.next_idle = 1, 0
        if pool.first_idle == 0:
            pool.first_idle = task.here
        else:
            task_at(pool.last_idle).next_idle = task.here
        pool.last_idle = task.here
    return here


def count_pool(_: int, here: int) -> int:
    """Adds what waits in a pool to the queues of those who keep it."""
    at = pool_at(here).head
    while at != 0:
        task_at(item_at(at).order).queued += 1
        at = item_at(at).next
    return 0
