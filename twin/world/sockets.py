"""Hosts and their sockets: memory pressure up to the crash, and resources that sockets share besides cores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import simpy

from twin.errors import BadInput
from twin.job import Component
from twin.profiles import EngineProfile
from twin.world.parts import Processor, Task
from twin.world.ports import Port

if TYPE_CHECKING:
    from twin.world.world import World


# hosts ---------------------------------------------------------------------------------------------------------------
# Hosts: memory pressure by state and queues against RAM, up to the crash, and stop-the-world pauses.


@dataclass(slots=True)
class HostMemory:
    """Memory of one host, and the tasks on it: the heap, and beside it what a state backend takes."""

    ram_mb: float
    engine: EngineProfile
    processors: list[Processor]
    tasks: list[Task]
    used_mb: float = 0.0
    slowdown: float = 1.0

    def update(self) -> bool:
        """Measures the heap and slows the host's processors down. Returns whether the heap is full: the job crashes."""
        law, held, queues = self.engine.memory, 0.0, 0.0
        for task in self.tasks:
            queued = task.queued * task.inputs.record_bytes() if task.queued else 0.0
            held += task.logic.held_bytes() + queued + task.state_bytes
            queues += queued
        on_heap = held if self.engine.state_overhead else queues
        heap_mb = law.base_mb + on_heap * law.object_overhead / 1e6
        beside_mb = float(self.engine.beside_mb((held - queues) / 1e6, self.ram_mb))
        self.used_mb = heap_mb + beside_mb
        share = heap_mb / (self.ram_mb - beside_mb)
        self.slowdown = law.slowdown(share)
        for processor in self.processors:
            processor.slow("memory", self.slowdown)
        return share >= law.crash

    def fullest(self) -> str:
        """Name of the operator whose subtasks hold the most here, with what waits for them; empty if none holds
        anything."""
        held: dict[str, float] = {}
        for task in self.tasks:
            queued = task.queued * task.inputs.record_bytes() if task.queued else 0.0
            name = task.name.partition("#")[0]
            held[name] = held.get(name, 0.0) + task.logic.held_bytes() + queued + task.state_bytes
        name = max(held, key=held.__getitem__, default="")
        return name if name and held[name] > 0.0 else ""


def pauses(
    env: simpy.Environment,
    tasks: Callable[[], Sequence[Task]],
    processors: Callable[[], Sequence[Processor]],
    interval_s: float,
    pause_s: float,
    rng: np.random.Generator,
) -> Generator[simpy.Event, object, None]:
    """Pauses a host again and again, for equal lengths, with exponential times in between (a SimPy process).

    tasks, processors: return those that a pause stops; called when it begins.
    """
    while True:
        yield env.timeout(float(rng.exponential(interval_s)))
        until_s = env.now + pause_s
        for processor in processors():
            processor.pause(until_s)
        for task in tasks():
            task.pause(until_s)
        yield env.timeout(pause_s)


# sockets -------------------------------------------------------------------------------------------------------------
# Resources that sockets share besides cores: memory bandwidth, channels between sockets, and the cost of too many
# tasks.
#
# BriskStream, equations 4 and 5: the traffic of all tasks together cannot exceed a socket's local bandwidth, nor that
# of a channel between two sockets. Here traffic in excess makes memory slower: every byte gets a *price*, CPU time for
# which its user waits, that rises until the traffic equals the bandwidth. Prices follow from counters that tasks keep
# anyway, at ticks of simulated time, so records take no longer to simulate.


GIGA = 1e9
TICK_S = 0.05
"""Seconds between two looks at limits."""
GAIN = 0.5
"""Share of the excess that one tick takes away: below 1, as several limits may act on one task."""
ROUNDS = 4
"""Records that each user of a limit takes, on average, before its price moves: fewer tell where in their services users
are, and more make it settle later."""
SMOOTHING = 0.1
"""Weight of a tick in the number of runnable tasks."""


