"""Limits of the sockets that a run uses, from its cluster, query and engine; none where nothing is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from twin.engine.sockets import BandwidthLimit, OverSubscription, Surcharge, Traffic, control, fetched_bytes
from twin.engine.station.task import Task
from twin.errors import BadInput
from twin.job import Component

GIGA = 1e9
TICK_S = 0.05


Wiring = Any
"""Wiring of a run, or its world in memory."""


def limit_sockets(wiring: Wiring) -> None:
    """Starts one process for all limits of the run's sockets. Raises BadInput if there are limits and chained
    operators."""
    if not any(host.sockets for host in wiring.hosts.values()) and wiring.engine.context_switch == 0.0:
        return
    together = next((each for each in wiring.job.components if len(each.stages) > 1), None)
    if together is not None:
        raise BadInput(
            f"operators that run as one ({' + '.join(each.name for each in together.operators)}) cannot be simulated "
            "where sockets or context_switch limit them; let them run apart, or leave the limits out"
        )
    surcharges = {task: Surcharge(task) for tasks in wiring.world.tasks.values() for task in tasks}
    found = [*_local(wiring, surcharges), *_remote(wiring, surcharges)]
    limits = [BandwidthLimit(number, *each) for number, each in enumerate(found)]
    controls: list[BandwidthLimit | OverSubscription] = [*limits, *_switches(wiring)]
    if controls:
        env = wiring.world.env
        wiring.world.limits = limits
        env.process(control(env, controls, TICK_S))


Limited = tuple[float, Sequence[Traffic]]
"""One limit: bytes a second, and the traffic that shares them."""


def _local(wiring: Wiring, surcharges: Mapping[Task, Surcharge]) -> list[Limited]:
    found: list[Limited] = []
    for location in wiring.world.processors:
        sockets = wiring.hosts[location.host].sockets
        gbps = sockets[location.socket].bandwidth_gbps if sockets else None
        if gbps is None:
            continue
        traffic = [
            _of_task(wiring, component, surcharges[task])
            for component in wiring.job.components
            for task, place in zip(wiring.world.tasks[component.name], component.places, strict=True)
            if place == location and component.memory_bytes > 0.0
        ]
        if traffic:
            found.append((gbps * GIGA, traffic))
    return found


def _of_task(wiring: Wiring, component: Component, surcharge: Surcharge) -> Traffic:
    """Bytes that a task reads and writes per input tuple: as the operator says, or in proportion to the tuple."""
    inputs = surcharge.task.inputs
    if component.operator.memory_bytes is None and inputs.inboxes:
        return Traffic(surcharge, lambda: wiring.engine.memory_factor * inputs.tuple_bytes())
    return Traffic(surcharge, lambda: component.memory_bytes)


def _remote(wiring: Wiring, surcharges: Mapping[Task, Surcharge]) -> list[Limited]:
    if not any(host.numa is not None and host.numa.bandwidth_gbps is not None for host in wiring.hosts.values()):
        return []
    fetched: dict[tuple[str, int, int], list[Traffic]] = defaultdict(list)
    for number, edge in enumerate(wiring.job.edges):
        producer, consumer = (wiring.job.components[each] for each in (edge.producer, edge.consumer))
        position = producer.outputs.index(number)
        for task, start in zip(wiring.world.tasks[producer.name], producer.places, strict=True):
            port = task.ports[position]
            for index, end in enumerate(consumer.places):
                if start.host == end.host and start.socket != end.socket:
                    taker = port.receiver(index)  # no shared queue, which is on one socket (twin.deployment)
                    traffic = Traffic(surcharges[taker], partial(fetched_bytes, taker, port, index, edge.bytes_each))
                    fetched[start.host, start.socket, end.socket].append(traffic)
    found: list[Limited] = []
    for (host, start_socket, end_socket), shared in fetched.items():
        numa = wiring.hosts[host].numa
        if numa is not None and numa.bandwidth_gbps is not None:
            found.append((numa.bandwidth_gbps[start_socket][end_socket] * GIGA, shared))
    return found


def _switches(wiring: Wiring) -> list[OverSubscription]:
    if wiring.engine.context_switch == 0.0:
        return []
    found = []
    for processor in wiring.world.processors.values():
        tasks = [task for tasks in wiring.world.tasks.values() for task in tasks if task.processor is processor]
        cores = max(1.0, processor.capacity)  # at the processor's own clock speed
        if len(tasks) > cores:
            found.append(OverSubscription(processor, tasks, cores, wiring.engine.context_switch))
    return found
