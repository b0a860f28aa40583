"""Logics in compiled code: what a record becomes is decided as its service begins, and sent as it
ends.

A chain takes a record through all its logics within one service. Records between two
logics lie on a stack, so that all results of one record are found before the next one's turn, as if each logic called
those that follow it, one after the other: first its own streams that leave the task (`EXIT`), then the others.
"""

from __future__ import annotations

from typing import Any

from twin.histograms import WINDOW_TIME
from twin.machine import layout as k
from twin.machine.async_calls import ask
from twin.machine.channels import port_of, send, send_among, send_on, send_times
from twin.machine.draws import rounded, service, uniform
from twin.machine.items import MANY, append, collect, copy_of, goes_on, new_item, release, spend
from twin.machine.native import call, compiled, inlined
from twin.machine.python_logics import add_to_pane, let_emit, listed, plan_compute, plan_in_python, send_one
from twin.machine.stores import join_session, plan_session, remember
from twin.machine.windows import emit_window, last_us, plan_window, put_in

US_PER_S = 1e6


@compiled
def plan(s: Any, task: Any, logic: Any, here: int) -> float:
    """Decides what a record becomes; returns the CPU seconds that this takes beyond its service."""
    kind = logic.kind
    if kind == k.COLLECT:
        return 0.0
    if kind in (k.SELECT, k.REMEMBER):
        return plan_select(s, task, logic, k.item_at(here))
    if kind == k.WINDOW_OF:
        return plan_window(s, task, logic, k.item_at(here))
    if kind == k.ROUTE:
        return plan_route(s, task, logic)
    if kind == k.SESSION:
        return plan_session(s, task, logic, k.item_at(here))
    if kind == k.IN_PYTHON:
        return plan_in_python(s, logic, here)
    if kind == k.COMPUTE:
        return plan_compute(s, task, logic, here)
    if kind in (k.READ, k.READ_DATED):
        item = k.item_at(here)
        item.taken_s = s.now if s.now > task.free_s else task.free_s
        item.ready_s = item.taken_s
    return logic.send_s


@inlined
def plan_select(s: Any, task: Any, logic: Any, item: Any) -> float:
    """Draws how many records leave; a record that changes a table is kept."""
    if logic.side >= 0 and item.path != 0 and k.inbox_at(k.path_at(item.path).inbox).side == logic.side:
        logic.results = 0
        logic.dropped += 1
        return 0.0
    results = 1
    if logic.thins:
        if logic.selectivity != 1.0:
            results = 1 if uniform(s, task.stream) < logic.selectivity else 0
    elif logic.selectivity != 1.0:
        results = rounded(s, task.stream, logic.selectivity)
    logic.results = results
    if results == 0:
        logic.dropped += 1
    return results * logic.send_s


@compiled
def plan_route(s: Any, task: Any, logic: Any) -> float:
    """Draws the streams to which a record goes; returns the CPU seconds of sending it."""
    left, rest_share, work_s = 1, 1.0, 0.0
    for number in range(task.ports):
        share = k.part_at(logic.parts + k.PART_BYTES * number).share
        chance = 0.0
        if rest_share > 0.0:
            chance = share / rest_share
            if chance > 1.0:
                chance = 1.0
        part = 0
        if left and uniform(s, task.stream) < chance:
            part = 1
        k.part_at(logic.parts + k.PART_BYTES * number).part = part
        work_s += part * port_of(task, number).send_s
        if logic.thins:  # to one stream at most
            left -= part
            rest_share -= share
    logic.results = 1 - left if logic.thins else 1
    logic.dropped += 1 - logic.results
    return work_s


@inlined
def emit(s: Any, task: Any, logic: Any, here: int) -> None:
    """Sends what a record became."""
    kind = logic.kind
    k.item_at(here).at_s = task.end_s
    if kind == k.COLLECT:
        collect(s, logic.sink, here)
    elif kind in (k.SELECT, k.REMEMBER):
        if kind == k.REMEMBER:
            remember(s, k.store_at(logic.store), k.item_at(here).key, task.end_s)
        if task.tail != 0:
            send_to_tail(s, task, logic.results, here)
        else:
            send_times(s, task, logic.results, here)
    elif kind == k.WINDOW_OF:
        emit_window(s, task, logic, k.item_at(here))
        release(s, here)
    elif kind == k.ROUTE:
        emit_routed(s, task, logic, here)
    elif kind == k.SESSION:
        join_session(s, k.store_at(logic.store), k.item_at(here))
        release(s, here)
    elif kind == k.CALL:
        ask(s, task, k.calling_at(logic.calls), here)
    elif kind == k.COMPUTE and k.item_at(here).at_us >= k.computing_at(logic.computing).watermark:
        add_to_pane(s, k.computing_at(logic.computing), here)
    elif kind in (k.IN_PYTHON, k.COMPUTE):
        let_emit(s, logic, here)
        send_listed(s, task)
    elif kind == k.READ_DATED:
        emit_dated(s, task, logic, here)
    elif task.tail != 0:
        through_tail(s, task, here)
    else:
        send(s, task, here)


