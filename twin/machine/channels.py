"""Output of a subtask: ports, partitioning and batches."""

from __future__ import annotations

import math
from typing import Any

from twin.machine import layout as k
from twin.machine.backpressure import (
    drop,
    forward,
    has_room,
    held_back,
    is_available,
    is_full,
    pass_on,
    send_mark,
    stop,
    unblock,
)
from twin.machine.calendar import ring_at
from twin.machine.draws import bits, chance, uniform
from twin.machine.items import MANY, append, copy_of, goes_on, release
from twin.machine.native import call, compiled, float_at, whole_at

BELOW_ONE = 1.0 - 2.0**-53
"""The largest random number."""


@compiled
def send(s: Any, task: Any, here: int) -> None:
    """Sends a record on every stream that leaves a task."""
    if task.lots:
        k.item_at(here).lot = uniform(s, task.lots)
    send_among(s, task, 0, task.ports, here)


@compiled
def send_among(s: Any, task: Any, first: int, count: int, here: int) -> None:
    """Sends a record on some of a task's streams, `count` from the first on; those after the first get copies."""
    task.records_out += 1
    item = k.item_at(here)
    item.left_s = item.at_s - item.taken_s
    for number in range(first + 1, first + count):
        send_on(s, port_of(task, number), copy_of(s, here))
    send_on(s, port_of(task, first), here)


@compiled
def send_times(s: Any, task: Any, times: int, here: int) -> None:
    """Sends `times` records that are as old as this one."""
    for number in range(times - 1):
        if number % MANY == MANY - 1 and not goes_on(s, MANY):
            break
        send(s, task, copy_of(s, here))
    if times:
        send(s, task, here)
    else:
        release(s, here)


@compiled
def port_of(task: Any, number: int) -> Any:
    """Port of a task, by number."""
    return k.port_at(whole_at(task.port + 8 * number).value)


@compiled
def path_of(s: Any, port: Any, subtask: int) -> int:
    """Address of the path from a port to a subtask, which Python makes when it is first used."""
    if whole_at(port.paths + 8 * subtask).value == 0:
        port.subtask = subtask
        call(s.call_python, k.PATHS, port.here)
    return whole_at(port.paths + 8 * subtask).value


@compiled
def send_on(s: Any, port: Any, here: int) -> None:
    """Deals a record to a subtask of the consumer, or to all of them."""
    item = k.item_at(here)
    if port.dealing == k.BY_TIME:
        deal_by_time(s, port, here)
        return
    if port.dealing == k.COPIES:
        last = port.shares - 1
        for turn in range(last):
            hand_over(s, port, whole_at(port.keys + 8 * turn).value, copy_of(s, here))
        hand_over(s, port, whole_at(port.keys + 8 * last).value, here)
        return
    subtask = port.only
    if port.dealing == k.IN_TURN:
        subtask = whole_at(port.keys + 8 * port.turn).value  # among subtasks that have a share
        port.turn = port.turn + 1 if port.turn + 1 < port.shares else 0
    elif port.dealing == k.AT_RANDOM:
        value = chance(s, port.stream, port.kin, item)
        subtask = place(value, port.keys, port.parallelism)
        if port.kin and item.lot >= 0.0:  # the part that is not used up decides on the key among the subtask's own
            item.lot = within(value, port.keys, subtask)
    elif port.dealing == k.BY_KEY:
        subtask = by_key(port, item, chance(s, port.stream, port.kin, item))
    elif port.dealing == k.ALONG:
        subtask = along(s, port, item)
    hand_over(s, port, subtask, here)


@compiled
def deal_by_time(s: Any, port: Any, here: int) -> None:
    """Deals a record to the owner of its key. Python does it where that depends on the event time, or makes copies of
    the record, or where a record that is read again must have the same key."""
    if port.keys != 0 and k.keys_at(port.keys).cuts == 0:
        hand_over(s, port, owner_now(s, port, k.keys_at(port.keys), k.item_at(here)), here)
        return
    port.dealt = here
    call(s.call_python, k.DEAL, port.here)
    here = port.dealt
    while here != 0:
        item = k.item_at(here)
        following = item.next
        hand_over(s, port, item.step, here)
        here = following


@compiled
def owner_now(s: Any, port: Any, keys: Any, item: Any) -> int:
    """Subtask that owns the key of a record, which is drawn here, with bits by which the record is audited."""
    if port.kin and item.lot >= 0.0:
        group = place(item.lot, keys.steps, keys.groups)
        at = within(item.lot, keys.steps, group)
    else:
        group = place(uniform(s, port.stream), keys.steps, keys.groups)
        at = uniform(s, port.stream)
    item.key = key_in(keys, group, at)
    item.digest = bits(port.stream)
    notes = k.notes_at(port.notes)
    if notes.count == notes.room:
        call(s.call_python, k.NOTED, notes.here)
    came = k.came_at(notes.came + k.CAME_BYTES * notes.count)
    came.at_us, came.key, came.digest = item.at_us, item.key, item.digest
    notes.count += 1
    return int(whole_at(keys.owners + 8 * group).value)


