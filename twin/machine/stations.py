"""Subtasks: each takes records in order, holds the CPU for each, and sends its results.

Windows over time are evaluated by jobs of their own.
"""

from __future__ import annotations

import math
from typing import Any

from twin.histograms import CHANNEL_TIME, QUEUE_TIME, RESULT_TIME, SERVICE_TIME
from twin.machine import layout as k
from twin.machine.backpressure import take_up
from twin.machine.calendar import cancel, ring_at, start_job
from twin.machine.draws import service
from twin.machine.items import new_item, release, spend
from twin.machine.logics import emit, follow, leave_chain, plan, plan_chain, push_results, send_listed
from twin.machine.native import call, compiled, float_at, inlined, whole_at
from twin.machine.windows import evaluate, forget, leave


@compiled
def boundary(s: Any, window: Any, task: Any) -> None:
    """Ends a window over time; its evaluation waits until the station is free."""
    if task.halted:
        cancel(s, window.slot)
        return
    at_s = window.boundary_s
    window.boundary_s = at_s + window.slide
    ring_at(s, window.slot, max(window.boundary_s, s.now + 1e-9))
    if task.blocked or task.busy:
        add_timer(s, task, window.here, at_s)
    else:
        evaluate_due(s, window, task, at_s)


@compiled
def add_timer(s: Any, task: Any, window: int, at_s: float) -> None:
    """Notes an evaluation, or other work, that waits until a task is free."""
    if task.timers_count == task.timers_room:
        call(s.call_python, k.TIMERS, task.here)
    place = task.timers_first + task.timers_count
    if place >= task.timers_room:
        place -= task.timers_room
    timer = k.timer_at(task.timers + k.TIMER_BYTES * place)
    timer.window, timer.at_s = window, at_s
    task.timers_count += 1


@compiled
def next_timer(s: Any, task: Any) -> None:
    """Starts the evaluation that has waited longest."""
    timer = k.timer_at(task.timers + k.TIMER_BYTES * task.timers_first)
    task.timers_first += 1
    if task.timers_first == task.timers_room:
        task.timers_first = 0
    task.timers_count -= 1
    if timer.window == 0:  # other work, of so many seconds
        start_work(s, task, timer.at_s)
    elif timer.window < 0:  # what was due at a logic in Python
        s.asked = timer.at_s
        call(s.call_python, k.DUE, -timer.window)
        follow_up(s, task)
    else:
        window = k.window_at(timer.window)
        if window.whole == 0:
            evaluate_due(s, window, task, timer.at_s)
        else:
            evaluate_part(s, window, task, timer.at_s)


@compiled
def evaluate_due(s: Any, window: Any, task: Any, at_s: float) -> None:
    """Evaluates the window that ended at `at_s`, as a job of its own."""
    work_s = evaluate(s, window, at_s, task.stream)
    forget(window, at_s + window.slide - window.length, int(at_s / window.slide + 0.5))
    send_evaluated(s, window, task, work_s)


@compiled
def evaluate_part(s: Any, part: Any, task: Any, at_s: float) -> None:
    """Evaluates a part of a window's content, as far as it belongs to the window that ended at `at_s`."""
    window = k.window_at(part.whole)
    contents = window.contents
    window.contents = part.contents
    work_s = evaluate(s, window, at_s, task.stream)
    window.contents = contents
    send_evaluated(s, window, task, work_s)


@compiled
def send_evaluated(s: Any, window: Any, task: Any, work_s: float) -> None:
    """Lets the results of an evaluation leave, after `work_s` seconds and those that it takes to send them."""
    if task.steps > 1:
        push_results(s, task, k.logic_at(window.logic))
        work_s += follow(s, task)
    else:
        work_s += window.found_count * task.send_s
    start_work(s, task, work_s)


@compiled
def follow_up(s: Any, task: Any) -> None:
    """Sends what a logic in Python has listed, and begins the work that it has asked for."""
    if task.leaving != 0:
        send_listed(s, task)
    if task.job_due:
        task.job_due = 0
        start_work(s, task, task.job_s)