class Surcharge:
    """Time that one task waits for memory, in reference-core seconds per input record, beyond its own service."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._service_s = task.service_s
        self._by_limit: dict[int, float] = {}

    def set(self, limit: int, seconds: float) -> None:
        """Replaces the time that the limit of that number adds."""
        self._by_limit[limit] = seconds
        self.task.service_s = self._service_s + sum(self._by_limit.values())


class Traffic:
    """Use of a limit by one task. mean_bytes: returns the present bytes per input record of the task."""

    def __init__(self, surcharge: Surcharge, mean_bytes: Callable[[], float]) -> None:
        self.surcharge = surcharge
        self.task = surcharge.task
        self.mean_bytes = mean_bytes
        self._records = 0

    def moved_bytes(self) -> float:
        """Bytes moved since the last call."""
        records, self._records = self.task.records_in - self._records, self.task.records_in
        return records * self.mean_bytes()


def fetched_bytes(task: Task, port: Port, index: int, bytes_each: float) -> float:
    """Bytes that a task fetches from a producer on another socket, per input record.

    index: the path of the producer's port, whose share of the task's input counts. bytes_each: size of a record.
    """
    sent = port.task.output.records_out * port.weights[index]
    came = sum([inbox.sent for inbox in task.inputs.inboxes])
    return bytes_each * min(1.0, sent / max(1, came))


class BandwidthLimit:
    """Limit of one socket's memory, or of one channel between sockets. price_s: seconds a byte, 0 below the limit."""

    def __init__(self, number: int, bytes_per_s: float, traffic: Sequence[Traffic]) -> None:
        self.number = number
        self.bytes_per_s = bytes_per_s
        self.traffic = traffic
        self.price_s = 0.0
        self._tasks = tuple(dict.fromkeys(each.task for each in traffic))
        self._processor = self._tasks[0].processor  # all users of a limit sit on one socket
        users = set(self._tasks)
        self._beside = [each for each in self._processor.tasks if each not in users]
        self._elapsed_s = 0.0
        self._records = 0
        self._totals = [0.0, 0.0, 0.0]

    def tick(self, elapsed_s: float) -> None:
        """Moves the price towards the one at which traffic equals the limit.

        If every byte now takes its users t seconds of CPU time, (demand / limit - 1) t more each would make tasks that
        are always busy move just the limit; for others the price falls until it is 0. It stays until users have taken
        ROUNDS records each at it, as traffic does not follow sooner.
        """
        self._elapsed_s += elapsed_s
        records = sum([task.records_in for task in self._tasks])
        if records - self._records < ROUNDS * len(self._tasks):
            return
        moved = sum([each.moved_bytes() for each in self.traffic])
        cpu_s = self._cpu_s()
        excess = moved / self._elapsed_s / self.bytes_per_s - 1.0
        self._elapsed_s, self._records = 0.0, records
        if moved <= 0.0 or (excess <= 0.0 and self.price_s == 0.0):
            return
        self.price_s = max(0.0, self.price_s + GAIN * excess * cpu_s / moved)
        charged: dict[Surcharge, float] = {}
        for each in self.traffic:
            charged[each.surcharge] = charged.get(each.surcharge, 0.0) + each.mean_bytes() * self.price_s
        for surcharge, seconds in charged.items():
            surcharge.set(self.number, seconds)

    def _cpu_s(self) -> float:
        """CPU time of the users since the last call, in reference-core seconds: of all work on their socket, as much as
        their part of the time for which tasks are busy there, since tasks share cores evenly."""
        totals = [self._processor.work_s]
        totals += [float(sum([each.busy_s for each in some])) for some in (self._tasks, self._beside)]
        work_s, mine_s, others_s = (now - before for now, before in zip(totals, self._totals, strict=True))
        self._totals = totals
        return work_s / self._processor.slowdown * mine_s / max(mine_s + others_s, 1e-300)


@dataclass(slots=True)
class OverSubscription:
    """Cost of more runnable tasks than cores on a socket. share: extra work per task and core beyond one."""

    processor: Processor
    tasks: Sequence[Task]
    cores: float
    share: float
    runnable: float = 0.0
    _busy_s: float = 0.0

    def tick(self, elapsed_s: float) -> None:
        """Updates the slowdown from the number of tasks in service, on average since the last tick, against cores."""
        busy_s = sum([task.busy_s for task in self.tasks])
        runnable, self._busy_s = (busy_s - self._busy_s) / elapsed_s, busy_s
        self.runnable += SMOOTHING * (runnable - self.runnable)  # a service is booked when it ends, so not each tick
        more = min(self.runnable, len(self.tasks)) / self.cores - 1.0
        self.processor.slow("switches", 1.0 + self.share * max(0.0, more))


