"""Handover of tasks with the records in service and in their queues, of processors, shared queues, and brokers."""

from __future__ import annotations

import math
from math import inf
from typing import TYPE_CHECKING, Any

from simpy.events import NORMAL

from twin.engine.arrival.broker import Broker
from twin.engine.calendar import Alarm, Once
from twin.engine.logics.source import ReplayableSource
from twin.engine.processor import Processor
from twin.engine.record import Record
from twin.engine.station.task import Task
from twin.kernel import layout as k
from twin.kernel.arena import view
from twin.kernel.handover.channels import lane
from twin.kernel.handover.logics import lower_logics, lower_outcome
from twin.kernel.handover.records import arrived, chain, ends, link, record
from twin.kernel.traits import logics_of

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_tasks(low: Lowered) -> None:
    """Fills the structures of all processors and tasks."""
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
    """Puts queued records into lanes, as arrived before all records that are on their way."""
    for task in low.tasks:
        if not task.polls and task.queue:
            came = arrived(low, task.queue)
            for here in came:
                low.item(here)["at_s"] = -math.inf
            row = view(k.LANE, lane(low, task, None, 0.0))
            row["head"], row["tail"] = ends(came)
            row["total"] = row["came"] = len(came)


def lift_tasks(low: Lowered) -> None:
    """Gives back all tasks and processors, with the records in their queues and on their way."""
    for task, row in zip(low.tasks, low.task_rows, strict=True):
        if not task.polls:
            _queue(low, task, int(row["lane"]))
        task.queued = len(task.queue)
        if row["busy"] and not row["evaluating"]:
            service = record(low, int(row["current"]))
            task.current = service, float(row["start_s"]), float(row["end_s"]), float(row["time_s"])
        task.finish_alarm.show(math.inf)
        if row["busy"]:  # also on a shared processor: the work may have begun before that was shared
            low.resume(task.finish_alarm, int(row["slot"]))
    for processor, row in zip(low.processors, low.processor_rows, strict=True):
        _processor(low, processor, row)
    for each in low.flying:
        for here in chain(each["head"]):
            _under_way(low, here, int(each["card"]))


def _queue(low: Lowered, task: Task, lane: int) -> None:
    state, came = low.state[0], []
    now = float(state["now"]), int(state["event_sequence"])
    for each in chain(lane, k.NEXT_LANE):
        row = view(k.LANE, each)
        for here in chain(row["head"]):
            item = low.item(here)
            at = float(item["at_s"]), int(item["order"])
            if at <= now:
                came.append((*at, here))
            else:
                _under_way(low, here, int(row["card"]))
    came.sort(key=lambda each: each[:2])
    task.queue.clear()
    task.queue.extend([record(low, here) for _, _, here in came])


def _under_way(low: Lowered, here: int, card: int) -> None:
    """Gives back a record that is under way on a card or link."""
    item, nic, made = low.item(here), low.object_at[card], record(low, here)
    made.sent_s, made.latency_s = float(item["sent_s"]), float(item["latency_s"])
    entry = (float(item["at_s"]), NORMAL, int(item["order"]), Once(nic._arrive, made))
    low.world.env._queue.append(entry)


def _processor(low: Lowered, processor: Processor, row: Any) -> None:
    processor._armed, processor._armed_at = None, math.inf
    if row["armed_s"] < math.inf:
        processor._armed, processor._armed_at = Alarm(low.world.env, processor._ring), float(row["armed_s"])
        low.resume(processor._armed, int(row["slot"]))


def lower_pools(low: Lowered) -> None:
    """Fills the structures of shared queues: idle members, and waiting records with the members that count them."""
    for pool, row in zip(low.pools, low.pool_rows, strict=True):
        row["members"] = low.arena.wholes([low.here[id(member)] for member in pool.members])
        row["count"] = len(pool.members)
        for member in pool.members:
            low.row(member)["pool"] = row["here"]
            lane(low, member, None, 0.0)
        for member in pool.idle:
            low.row(member)["listed"] = 1
        idle = [low.here[id(member)] for member in pool.idle]
        row["first_idle"], row["last_idle"] = link(k.TASK, idle, "next_idle")
        waiting = arrived(low, [each for each, _ in pool.queue])
        for here, (_, keeper) in zip(waiting, pool.queue, strict=True):
            low.item(here)["order"] = low.here[id(keeper)]
        row["head"], row["tail"] = ends(waiting)


def lift_pools(low: Lowered) -> None:
    """Gives back all shared queues."""
    for pool, row in zip(low.pools, low.pool_rows, strict=True):
        pool.idle.clear()
        pool.idle.extend(low.object_at[here] for here in chain(row["first_idle"], k.NEXT_IDLE))
        pool.listed = set(pool.idle)
        pool.queue.clear()
        for here in chain(row["head"]):
            keeper = low.object_at[int(low.item(here)["order"])]
            keeper.queued += 1
            pool.queue.append((record(low, here), keeper))


def lower_brokers(low: Lowered) -> None:
    """Fills the structures of all brokers, and links them to their sources."""
    for broker, row in zip(low.brokers, low.broker_rows, strict=True):
        here, (source, alarm) = int(row["here"]), _source(broker)
        task = low.row(source)
        row["task"], task["broker"] = task["here"], here
        low.pending[id(alarm)] = int(task["slot"])
        again = [record.born_s for record in source.queue]
        row["again"], row["again_count"] = low.block(here, "again", again, len(again)), len(again)
        if isinstance(logics_of(source)[0], ReplayableSource):
            row["logs"], row["log_room"] = 1, k.LEAST_ROOM
            row["log"] = low.block(here, "log", (), k.LEAST_ROOM)
        if broker.blocks:
            _read(broker, row)


def _source(broker: Broker) -> tuple[Task, Alarm]:
    """Source of a broker, and the alarm of its polling."""
    assert isinstance(broker.source, Task) and broker.source.polling is not None
    return broker.source, broker.source.polling.alarm


def _read(broker: Broker, row: Any) -> None:
    """Fills in the broker's first block, and the place of the first record that was not taken."""
    row["times"], row["count"] = broker.first().buffer_info()
    row["place"] = broker.place


def more_arrivals(low: Lowered, row: Any) -> None:
    """Fills in the next arrivals at a broker, whose last ones were taken."""
    broker = low.object_at[int(row["here"])]
    broker.place = int(row["place"])
    _read(broker, row)


def lift_brokers(low: Lowered) -> None:
    """Gives back all brokers and the queues of their sources."""
    for broker, row in zip(low.brokers, low.broker_rows, strict=True):
        (source, alarm), here = _source(broker), int(row["here"])
        again = low.blocks[here, "again"][int(row["again_place"]) : int(row["again_count"])].tolist()
        source.queue.clear()
        source.queue.extend([Record(born_s, 0.0, born_s) for born_s in again])
        logic = logics_of(source)[0]
        if isinstance(logic, ReplayableSource):
            logged = low.blocks[here, "log"][: int(row["logged"])].tolist()
            logic.log += [Record(born_s, 0.0, born_s) for born_s in logged]
        alarm.show(inf)
        task = view(k.TASK, int(row["task"]))
        if not task["busy"]:
            low.resume(alarm, int(task["slot"]))
