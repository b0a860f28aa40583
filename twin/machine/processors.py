"""CPU sharing among the tasks of one socket: one virtual clock, a heap of jobs."""

from __future__ import annotations

from typing import Any

from twin.machine import layout as k
from twin.machine.calendar import push, ring_at
from twin.machine.native import compiled

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
