"""Builds the mechanisms that run a deployment: tasks on processors, inboxes, ports, network cards, brokers."""

from __future__ import annotations

from collections.abc import Sequence

from twin.arrivals.law import ArrivalLaw
from twin.arrivals.replay import Replay
from twin.engine.arrival.broker import Broker
from twin.engine.arrival.clock import clock
from twin.engine.measure.meters import HostMeter, LinkMeter, OperatorMeter, WayMeter
from twin.engine.station.pool import make_pool
from twin.errors import BadInput
from twin.job import Component
from twin.partitions import counts, even
from twin.query import AnyOperator
from twin.randomness import stream
from twin.wiring.event_time import finish, prepare
from twin.wiring.sockets import limit_sockets
from twin.wiring.streams import connect
from twin.wiring.tasks import make_key_groups, make_task
from twin.wiring.wiring import Wiring
from twin.wiring.world import World


def build(wiring: Wiring) -> World:
    """Everything, in an order that depends on names alone, and not on hashing or on what is listed first."""
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
        world.brokers[source.name] = _brokers(wiring, source)
    limit_sockets(wiring)
    for host in world.nics:
        world.memories[host] = wiring.memory(host)
    return world


def _brokers(wiring: Wiring, source: Component) -> list[Broker]:
    tasks = wiring.world.tasks[source.name]
    law = wiring.deployment.workload.arrivals[source.name]
    shares, brokers = read_shares(source.operator, len(tasks), law), []
    for replica, task in enumerate(tasks[: len(shares)]):
        own, shared = (
            stream(wiring.settings.seed, name) for name in (f"broker:{task.name}", f"arrivals:{source.name}")
        )
        arrivals = clock(law, replica, len(shares), own, shared, shares[replica])
        assert task.polling is not None
        task.polling.broker = Broker(wiring.world.env, task, arrivals)
        brokers.append(task.polling.broker)
        task.work()
    return brokers


def meters(wiring: Wiring) -> tuple[list[OperatorMeter], list[HostMeter], list[LinkMeter], list[WayMeter]]:
    """The meters of all operators, used hosts, their cards and all links, and streams."""
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
    return operators, hosts, links, [WayMeter(ends, made.way) for ends, made in world.streams.items()]


def read_shares(source: AnyOperator, replicas: int, law: ArrivalLaw) -> Sequence[float | None]:
    """By replica, without those that read nothing; None: an equal share of all.

    Raises BadInput for single recorded tuples, which are dealt in turn, where shares are uneven.
    """
    if source.parts is None:
        return [None] * replicas
    each = [count for count in counts(source.parts, replicas) if count]
    if even(source.parts, len(each)):
        return [None] * len(each)
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        raise BadInput(
            f"source {source.name!r}: single recorded tuples are dealt to replicas in turn, which {source.parts} "
            f"partitions on {replicas} replicas do not allow; use a number of replicas that divides {source.parts}"
        )
    return [count / source.parts for count in each]
