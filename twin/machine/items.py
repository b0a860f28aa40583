"""Items, the records in memory, from a free list, and the lanes in which they wait.

A lane holds the records from one card, or from the task's own host, that are on their way to a task or wait there. It
is ordered by (arrival, sequence number), and so are the first items of a task's lanes, in a heap. The wire is the
queue: a record that arrives while its task works needs no event.
"""

from __future__ import annotations

from typing import Any

from twin.histograms import BUCKETS, COMMIT_TIME, FIRST, SHIFT, bucket
from twin.machine import layout as k
from twin.machine.calendar import pop, push, put_at, ring_at
from twin.machine.native import call, compiled, inlined, whole_at


@compiled
def new_item(s: Any) -> int:
    """Address of an unused item."""
    if s.free == 0:
        call(s.call_python, k.ITEMS, 0)
    here = s.free
    item = k.item_at(here)
    s.free = item.next
    item.mark, item.lot = 0, -1.0
    return here


MANY = 1024
"""Number of records that an event makes between two questions whether it goes on."""


@compiled
def goes_on(s: Any, made: int) -> bool:
    """Whether an event that makes many records goes on. Python looks now and then, and may end it: then the run is
    over, and no record matters any more. made: since the last question."""
    s.left -= made
    if s.left <= 0:
        call(s.call_python, k.LOOK, 0)
    return s.stopped == 0


@compiled
def release(s: Any, here: int) -> None:
    """Returns an item to the free list: its record is handled."""
    item = k.item_at(here)
    if item.tree != 0:
        handled(s, item.tree)
        item.tree = 0
    item.next = s.free
    s.free = here


@compiled
def plant(s: Any, task: Any, here: int) -> None:
    """Begins to count the records that a source's record becomes."""
    root = new_item(s)
    k.item_at(here).tree = root
    k.item_at(root).count, k.item_at(root).sender = 1, task.here
    task.pending += 1


@compiled
def handled(s: Any, here_root: int) -> None:
    """Counts a record that is handled; after the last one of its root, the source may take another."""
    root = k.item_at(here_root)
    root.count -= 1
    if root.count > 0:
        return
    task = k.task_at(root.sender)
    root.next = s.free
    s.free = here_root
    task.pending -= 1
    if task.pending == task.most_pending - 1 and not (task.busy or task.blocked or task.halted):
        ring_at(s, task.slot, s.now)


@compiled
def copy_of(s: Any, here: int) -> int:
    """Makes another item of the same record."""
    there = new_item(s)
    item, other = k.item_at(here), k.item_at(there)
    other.key, other.born_s, other.taken_s, other.left_s = item.key, item.born_s, item.taken_s, item.left_s
    other.path, other.at_s, other.mark, other.lot = item.path, item.at_s, item.mark, item.lot
    other.at_us, other.digest, other.ready_s = item.at_us, item.digest, item.ready_s
    if item.tree != 0:
        other.tree = item.tree
        k.item_at(item.tree).count += 1
    return there


@compiled
def records_in(item: Any) -> int:
    """Number of records that an item counts as: none if it is a mark."""
    return 1 if item.mark == 0 else 0


@compiled
def append(here_line: int, here: int, link: int) -> None:
    """Puts a structure at the end of a list, whose two ends lie at `here_line`.

    link: offset in bytes at which structures hold the address of the next one.
    """
    line = k.line_at(here_line)
    whole_at(here + link).value = 0
    if line.head == 0:
        line.head = here
    else:
        whole_at(line.tail + link).value = here
    line.tail = here


@compiled
def put(lane: Any, here: int) -> bool:
    """Puts an item, with its arrival on it, into a lane; returns whether it is the first there now.

    On a wire no record overtakes, but rounding may make a later one arrive a little earlier.
    """
    item = k.item_at(here)
    item.next = 0
    lane.total += records_in(item)
    if lane.head == 0:
        lane.head = lane.tail = lane.coming = here
        if lane.task != 0:
            task = k.task_at(lane.task)
            push(task.heads, task.coming, item.at_s, item.order, lane.here)
            task.coming += 1
        return True
    last = k.item_at(lane.tail)
    if last.at_s < item.at_s or (last.at_s == item.at_s and last.order <= item.order):
        last.next = here
        lane.tail = here
        if lane.coming == 0:
            lane.coming = here
        return False
    before, after, came = 0, lane.head, True
    while not earlier(item.at_s, item.order, k.item_at(after)):
        came = came and after != lane.coming
        before, after = after, k.item_at(after).next
    item.next = after
    if lane.coming == after:
        lane.coming = here
    elif came:  # it stands before others that have been counted
        lane.came += records_in(item)
    if before == 0:
        lane.head = here
        if lane.task != 0:
            task, place = k.task_at(lane.task), 0
            while k.job_at(task.heads + k.JOB_BYTES * place).task != lane.here:
                place += 1
            push(task.heads, place, item.at_s, item.order, lane.here)
        return True
    k.item_at(before).next = here
    return False


