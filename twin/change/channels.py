"""Channels between tasks, whether or not tuples take them, and what they connect: failover regions, after Flink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from twin.engine.station.task import Task
from twin.world.parts import Task as InMemory


class Channel(NamedTuple):
    """A channel from port `port` of the producer to replica number `replica`, on input `side` of the consumer."""

    producer: Any
    port: int
    replica: int
    consumer: Any
    side: int


def channels(wiring: Any) -> Iterator[Channel]:
    """Channels of a job: from each producer replica to each consumer replica, or to its partner in a paired stream."""
    job, world = wiring.job, wiring.world
    for component in job.components:
        for number, edge in enumerate(job.outputs(component.name)):
            side = job.inputs(edge.stream.consumer).index(edge)
            for producer in world.tasks[component.name]:
                port = producer.ports[number]
                for index, weight in enumerate(port.weights):
                    receiver = port.receiver(index) if weight > 0.0 or not edge.how.paired else None
                    if isinstance(receiver, Task | InMemory) and not receiver.halted:
                        yield Channel(producer, number, index, receiver, side)


def regions(wiring: Any) -> list[list[Any]]:
    """Groups of tasks that channels connect, in order; each task is in exactly one group."""
    import networkx as nx  # a tenth of a second, for jobs in which something fails

    graph = nx.Graph()
    graph.add_nodes_from(tasks := wiring.world.every_task())
    graph.add_edges_from((channel.producer, channel.consumer) for channel in channels(wiring))
    place = {task: number for number, task in enumerate(tasks)}
    return [sorted(group, key=place.__getitem__) for group in nx.connected_components(graph)]
