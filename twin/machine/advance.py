"""Main loop of compiled code: from one event to the next, until the next event of SimPy's calendar is due."""

from __future__ import annotations

from math import inf
from typing import Any

from twin.machine import layout as k
from twin.machine.async_calls import answer, fly_now, through_gate
from twin.machine.backpressure import block_now, go_on_now, mark_now, retry, unblock_now
from twin.machine.calendar import (
    EPSILON,
    advance_clock,
    arm,
    cancel,
    cancel_now,
    pop,
    refresh_now,
    relevel,
    schedule,
    start_now,
)
from twin.machine.channels import flush, flush_now, refill_port
from twin.machine.items import commit_now, count_came, first_lane, plant, put_now, release, take_first
from twin.machine.native import call, compiled, entries, float_at, inlined, whole_at
from twin.machine.stations import (
    await_arrival,
    begin,
    boundary,
    finish,
    finish_now,
    follow_up,
    follow_up_now,
    job_done,
    next_timer,
    occupy_now,
    poll,
)
from twin.machine.stores import chain_all, end_sessions, expire_now
from twin.machine.wires import count_pool, hop, next_of_pool


@compiled
def ring(s: Any, processor: Any) -> None:
    """Ends the jobs of a processor that are done now. Their tasks may begin others; then all jobs get new shares."""
    cancel(s, processor.slot)
    processor.armed_s = inf
    if processor.jobs == 0:
        return
    advance_clock(s, processor)
    if k.job_at(processor.heap).end - processor.clock > EPSILON:
        arm(s, processor)
        return
    # jobs that are done are linked, as their tasks may begin others only when all have left the heap
    processor.ringing = 1
    first = 0
    last = 0
    while processor.jobs > 0 and k.job_at(processor.heap).end - processor.clock <= EPSILON:
        owner = pop(processor.heap, processor.jobs)
        processor.jobs -= 1
        k.task_at(owner).order = 0
        if first == 0:
            first = owner
        else:
            k.task_at(last).order = owner
        last = owner
    while first != 0:
        task = k.task_at(first)
        first = task.order
        job_done(s, task)
    processor.ringing = 0
    relevel(s, processor)


def _wake_up(state: int, here: int) -> int:
    """Lets waiting producers send what the credits of an inbox now allow."""
    s, inbox = k.state_at(state), k.inbox_at(here)
    if inbox.draining:  # a delivery may give credits back while the loop below runs
        return 0
    inbox.draining = 1
    while inbox.first_waiting != 0 and retry(s, k.port_at(inbox.first_waiting), inbox):
        pass
    inbox.draining = 0
    return 0


@inlined
def next_record(s: Any, task: Any) -> int:
    """Takes the first record that has come to a task; returns 0, with the event of the next arrival set, if none
    has."""
    if task.broker:
        if task.most_pending and task.pending >= task.most_pending:
            cancel(s, task.slot)
            return 0
        here = poll(s, k.broker_at(task.broker))
        if here == 0:
            await_arrival(s, task)
        elif task.most_pending:
            plant(s, task, here)
        return here
    found = first_lane(task)
    if found == 0:
        here = next_of_pool(task) if task.pool else 0
        if here == 0:
            cancel(s, task.slot)
        return here
    lane = k.lane_at(found)
    head = k.item_at(lane.head)
    if head.at_s > s.now or (head.at_s == s.now and head.order > s.event_sequence):
        schedule(s, task.slot, head.at_s, head.order)
        return 0
    return take_first(task, lane)


@compiled
def held_aside(s: Any, task: Any, here: int) -> bool:
    """Whether a record or watermark has to wait until the barriers of all other inputs have come; then it is put
    aside."""
    call(s.call_python, k.HOLDS, here)
    held = task.aside != 0
    task.aside = 0
    return bool(held)


def _work_on(state: int, here: int) -> int:
    """Serves waiting records until a service takes time or the station is blocked."""
    s, task = k.state_at(state), k.task_at(here)
    while not task.busy and not task.blocked and not task.halted:
        if task.timers_count:
            next_timer(s, task)
        else:
            here = next_record(s, task)
            if here == 0:
                return 0
            mark = k.item_at(here).mark
            if task.aligning and mark != k.BARRIER and held_aside(s, task, here):
                continue
            if mark != 0:
                call(s.call_python, k.MARKED, here)
                release(s, here)
                follow_up(s, task)
            else:
                begin(s, task, here)
    if not task.busy:
        cancel(s, task.slot)
    return 0


