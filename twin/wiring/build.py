"""Builds the mechanisms that run a deployment: tasks on processors, inboxes, ports, network cards, brokers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from twin.engine.arrival.broker import Broker
from twin.engine.arrival.clock import ArrivalClock, clock, gone_on, silent
from twin.engine.measure.meters import HostMeter, LinkMeter, OperatorMeter, StreamMeter
from twin.engine.station.pool import make_pool
from twin.engine.station.task import Task
from twin.partitions import read_shares
from twin.query import AnyOperator
from twin.randomness import random_stream
from twin.wiring.event_time import finish, prepare
from twin.wiring.sockets import limit_sockets
from twin.wiring.streams import connect
from twin.wiring.tasks import make_key_groups, make_task
from twin.wiring.wiring import Wiring
from twin.wiring.world import World


def build(wiring: Wiring) -> World:
    """Builds all parts of a world. Their order depends on names alone, not on hashing or on the order of the lists."""
    world = wiring.world
    used = dict.fromkeys(location for locations in wiring.locations.values() for location in locations)
    for location in used:
        wiring.processor(location)
    for component in wiring.job.components:
        name = component.name
        world.tasks[name] = [make_task(wiring, component, k, place) for k, place in enumerate(component.places)]
        make_key_groups(wiring, component)
        if component.replicas > 1 and wiring.job.one_queue(name):
            world.pools[name] = make_pool(world.tasks[name])
    prepare(wiring)
    for each in wiring.job.edges:
        connect(wiring, each)
    finish(wiring)
    for groups in world.key_groups.values():
        groups.number()
    for host in world.nics:
        wiring.pause(host)
    for tasks in world.tasks.values():
        for task in tasks:
            task.know_ports()
    for source in wiring.job.sources:
        tasks = world.tasks[source.name]
        clocks = arrival_clocks(wiring, source.operator, tasks)
        world.brokers[source.name] = [_broker(wiring, *pair) for pair in zip(tasks, clocks, strict=False)]
    limit_sockets(wiring)
    for host in world.nics:
        world.memories[host] = wiring.memory(host)
    return world


def _broker(wiring: Wiring, task: Task, arrivals: ArrivalClock) -> Broker:
    assert task.polling is not None
    task.polling.broker = Broker(wiring.world.env, task, arrivals)
    task.work()
    return task.polling.broker


def arrival_clocks(wiring: Wiring, source: AnyOperator, tasks: Sequence[Task], again: str = "") -> list[ArrivalClock]:
    """Clocks of the first replicas, as many as read something. again: gives other random numbers than at first."""
    law = wiring.deployment.workload.arrivals[source.name]
    shares, seed = read_shares(source, len(tasks), law), wiring.settings.seed
    return [
        clock(
            law,
            replica,
            len(shares),
            random_stream(seed, f"broker:{tasks[replica].name}{again}"),
            random_stream(seed, f"arrivals:{source.name}"),
            share,
        )
        for replica, share in enumerate(shares)
    ]


def deal_partitions(wiring: Wiring, source: AnyOperator, tasks: Sequence[Task]) -> None:
    """Deals a source's partitions to these replicas, with the records that wait in each. Replica p mod R reads
    partition p. A source without partitions is given as many as the least common multiple of the two numbers of
    replicas.
    """
    world, now_s = wiring.world, wiring.world.env.now
    before, clocks = world.brokers[source.name], arrival_clocks(wiring, source, tasks, f"@{wiring.world.env.now:g}")
    count, factor = len(clocks), before[0].factor
    partitions = source.parts or math.lcm(len(before), count)
    dealt: list[list[float]] = [[] for _ in clocks]
    for number, broker in enumerate(before):
        own = range(number, partitions, len(before))
        for k, at_s in enumerate(broker.hand_over()):
            dealt[own[k % len(own)] % count].append(at_s)
    for task in world.tasks[source.name]:
        assert task.polling is not None
        if task not in tasks[:count]:
            task.polling.broker = None
    world.brokers[source.name] = []
    for task, waiting, each in zip(tasks, dealt, clocks, strict=False):
        polling = task.polling
        assert polling is not None
        broker = polling.broker or _broker(wiring, task, silent())
        broker.factor = factor
        broker.become(gone_on(each, now_s, factor), sorted(waiting))
        world.brokers[source.name].append(broker)


def meters(wiring: Wiring) -> tuple[list[OperatorMeter], list[HostMeter], list[LinkMeter], list[StreamMeter]]:
    """Meters of all operators, used hosts, their cards and all links, and streams."""
    world = wiring.world
    operators = [
        OperatorMeter(
            each.name,
            each.kind,
            wiring.tasks_of(each.name),
            world.brokers.get(each.name, []),
            wiring.job.component(each.name).operators.index(each),
        )
        for each in wiring.query.operators
    ]
    hosts = [HostMeter(name, memory.processors, world.nics[name], memory) for name, memory in world.memories.items()]
    links = [LinkMeter(name, nic) for name, nic in (*world.nics.items(), *world.links.items())]
    return operators, hosts, links, [StreamMeter(ends, made.counts) for ends, made in world.streams.items()]