@compiled
def place(value: float, steps: int, count: int) -> int:
    """Count of the rising numbers at an address that are <= value: the share on which a random number falls."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if value < float_at(steps + 8 * middle).value:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def within(value: float, steps: int, number: int) -> float:
    """Position of a random number in the share on which it falls, 0 to 1."""
    low = float_at(steps + 8 * (number - 1)).value if number else 0.0
    return (value - low) / (float_at(steps + 8 * number).value - low)


@compiled
def by_key(port: Any, item: Any, value: float) -> int:
    """Subtask of a record by key, which a random number decides."""
    keys = k.keys_at(port.keys)
    group = place(value, keys.steps, keys.groups)
    return owner(port, item, group, within(value, keys.steps, group))


@compiled
def along(s: Any, port: Any, item: Any) -> int:
    """Subtask of a record by key, where key groups of the producer and of the consumer are aligned."""
    value, pattern = uniform(s, port.stream), k.aligned_at(port.aligned)
    if value >= pattern.share:
        value = min((value - pattern.share) / (1.0 - pattern.share), BELOW_ONE)
        group = place(value, pattern.own_steps, k.keys_at(port.keys).groups)
        return owner(port, item, group, within(value, pattern.own_steps, group))
    producer = k.keys_at(pattern.producer)
    if item.key < 0:  # the producer noted no key
        sent = place(uniform(s, port.stream), port.sends, producer.groups)
    else:
        sent = group_of(item.key, producer)
    first = whole_at(pattern.rows + 8 * sent).value
    steps, value = pattern.steps + 8 * first, min(value / pattern.share, BELOW_ONE)
    number = place(value, steps, whole_at(pattern.rows + 8 * (sent + 1)).value - first)
    return owner(port, item, whole_at(pattern.receivers + 8 * (first + number)).value, within(value, steps, number))


@compiled
def group_of(key: int, keys: Any) -> int:
    """Key group that a key is in."""
    low, high = 0, keys.groups
    while low < high:
        middle = (low + high) >> 1
        if key < whole_at(keys.firsts + 8 * (middle + 1)).value:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def key_in(keys: Any, group: int, at: float) -> int:
    """Key of a key group, by a position among the group's records, 0 to 1."""
    first = whole_at(keys.firsts + 8 * group).value
    if keys.within == 0:
        number, count = int(at * float_at(keys.scales + 8 * group).value), whole_at(keys.counts + 8 * group).value
    else:
        count = whole_at(keys.firsts + 8 * (group + 1)).value - first
        number = place(at, keys.within + 8 * first, count)
    return first + (number if number < count else count - 1)


@compiled
def owner(port: Any, item: Any, group: int, at: float) -> int:
    """Subtask that has a key group. Gives the record its key, by its position `at` in the group."""
    keys = k.keys_at(port.keys)
    item.key = key_in(keys, group, at)
    subtask = whole_at(keys.owners + 8 * group).value
    if keys.second != 0:  # of two subtasks, the one that got less so far
        other = whole_at(keys.second + 8 * group).value
        if whole_at(port.sent + 8 * subtask).value > whole_at(port.sent + 8 * other).value:
            subtask = other
        whole_at(port.sent + 8 * subtask).value += 1
    return subtask


@compiled
def hand_over(s: Any, port: Any, subtask: int, here: int) -> None:
    """Passes a record to a subtask, or puts it into its batch."""
    if port.pool:
        write(s, port, path_of(s, port, subtask), here)
    elif port.kind == k.GATHERING:
        gather(s, port, subtask, here)
    else:
        pass_on(s, port, path_of(s, port, subtask), here)


@compiled
def gather(s: Any, port: Any, subtask: int, here: int) -> None:
    """Puts a record into the batch of a subtask; a full batch is sent."""
    buffer = batch_of(port, subtask)
    append(port.buffers + k.BUFFER_BYTES * subtask, here, k.NEXT)
    buffer.count += 1
    if buffer.count >= port.batch:
        let_go(s, port, subtask)
    elif port.armed == 0:
        arm(s, port)


@compiled
def gather_mark(s: Any, port: Any, subtask: int, here: int) -> None:
    """Puts a mark behind the records of a batch, in which it takes no room."""
    batch_of(port, subtask)
    append(port.buffers + k.BUFFER_BYTES * subtask, here, k.NEXT)
    if port.armed == 0:
        arm(s, port)


@compiled
def arm(s: Any, port: Any) -> None:
    """Waits for the next flush of a port."""
    port.armed = 1
    flushes = math.floor((s.now - port.phase_s) / port.flush_s) + 1
    ring_at(s, port.slot, port.phase_s + flushes * port.flush_s)


