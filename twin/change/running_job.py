"""Running job, as seen by its changes: whether it is up, and which work a failure interrupts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from twin.change.checkpoint import NoCheckpoints
from twin.change.fan import Fan
from twin.change.kept import end_of, in_flight, signals
from twin.plan import Location
from twin.world.lanes import home
from twin.world.ledger import EventRecord
from twin.world.meters import HostMeter, LinkMeter, Statistics
from twin.world.parts import Processor, Task
from twin.world.ports import Path
from twin.world.world import World

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
