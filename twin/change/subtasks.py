"""Subtasks of a running job that come, go, and move to other places.

Where watermarks pass, a new subtask starts with the watermark that its producers have sent, and its consumers know it
by that. Otherwise they would close windows without its records, or wait for it. A subtask that leaves announces that
nothing more will come.
"""

from __future__ import annotations

import math

import simpy

from twin.change.running_job import Process, RunningJob
from twin.change.storage import carry
from twin.operators.records import WATERMARK, InputProgress, Mark
from twin.operators.watermark import MODIFICATION
from twin.plan import Location
from twin.world.event_time import shippings
from twin.world.ledger import EventRecord, Ledger
from twin.world.parts import Task
from twin.world.python_logics import timed_logic

KINDS = (WATERMARK, MODIFICATION)


def add_subtask(job: RunningJob, operator: str, place: Location) -> Task:
    """Makes a new subtask and wires it; it gets no records yet."""
    world, fan, tasks = job.world, job.fan(operator), job.world.tasks[operator]
    job.open(place)
    made = len(tasks) + len(job.world.ledger.retired.get(operator, ()))
    task = job.make_subtask(operator, made, place)
    for position, edge in enumerate(world.job.outputs(operator)):
        out = edge.stream
        task.ports.append(job.fan(out.consumer).port_of(task, out, tasks[0].ports[position]))
    task.know_ports()
    if job.stopped:
        task.output.block()
    tasks.append(task)
    fan.add(task, place)
    if not task.polls:
        job.world.memories[place.host].tasks.append(task)
    job.statistics.joined(operator, task, job.env.now)
    logic = timed_logic(task)
    if logic is not None:
        logic.belong(world.owners[operator], world.notes[operator].more())
    job.checkpoints.joined(task)
    if operator in world.event_times.heeding:
        _join_event_time(job, operator, task)
        job.checkpoints.plan_changed()
    return task


def _join_event_time(job: RunningJob, operator: str, task: Task) -> None:
    world = job.world
    alignment = InputProgress([])
    task.alignment, task.heeds = alignment, True
    for side, stream in enumerate(world.query.inputs(operator)):
        position = world.job.position(stream)
        for producer in world.tasks_of(stream.producer):
            alignment.join((side, producer.name), producer.ports[position].told)
    values = {kind: least for kind in KINDS if (least := alignment.least(kind)) > -math.inf}
    logic, sibling = timed_logic(task), timed_logic(job.world.tasks[operator][0])
    if logic is not None:
        assert sibling is not None
        logic.come(sibling, values)
        logic.shippings = shippings(world, operator, task)
    for port, edge in zip(task.ports, world.job.outputs(operator), strict=True):
        port.told, stream = values.copy(), edge.stream
        side = world.query.inputs(stream.consumer).index(stream)
        for consumer in job.world.tasks[stream.consumer]:
            if consumer.alignment is not None:
                consumer.alignment.join((side, task.name), values)


def dismiss(job: RunningJob, operator: str, task: Task) -> Process:
    """Takes away a subtask that gets no more input, once it has nothing left to do."""
    heeds = operator in job.world.event_times.heeding
    yield job.env.until(lambda: _has_ended(job, task))
    for kind in KINDS if heeds else ():
        for port in task.ports:
            port.mark(Mark(kind, math.inf, task.name, job.env.now))
    job.statistics.left(operator, task, job.env.now)
    task.halted = True
    job.world.tasks[operator].remove(task)
    job.world.ledger.retired.setdefault(operator, []).append(task)
    job.fan(operator).leave(task)
    if not task.polls:
        job.world.memories[task.place.host].tasks.remove(task)
    task.processor.detach(task)
    if heeds:
        job.checkpoints.plan_changed()


def _has_ended(job: RunningJob, task: Task) -> bool:
    """Whether a subtask that gets no more input has nothing left to do, to send, or to give to others on request."""
    logic = timed_logic(task)
    return not (
        job.availability.outage is not None
        or task.busy
        or task.output.blocked
        or task.queued
        or task.logic.away()
        or (logic is not None and logic.past())
        or any(port.waiting() for port in task.ports)
        or job.outstanding(task)
    )


# moves to another place -----------------------------------------------------------------------------------------------


def move_subtask(job: RunningJob, task: Task, operator: str, place: Location, record: EventRecord) -> Process:
    """Stops a subtask, moves it with its state and queue, and lets it go on (ALBIC, section 3)."""
    env, world = job.env, job.world
    start = task.place
    if place == start:
        job.refuse(record, f"it is at {place} already")
        return
    if job.stopped:
        relocate(job, task, operator, place)
        return
    task.output.block()
    while task.busy or task.engaged_until_s > env.now or task.logic.away():
        yield env.until(lambda: not (task.busy or task.logic.away()))
        if task.engaged_until_s > env.now:  # its host pauses
            yield env.timeout(task.engaged_until_s - env.now)
    paused_s = env.now
    size = job.state_bytes(task, operator) + job.queue_bytes(task, operator)
    send_s, fetch_s = world.network.costs_s(start, place, size)
    yield from _work(job.world.ledger, task, send_s)
    yield from carry(world, start, place, size)
    relocate(job, task, operator, place)
    yield from _work(job.world.ledger, task, fetch_s)
    record.paused_s = float(env.now - paused_s)
    record.bytes = float(size)
    task.output.unblock()


def relocate(job: RunningJob, task: Task, operator: str, place: Location) -> None:
    """Puts a paused subtask on another processor and renews all paths from and to it."""
    memories = job.world.memories
    if not task.polls:
        memories[task.place.host].tasks.remove(task)
    task.processor.detach(task)
    task.processor, task.place = job.open(place), place
    task.processor.attach(task)
    if not task.polls:
        memories[place.host].tasks.append(task)
    fan = job.fan(operator)
    fan.places[fan.index(task)] = place
    fan.renew()
    for position, edge in enumerate(job.world.job.outputs(operator)):
        job.fan(edge.stream.consumer).renew_from(edge.stream, task.ports[position])
    task.know_ports()


def _work(ledger: Ledger, task: Task, work_s: float) -> Process:
    """Does CPU work of a paused task, at the speed that its processor gives it; interrupted work does not count."""
    if work_s <= 0.0:
        return
    processor = task.processor
    work_s *= processor.slowdown
    processor.work_s += work_s
    ledger.moving_s[processor] += work_s
    try:
        yield _served(task, work_s) if processor.shared else task.env.timeout(work_s / processor.speed)
    except simpy.Interrupt:
        processor.cancel(task)
        processor.work_s -= work_s
        raise
    finally:
        ledger.moving_s[processor] -= work_s


def _served(task: Task, work_s: float) -> simpy.Event:
    """Event that occurs when the task's shared processor has done `work_s` core-seconds for it."""
    done = task.env.event()

    def finished() -> None:
        done.succeed()

    task.processor.start(task, work_s, finished)
    return done