@compiled
def batch_of(port: Any, subtask: int) -> Any:
    """Batch of a subtask, which gets its place in the order of flushes when it is first used."""
    buffer = k.buffer_at(port.buffers + k.BUFFER_BYTES * subtask)
    if buffer.count == 0 and buffer.tail == -1:
        whole_at(port.open_order + 8 * port.opened).value = subtask
        port.opened += 1
        buffer.tail = 0
    return buffer


@compiled
def let_go(s: Any, port: Any, subtask: int) -> None:
    """Sends the batch of a subtask, as single records at one moment."""
    buffer = batch_of(port, subtask)
    here = buffer.head
    buffer.head, buffer.tail, buffer.count = 0, 0, 0
    path, draining = path_of(s, port, subtask), port.draining
    port.draining = 1  # a buffer that comes back meanwhile lets nothing overtake the rest of the batch
    while here != 0:
        following = k.item_at(here).next
        k.item_at(here).at_s = s.now
        if port.pool:
            forward(s, port, path, here)
        elif k.item_at(here).mark != 0:
            send_mark(s, port, path, here)
        else:
            pass_on(s, port, path, here)
        here = following
    port.draining = draining
    if port.stopped and not draining:
        call(s.refill, s.here, port.here)


@compiled
def flush(s: Any, port: Any) -> None:
    """Sends incomplete batches, in the order in which subtasks first got a record or mark."""
    for number in range(port.opened):
        subtask = whole_at(port.open_order + 8 * number).value
        if k.buffer_at(port.buffers + k.BUFFER_BYTES * subtask).head != 0:
            let_go(s, port, subtask)


@compiled
def tell(s: Any, port: Any, path: int, here: int) -> None:
    """Sends a mark behind all that was sent before. Watermarks and idleness wait in batches, as in Flink; the first of
    other marks flushes the port."""
    item = k.item_at(here)
    if port.kind == k.GATHERING:
        if not is_progress(item):
            if item.key:
                flush(s, port)
        elif port.pool == 0 or port.held == 0:
            gather_mark(s, port, k.path_at(path).subtask, here)
            return
    send_mark(s, port, path, here)


@compiled
def is_progress(item: Any) -> bool:
    """Whether a mark is a watermark, or says that its sender is idle."""
    return bool(item.mark == k.WATERMARK or item.mark == k.IDLE)


@compiled
def write(s: Any, port: Any, here_path: int, here: int) -> None:
    """Puts a record into a buffer; without room it waits and blocks its task, or is dropped."""
    channel = k.path_at(here_path).channel
    if port.held > 0 or (channel != 0 and not has_room(port, k.channel_at(channel))):
        if port.kind == k.SHEDDING:
            drop(s, port, here)
            return
        k.item_at(here).path = here_path
        append(port.here + k.HELD, here, k.NEXT)
        port.held += 1
        stop(s, port)
        return
    fill(s, port, here_path, here)
    if not is_available(port) and port.kind != k.SHEDDING:
        stop(s, port)


@compiled
def fill(s: Any, port: Any, here_path: int, here: int) -> None:
    """Puts a record into a buffer that has room."""
    path = k.path_at(here_path)
    if path.channel != 0:
        channel = k.channel_at(path.channel)
        if channel.written % port.batch == 0:
            port.used += 1
            channel.used += 1
            if channel.used == port.most:
                port.full += 1
        channel.written += 1
    if port.kind == k.GATHERING:
        gather(s, port, path.subtask, here)
        if path.channel != 0 and is_full(k.channel_at(path.channel)) and batch_of(port, path.subtask).count > 0:
            let_go(s, port, path.subtask)
    else:
        forward(s, port, here_path, here)


def refill_port(state: int, here_port: int) -> int:
    """Lets waiting records of a port into buffers; then its producer works again, unless they used the pool up."""
    s, port = k.state_at(state), k.port_at(here_port)
    port.draining = 1
    while port.held > 0:
        here = port.first_held
        item = k.item_at(here)
        path, channel = item.path, k.path_at(item.path).channel
        if item.mark == 0 and channel != 0 and not has_room(port, k.channel_at(channel)):
            break
        port.first_held = item.next
        port.held -= 1
        held_back(s, port, item)
        if item.mark == 0:
            fill(s, port, path, here)
        elif port.kind == k.GATHERING and is_progress(item):
            gather_mark(s, port, k.path_at(path).subtask, here)
        else:
            if port.kind == k.GATHERING:
                let_go(s, port, k.path_at(path).subtask)
            forward(s, port, path, here)
    port.draining = 0
    if is_available(port) and port.held == 0:
        port.stopped = 0
        unblock(s, k.task_at(port.task))
    return 0


@compiled
def flush_now(state: int, here_port: int) -> int:
    """Sends the incomplete batches of a port."""
    port = k.port_at(here_port)
    if port.kind == k.GATHERING:
        flush(k.state_at(state), port)
    return 0
