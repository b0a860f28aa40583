"""A task at work: it takes records in order, holds the CPU for each, sends what they become (twin.engine.station)."""

from __future__ import annotations

import math
from typing import Any

from twin.kernel.calendar import cancel, ring_at
from twin.kernel.chains import leave_chain, plan_chain
from twin.kernel.draws import service
from twin.kernel.evaluations import end_evaluation
from twin.kernel.items import new_item, release
from twin.kernel.layout import (
    ARRIVALS,
    LOG,
    broker_at,
    inbox_at,
    item_at,
    logic_at,
    path_at,
    processor_at,
    way_at,
)
from twin.kernel.logics import emit, plan
from twin.kernel.native import call, compiled, float_at, inlined, whole_at
from twin.kernel.processors import start_job


@inlined
def begin(s: Any, task: Any, here: int) -> None:
    """Takes a record up."""
    task.busy = 1
    task.tuples_in += 1
    item = item_at(here)
    each_s, work_s = task.service_s, 0.0
    if item.path != 0:
        path = path_at(item.path)
        inbox = inbox_at(path.inbox)
        each_s += inbox.beyond_s
        work_s = path.fetch_s
        inbox.credits += 1
        if inbox.first_waiting != 0:
            call(s.wake_up, s.here, inbox.here)
    processor = processor_at(task.processor)
    work_s += plan(s, task, logic_at(task.logic), here) if task.steps == 1 else plan_chain(s, task, here)
    if each_s > 0.0:
        work_s += service(s, task.stream) * each_s
    work_s *= processor.slowdown
    processor.work_s += work_s
    task.in_service_work_s = work_s
    start_s = s.now
    if task.free_s > start_s:  # a pause
        start_s = task.free_s
    if item.path != 0:
        way = way_at(path_at(item.path).way)
        way.tuples += 1
        way.took_s += start_s - item.taken_s - item.left_s
    task.since_s = start_s
    time_s = work_s / processor.speed
    end_s = start_s + time_s
    task.current, task.start_s, task.end_s, task.time_s = here, start_s, end_s, time_s
    if end_s <= start_s:
        complete(s, task)
    elif task.shared:
        task.time_s = 0.0
        task.since_s = s.now
        cancel(s, task.slot)
        start_job(s, processor, task, work_s)
    else:
        ring_at(s, task.slot, end_s)


@inlined
def complete(s: Any, task: Any) -> None:
    """The service ends: what it comes to leaves."""
    if task.end_s > task.free_s:
        task.free_s = task.end_s
    task.busy_s += task.time_s
    if task.steps == 1:
        emit(s, task, logic_at(task.logic), task.current)
    else:
        leave_chain(s, task, task.end_s)
        release(s, task.current)
    task.busy = 0


@compiled
def job_done(s: Any, task: Any) -> None:
    """Its job on a shared processor has ended."""
    if task.evaluating:
        finish(s, task)
        return
    task.end_s = s.now
    task.time_s += s.now - task.since_s
    finish(s, task)


@compiled
def finish(s: Any, task: Any) -> None:
    """The service ends, or an evaluation, and the next one begins."""
    if task.evaluating:
        end_evaluation(s, task)
    else:
        complete(s, task)
    call(s.work_on, s.here, task.here)


# the broker before a source ------------------------------------------------------------------------------------------


@compiled
def next_arrival(s: Any, broker: Any) -> float:
    """When the first record comes, or came, that was not taken."""
    if broker.place == broker.count:
        call(s.call_python, ARRIVALS, broker.here)
    return float_at(broker.times + 8 * broker.place).value


@inlined
def poll(s: Any, broker: Any) -> int:
    """The record that has waited longest, those first that are read again; 0 if none has come."""
    if broker.again_place < broker.again_count:
        born_s = float_at(broker.again + 8 * broker.again_place).value
        broker.again_place += 1
    else:
        born_s = next_arrival(s, broker)
        if born_s > s.now:
            return 0
        broker.place += 1
        broker.taken += 1
    if broker.logs:
        if broker.logged == broker.log_room:
            call(s.call_python, LOG, broker.here)
        float_at(broker.log + 8 * broker.logged).value = born_s
        broker.logged += 1
    here = new_item(s)
    item = item_at(here)
    item.born_s, item.taken_s, item.path, item.key, item.left_s = born_s, 0.0, 0, -1, 0.0
    return here


@inlined
def await_arrival(s: Any, task: Any) -> None:
    """An idle source waits for the next record, if it does not yet."""
    slot, at_s = task.slot, float_at(s.times + 8 * task.slot).value
    if at_s < math.inf and (at_s > s.now or (at_s == s.now and whole_at(s.orders + 8 * slot).value > s.event_sequence)):
        return
    next_s = next_arrival(s, broker_at(task.broker))
    if next_s < math.inf:
        ring_at(s, slot, next_s)
    else:
        cancel(s, slot)