@compiled
def emit_dated(s: Any, task: Any, logic: Any, here: int) -> None:
    """Sends a record with its event time, behind the watermark that it gives rise to."""
    item, dated = k.item_at(here), k.dated_at(logic.dated)
    at_us = int(item.born_s * US_PER_S)
    if dated.disorder != 0 or dated.lasting:
        at_us -= int(uniform(s, task.stream) * dated.disorder)
    item.at_us, item.digest = at_us, 0
    if dated.lasting:
        broker = k.broker_at(task.broker)
        note = k.note_at(broker.notes + k.NOTE_BYTES * (broker.logged - 1))
        if note.digest == 0:
            call(s.call_python, k.DIGEST, logic.here)
            note.at_us, note.digest = at_us, logic.passing
        item.at_us, item.digest = note.at_us, note.digest
    if item.at_us > dated.newest:
        dated.newest = item.at_us
        pane = (item.at_us - dated.slack - dated.offset) // dated.length if dated.length != 0 else 0
        if dated.length != 0 and dated.offset + pane * dated.length > dated.marked:
            dated.marked = dated.offset + pane * dated.length
            call(s.call_python, k.TELL, logic.here)
            send_listed(s, task)
    if task.tail != 0:
        through_tail(s, task, here)
    else:
        send(s, task, here)
    if dated.due != 0:
        dated.due = 0
        dated.marked = max(dated.marked, dated.newest - dated.slack)
        call(s.call_python, k.TELL, logic.here)
        send_listed(s, task)


@compiled
def send_listed(s: Any, task: Any) -> None:
    """Sends what a logic in Python has listed, in its order."""
    here = listed(task)
    while here != 0:
        item = k.item_at(here)
        following = item.next
        if item.step != 0:
            send_one(s, task, here)
        elif task.tail != 0:
            through_tail(s, task, here)
        else:
            send(s, task, here)
        here = following


@compiled
def send_to_tail(s: Any, task: Any, times: int, here: int) -> None:
    """Sends `times` records that are as old as this one through the logics that take them at once."""
    for number in range(times - 1):
        if number % MANY == MANY - 1 and not goes_on(s, MANY):
            break
        through_tail(s, task, copy_of(s, here))
    if times:
        through_tail(s, task, here)
    else:
        release(s, here)


@compiled
def through_tail(s: Any, task: Any, here: int) -> None:
    """Takes a record at once through the logics behind the one that sends it."""
    hand_on(s, task, k.logic_at(task.logic), here)
    while task.stack != 0:
        here = task.stack
        item = k.item_at(here)
        task.stack = item.next
        logic = k.logic_at(item.step)
        if logic.kind == k.EXIT:
            leave_by(s, task, logic, here)
            continue
        logic.came += 1
        if logic.kind == k.COLLECT:
            collect(s, logic.sink, here)
        else:
            plan_select(s, task, logic, item)
            pass_times(s, task, logic, logic.results, here)


@compiled
def pass_times(s: Any, task: Any, logic: Any, times: int, here: int) -> None:
    """Hands `times` records that are as old as this one to the logics that follow."""
    for number in range(times - 1):
        if number % MANY == MANY - 1 and not goes_on(s, MANY):
            break
        hand_on(s, task, logic, copy_of(s, here))
    if times:
        hand_on(s, task, logic, here)
    else:
        release(s, here)


@compiled
def hand_on(s: Any, task: Any, logic: Any, here: int) -> None:
    """Hands a record to the logics that follow; all but the first of them get copies. What is put on the stack last is
    taken first."""
    if logic.lots:
        k.item_at(here).lot = uniform(s, logic.lots)
    step = logic.next
    while k.logic_at(step).beside != 0:
        push(task, copy_of(s, here), step)
        step = k.logic_at(step).beside
    push(task, here, step)


@compiled
def leave_by(s: Any, task: Any, way: Any, here: int) -> None:
    """Sends a record on the streams of one logic of a chain."""
    way.came += 1
    if way.lots:
        k.item_at(here).lot = uniform(s, way.lots)
    send_among(s, task, way.port, way.ports, here)


