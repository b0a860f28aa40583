"""Backpressure: records without room wait, and block their task. Room is credits of inboxes, or
network buffers of producers and gates."""

from __future__ import annotations

from typing import Any

from twin.histograms import QUEUE_TIME
from twin.machine import layout as k
from twin.machine.calendar import advance_clock, relevel
from twin.machine.items import append, records_in, release
from twin.machine.native import call, compiled
from twin.machine.wires import transfer


@compiled
def pass_on(s: Any, port: Any, path: int, here: int) -> None:
    """Sends a record if there is room; else it waits and blocks its task, or is dropped."""
    inbox = k.inbox_at(k.path_at(path).inbox)
    if port.held == 0 and inbox.credits >= 1:
        transfer(s, port.task, path, here)
        return
    if port.kind == k.SHEDDING:
        drop(s, port, here)
        return
    k.item_at(here).path = path
    append(port.here + k.HELD, here, k.NEXT)
    port.held += 1
    if port.held == 1:
        block(s, k.task_at(port.task))
        append(inbox.here + k.WAITING, port.here, k.NEXT_WAITING)


@compiled
def drop(s: Any, port: Any, here: int) -> None:
    """Drops a record for which there is no room. One over event time is noted, as its windows go without it."""
    port.dropped += 1
    if port.dealing == k.BY_TIME:
        port.dealt = here
        call(s.call_python, k.LOST, port.here)
    release(s, here)


@compiled
def block(s: Any, task: Any) -> None:
    """Counts a port that has a record for which its channel has no room."""
    task.blocked += 1
    if task.blocked == 1:
        task.blocked_since_s = s.now
        if task.shared:
            processor = k.processor_at(task.processor)
            advance_clock(s, processor)
            relevel(s, processor)


@compiled
def unblock(s: Any, task: Any) -> None:
    """Counts a port that has sent what it held back; after the last of them, the task goes on."""
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
    """Updates the stamps of a record that found no room before and leaves now."""
    if k.task_at(port.task).broker:  # a source takes a record when the one before it has left
        waited_s = max(item.at_s, s.now) - item.at_s
        item.taken_s += waited_s
        item.ready_s = item.taken_s
        k.spent_at(k.task_at(port.task).spent + k.SPENT_BYTES * QUEUE_TIME).sum_s += waited_s
    item.at_s = max(item.at_s, s.now)


@compiled
def retry(s: Any, port: Any, inbox: Any) -> bool:
    """Sends records that wait for an inbox; returns whether the port no longer waits there."""
    while port.held > 0:
        here = port.first_held
        path = k.item_at(here).path
        if k.path_at(path).inbox != inbox.here:
            break
        if inbox.credits < records_in(k.item_at(here)):
            return False
        port.first_held = k.item_at(here).next
        port.held -= 1
        held_back(s, port, k.item_at(here))
        transfer(s, port.task, path, here)
    inbox.first_waiting = port.next_waiting
    if port.held > 0:
        other = k.inbox_at(k.path_at(k.item_at(port.first_held).path).inbox)
        append(other.here + k.WAITING, port.here, k.NEXT_WAITING)
        if other.credits >= records_in(k.item_at(port.first_held)):
            call(s.wake_up, s.here, other.here)
    else:
        unblock(s, k.task_at(port.task))
    return True


@compiled
def has_room(port: Any, channel: Any) -> bool:
    """Whether the producer may write a record into a channel."""
    if is_full(channel):
        return False
    return channel.written % port.batch != 0 or (port.used < port.pool and channel.used < port.most)


@compiled
def is_full(channel: Any) -> bool:
    """Whether as many records are in a channel as its limit says."""
    return channel.written - channel.taken >= channel.limit


@compiled
def is_available(port: Any) -> bool:
    """Whether the producer may go on."""
    return port.used < port.pool and port.full == 0


@compiled
def stop(s: Any, port: Any) -> None:
    """Blocks the producer until buffers come back."""
    if port.stopped == 0:
        port.stopped = 1
        block(s, k.task_at(port.task))


@compiled
def is_open(port: Any, channel: Any) -> bool:
    """Whether a record of a channel may be sent to the consumer."""
    if channel.remote == 0 or channel.sent % port.batch != 0:
        return True
    inbox = k.inbox_at(channel.inbox)
    return channel.there < inbox.exclusive or inbox.free > 0


@compiled
def forward(s: Any, port: Any, here_path: int, here: int) -> None:
    """Sends a record that has a buffer, behind the records that wait for the gate."""
    if k.path_at(here_path).channel == 0:
        transfer(s, port.task, here_path, here)
        return
    channel = k.channel_at(k.path_at(here_path).channel)
    if channel.unsent > 0 or (k.item_at(here).mark == 0 and not is_open(port, channel)):
        k.item_at(here).path = here_path
        append(channel.here + k.UNSENT, here, k.NEXT)
        channel.unsent += 1
        wait_at_gate(channel)
    else:
        pass_over(s, port, here_path, here)


