"""What a record becomes (twin.engine.logic): decided as its service begins, sent as it ends."""

from __future__ import annotations

from typing import Any

from twin.kernel.calling import ask
from twin.kernel.channels import port_of, send, send_on, send_times
from twin.kernel.draws import rounded, uniform
from twin.kernel.items import collect, copy_of, release
from twin.kernel.layout import (
    CALL,
    COLLECT,
    PART_BYTES,
    READ,
    REMEMBER,
    ROUTE,
    SELECT,
    SESSION,
    WINDOW_OF,
    calling_at,
    inbox_at,
    item_at,
    part_at,
    path_at,
    store_at,
)
from twin.kernel.native import compiled, inlined
from twin.kernel.stores import join_session, plan_session, remember
from twin.kernel.windows import emit_window, plan_window


@compiled
def plan(s: Any, task: Any, logic: Any, here: int) -> float:
    """Decides what a record becomes; the CPU seconds that this takes beyond its service."""
    kind = logic.kind
    if kind == COLLECT:
        return 0.0
    if kind in (SELECT, REMEMBER):
        return plan_select(s, task, logic, item_at(here))
    if kind == WINDOW_OF:
        return plan_window(s, task, logic, item_at(here))
    if kind == ROUTE:
        return plan_route(s, task, logic)
    if kind == SESSION:
        return plan_session(s, task, logic, item_at(here))
    if kind == READ:
        item_at(here).taken_s = s.now if s.now > task.free_s else task.free_s
    return logic.send_s


@inlined
def plan_select(s: Any, task: Any, logic: Any, item: Any) -> float:
    """Draws how many records leave. What changes a table is kept."""
    if logic.side >= 0 and item.path != 0 and inbox_at(path_at(item.path).inbox).side == logic.side:
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
        share = part_at(logic.parts + PART_BYTES * number).share
        chance = 0.0
        if rest_share > 0.0:
            chance = share / rest_share
            if chance > 1.0:
                chance = 1.0
        part = 0
        if left and uniform(s, task.stream) < chance:
            part = 1
        part_at(logic.parts + PART_BYTES * number).part = part
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
    item_at(here).at_s = task.end_s
    if kind == COLLECT:
        collect(s, logic.sink, here)
    elif kind in (SELECT, REMEMBER):
        if kind == REMEMBER:
            remember(s, store_at(logic.store), item_at(here).key, task.end_s)
        send_times(s, task, logic.results, here)
    elif kind == WINDOW_OF:
        emit_window(s, task, logic, item_at(here))
        release(s, here)
    elif kind == ROUTE:
        emit_routed(s, task, logic, here)
    elif kind == SESSION:
        join_session(s, store_at(logic.store), item_at(here))
        release(s, here)
    elif kind == CALL:
        ask(s, task, calling_at(logic.calls), here)
    else:
        send(s, task, here)


@compiled
def emit_routed(s: Any, task: Any, logic: Any, here: int) -> None:
    """Sends a record on the streams that were drawn."""
    results = logic.results
    task.tuples_out += results
    item_at(here).left_s = item_at(here).at_s - item_at(here).taken_s
    for number in range(task.ports):
        port = port_of(task, number)
        part = part_at(logic.parts + PART_BYTES * number).part
        port.passed_over += results - part
        if part:
            send_on(s, port, copy_of(s, here))
    release(s, here)