def _advance(state: int, until_order: int) -> int:
    """Processes the events before (s.until, until_order), as long as `left` lasts. Returns their number."""
    s = k.state_at(state)
    s.until_order = until_order
    events = 0
    while s.stopped == 0 and s.left > events:
        slot = whole_at(s.tree + 8).value
        at_s, order = float_at(s.times + 8 * slot).value, whole_at(s.orders + 8 * slot).value
        if at_s > s.until or (at_s == s.until and order >= s.until_order):
            break
        s.now, s.event_sequence = at_s, order
        events += 1
        kind, owner = whole_at(s.kinds + 8 * slot).value, whole_at(s.owners + 8 * slot).value
        if kind == k.TASKS:
            task = k.task_at(owner)
            if task.busy:
                finish(s, task)
            else:
                call(s.work_on, state, owner)
        elif kind == k.PROCESSORS:
            ring(s, k.processor_at(owner))
        elif kind == k.PORTS:
            port = k.port_at(owner)
            schedule(s, slot, inf, 0)
            port.armed = 0
            flush(s, port)
        elif kind == k.LANES:
            hop(s, k.lane_at(owner))
        elif kind == k.WINDOWS:
            window = k.window_at(owner)
            boundary(s, window, k.task_at(window.task))
        elif kind == k.SESSIONS:
            store = k.store_at(owner)
            end_sessions(s, store, k.task_at(store.task))
        elif kind == k.ANSWERS:
            calling = k.calling_at(owner)
            answer(s, k.task_at(calling.task), calling)
        elif kind == k.TURNS:
            calling = k.calling_at(owner)
            through_gate(s, k.task_at(calling.task), calling)
    s.left -= events
    return events


@compiled
def count_waiting(state: int, first: int) -> int:
    """Counts the records in lanes, from one lane on, as queued at their tasks or as under way on their cards."""
    s, here = k.state_at(state), first
    while here != 0:
        lane = k.lane_at(here)
        if lane.task != 0:
            k.task_at(lane.task).queued = 0
        if lane.card != 0:
            k.card_at(lane.card).flying = 0
        here = lane.after
    here = first
    while here != 0:
        lane = k.lane_at(here)
        came = 0
        if lane.task != 0:
            came = count_came(s, lane)
            k.task_at(lane.task).queued += came
        if lane.card != 0:
            k.card_at(lane.card).flying += lane.total - came
        here = lane.after
    return 0


def _do(state: int, here: int) -> int:
    """Does what Python asks for with `what`: rare work on one structure. One function, as each is compiled whole."""
    s = k.state_at(state)
    if s.what == k.RECOUNT:
        return count_waiting(state, here)
    if s.what == k.SEND_MARK:
        return mark_now(state, here)
    if s.what == k.BLOCK:
        return block_now(state, here)
    if s.what == k.UNBLOCK:
        return unblock_now(state, here)
    if s.what == k.FLUSH:
        return flush_now(state, here)
    if s.what == k.OCCUPY:
        return occupy_now(state, here)
    if s.what == k.COMMIT:
        return commit_now(state, here)
    if s.what == k.PUT_BACK:
        return put_now(state, here)
    if s.what == k.CANCEL_JOB:
        return cancel_now(state, here)
    if s.what == k.START_JOB:
        return start_now(state, here)
    if s.what == k.REFRESH:
        return refresh_now(state, here)
    if s.what == k.GO_ON:
        return go_on_now(state, here)
    if s.what == k.FLY:
        return fly_now(state, here)
    if s.what == k.FOLLOW_UP:
        return follow_up_now(state, here)
    return finish_now(state, here)


wake_up, work_on, refill, advance, count_pooled, expire, chain, do = entries(
    _wake_up, _work_on, refill_port, _advance, count_pool, expire_now, chain_all, _do
)
