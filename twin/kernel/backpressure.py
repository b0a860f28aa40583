"""Who finds no room waits, and stands still meanwhile: credits of inboxes (twin.engine.streams.channel)."""

from __future__ import annotations

from typing import Any

from twin.kernel import layout as k
from twin.kernel.items import append, release
from twin.kernel.native import call, compiled
from twin.kernel.processors import advance_clock, relevel
from twin.kernel.wires import transfer


@compiled
def pass_on(s: Any, port: Any, path: int, here: int) -> None:
    """Sends a record if there is room; else it waits, and its task stands still, or it is dropped."""
    inbox = k.inbox_at(k.path_at(path).inbox)
    if port.held == 0 and inbox.credits >= 1:
        transfer(s, port.task, path, here)
        return
    if port.kind == k.SHEDDING:
        port.dropped += 1
        release(s, here)
        return
    k.item_at(here).path = path
    append(k.line_at(port.here + k.HELD), here)
    port.held += 1
    if port.held == 1:
        block(s, k.task_at(port.task))
        wait_for(inbox, port)


@compiled
def wait_for(inbox: Any, port: Any) -> None:
    """A port waits for room in an inbox, behind those that wait already."""
    port.next_waiting = 0
    if inbox.first_waiting == 0:
        inbox.first_waiting = port.here
    else:
        k.port_at(inbox.last_waiting).next_waiting = port.here
    inbox.last_waiting = port.here


@compiled
def block(s: Any, task: Any) -> None:
    """A port has a record that its channel cannot take."""
    task.blocked += 1
    if task.blocked == 1:
        task.blocked_since_s = s.now
        if task.shared:
            processor = k.processor_at(task.processor)
            advance_clock(s, processor)
            relevel(s, processor)


@compiled
def unblock(s: Any, task: Any) -> None:
    """A port has sent all that it held; with the last of them the task works again."""
    task.blocked -= 1
    if task.blocked:
        return
    task.blocked_s += s.now - task.blocked_since_s
    if task.shared:
        processor = k.processor_at(task.processor)
        advance_clock(s, processor)
        relevel(s, processor)
    if not task.busy:
        if s.now > task.free_s:
            task.free_s = s.now
        call(s.work_on, s.here, task.here)


@compiled
def held_back(s: Any, port: Any, item: Any) -> None:
    """A record that found no room goes on now."""
    if k.task_at(port.task).broker:  # a source takes a record when the one before it has left
        item.taken_s += max(item.at_s, s.now) - item.at_s
    item.at_s = max(item.at_s, s.now)


@compiled
def retry(s: Any, port: Any, inbox: Any) -> bool:
    """Sends what waits for an inbox; whether the port waits there no longer."""
    while port.held > 0:
        here = port.first_held
        path = k.item_at(here).path
        if k.path_at(path).inbox != inbox.here:
            break
        if inbox.credits < 1:
            return False
        port.first_held = k.item_at(here).next
        port.held -= 1
        held_back(s, port, k.item_at(here))
        transfer(s, port.task, path, here)
    inbox.first_waiting = port.next_waiting
    if port.held > 0:
        other = k.inbox_at(k.path_at(k.item_at(port.first_held).path).inbox)
        wait_for(other, port)
        if other.credits >= 1:
            call(s.wake_up, s.here, other.here)
    else:
        unblock(s, k.task_at(port.task))
    return True
