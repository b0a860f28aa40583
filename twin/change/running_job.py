"""Running job, as seen by its changes: whether it is up, what a failure interrupts, and subtasks that come and go."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from twin.change.checkpoint import NoCheckpoints, carry
from twin.change.fan import Fan
from twin.change.kept import end_of, in_flight, signals
from twin.operators.records import WATERMARK, InputProgress, Mark
from twin.operators.watermark import MODIFICATION
from twin.plan import Location
from twin.query import Stream
from twin.world.event_time import shippings
from twin.world.meters import EventRecord, HostMeter, Ledger, LinkMeter, Statistics
from twin.world.network import home
from twin.world.parts import Processor, Task
from twin.world.ports import Path
from twin.world.python_logics import timed_logic
from twin.world.world import World

# the job -------------------------------------------------------------------------------------------------------------


Process = Generator[simpy.Event, Any, Any]


class Availability:
    """Whether the job is up, and the work that a failure interrupts.

    outage: the event that ends the current outage; None while the job is up. changes: number of changes of the plan
    that are under way.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.outage: simpy.Event | None = None
        self.changes = 0
        self._interruptible: list[simpy.Process] = []

    def up(self) -> Process:
        """Waits until the job is up."""
        while self.outage is not None:
            yield self.outage

    def fail(self) -> None:
        """Starts an outage of the job, or of a part of it: state that is being moved is back where it was."""
        if self.outage is None:
            self.outage = self.env.event()
        processes, self._interruptible = self._interruptible, []
        for process in processes:
            if process.is_alive:
                process.interrupt()

    def recover(self) -> None:
        """Ends the outage, as all of the job is up again."""
        ended, self.outage = self.outage, None
        assert ended is not None
        ended.succeed()

    def all_done(self, works: Sequence[Process]) -> Process:
        """Does several works at the same time, which a failure ends early. Returns whether all were done."""
        processes = [self.env.process(_caught(work)) for work in works]
        self._interruptible += processes
        results = yield self.env.all_of(processes)
        self._interruptible = [other for other in self._interruptible if other not in processes]
        return all(results.values())


def _caught(work: Process) -> Process:
    try:
        yield from work
    except simpy.Interrupt:
        return False
    return True


class RunningJob:
    """World and meters of a job, its availability, its checkpoints, and the fans of its operators.

    stopped: whether the job stands still with no record under way, so that a change of the plan takes no time by
    itself. lost: hosts that do not come back.
    """

    def __init__(self, world: World, statistics: Statistics) -> None:
        self.world = world
        self.statistics = statistics
        self.env = world.env
        self.availability = Availability(self.env)
        self.checkpoints = NoCheckpoints()
        self.stopped = False
        self.lost: set[str] = set()
        self._throttles: defaultdict[str, float] = defaultdict(lambda: 1.0)
        self._fans: dict[str, Fan] = {}

    def fan(self, operator: str) -> Fan:
        """Fan of an operator, the channels into it; made when it is first needed."""
        if operator not in self._fans:
            self._fans[operator] = Fan(self.world, operator)
        return self._fans[operator]

    def crash(self) -> None:
        """Notes that the job has crashed, which is final: an outage begins that does not end."""
        self.checkpoints.abort("the job crashed")
        self.availability.fail()

    def refuse(self, record: EventRecord, why: str) -> None:
        """Notes that a change was not made, and why."""
        record.detail["refused"] = why
        self.world.ledger.warnings.append(f"{record.kind} of {record.component} at {record.at_s:g} s: {why}")

    # hosts -----------------------------------------------------------------------------------------------------------

    def open(self, place: Location) -> Processor:
        """Processor of a socket. A host that was not used so far gets memory and a meter."""
        world = self.world
        known = place in world.processors
        processor = world.processor(place)
        memory = world.memories.get(place.host)
        if memory is None:
            memory = world.memories[place.host] = world.heap(place.host)
            world.pause(place.host)
            card = world.network.card(place.host)
            meter = HostMeter(place.host, memory.processors, card, memory)
            self.statistics.appeared(meter, LinkMeter(place.host, card))
        elif not known:
            memory.processors.append(processor)
        processor.slow("memory", memory.slowdown)
        processor.slow("throttle", self._throttles[place.host])
        return processor

    def throttle(self, host: str, factor: float) -> None:
        """Multiplies all work on a host, from now on; the inverse factor restores it."""
        self._throttles[host] *= factor
        for processor in self.world.processors_of(host):
            processor.slow("throttle", self._throttles[host])

    # load of a subtask -----------------------------------------------------------------------------------------------

    def operator_of(self, task: Task) -> str:
        """Name of the operator that takes the records of a task."""
        return next(name for name, tasks in self.world.tasks.items() if task in tasks)

    def state_bytes(self, task: Task, operator: str) -> float:
        """Bytes of a subtask's windows and key groups."""
        size = task.logic.held_bytes()
        keys = self.world.key_groups.get(operator)
        if keys is not None:
            size += keys.owner.count(self.fan(operator).index(task)) * keys.state_bytes_each
        return size

    def queue_bytes(self, task: Task, operator: str) -> float:
        """Bytes that wait for a subtask; at a source, in the size of the records that it emits."""
        engine, query = self.world.engine, self.world.query
        return task.queued * (engine.output_bytes(query, operator) if task.polls else task.inputs.record_bytes())

    def make_subtask(self, operator: str, number: int, place: Location) -> Task:
        """Makes a subtask of an operator at a place. number: names its random numbers."""
        return self.world.make_task(self.world.job.component(operator), number, place)

    def awaiting(self) -> set[Task]:
        """Subtasks to which records or marks are on their way."""
        ends = [end_of(self.world, item) for _, _, item, _ in in_flight(self.world)]
        ends += [home(flight.signal.inbox) for flight in signals(self.world) if flight.signal is not None]
        return {end for end in ends if isinstance(end, Task)}

    def outstanding(self, task: Task) -> int:
        """Number of records queued at a subtask, on the way to it, and waiting to be sent to it, also by a buffer that
        passes them on to it."""
        world = self.world
        flying = sum(end_of(world, item) is task for _, _, item, _ in in_flight(world) if not item.mark)
        ports = [port for producer in world.every_task() for port in producer.ports]
        paths = [path for port in ports for path, item in port.unsent() if not item.mark]
        unsent = sum(home(world.memory.at[Path(path).inbox]) is task for path in paths)
        return int(task.queued) + flying + unsent