@compiled
def start_work(s: Any, task: Any, work_s: float) -> None:
    """Begins work of so many core-seconds that is no service."""
    processor = k.processor_at(task.processor)
    work_s *= processor.slowdown
    processor.work_s += work_s
    task.busy, task.evaluating = 1, 1
    task.since_s, task.in_service_work_s = s.now, work_s
    if work_s <= 0.0:
        end_evaluation(s, task)
    elif task.shared:
        cancel(s, task.slot)
        start_job(s, processor, task, work_s)
    else:
        ring_at(s, task.slot, s.now + work_s / processor.speed)


@compiled
def end_evaluation(s: Any, task: Any) -> None:
    """Ends an evaluation: its results leave."""
    task.evaluating = 0
    task.busy_s += s.now - task.since_s
    task.free_s = s.now
    if task.outcome:
        leave_in_python(s, task)
    elif task.steps > 1:
        here = task.planned
        while here != 0:
            item = k.item_at(here)
            spend(task.spent, RESULT_TIME, s.now - item.ready_s)
            here = item.next
        leave_chain(s, task, s.now)
    elif k.logic_at(task.logic).window != 0:
        leave(s, task, k.window_at(k.logic_at(task.logic).window), s.now)
    task.busy = 0


@compiled
def leave_in_python(s: Any, task: Any) -> None:
    """Sends the results that a logic in Python has kept until the end of its work."""
    task.outcome = 0
    call(s.call_python, k.LEAVE, task.here)
    send_listed(s, task)


@inlined
def begin(s: Any, task: Any, here: int) -> None:
    """Begins the service of a record."""
    task.busy = 1
    task.records_in += 1
    item = k.item_at(here)
    each_s, work_s = task.service_s, 0.0
    if item.path != 0:
        path = k.path_at(item.path)
        inbox = k.inbox_at(path.inbox)
        each_s += inbox.beyond_s
        work_s = path.fetch_s
        inbox.credits += 1
        if inbox.first_waiting != 0:
            call(s.wake_up, s.here, inbox.here)
        if path.channel != 0:
            take_up(s, k.channel_at(path.channel))
    processor = k.processor_at(task.processor)
    work_s += plan(s, task, k.logic_at(task.logic), here) if task.steps == 1 else plan_chain(s, task, here)
    if each_s > 0.0:
        work_s += service(s, task.stream) * each_s
    work_s *= processor.slowdown
    processor.work_s += work_s
    task.in_service_work_s = work_s
    start_s = s.now
    if task.free_s > start_s:  # a pause
        start_s = task.free_s
    if item.path != 0:
        counts = k.counts_at(k.path_at(item.path).counts)
        counts.records += 1
        counts.took_s += start_s - item.taken_s - item.left_s
        if item.at_s >= 0.0:
            spend(task.spent, CHANNEL_TIME, item.at_s - item.taken_s - item.left_s)
            spend(task.spent, QUEUE_TIME, start_s - item.at_s)
        else:  # it was put aside (`twin.change.barriers`)
            spend(task.spent, QUEUE_TIME, start_s - item.came_s)
    elif task.broker:
        spend(task.spent, QUEUE_TIME, start_s - item.born_s)
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
    """Ends a service: its results leave."""
    if task.end_s > task.free_s:
        task.free_s = task.end_s
    task.busy_s += task.time_s
    spend(task.spent, SERVICE_TIME, task.end_s - task.start_s)
    if task.steps == 1:
        emit(s, task, k.logic_at(task.logic), task.current)
    else:
        leave_chain(s, task, task.end_s)
        release(s, task.current)
    task.busy = 0


@compiled
def job_done(s: Any, task: Any) -> None:
    """Ends a task's work on a shared processor, whose job is done."""
    if not task.busy:  # work beside its records, of a subtask that moves
        call(s.call_python, k.WORKED, task.here)
        return
    if task.evaluating:
        finish(s, task)
        return
    task.end_s = s.now
    task.time_s += s.now - task.since_s
    finish(s, task)


