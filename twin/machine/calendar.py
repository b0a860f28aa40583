"""Time in compiled code: the calendar of what is due, and processors, which are shared by the tasks of a socket."""

from __future__ import annotations

from math import inf
from typing import Any

from twin.machine import layout as k
from twin.machine.native import compiled, float_at, whole_at

# the calendar --------------------------------------------------------------------------------------------------------
# Calendar of compiled code: one slot an entity, a tournament that finds the slot that is due first, and heaps.
#
# An entity has one next event. Slots are ordered by (time, sequence number), as SimPy orders its events; so are jobs of
# a processor and calls under way, in heaps of their own.


@compiled
def next_sequence(s: Any) -> int:
    """Number of an event that is set now; events of one time take place in the order of their numbers."""
    order = s.sequence
    s.sequence = order + 1
    return order


@compiled
def schedule(s: Any, slot: int, at_s: float, order: int) -> None:
    """Sets the next event of an entity. At each node of the tournament, the winner is compared with the one beside it.

    Times are compared by their bits, which are in the order of the numbers for numbers >= 0.
    """
    times, orders, tree = s.times, s.orders, s.tree
    float_at(times + 8 * slot).value = at_s
    whole_at(orders + 8 * slot).value = order
    node, winner, when = slot + s.slots, slot, whole_at(times + 8 * slot).value
    while node > 1:
        other = whole_at(tree + 8 * (node ^ 1)).value
        other_when = whole_at(times + 8 * other).value
        first = other_when < when
        if other_when == when:
            first = whole_at(orders + 8 * other).value < whole_at(orders + 8 * winner).value
        winner, when = other if first else winner, min(when, other_when)
        node >>= 1
        before = whole_at(tree + 8 * node).value
        whole_at(tree + 8 * node).value = winner
        if winner == before and winner != slot:
            return


@compiled
def cancel(s: Any, slot: int) -> None:
    """Removes the event of an entity."""
    if float_at(s.times + 8 * slot).value != inf:
        schedule(s, slot, inf, 0)


@compiled
def ring_at(s: Any, slot: int, at_s: float) -> None:
    """Sets the event of an entity to `at_s`, or to now if that has passed."""
    schedule(s, slot, at_s if at_s > s.now else s.now, next_sequence(s))


@compiled
def push(heap: int, count: int, end: float, order: int, owner: int) -> None:
    """Adds an entry to a heap of `count` entries."""
    number = count
    while number > 0:  # sifts up
        parent = (number - 1) >> 1
        above = k.job_at(heap + k.JOB_BYTES * parent)
        if before(above, end, order):
            break
        put_at(heap, number, above.end, above.order, above.task)
        number = parent
    put_at(heap, number, end, order, owner)


@compiled
def pop(heap: int, count: int) -> int:
    """Removes the first of `count` entries of a heap; returns its owner."""
    owner = k.job_at(heap).task
    left = count - 1
    last = k.job_at(heap + k.JOB_BYTES * left)
    end, order, last_owner = last.end, last.order, last.task
    number = 0
    while True:
        child = 2 * number + 1
        if child >= left:
            break
        below = k.job_at(heap + k.JOB_BYTES * child)
        if child + 1 < left:
            other = k.job_at(heap + k.JOB_BYTES * (child + 1))
            if before(other, below.end, below.order):
                child, below = child + 1, other
        if not before(below, end, order):
            break
        put_at(heap, number, below.end, below.order, below.task)
        number = child
    if left > 0:
        put_at(heap, number, end, order, last_owner)
    return owner


@compiled
def before(job: Any, end: float, order: int) -> bool:
    """Whether a job comes before an entry with that end and number. Numbers differ."""
    return job.end < end or (job.end == end and job.order < order)


@compiled
def put_at(heap: int, number: int, end: float, order: int, owner: int) -> None:
    """Writes an entry of a heap."""
    job = k.job_at(heap + k.JOB_BYTES * number)
    job.end, job.order, job.task = end, order, owner


# processors ----------------------------------------------------------------------------------------------------------
# CPU sharing among the tasks of one socket: one virtual clock, a heap of jobs.


EPSILON = 1e-11
"""Core-seconds below which a job is done: rounding must not stall the clock."""


@compiled
def advance_clock(s: Any, processor: Any) -> None:
    """Advances the virtual clock of a processor to now."""
    elapsed = s.now - processor.since
    if elapsed > 0.0:
        processor.clock += processor.level * elapsed
        processor.since = s.now


@compiled
def start_job(s: Any, processor: Any, task: Any, work_s: float) -> None:
    """Starts a job of `work_s` core-seconds for a task."""
    advance_clock(s, processor)
    processor.sequence += 1
    push(processor.heap, processor.jobs, processor.clock + work_s, processor.sequence, task.here)
    processor.jobs += 1
    relevel(s, processor)


@compiled
def relevel(s: Any, processor: Any) -> None:
    """Sets the level of all jobs and the event of the next end."""
    if processor.jobs > 0 and processor.ringing == 0:
        level = processor.capacity / processor.jobs
        processor.level = level if level < 1.0 else 1.0
        arm(s, processor)


@compiled
def arm(s: Any, processor: Any) -> None:
    """Sets the one pending event for the next end, and again only when that end moves earlier."""
    at_s = s.now if s.now > processor.since else processor.since
    left_s = k.job_at(processor.heap).end - processor.clock
    if left_s > 0.0:
        at_s += left_s / processor.level
    if at_s < processor.armed_s - 1e-12:
        processor.armed_s = at_s
        ring_at(s, processor.slot, at_s)


@compiled
def start_now(state: int, here: int) -> int:
    """Starts a job of `asked` core-seconds for a task, beside its records."""
    s, task = k.state_at(state), k.task_at(here)
    start_job(s, k.processor_at(task.processor), task, s.asked)
    return 0


@compiled
def refresh_now(state: int, here: int) -> int:
    """Brings the clock of a processor up to now."""
    s, processor = k.state_at(state), k.processor_at(here)
    advance_clock(s, processor)
    relevel(s, processor)
    return 0


@compiled
def cancel_now(state: int, here: int) -> int:
    """Drops the job of a task on its shared processor; the others get its part."""
    s, task = k.state_at(state), k.task_at(here)
    processor = k.processor_at(task.processor)
    advance_clock(s, processor)
    left, jobs = 0, processor.jobs
    for number in range(jobs):  # the others, in whatever order, make a heap again
        job = k.job_at(processor.heap + k.JOB_BYTES * number)
        end, order, owner = job.end, job.order, job.task
        if owner != here:
            push(processor.heap, left, end, order, owner)
            left += 1
    processor.jobs = left
    relevel(s, processor)
    return 0
