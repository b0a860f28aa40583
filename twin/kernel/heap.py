"""A heap of jobs or calls: what is done first, by (when, number)."""

from __future__ import annotations

from typing import Any

from twin.kernel.layout import JOB_BYTES, job_at
from twin.kernel.native import compiled


@compiled
def push(heap: int, count: int, end: float, order: int, owner: int) -> None:
    """Adds one to so many that are there."""
    number = count
    while number > 0:  # sifts up
        parent = (number - 1) >> 1
        above = job_at(heap + JOB_BYTES * parent)
        if before(above, end, order):
            break
        put_at(heap, number, above.end, above.order, above.task)
        number = parent
    put_at(heap, number, end, order, owner)


@compiled
def pop(heap: int, count: int) -> int:
    """Removes the first of so many; whose it was."""
    owner = job_at(heap).task
    left = count - 1
    last = job_at(heap + JOB_BYTES * left)
    end, order, last_owner = last.end, last.order, last.task
    number = 0
    while True:
        child = 2 * number + 1
        if child >= left:
            break
        below = job_at(heap + JOB_BYTES * child)
        if child + 1 < left:
            other = job_at(heap + JOB_BYTES * (child + 1))
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
    """Whether a job comes before that. Numbers differ."""
    return job.end < end or (job.end == end and job.order < order)


@compiled
def put_at(heap: int, number: int, end: float, order: int, owner: int) -> None:
    """Writes one place."""
    job = job_at(heap + JOB_BYTES * number)
    job.end, job.order, job.task = end, order, owner