@compiled
def earlier(at_s: float, order: int, item: Any) -> bool:
    """Whether a time and number come before those of an item."""
    return at_s < item.at_s or (at_s == item.at_s and order < item.order)


@compiled
def first_lane(task: Any) -> int:
    """Lane whose first item comes, or came, first to a task; 0 if no item comes."""
    return k.job_at(task.heads).task if task.coming > 0 else 0


@compiled
def take_first(task: Any, lane: Any) -> int:
    """Removes the first item of `lane`, which is the first one that comes to the task."""
    here = take(lane)
    if lane.head == 0:
        pop(task.heads, task.coming)
        task.coming -= 1
    else:  # its next item stands behind the others, and takes its place
        item = k.item_at(lane.head)
        put_at(task.heads, task.coming, item.at_s, item.order, lane.here)
        pop(task.heads, task.coming + 1)
    return here


@compiled
def take(lane: Any) -> int:
    """Removes the first item of a lane."""
    here = lane.head
    item = k.item_at(here)
    following = item.next
    lane.head = following
    lane.total -= records_in(item)
    if lane.coming == here:
        lane.coming = following
    else:
        lane.came -= records_in(item)
    if following == 0:
        lane.tail = 0
    return here


@compiled
def count_came(s: Any, lane: Any) -> int:
    """Number of items of a lane that have arrived. Items counted before are not looked at again."""
    while lane.coming != 0:
        item = k.item_at(lane.coming)
        if item.at_s > s.now or (item.at_s == s.now and item.order > s.event_sequence):
            break
        lane.came += records_in(item)
        lane.coming = item.next
    return lane.came


bucket_of = compiled(bucket)


@inlined
def spend(spent: int, way: int, time_s: float) -> None:
    """Notes that a record has spent time in one way (`layout.QUEUE_TIME`)."""
    here = spent + k.SPENT_BYTES * way
    each = k.spent_at(here)
    if time_s < 0.0:
        time_s = 0.0
    each.sum_s += time_s
    each.last_s = time_s
    place = (whole_at(here + k.LAST_SPENT).value >> SHIFT) - FIRST  # its exponent, and the first bits behind
    if place < 0:
        place = 0
    elif place >= BUCKETS:
        place = BUCKETS - 1
    whole_at(each.counts + 8 * place).value += 1


@compiled
def collect(s: Any, here_sink: int, here: int) -> None:
    """Counts a result that has arrived, with its latencies; or holds it back until the checkpoint that commits it."""
    sink = k.sink_at(here_sink)
    if sink.commits:
        sink.made += 1
        sink.held_results += 1
        k.item_at(here).order = sink.made
        append(here_sink + k.UNCOMMITTED, here, k.NEXT)
    else:
        note(s, here_sink, here)


@compiled
def note(s: Any, here_sink: int, here: int) -> None:
    """Counts a result with its latencies."""
    sink, item = k.sink_at(here_sink), k.item_at(here)
    processing_s, e2e_s = item.at_s - item.taken_s, item.at_s - item.born_s
    if processing_s < 0.0:
        processing_s = 0.0
    if e2e_s < processing_s:
        e2e_s = processing_s
    sink.count += 1
    sink.counted += 1
    sink.processing_sum_s += processing_s
    sink.e2e_sum_s += e2e_s
    taken = bucket_of(processing_s)
    whole_at(sink.processing + 8 * taken).value += 1
    if item.ready_s > item.taken_s:
        delay_s = item.at_s - item.ready_s
        if delay_s < 0.0:
            delay_s = 0.0
        sink.delay_sum_s += delay_s
        whole_at(sink.delay + 8 * bucket_of(delay_s)).value += 1
    else:
        sink.delay_sum_s += processing_s
        whole_at(sink.delay + 8 * taken).value += 1
    whole_at(sink.e2e + 8 * bucket_of(e2e_s)).value += 1
    release(s, here)


@compiled
def commit_now(state: int, here_sink: int) -> int:
    """Counts the results up to number `subject`, which a checkpoint has committed now."""
    s, sink = k.state_at(state), k.sink_at(here_sink)
    while sink.first_held != 0 and k.item_at(sink.first_held).order <= s.subject:
        here = sink.first_held
        item = k.item_at(here)
        sink.first_held = item.next
        sink.held_results -= 1
        spend(sink.spent, COMMIT_TIME, s.now - item.at_s)
        item.at_s = s.now
        note(s, here_sink, here)
    return 0


@compiled
def put_now(_: int, here: int) -> int:
    """Puts an item into the lane of its task that its path leads to."""
    put(k.lane_at(k.item_at(here).step), here)
    return 0