@compiled
def wait_at_gate(channel: Any) -> None:
    """Queues a channel at its gate."""
    if channel.waits == 0:
        channel.waits = 1
        append(channel.inbox + k.GATED, channel.here, k.NEXT_GATED)


@compiled
def pass_over(s: Any, port: Any, here_path: int, here: int) -> None:
    """Sends a record to the consumer, and frees the producer's buffer if that is empty."""
    if k.item_at(here).mark != 0:
        transfer(s, port.task, here_path, here)
        return
    channel = k.channel_at(k.path_at(here_path).channel)
    if channel.remote and channel.sent % port.batch == 0:
        inbox = k.inbox_at(channel.inbox)
        if channel.there >= inbox.exclusive:
            inbox.free -= 1
        channel.there += 1
    channel.sent += 1
    empty = channel.remote and channel.sent % port.batch == 0
    transfer(s, port.task, here_path, here)
    if empty:
        give_back(s, port, channel)


@compiled
def give_back(s: Any, port: Any, channel: Any) -> None:
    """Returns a buffer to the producer, which goes on if it can."""
    port.used -= 1
    channel.used -= 1
    if channel.used == port.most - 1:
        port.full -= 1
    if port.stopped and not port.draining:
        call(s.refill, s.here, port.here)


@compiled
def go_on(s: Any, channel: Any) -> None:
    """Sends the records of a channel that wait for the gate, as far as it has buffers."""
    port = k.port_at(channel.port)
    while channel.unsent > 0:
        here = channel.first_unsent
        if k.item_at(here).mark == 0 and not is_open(port, channel):
            wait_at_gate(channel)
            return
        channel.first_unsent = k.item_at(here).next
        channel.unsent -= 1
        k.item_at(here).at_s = max(k.item_at(here).at_s, s.now)
        pass_over(s, port, k.item_at(here).path, here)


@compiled
def take_up(s: Any, channel: Any) -> None:
    """Counts a record that the consumer takes from a channel; this may free a buffer."""
    port = k.port_at(channel.port)
    channel.taken += 1
    if port.stopped and not port.draining and channel.written - channel.taken == channel.limit - 1:
        call(s.refill, s.here, port.here)
    if channel.taken % port.batch != 0:
        return
    if channel.remote == 0:
        give_back(s, port, channel)
        return
    channel.there -= 1
    inbox = k.inbox_at(channel.inbox)
    if channel.there < inbox.exclusive:
        go_on(s, channel)
        return
    inbox.free += 1
    while inbox.first_gated != 0 and inbox.free > 0:
        first = k.channel_at(inbox.first_gated)
        inbox.first_gated = first.next_gated
        first.waits = 0
        go_on(s, first)


@compiled
def send_mark(s: Any, port: Any, path: int, here: int) -> None:
    """Sends a mark, which takes no room, behind the records that wait; it is lost where they are dropped."""
    inbox = k.inbox_at(k.path_at(path).inbox)
    k.item_at(here).path = path
    if port.pool:
        if port.held == 0:
            forward(s, port, path, here)
            return
    elif port.held == 0:
        if inbox.credits >= 0:
            transfer(s, port.task, path, here)
            return
        if port.kind == k.SHEDDING:
            release(s, here)
            return
        block(s, k.task_at(port.task))
        append(inbox.here + k.WAITING, port.here, k.NEXT_WAITING)
    append(port.here + k.HELD, here, k.NEXT)
    port.held += 1


@compiled
def go_on_now(state: int, here: int) -> int:
    """Sends what waits in a channel, as far as it has buffers."""
    go_on(k.state_at(state), k.channel_at(here))
    return 0


@compiled
def mark_now(state: int, here: int) -> int:
    """Sends a mark from the port `subject` on its path, behind the records that wait."""
    s, path = k.state_at(state), k.item_at(here).path
    port = k.port_at(s.subject)
    if port.held == 0 and port.pool == 0:
        transfer(s, port.task, path, here)
    elif port.held > 0:
        append(port.here + k.HELD, here, k.NEXT)
        port.held += 1
    else:
        forward(s, port, path, here)
    return 0


@compiled
def block_now(state: int, here: int) -> int:
    """Blocks a task, as a port that cannot send does."""
    block(k.state_at(state), k.task_at(here))
    return 0


@compiled
def unblock_now(state: int, here: int) -> int:
    """Ends such a block."""
    unblock(k.state_at(state), k.task_at(here))
    return 0