# subtasks that come and go -------------------------------------------------------------------------------------------
# Where watermarks pass, a new subtask starts with the watermark that its producers have sent, and its consumers know
# it by that. Otherwise they would close windows without its records, or wait for it. A subtask that leaves announces
# that nothing more will come.


KINDS = (WATERMARK, MODIFICATION)
"""Kinds of marks of which a subtask passes on the least that all of its inputs have announced."""


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
        if job.stopped and sibling.watermark_us > values.get(WATERMARK, -math.inf):
            values[WATERMARK] = sibling.watermark_us  # else what moves between both would wait for ever
        logic.come(sibling, values)
        logic.shippings = shippings(world, operator, task)
    for port, edge in zip(task.ports, world.job.outputs(operator), strict=True):
        port.told, stream = values.copy(), edge.stream
        side = world.query.inputs(stream.consumer).index(stream)
        for consumer in job.world.tasks[stream.consumer]:
            if consumer.alignment is not None:
                consumer.alignment.join((side, task.name), values)


def lead_event_time(job: RunningJob, stream: Stream, producers: Sequence[Task], consumers: Sequence[Task]) -> None:
    """Lets the consumers of a forward stream wait for those producers alone that they get records from after a restart,
    each for the one at its position.

    They begin at what these have announced, and so do all behind them up to operators over event time: these would take
    records for late if they held on to the progress of other producers.
    """
    world, query = job.world, job.world.query
    side, position = query.inputs(stream.consumer).index(stream), world.job.position(stream)
    aligned = {task: task.alignment for task in consumers if task.alignment is not None}
    asleep = {each for alignment in aligned.values() for each in alignment.inputs if alignment.sleeps(each)}
    for alignment in aligned.values():
        alignment.leave(side)
    for producer, consumer in zip(producers, consumers, strict=True):
        if consumer in aligned:
            each = side, producer.name
            aligned[consumer].join(each, {})
            aligned[consumer].begin(each, producer.ports[position].told, each in asleep)
    behind = {stream.consumer}
    for name in (each.name for each in query.topological if each.name in world.tasks):
        passing = [task for task in world.tasks[name] if task.alignment is not None and timed_logic(task) is None]
        if not (name in behind or behind & query.ancestors(name)) or not passing:
            continue
        behind.add(name)
        for task in passing:
            _announce_again(job, name, task)


def _announce_again(job: RunningJob, operator: str, task: Task) -> None:
    """Lets the consumers of a subtask that passes marks know no more of it than its own inputs have announced."""
    alignment, query = task.alignment, job.world.query
    assert alignment is not None
    values = {kind: least for kind in KINDS if (least := alignment.least(kind)) > -math.inf}
    for port, edge in zip(task.ports, job.world.job.outputs(operator), strict=True):
        consumer = edge.stream.consumer
        port.told = {kind: min(value, port.told[kind]) for kind, value in values.items() if kind in port.told}
        each = query.inputs(consumer).index(edge.stream), task.name
        for other in job.world.tasks[consumer]:
            if other.alignment is not None and each in other.alignment.inputs:
                other.alignment.begin(each, port.told, alignment.idle)


def dismiss(job: RunningJob, operator: str, task: Task) -> Process:
    """Takes away a subtask that gets no more input, once it has nothing left to do."""
    heeds = operator in job.world.event_times.heeding
    yield job.env.until(lambda: _has_ended(job, task))
    for kind in KINDS if heeds else ():
        for port in task.ports:
            port.mark(Mark(kind, math.inf, task.name, job.env.now))
    for port in task.ports if heeds else ():
        port.flush()  # nobody looks into the batches of one that has left
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


# moves to another place ----------------------------------------------------------------------------------------------


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
