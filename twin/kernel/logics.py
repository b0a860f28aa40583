"""Logics in the kernel (`twin.engine.logic`): what a record becomes is decided as its service begins, and sent as it
ends.

A chain takes a record through all its logics within one service (`twin.engine.logics.chain`). Records between two
logics lie on a stack, so that all results of one record are found before the next one's turn, as if each logic called
the next.
"""

from __future__ import annotations

from typing import Any

from twin.kernel import layout as k
from twin.kernel.async_calls import ask
from twin.kernel.channels import port_of, send, send_on, send_times
from twin.kernel.contents import put_in
from twin.kernel.draws import rounded, service, uniform
from twin.kernel.items import MANY, append, collect, copy_of, goes_on, new_item, release
from twin.kernel.native import compiled, inlined
from twin.kernel.stores import join_session, plan_session, remember
from twin.kernel.windows import emit_window, plan_window


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
    if kind == k.READ:
        k.item_at(here).taken_s = s.now if s.now > task.free_s else task.free_s
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
    else:
        send(s, task, here)


@compiled
def emit_routed(s: Any, task: Any, logic: Any, here: int) -> None:
    """Sends a record to the streams that were drawn."""
    results = logic.results
    task.tuples_out += results
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
        if item.step == 0:
            work_s += task.send_s
            append(task.here + k.PLANNED, here, k.NEXT)  # it leaves when the service ends
            continue
        logic = k.logic_at(item.step)
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
    """Hands the results of a record to the next logic; a window over time gets the record when the service ends."""
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
    times = logic.results if logic.kind in (k.SELECT, k.REMEMBER) else 1
    for number in range(times - 1):
        if number % MANY == MANY - 1 and not goes_on(s, MANY):
            break
        push(task, copy_of(s, here), logic.next)
    if times:
        push(task, here, logic.next)
    else:
        release(s, here)


@compiled
def push_results(s: Any, task: Any, logic: Any) -> None:
    """Hands the results of a window to the next logic, the first one first."""
    window = k.window_at(logic.window)
    while window.found_count > 0 and s.stopped == 0:
        window.found_count -= 1
        result = k.result_at(window.found + k.RESULT_BYTES * window.found_count)
        here = new_item(s)
        item = k.item_at(here)
        item.key, item.born_s, item.taken_s, item.path, item.at_s = result.key, result.born_s, result.taken_s, 0, s.now
        item.left_s, item.sender = 0.0, 0
        push(task, here, logic.next)


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
    sink = k.logic_at(task.chain_end).sink if task.chain_end != 0 else 0
    while planned != 0:
        item = k.item_at(planned)
        following, item.at_s = item.next, at_s
        if sink != 0:
            collect(s, sink, planned)
        else:
            send(s, task, planned)
        planned = following