def control(
    env: simpy.Environment, controls: Sequence[BandwidthLimit | OverSubscription], tick_s: float
) -> Generator[simpy.Event, object, None]:
    """Ticks all limits every `tick_s` seconds (a SimPy process)."""
    while True:
        yield env.timeout(tick_s)
        for each in controls:
            each.tick(tick_s)


# the limits of a run -------------------------------------------------------------------------------------------------


def limit_sockets(world: World) -> None:
    """Starts one process for all limits of the run's sockets. Raises BadInput if there are limits and chained
    operators."""
    if not any(host.sockets for host in world.hosts.values()) and world.engine.context_switch == 0.0:
        return
    together = next((each for each in world.job.components if len(each.stages) > 1), None)
    if together is not None:
        raise BadInput(
            f"operators that run as one ({' + '.join(each.name for each in together.operators)}) cannot be simulated "
            "where sockets or context_switch limit them; let them run apart, or leave the limits out"
        )
    surcharges = {task: Surcharge(task) for tasks in world.tasks.values() for task in tasks}
    found = [*_local(world, surcharges), *_remote(world, surcharges)]
    limits = [BandwidthLimit(number, *each) for number, each in enumerate(found)]
    controls: list[BandwidthLimit | OverSubscription] = [*limits, *_switches(world)]
    if controls:
        env = world.env
        world.limits = limits
        env.process(control(env, controls, TICK_S))


Limited = tuple[float, Sequence[Traffic]]
"""One limit: bytes a second, and the traffic that shares them."""


def _local(world: World, surcharges: Mapping[Task, Surcharge]) -> list[Limited]:
    found: list[Limited] = []
    for location in world.processors:
        sockets = world.hosts[location.host].sockets
        gbps = sockets[location.socket].bandwidth_gbps if sockets else None
        if gbps is None:
            continue
        traffic = [
            _of_task(world, component, surcharges[task])
            for component in world.job.components
            for task, place in zip(world.tasks[component.name], component.places, strict=True)
            if place == location and component.memory_bytes > 0.0
        ]
        if traffic:
            found.append((gbps * GIGA, traffic))
    return found


def _of_task(world: World, component: Component, surcharge: Surcharge) -> Traffic:
    """Bytes that a task reads and writes per input record: as the operator says, or in proportion to the record."""
    inputs = surcharge.task.inputs
    if component.operator.memory_bytes is None and inputs.inboxes:
        return Traffic(surcharge, lambda: world.engine.memory_factor * inputs.record_bytes())
    return Traffic(surcharge, lambda: component.memory_bytes)


def _remote(world: World, surcharges: Mapping[Task, Surcharge]) -> list[Limited]:
    if not any(host.numa is not None and host.numa.bandwidth_gbps is not None for host in world.hosts.values()):
        return []
    fetched: dict[tuple[str, int, int], list[Traffic]] = defaultdict(list)
    for number, edge in enumerate(world.job.edges):
        producer, consumer = (world.job.components[each] for each in (edge.producer, edge.consumer))
        position = producer.outputs.index(number)
        for task, start in zip(world.tasks[producer.name], producer.places, strict=True):
            port = task.ports[position]
            for index, end in enumerate(consumer.places):
                if start.host == end.host and start.socket != end.socket:
                    taker = port.receiver(index)
                    assert isinstance(taker, Task)  # no shared queue, which is on one socket (twin.deployment)
                    traffic = Traffic(surcharges[taker], partial(fetched_bytes, taker, port, index, edge.bytes_each))
                    fetched[start.host, start.socket, end.socket].append(traffic)
    found: list[Limited] = []
    for (host, start_socket, end_socket), shared in fetched.items():
        numa = world.hosts[host].numa
        if numa is not None and numa.bandwidth_gbps is not None:
            found.append((numa.bandwidth_gbps[start_socket][end_socket] * GIGA, shared))
    return found


def _switches(world: World) -> list[OverSubscription]:
    if world.engine.context_switch == 0.0:
        return []
    found = []
    for processor in world.processors.values():
        tasks = [task for tasks in world.tasks.values() for task in tasks if task.processor is processor]
        cores = max(1.0, processor.capacity)  # at the processor's own clock speed
        if len(tasks) > cores:
            found.append(OverSubscription(processor, tasks, cores, world.engine.context_switch))
    return found
