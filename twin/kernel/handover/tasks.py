"""Tasks with what is in service and in their queues, and processors with their jobs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from simpy.events import NORMAL

from twin.engine.calendar import Alarm, Once
from twin.engine.processor import Processor
from twin.engine.station.task import Task
from twin.kernel import layout as k
from twin.kernel.arena import view
from twin.kernel.handover.logics import lower_logics, lower_outcome
from twin.kernel.handover.network import lane
from twin.kernel.handover.records import arrived, chain, ends, items, record

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_tasks(low: Lowered) -> None:
    """All of them."""
    for processor, row in zip(low.processors, low.processor_rows, strict=True):
        row["slot"] = low.slot(k.PROCESSORS, int(row["here"]))
        jobs = low.arena.make(k.JOB, len(processor.tasks) + len(processor.jobs))
        row["heap"], row["jobs"], row["armed_s"] = jobs.ctypes.data, len(processor.jobs), processor._armed_at
        for job, (end, order, task, _) in zip(jobs, processor.jobs, strict=False):
            job["end"], job["order"], job["task"] = end, order, low.here[id(task)]
        if processor._armed is not None:
            low.pending[id(processor._armed)] = int(row["slot"])
    for task, row in zip(low.tasks, low.task_rows, strict=True):
        row["slot"] = low.slot(k.TASKS, int(row["here"]))
        row["processor"], row["shared"] = low.here[id(task.processor)], task.processor.shared
        row["stream"], row["ports"] = low.stream(task.draws), len(task.ports)
        row["port"] = low.arena.wholes([low.here[id(port)] for port in task.ports])
        if task.busy or not task.polls:
            low.pending[id(task.finish_alarm)] = int(row["slot"])
        lower_logics(low, task, row)
        if task.evaluating is not None:
            lower_outcome(low, task, row, task.evaluating)
        elif task.busy:
            serving, row["start_s"], row["end_s"], row["time_s"] = task.current
            row["current"] = arrived(low, [serving])[0]


def lower_queues(low: Lowered) -> None:
    """What is queued came before anything that is on its way."""
    for task in low.tasks:
        if not task.polls and task.queue:
            came = arrived(low, task.queue)
            for here in came:
                low.item(here)["at_s"] = -math.inf
            row = view(k.LANE, lane(low, task, None, 0.0))
            row["head"], row["tail"] = ends(came)
            row["total"] = row["came"] = len(came)


def lift_tasks(low: Lowered) -> None:
    """The same, back."""
    for task, row in zip(low.tasks, low.task_rows, strict=True):
        if not task.polls:
            _queue(low, task, int(row["lane"]))
        task.queued = len(task.queue)
        if row["busy"] and not row["evaluating"]:
            service = record(low, int(row["current"]))
            task.current = service, float(row["start_s"]), float(row["end_s"]), float(row["time_s"])
        task.finish_alarm.show(math.inf)
        if row["busy"] and not row["shared"]:
            low.resume(task.finish_alarm, int(row["slot"]))
    for processor, row in zip(low.processors, low.processor_rows, strict=True):
        _processor(low, processor, row)
    for each in low.flying:
        for here in items(each["head"]):
            _send(low, here, int(each["card"]))


def _queue(low: Lowered, task: Task, lane: int) -> None:
    state, came = low.state[0], []
    now = float(state["now"]), int(state["event_sequence"])
    for each in chain(k.LANE, lane, "next"):
        row = view(k.LANE, each)
        for here in items(row["head"]):
            item = low.item(here)
            at = float(item["at_s"]), int(item["order"])
            if at <= now:
                came.append((*at, here))
            else:
                _send(low, here, int(row["card"]))
    came.sort(key=lambda each: each[:2])
    task.queue.clear()
    task.queue.extend([record(low, here) for _, _, here in came])


def _send(low: Lowered, here: int, card: int) -> None:
    """It is under way on a card or link."""
    item, nic = low.item(here), low.object_at[card]
    entry = (float(item["at_s"]), NORMAL, int(item["order"]), Once(nic._arrive, record(low, here)))
    low.world.env._queue.append(entry)


def _processor(low: Lowered, processor: Processor, row: Any) -> None:
    processor._armed, processor._armed_at = None, math.inf
    if row["armed_s"] < math.inf:
        processor._armed, processor._armed_at = Alarm(low.world.env, processor._ring), float(row["armed_s"])
        low.resume(processor._armed, int(row["slot"]))
