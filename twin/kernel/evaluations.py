"""When windows over time are evaluated, by jobs of their own (twin.engine.windows.trigger)."""

from __future__ import annotations

from typing import Any

from twin.kernel.calendar import cancel, ring_at
from twin.kernel.chains import follow, leave_chain, push_results
from twin.kernel.contents import forget
from twin.kernel.layout import ERRAND_BYTES, ERRANDS, errand_at, logic_at, processor_at, window_at
from twin.kernel.native import call, compiled
from twin.kernel.processors import start_job
from twin.kernel.windows import evaluate, leave


@compiled
def boundary(s: Any, window: Any, task: Any) -> None:
    """A window over time ends; its evaluation waits for the station."""
    if task.halted:
        cancel(s, window.slot)
        return
    at_s = window.boundary_s
    window.boundary_s = at_s + window.slide
    ring_at(s, window.slot, max(window.boundary_s, s.now + 1e-9))
    if task.blocked or task.busy:
        if task.errands_count == task.errands_room:
            call(s.call_python, ERRANDS, task.here)
        place = task.errands_first + task.errands_count
        if place >= task.errands_room:
            place -= task.errands_room
        errand = errand_at(task.errands + ERRAND_BYTES * place)
        errand.window, errand.at_s = window.here, at_s
        task.errands_count += 1
    else:
        evaluate_due(s, window, task, at_s)


@compiled
def next_errand(s: Any, task: Any) -> None:
    """The evaluation that has waited longest."""
    errand = errand_at(task.errands + ERRAND_BYTES * task.errands_first)
    task.errands_first += 1
    if task.errands_first == task.errands_room:
        task.errands_first = 0
    task.errands_count -= 1
    evaluate_due(s, window_at(errand.window), task, errand.at_s)


@compiled
def evaluate_due(s: Any, window: Any, task: Any, at_s: float) -> None:
    """Evaluates the window that ended then, as a job of its own."""
    work_s = evaluate(s, window, at_s, task.stream)
    forget(window, at_s + window.slide - window.length)
    if task.steps > 1:
        push_results(s, task, logic_at(window.logic))
        work_s += follow(s, task)
    else:
        work_s += window.found_count * task.send_s
    processor = processor_at(task.processor)
    work_s *= processor.slowdown
    processor.work_s += work_s
    task.busy, task.evaluating = 1, 1
    task.since_s, task.in_service_work_s = s.now, work_s
    if work_s <= 0.0:
        end_evaluation(s, task)
    elif task.shared:
        cancel(s, task.slot)
        start_job(s, processor, task, work_s)
    else:
        ring_at(s, task.slot, s.now + work_s / processor.speed)


@compiled
def end_evaluation(s: Any, task: Any) -> None:
    """The results leave."""
    task.evaluating = 0
    task.busy_s += s.now - task.since_s
    task.free_s = s.now
    if task.steps > 1:
        leave_chain(s, task, s.now)
    elif logic_at(task.logic).window != 0:
        leave(s, task, window_at(logic_at(task.logic).window), s.now)
    task.busy = 0
