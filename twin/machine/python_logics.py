"""Logics in Python: compiled code calls them when a record comes and when it leaves, and sends what they have listed.

A logic never waits for what it sends: its list leaves when it has returned. So calls to Python are never nested.
"""

from __future__ import annotations

from typing import Any

from twin.machine import layout as k
from twin.machine.channels import send_on, tell
from twin.machine.items import note, release
from twin.machine.native import call, compiled
from twin.machine.wires import transfer


@compiled
def plan_in_python(s: Any, logic: Any, here: int) -> float:
    """Lets a logic decide what a record becomes; returns the CPU seconds that this takes beyond its service."""
    logic.passing = here
    call(s.call_python, k.PLAN, logic.here)
    return float(logic.work_s)


@compiled
def plan_compute(s: Any, task: Any, logic: Any, here: int) -> float:
    """CPU seconds of adding a record to its pane, and of work beside it. Python decides on what is not so simple."""
    computing = k.computing_at(logic.computing)
    if computing.simple == 0 or k.item_at(here).at_us < computing.watermark:
        return plan_in_python(s, logic, here)
    work_s = computing.execute_s
    if computing.owed_s != 0.0:
        own_s = task.service_s + work_s
        paid_s = computing.owed_s if computing.owed_s < own_s else own_s
        computing.owed_s -= paid_s
        work_s += paid_s
    return float(work_s)


@compiled
def add_to_pane(s: Any, computing: Any, here: int) -> None:
    """Notes a record that Python adds to its pane before anybody looks at it, and that it has been taken in."""
    if computing.count == computing.room:
        call(s.call_python, k.ADDING, computing.here)
    item = k.item_at(here)
    added = k.added_at(computing.added + k.ADDED_BYTES * computing.count)
    added.at_us, added.key, added.digest = item.at_us, item.key, item.digest
    added.born_s, added.taken_s = item.born_s, item.taken_s
    computing.count += 1
    note(s, computing.taken, here)


@compiled
def let_emit(s: Any, logic: Any, here: int) -> None:
    """Lets a logic list what a record became. The record's item is free again, unless the record itself goes on."""
    logic.passing = here
    call(s.call_python, k.EMIT, logic.here)
    if logic.passing != 0:
        logic.passing = 0
        release(s, here)


@compiled
def listed(task: Any) -> int:
    """Takes the list of what leaves a task."""
    here = task.leaving
    task.leaving = 0
    return int(here)


@compiled
def send_one(s: Any, task: Any, here: int) -> None:
    """Sends a record on one stream: past all room if its path is known; or a mark on one path."""
    item = k.item_at(here)
    if item.mark != 0:
        tell(s, k.port_at(item.step), item.path, here)
    elif item.path != 0:
        transfer(s, task.here, item.path, here)
    else:
        send_on(s, k.port_at(item.step), here)
