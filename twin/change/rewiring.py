"""Wiring that goes on while the job runs: replicas come, go and move to other processors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from twin.change.fan import Fan
from twin.engine.measure.meters import HostMeter, LinkMeter
from twin.engine.processor import Processor
from twin.engine.station.task import Task
from twin.plan import Location
from twin.query import Stream
from twin.wiring.tasks import make_task
from twin.wiring.wiring import Wiring


class Rewiring(Wiring):
    """The wiring of a job that may change. `new_host`: told of the meters of each that is used for the first time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.new_host: Callable[[HostMeter, LinkMeter], None] = lambda *_: None
        self._throttles: defaultdict[str, float] = defaultdict(lambda: 1.0)
        self._fans: dict[str, Fan] = {}

    def fan(self, operator: str) -> Fan:
        """The ways into an operator, made when they are first changed."""
        if operator not in self._fans:
            self._fans[operator] = Fan(self, operator)
        return self._fans[operator]

    def open(self, place: Location) -> Processor:
        """The processor of a socket, with memory and a meter for its host if it was not used so far."""
        known = place in self.world.processors
        processor = self.processor(place)
        memory = self.world.memories.get(place.host)
        if memory is None:
            memory = self.world.memories[place.host] = self.memory(place.host)
            self.pause(place.host)
            nic = self.network.nic(place.host)
            self.new_host(HostMeter(place.host, memory.processors, nic, memory), LinkMeter(place.host, nic))
        elif not known:
            memory.processors.append(processor)
        processor.slow("memory", memory.slowdown)
        processor.slow("throttle", self._throttles[place.host])
        return processor

    def throttle(self, host: str, factor: float) -> None:
        """Multiplies all work on a host, from now on; the inverse factor restores it."""
        self._throttles[host] *= factor
        for processor in self.processors_of(host):
            processor.slow("throttle", self._throttles[host])

    def operator_of(self, task: Task) -> str:
        """The one that takes its tuples in."""
        return next(name for name, tasks in self.world.tasks.items() if task in tasks)

    def state_bytes(self, task: Task, operator: str) -> float:
        """What a replica's windows and key groups hold."""
        size = task.logic.held_bytes()
        keys = self.world.key_groups.get(operator)
        if keys is not None:
            size += keys.owner.count(self.fan(operator).index(task)) * keys.state_bytes_each
        return size

    def queue_bytes(self, task: Task, operator: str) -> float:
        """What waits for a replica; at a source, tuples as it emits them."""
        return task.queued * (
            self.engine.output_bytes(self.query, operator) if task.polls else task.inputs.tuple_bytes()
        )

    def relocate(self, task: Task, operator: str, place: Location) -> None:
        """Puts a paused replica on another processor and renews all paths from and to it."""
        self._leave(task)
        self._arrive(task, operator, place)
        fan = self.fan(operator)
        fan.places[fan.index(task)] = place
        fan.renew()
        for position, out in enumerate(self._outputs(operator)):
            self.fan(out.consumer).renew_from(task, out, task.ports[position])
        task.know_ports()

    def add_replica(self, operator: str, place: Location) -> Task:
        """A new replica, wired, which gets no tuples yet."""
        fan, tasks = self.fan(operator), self.world.tasks[operator]
        self.open(place)
        made = len(tasks) + len(self.world.ledger.retired.get(operator, ()))
        task = make_task(self, self.job.component(operator), made, place)
        for position, out in enumerate(self._outputs(operator)):
            task.ports.append(self.fan(out.consumer).port_of(task, out, tasks[0].ports[position]))
        task.know_ports()
        tasks.append(task)
        fan.add(task, place)
        self.world.memories[place.host].add(task)
        return task

    def _outputs(self, operator: str) -> list[Stream]:
        """The streams out of the component that begins with an operator."""
        return [edge.stream for edge in self.job.outputs(operator)]

    def remove_replica(self, operator: str, task: Task) -> None:
        """Takes away a replica that gets no tuples and has nothing left to do."""
        task.halted = True
        self.world.tasks[operator].remove(task)
        self.world.ledger.retired.setdefault(operator, []).append(task)
        self.fan(operator).leave(task)
        self._leave(task)

    def _leave(self, task: Task) -> None:
        self.world.memories[self.places[task].host].remove(task)
        task.processor.detach(task)

    def _arrive(self, task: Task, operator: str, place: Location) -> None:
        task.processor = self.open(place)
        task.processor.attach(task)
        self.places[task] = place
        if not task.polls:
            self.world.memories[place.host].add(task)
