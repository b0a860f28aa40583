"""What a record becomes (twin.engine.logic): decided as its service begins, sent as it ends."""

from __future__ import annotations

from typing import Any

from twin.kernel import layout as k
from twin.kernel.calling import ask
from twin.kernel.channels import port_of, send, send_on, send_times
from twin.kernel.draws import rounded, uniform
from twin.kernel.items import collect, copy_of, release
from twin.kernel.native import compiled, inlined
from twin.kernel.stores import join_session, plan_session, remember
from twin.kernel.windows import emit_window, plan_window


@compiled
def plan(s: Any, task: Any, logic: Any, here: int) -> float:
    """Decides what a record becomes; the CPU seconds that this takes beyond its service."""
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
    """Draws how many records leave. What changes a table is kept."""
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
    """Draws which streams a record takes."""
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
    """Sends a record on the streams that were drawn."""
    results = logic.results
    task.tuples_out += results
    k.item_at(here).left_s = k.item_at(here).at_s - k.item_at(here).taken_s
    for number in range(task.ports):
        port = port_of(task, number)
        part = k.part_at(logic.parts + k.PART_BYTES * number).part
        port.passed_over += results - part
        if part:
            send_on(s, port, copy_of(s, here))
    release(s, here)
