"""Network buffers of producers and gates (twin.engine.streams.buffers)."""

from __future__ import annotations

from typing import Any

from twin.kernel import layout as k
from twin.kernel.backpressure import block
from twin.kernel.items import append
from twin.kernel.native import call, compiled
from twin.kernel.wires import transfer


@compiled
def has_room(port: Any, channel: Any) -> bool:
    """Whether the producer may write a record."""
    return channel.written % port.batch != 0 or (port.used < port.pool and channel.used < port.most)


@compiled
def is_available(port: Any) -> bool:
    """Whether the producer may go on."""
    return port.used < port.pool and port.full == 0


@compiled
def stop(s: Any, port: Any) -> None:
    """The producer stands still until buffers come back."""
    if port.stopped == 0:
        port.stopped = 1
        block(s, k.task_at(port.task))


@compiled
def is_open(port: Any, channel: Any) -> bool:
    """Whether a record may go over."""
    if channel.remote == 0 or channel.sent % port.batch != 0:
        return True
    inbox = k.inbox_at(channel.inbox)
    return channel.there < inbox.exclusive or inbox.free > 0


@compiled
def forward(s: Any, port: Any, here_path: int, here: int) -> None:
    """Sends what is in a buffer, behind what waits for the gate."""
    if k.path_at(here_path).channel == 0:
        transfer(s, port.task, here_path, here)
        return
    channel = k.channel_at(k.path_at(here_path).channel)
    if channel.unsent > 0 or not is_open(port, channel):
        k.item_at(here).path = here_path
        append(k.line_at(channel.here + k.UNSENT), here)
        channel.unsent += 1
        wait_at_gate(channel)
    else:
        pass_over(s, port, here_path, here)


@compiled
def wait_at_gate(channel: Any) -> None:
    """A channel waits, behind those that wait already."""
    if channel.waits:
        return
    inbox = k.inbox_at(channel.inbox)
    channel.waits, channel.next_gated = 1, 0
    if inbox.first_gated == 0:
        inbox.first_gated = channel.here
    else:
        k.channel_at(inbox.last_gated).next_gated = channel.here
    inbox.last_gated = channel.here


@compiled
def pass_over(s: Any, port: Any, here_path: int, here: int) -> None:
    """A record goes over to the consumer."""
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
    """A buffer of the producer comes back, which goes on if it can."""
    port.used -= 1
    channel.used -= 1
    if channel.used == port.most - 1:
        port.full -= 1
    if port.stopped and not port.draining:
        call(s.refill, s.here, port.here)


@compiled
def go_on(s: Any, channel: Any) -> None:
    """Sends what waits for the gate, as far as that has buffers."""
    port = k.port_at(channel.port)
    while channel.unsent > 0:
        if not is_open(port, channel):
            wait_at_gate(channel)
            return
        here = channel.first_unsent
        channel.first_unsent = k.item_at(here).next
        channel.unsent -= 1
        k.item_at(here).at_s = max(k.item_at(here).at_s, s.now)
        pass_over(s, port, k.item_at(here).path, here)


@compiled
def take_up(s: Any, channel: Any) -> None:
    """The consumer takes up a record that came by a channel."""
    port = k.port_at(channel.port)
    channel.taken += 1
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
