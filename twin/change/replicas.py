"""Replicas of a running job that come, go, and move to other places.

Where watermarks pass, a new replica starts with the watermark that its producers have sent, and its consumers know it
by that. Otherwise they would close windows without its records, or wait for it. A replica that leaves announces that
nothing more will come.
"""

from __future__ import annotations

import math

import simpy

from twin.change.running_job import Process, RunningJob
from twin.change.storage import carry
from twin.engine.measure.ledger import EventRecord, Ledger
from twin.engine.record import InputProgress, Mark
from twin.engine.station.task import Task
from twin.engine.windows.watermark import MODIFICATION, WATERMARK, TimedLogic
from twin.plan import Location
from twin.wiring.event_time import shippings
from twin.wiring.tasks import make_task

KINDS = (WATERMARK, MODIFICATION)


def add_replica(job: RunningJob, operator: str, place: Location) -> Task:
    """Makes a new replica and wires it; it gets no tuples yet."""
    wiring, fan, tasks = job.wiring, job.fan(operator), job.world.tasks[operator]
    job.open(place)
    made = len(tasks) + len(job.world.ledger.retired.get(operator, ()))
    task = make_task(wiring, wiring.job.component(operator), made, place)
    for position, edge in enumerate(wiring.job.outputs(operator)):
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
    job.checkpoints.joined(task)
    if operator in wiring.event_times.heeding:
        _join_event_time(job, operator, task)
        job.checkpoints.plan_changed()
    return task


def _join_event_time(job: RunningJob, operator: str, task: Task) -> None:
    wiring = job.wiring
    alignment = task.alignment = InputProgress([])
    for side, stream in enumerate(wiring.query.inputs(operator)):
        position = wiring.query.outputs(stream.producer).index(stream)
        for producer in wiring.tasks_of(stream.producer):
            alignment.join((side, producer.name), producer.ports[position].told)
    values = {kind: least for kind in KINDS if (least := alignment.least(kind)) > -math.inf}
    if isinstance(task.logic, TimedLogic):
        sibling = job.world.tasks[operator][0].logic
        assert isinstance(sibling, TimedLogic)
        task.logic.come(sibling, values)
        task.logic.shippings = shippings(wiring, operator, task)
    for port, edge in zip(task.ports, wiring.job.outputs(operator), strict=True):
        port.told, stream = values.copy(), edge.stream
        side = wiring.query.inputs(stream.consumer).index(stream)
        for consumer in job.world.tasks[stream.consumer]:
            if consumer.alignment is not None:
                consumer.alignment.join((side, task.name), values)


def dismiss(job: RunningJob, operator: str, task: Task) -> Process:
    """Takes away a replica that gets no more input, once it has nothing left to do."""
    heeds = operator in job.wiring.event_times.heeding
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
    """Whether a replica that gets no more input has nothing left to do, to send, or to give to others on request."""
    return not (
        job.availability.outage is not None
        or task.busy
        or task.output.blocked
        or task.queued
        or task.logic.away()
        or (isinstance(task.logic, TimedLogic) and task.logic.past())
        or any(port.waiting() for port in task.ports)
        or job.outstanding(task)
    )


# moves to another place -----------------------------------------------------------------------------------------------


def move_replica(job: RunningJob, task: Task, operator: str, place: Location, record: EventRecord) -> Process:
    """Stops a replica, moves it with its state and queue, and lets it go on (ALBIC, section 3)."""
    env, wiring = job.env, job.wiring
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
    send_s, fetch_s = wiring.network.costs_s(start, place, size)
    yield from _work(job.world.ledger, task, send_s)
    yield from carry(wiring, start, place, size)
    relocate(job, task, operator, place)
    yield from _work(job.world.ledger, task, fetch_s)
    record.paused_s = float(env.now - paused_s)
    record.bytes = float(size)
    task.output.unblock()


def relocate(job: RunningJob, task: Task, operator: str, place: Location) -> None:
    """Puts a paused replica on another processor and renews all paths from and to it."""
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
    for position, edge in enumerate(job.wiring.job.outputs(operator)):
        job.fan(edge.stream.consumer).renew_from(task, edge.stream, task.ports[position])
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