@compiled
def finish(s: Any, task: Any) -> None:
    """Ends a service or an evaluation, takes barriers that have waited for this, and begins the next work."""
    if task.evaluating:
        end_evaluation(s, task)
    else:
        complete(s, task)
    if task.barrier:
        task.barrier = 0
        call(s.call_python, k.FREE, task.here)
    call(s.work_on, s.here, task.here)


# the broker before a source ------------------------------------------------------------------------------------------


@compiled
def next_arrival(s: Any, broker: Any) -> float:
    """Time at which the first record that was not taken comes, or came."""
    if broker.place == broker.count:
        call(s.call_python, k.ARRIVALS, broker.here)
    return float_at(broker.times + 8 * broker.place).value


@inlined
def poll(s: Any, broker: Any) -> int:
    """Takes the first record to read again, or else the one that has waited longest; returns 0 if none has come."""
    again = 0
    if broker.again_place < broker.again_count:
        born_s, again = float_at(broker.again + 8 * broker.again_place).value, 1
        broker.again_place += 1
    else:
        born_s = next_arrival(s, broker)
        if born_s > s.now:
            return 0
        broker.place += 1
        broker.taken += 1
    if broker.logs:
        if broker.logged == broker.log_room:
            call(s.call_python, k.LOG, broker.here)
        float_at(broker.log + 8 * broker.logged).value = born_s
        if broker.notes:
            take_note(broker, again)
        broker.logged += 1
    here = new_item(s)
    item = k.item_at(here)
    item.born_s, item.taken_s, item.path, item.key, item.left_s = born_s, 0.0, 0, -1, 0.0
    return here


@compiled
def take_note(broker: Any, again: int) -> None:
    """Notes the event time of a record that is taken: that of before, if it is read again."""
    note = k.note_at(broker.notes + k.NOTE_BYTES * broker.logged)
    note.at_us, note.digest = 0, 0
    if again:
        before = k.note_at(broker.again_notes + k.NOTE_BYTES * (broker.again_place - 1))
        note.at_us, note.digest = before.at_us, before.digest


@inlined
def await_arrival(s: Any, task: Any) -> None:
    """Sets the event of an idle source to the next arrival, unless it is set."""
    slot, at_s = task.slot, float_at(s.times + 8 * task.slot).value
    if at_s < math.inf and (at_s > s.now or (at_s == s.now and whole_at(s.orders + 8 * slot).value > s.event_sequence)):
        return
    next_s = next_arrival(s, k.broker_at(task.broker))
    if next_s < math.inf:
        ring_at(s, slot, next_s)
    else:
        cancel(s, slot)


@compiled
def occupy_now(state: int, here: int) -> int:
    """Gives a task `asked` CPU seconds of work: before the next record, or now if it is idle."""
    s, task = k.state_at(state), k.task_at(here)
    if not (task.busy or task.blocked):
        start_work(s, task, s.asked)
        return 0
    add_timer(s, task, 0, s.asked)
    return 0


@compiled
def finish_now(state: int, here: int) -> int:
    """Sends what a service or evaluation had made when it was kept. `subject`: the record that was served, if any."""
    s, task = k.state_at(state), k.task_at(here)
    served = s.subject
    if task.outcome:
        leave_in_python(s, task)
    elif task.steps > 1:
        leave_chain(s, task, s.now)
        if served != 0:
            release(s, served)
    elif served != 0:
        task.end_s = s.now
        emit(s, task, k.logic_at(task.logic), served)
    elif k.logic_at(task.logic).window != 0:
        leave(s, task, k.window_at(k.logic_at(task.logic).window), s.now)
    return 0


@compiled
def follow_up_now(state: int, here: int) -> int:
    """Sends what a logic in Python has listed between two events, and begins the work that it has asked for."""
    follow_up(k.state_at(state), k.task_at(here))
    return 0
