"""Wires: cards, links and hops, and the subtasks and shared queues that records come to."""

from __future__ import annotations

from typing import Any

from twin.machine import layout as k
from twin.machine.calendar import cancel, next_sequence, schedule
from twin.machine.items import append, first_lane, put, records_in, release, take
from twin.machine.native import call, compiled, float_at, inlined, whole_at

CONTROL_S = 1e-9
"""Seconds by which a mark arrives after the record before it, so that rounding does not change their order."""
KNOT_S = 0.1
"""Seconds between two independent values of a factor on a latency; in between, the factor is linear."""


@inlined
def transfer(s: Any, sender: int, here_path: int, here: int) -> None:
    """Sends a record, which takes its credit along."""
    path, item = k.path_at(here_path), k.item_at(here)
    inbox, count = k.inbox_at(path.inbox), records_in(item)
    inbox.credits -= count
    inbox.sent += count
    item.path, item.sender = here_path, sender
    if path.leg != 0:
        cross(s, path.leg, here)
    elif path.card != 0:
        transmit(s, path.card, path.lane, path.bytes_each, path.latency_s, here)
    elif inbox.pool != 0:
        deliver_to_pool(s, k.pool_at(inbox.pool), here)
    else:
        item.at_s, item.order = s.now, s.event_sequence
        arrive(s, path.lane, here)


@inlined
def arrive(s: Any, here_lane: int, here: int) -> None:
    """Delivers a record that arrives now to the task of a lane."""
    lane = k.lane_at(here_lane)
    put(lane, here)
    task = k.task_at(lane.task)
    if not task.busy and not task.blocked:
        call(s.work_on, s.here, task.here)


@compiled
def cross(s: Any, here_leg: int, here: int) -> None:
    """Sends a record over one hop of its route; after the last, it is on its way to its inbox."""
    leg, item = k.leg_at(here_leg), k.item_at(here)
    leg.records += records_in(item)
    item.path = leg.here if leg.onward != 0 else leg.path
    latency_s = leg.latency_s
    if leg.jitter != 0:
        latency_s = max(latency_s * factor(s, leg.jitter), leg.arrival_s - (item.at_s + wait_s(leg.card, item.at_s)))
    transmit(s, leg.card, leg.lane, leg.bytes_each, latency_s, here)
    leg.arrival_s = item.at_s


@compiled
def factor(s: Any, here: int) -> float:
    """Factor on the latency of a card or link now."""
    jitter = k.jitter_at(here)
    while s.now >= (jitter.knot + 1) * KNOT_S:
        call(s.call_python, k.KNOT, here)
    share = max(0.0, s.now / KNOT_S - jitter.knot)
    return jitter.low + share * (jitter.high - jitter.low)


@compiled
def wait_s(here_card: int, at_s: float) -> float:
    """Time in seconds that a record waits before it is sent."""
    card = k.card_at(here_card)
    return max(0.0, card.backlog_s - max(0.0, at_s - card.last_s))


@compiled
def transmit(s: Any, here_card: int, here_lane: int, bytes_each: float, latency_s: float, here: int) -> None:
    """A card or link sends a record, behind what waits there; then it is under way for its latency."""
    card, lane, item = k.card_at(here_card), k.lane_at(here_lane), k.item_at(here)
    time_s = bytes_each / card.bytes_per_s
    least_s = time_s
    if item.mark != 0:
        time_s, least_s = CONTROL_S, least_s + CONTROL_S
    elapsed_s = item.at_s - card.last_s
    backlog_s = card.backlog_s
    if elapsed_s > 0.0:
        card.last_s = item.at_s
        backlog_s -= elapsed_s
        if backlog_s < 0.0:
            backlog_s = 0.0
    backlog_s += time_s
    card.backlog_s = backlog_s
    item.sent_s, item.latency_s = item.at_s, latency_s
    item.at_s = item.at_s + ((backlog_s if backlog_s > least_s else least_s) + latency_s)
    if item.mark == 0:
        card.bytes_out += bytes_each
        card.records_in += 1
    item.order = next_sequence(s)
    if put(lane, here):
        if lane.slot >= 0:
            schedule(s, lane.slot, item.at_s, item.order)
        else:
            expect(s, k.task_at(lane.task), item)


@inlined
def expect(s: Any, task: Any, item: Any) -> None:
    """Sets the event of an idle task to an arrival, if that is its first."""
    if task.busy or task.blocked or task.halted:
        return
    slot = task.slot
    at_s = float_at(s.times + 8 * slot).value
    if item.at_s < at_s or (item.at_s == at_s and item.order < whole_at(s.orders + 8 * slot).value):
        schedule(s, slot, item.at_s, item.order)


@compiled
def hop(s: Any, lane: Any) -> None:
    """Sends a record that has crossed a card or link over its next hop, or delivers it to a pool."""
    here = take(lane)
    if lane.head != 0:
        first = k.item_at(lane.head)
        schedule(s, lane.slot, first.at_s, first.order)
    else:
        cancel(s, lane.slot)
    if lane.pool != 0:
        deliver_to_pool(s, k.pool_at(lane.pool), here)
    else:
        cross(s, k.leg_at(k.item_at(here).path).onward, here)


@compiled
def deliver_to_pool(s: Any, pool: Any, here: int) -> None:
    """Hands a record to the subtask that has been idle longest, or lets it wait."""
    item = k.item_at(here)
    if pool.onward != 0:
        if pool.undone and item.mark != 0:
            release(s, here)
            return
        item.at_s, item.order = s.now, s.event_sequence
        arrive(s, pool.onward, here)
        return
    while pool.first_idle != 0:
        member = k.task_at(pool.first_idle)
        pool.first_idle = member.next_idle
        member.listed = 0
        if not member.busy and not member.blocked and not member.halted and first_lane(member) == 0:
            item.at_s, item.order = s.now, s.event_sequence
            put(k.lane_at(member.lane), here)
            call(s.work_on, s.here, member.here)
            return
    item.order = whole_at(pool.members + 8 * pool.turn).value
    pool.turn = pool.turn + 1 if pool.turn + 1 < pool.count else 0
    append(pool.here + k.POOLED, here, k.NEXT)


@compiled
def next_of_pool(task: Any) -> int:
    """Takes the record that has waited longest, for a free subtask; if none waits, the subtask is listed as idle."""
    pool = k.pool_at(task.pool)
    here = pool.head
    if here != 0:
        pool.head = k.item_at(here).next
    elif task.listed == 0:
        task.listed = 1
        append(pool.here + k.RESTING, task.here, k.NEXT_IDLE)
    return here


def count_pool(_: int, here: int) -> int:
    """Counts the waiting records of a pool as queued at their members."""
    at = k.pool_at(here).head
    while at != 0:
        k.task_at(k.item_at(at).order).queued += 1
        at = k.item_at(at).next
    return 0