@compiled
def emit_routed(s: Any, task: Any, logic: Any, here: int) -> None:
    """Sends a record to the streams that were drawn."""
    results = logic.results
    task.records_out += results
    if task.lots and results:
        k.item_at(here).lot = uniform(s, task.lots)
    k.item_at(here).left_s = k.item_at(here).at_s - k.item_at(here).taken_s
    for number in range(task.ports):
        port = port_of(task, number)
        part = k.part_at(logic.parts + k.PART_BYTES * number).part
        port.passed_over += results - part
        if part:
            send_on(s, port, copy_of(s, here))
    release(s, here)


@compiled
def plan_chain(s: Any, task: Any, here: int) -> float:
    """Takes a record through all logics; returns the CPU seconds beyond the first one's service."""
    head, passing = k.logic_at(task.logic), copy_of(s, here)
    work_s = plan(s, task, head, passing)
    pass_on(s, task, head, passing)
    return work_s + follow(s, task)


@compiled
def follow(s: Any, task: Any) -> float:
    """Takes the records on the stack through the logics that follow; returns the CPU seconds of this."""
    work_s = 0.0
    while task.stack != 0:
        here = task.stack
        item = k.item_at(here)
        task.stack = item.next
        logic = k.logic_at(item.step)
        if logic.kind == k.EXIT:
            work_s += logic.send_s
            append(task.here + k.PLANNED, here, k.NEXT)  # it leaves when the service ends
            continue
        logic.came += 1
        each_s = service(s, logic.stream) * logic.service_s if logic.service_s > 0.0 else 0.0
        if logic.kind == k.COLLECT:
            work_s += each_s
            append(task.here + k.PLANNED, here, k.NEXT)
        else:
            work_s += each_s + plan(s, task, logic, here)
            pass_on(s, task, logic, here)
    return work_s


@compiled
def push(task: Any, here: int, step: int) -> None:
    """Puts an item on the stack; it comes to the logic `step` next."""
    item = k.item_at(here)
    item.step, item.next = step, task.stack
    task.stack = here


@compiled
def pass_on(s: Any, task: Any, logic: Any, here: int) -> None:
    """Hands the results of a record to the logics that follow; a window over time gets the record when the service
    ends."""
    item = k.item_at(here)
    if logic.kind == k.WINDOW_OF:
        if k.window_at(logic.window).by_time:
            item.step = logic.here
            append(task.here + k.ENTERED, here, k.NEXT)
        else:
            push_results(s, task, logic)
            release(s, here)
        return
    item.at_s = s.now
    if logic.kind == k.REMEMBER:
        remember(s, k.store_at(logic.store), item.key, s.now)
    if logic.kind == k.IN_PYTHON:
        let_emit(s, logic, here)
        push_listed(s, task, logic)
        return
    pass_times(s, task, logic, logic.results if logic.kind in (k.SELECT, k.REMEMBER) else 1, here)


@compiled
def push_listed(s: Any, task: Any, logic: Any) -> None:
    """Hands what a logic in Python has listed to the logics that follow, the first one first."""
    here, last = listed(task), 0
    while here != 0:  # what is put on the stack last is taken first
        item = k.item_at(here)
        following = item.next
        item.next = last
        here, last = following, here
    while last != 0:
        following = k.item_at(last).next
        hand_on(s, task, logic, last)
        last = following


@compiled
def push_results(s: Any, task: Any, logic: Any) -> None:
    """Hands the results of a window to the logics that follow, the first one first."""
    window = k.window_at(logic.window)
    while window.found_count > 0 and s.stopped == 0:
        window.found_count -= 1
        result = k.result_at(window.found + k.RESULT_BYTES * window.found_count)
        here = new_item(s)
        item = k.item_at(here)
        item.key, item.born_s, item.taken_s, item.path, item.at_s = result.key, result.born_s, result.taken_s, 0, s.now
        item.left_s, item.sender, item.at_us, item.ready_s = 0.0, 0, last_us(window), result.ready_s
        spend(task.spent, WINDOW_TIME, result.wait_s)
        hand_on(s, task, logic, here)


@compiled
def leave_chain(s: Any, task: Any, at_s: float) -> None:
    """Sends the results of a service, or evaluation, that ends, and puts records into windows over time."""
    planned, entered = task.planned, task.entered
    task.planned, task.entered = 0, 0
    while entered != 0:
        item = k.item_at(entered)
        put_in(s, k.window_at(k.logic_at(item.step).window), item, at_s)
        following = item.next
        release(s, entered)
        entered = following
    while planned != 0:
        item = k.item_at(planned)
        following, item.at_s = item.next, at_s
        logic = k.logic_at(item.step)
        if logic.kind == k.COLLECT:
            collect(s, logic.sink, planned)
        else:
            leave_by(s, task, logic, planned)
        planned = following
