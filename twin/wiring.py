"""From a deployment to the mechanisms that run it: tasks on processors, inboxes, ports, network cards, brokers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any, cast

import simpy

from twin.cluster import CACHE_LINE_BYTES
from twin.deployment import Deployment
from twin.engine.aggregate import AggregateTask
from twin.engine.broker import Broker
from twin.engine.channel import Inbox, Path, Paths, Port
from twin.engine.clock import clock
from twin.engine.draws import Draws
from twin.engine.join import JoinTask
from twin.engine.keys import KeyGroups, drift, skewed
from twin.engine.ledger import Ledger
from twin.engine.memory import HostMemory
from twin.engine.network import Nic
from twin.engine.operators import SelectTask, SinkTask, SourceTask
from twin.engine.partition import KeyedDeal, deal, groups_of
from twin.engine.pool import Pool, PoolDraws, make_pool, pooled
from twin.engine.processor import Processor
from twin.engine.replay import ReplayableSource
from twin.engine.segment import Segment
from twin.engine.shedding import SheddingPort
from twin.engine.statistics import HostMeter, OperatorMeter
from twin.engine.task import Task
from twin.keys import contiguous, distinct_groups, group_count
from twin.plan import Location
from twin.query import Aggregate, AnyOperator, Filter, Join, Map, Sink, Source, Stream
from twin.randomness import stream
from twin.scenario import RunSettings

SHED_PARTS = 4
"""Where a full channel drops, segments are this much smaller, or they would drop more than single tuples do."""


@dataclass(slots=True)
class World:
    """All mechanisms of one run, by name."""

    env: simpy.Environment
    processors: dict[Location, Processor] = field(default_factory=dict)
    nics: dict[str, Nic] = field(default_factory=dict)
    tasks: dict[str, list[Task]] = field(default_factory=dict)
    inboxes: dict[tuple[str, str], list[Inbox]] = field(default_factory=dict)
    brokers: dict[str, list[Broker]] = field(default_factory=dict)
    memories: dict[str, HostMemory] = field(default_factory=dict)
    key_groups: dict[str, KeyGroups] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def in_flight(self) -> list[Segment]:
        """Segments on the network, in order of arrival: those that a pending event will deliver."""
        pending = sorted(entry for entry in self.env._queue if isinstance(entry[3]._value, Segment))
        return [cast(Segment, entry[3]._value) for entry in pending if entry[3].callbacks]


class Wiring:
    """Builds the world of one deployment. Same deployment, settings and seed: the same world."""

    def __init__(self, deployment: Deployment, settings: RunSettings, replayable: bool = False) -> None:
        self.deployment = deployment
        self.query = deployment.query
        self.engine = deployment.engine
        self.settings = settings
        self.exact = settings.fidelity == "exact"
        self.hosts = {host.name: host for host in deployment.cluster.hosts}
        self.locations = {each.name: deployment.plan.locations(each.name) for each in self.query.operators}
        self.cap = 1 if self.exact else max(1, self.engine.channel_tuples // 2)
        self.replayable = replayable  # whether sources may have to read tuples again
        self.world = World(simpy.Environment())
        self.places: dict[Task, Location] = {}

    def build(self) -> World:
        """Everything, in an order that does not depend on hashing."""
        world = self.world
        used = dict.fromkeys(location for locations in self.locations.values() for location in locations)
        for location in used:
            self.processor(location)
        for operator in self.query.operators:
            places = self.locations[operator.name]
            world.tasks[operator.name] = [self.task(operator, k, place) for k, place in enumerate(places)]
            self._key(operator)
            if self.exact and self._servers(operator.name) > 1:
                world.pools[operator.name] = make_pool(world.tasks[operator.name])
        for each in self.query.streams:
            self._connect(each)
        for tasks in world.tasks.values():
            for task in tasks:
                task.send_s = sum(port.send_s for port in task.ports)
        together: dict[int, list[Task]] = defaultdict(list)  # by processor
        for tasks in world.tasks.values():
            for task in tasks:
                together[id(task.processor)].append(task)
        for processor in world.processors.values():
            acquaint(processor, together[id(processor)])
        for name, tasks in world.tasks.items():
            for task in tasks:
                task.hidden.servers = self._servers(name)
        for source in self.query.sources:
            world.brokers[source.name] = self._brokers(source)
        for host_name in world.nics:
            world.memories[host_name] = self.memory(host_name)
        return world

    def processor(self, place: Location) -> Processor:
        """The processor of a socket, made when it is first used, with its host's network card."""
        world, host = self.world, self.hosts[place.host]
        if place not in world.processors:
            world.processors[place] = Processor(world.env, host.socket_capacity(place.socket))
            self.nic(place.host)
        return world.processors[place]

    def nic(self, host: str) -> Nic:
        """A host's network card."""
        if host not in self.world.nics:
            self.world.nics[host] = Nic(self.world.env, self.hosts[host].bandwidth_mbps)
        return self.world.nics[host]

    # tasks ---------------------------------------------------------------------------------------------------------

    def task(self, operator: AnyOperator, replica: int, place: Location) -> Task:
        """A task of an operator at a place. `replica`: its number, which names its random numbers."""
        task = self._made_of(operator, replica, place)
        self.places[task] = place
        return task

    def _made_of(self, operator: AnyOperator, replica: int, place: Location) -> Task:
        name = f"{operator.name}#{replica}"
        scv = self.engine.service_scv_of(operator)
        servers = self._servers(operator.name)
        draws = Draws(stream(self.settings.seed, f"task:{name}"), scv)
        if servers > 1 and not self.exact:
            draws = PoolDraws(draws.rng, scv, servers=servers)
        common: dict[str, Any] = {
            "env": self.world.env,
            "name": name,
            "processor": self.processor(place),
            "draws": draws,
            "service_s": self.engine.service_s(self.query, operator),
            "service_scv": scv,
            "exact": self.exact,
        }
        replicas = len(self.locations[operator.name])
        kind: Any = pooled if servers > 1 and self.exact else _alone
        match operator:
            case Source():
                return ReplayableSource(**common) if self.replayable else SourceTask(**common)
            case Sink():
                return kind(SinkTask)(**common)
            case Filter() | Map():
                return kind(SelectTask)(**common, selectivity=operator.selectivity, thins=isinstance(operator, Filter))
            case Aggregate():
                groups = max(1, groups_of(operator.groups, replica, replicas))
                return kind(AggregateTask)(**common, **self._window(operator), groups=groups)
            case Join():
                selectivity = operator.selectivity
                sides = len(self.query.inputs(operator.name))
                if selectivity is not None and operator.key_groups is None:
                    # the same key meets on the same replica: fewer pairs, likelier matches
                    selectivity = min(1.0, selectivity * replicas ** (sides - 1))
                return JoinTask(
                    **common,
                    **self._window(operator),
                    sides=sides,
                    selectivity=selectivity,
                    amplification=operator.amplification,
                )

    def _key(self, operator: AnyOperator) -> None:
        name, tasks = operator.name, self.world.tasks[operator.name]
        count = group_count(self.query, name, len(tasks))
        if count is None:
            return
        groups = self.world.key_groups[name] = KeyGroups(
            tasks,
            self.deployment.plan.key_groups.get(name) or contiguous(count, len(tasks)),
            distinct_groups(operator, count),
            tuple_bytes=self.engine.bytes_of(self.query.columns_in[name]),
            state_bytes_each=getattr(operator, "state_bytes_per_group", 0.0),
            two_choice=any(self.query.partitioning(each) == "two-choice" for each in self.query.inputs(name)),
        )
        skew = self.deployment.workload.keys.get(name)
        if skew is None:
            return
        rng = stream(self.settings.seed, f"keys:{name}")
        order = skewed(groups, skew, rng)
        if skew.drift_every_s is not None:
            self.world.env.process(drift(self.world.env, groups, order, skew, rng))

    def _window(self, operator: Aggregate | Join) -> dict[str, Any]:
        return {
            "window": operator.window,
            "result_s": self.engine.result_s(operator),
            "scan_s": self.engine.scan_s(operator),
        }

    # streams -------------------------------------------------------------------------------------------------------

    def _connect(self, each: Stream) -> None:
        producers, consumers = self.world.tasks[each.producer], self.world.tasks[each.consumer]
        side = self.side(each)
        inboxes = self._inboxes(each, side)
        self.world.inboxes[each.producer, each.consumer] = inboxes
        kind, cap = self._port(each, len(consumers))
        how, consumer = self.query.partitioning(each), self.query.operator(each.consumer)
        size = self.engine.bytes_of(self.query.columns_out[each.producer])
        groups = self.world.key_groups.get(each.consumer)
        paths: dict[Location, Paths] = {}
        for index, task in enumerate(producers):
            start = self.locations[each.producer][index]
            if start not in paths:
                paths[start] = self.paths_to(start, self.locations[each.consumer], inboxes, size)
            if groups is None:
                dealt = deal(how, consumer, len(producers), index, len(inboxes))
            else:
                draws = Draws(stream(self.settings.seed, f"keys:{task.name}->{each.consumer}"))
                dealt = KeyedDeal(groups, draws, index * len(consumers) // len(producers), len(producers))
            task.ports.append(kind(task, paths[start], dealt, cap))
        if groups is not None:
            groups.watch(partial(_resend, producers, len(producers[0].ports) - 1))

    def _inboxes(self, each: Stream, side: int) -> list[Inbox]:
        """One a replica; a common queue has one in all, or of its replicas in a fast run, a part each."""
        consumers, room = self.world.tasks[each.consumer], self.engine.channel_tuples
        pool = self.world.pools.get(each.consumer)
        if pool is not None:
            return [Inbox(pool, side, room)]
        if self._servers(each.consumer) > 1:
            room = -(-room // len(consumers))
        return [Inbox(task, side, room) for task in consumers]

    def _port(self, each: Stream, consumers: int) -> tuple[type[Port], int]:
        """The kind of a stream's ports, and the largest segment that may travel."""
        cap = self.cap if self._servers(each.consumer) == 1 else max(1, self.cap // consumers)
        if each.overflow == "drop":
            return SheddingPort, max(1, cap // SHED_PARTS)
        return Port, cap

    def _servers(self, operator: str) -> int:
        """Replicas that take from a common queue; 1 if they have a queue each."""
        shared = any(self.query.partitioning(each) == "shared" for each in self.query.inputs(operator))
        return len(self.locations[operator]) if shared else 1

    def paths_to(self, start: Location, ends: Sequence[Location], inboxes: Sequence[Inbox], size: float) -> Paths:
        """From a place to all receivers of a stream. The sequences may grow later, for new paths."""
        remote_s = size * self.engine.serialise_ns_per_byte * 1e-9
        send_s = [0.0 if end.host == start.host else remote_s for end in ends]
        if len(inboxes) < len(ends):  # a common queue: its tuples may be taken on any socket
            common = self.path(start, ends[0], inboxes[0], size)
            common.fetch_s = fmean(self.path(start, end, inboxes[0], size).fetch_s for end in ends)
            return Paths(lambda _: common, send_s[:1])
        return Paths(lambda replica: self.path(start, ends[replica], inboxes[replica], size), send_s)

    def side(self, stream: Stream) -> int:
        """The stream's place among its consumer's inputs."""
        return [other.producer for other in self.query.inputs(stream.consumer)].index(stream.producer)

    def path(self, start: Location, end: Location, inbox: Inbox, size: float) -> Path:
        """From a place to an inbox at another, for tuples of `size` bytes."""
        if start.host != end.host:
            latency_s = self.hosts[start.host].latency_ms * 1e-3
            send_s, fetch_s = (
                size * ns * 1e-9 for ns in (self.engine.serialise_ns_per_byte, self.engine.deserialise_ns_per_byte)
            )
            return Path(inbox, self.world.nics[start.host], latency_s, size, send_s, fetch_s)
        line_s = self.hosts[start.host].socket_latency_s(start.socket, end.socket)
        # BriskStream, section 3.1: a tuple of N bytes costs ceil(N / S) remote cache lines
        return Path(inbox, None, 0.0, size, 0.0, math.ceil(size / CACHE_LINE_BYTES) * line_s)

    # the ends ------------------------------------------------------------------------------------------------------

    def _brokers(self, source: Source) -> list[Broker]:
        tasks = self.world.tasks[source.name]
        law = self.deployment.workload.arrivals[source.name]
        n = self.segment_size(law.mean_rate_per_s)
        brokers = []
        for replica, task in enumerate(tasks):
            own, shared = (
                stream(self.settings.seed, name) for name in (f"broker:{task.name}", f"arrivals:{source.name}")
            )
            arrivals = clock(law, replica, len(tasks), n, own, shared)
            brokers.append(Broker(self.world.env, task, arrivals, law.gap_scv, n, max(1, self.cap // 2)))  # type: ignore[arg-type]
        return brokers

    def segment_size(self, rate_per_s: float) -> int:
        """Tuples a segment of a source of that rate: the budget is shared evenly among the sources."""
        if self.exact:
            return 1
        tuples = rate_per_s * self.settings.horizon_s * len(self.query.sources)
        return max(1, min(self.cap, math.ceil(tuples / self.settings.segments)))

    def memory(self, host: str) -> HostMemory:
        """A host's heap, with the tasks that sit there."""
        placed = [
            (task, self.tuple_bytes(name))
            for name, tasks in self.world.tasks.items()
            for task in tasks
            if self.places[task].host == host and not isinstance(task, SourceTask)  # a source's queue is the broker's
        ]
        return HostMemory(
            ram_mb=self.hosts[host].ram_mb,
            law=self.engine.memory,
            processors=[each for location, each in self.world.processors.items() if location.host == host],
            tasks=[task for task, _ in placed],
            tuple_bytes=[size for _, size in placed],
        )

    def tuple_bytes(self, operator: str) -> float:
        """Size of the tuples that an operator holds."""
        return self.engine.bytes_of(self.query.columns_in[operator])

    def meters(self) -> tuple[list[OperatorMeter], list[HostMeter]]:
        """The meters of all operators and used hosts."""
        world = self.world
        operators = [
            OperatorMeter(
                each.name,
                each.kind,
                world.tasks[each.name],
                world.brokers.get(each.name, []),
                self.engine.bytes_of(self.query.columns_in[each.name]),
            )
            for each in self.query.operators
        ]
        hosts = [
            HostMeter(name, memory.processors, world.nics[name], memory) for name, memory in world.memories.items()
        ]
        return operators, hosts


def acquaint(processor: Processor, tasks: Sequence[Task]) -> None:
    """Tells the tasks on a processor who shares it."""
    for task in tasks:
        others = (other.hidden for other in tasks if other is not task)
        task.hidden.neighbours = tuple(others) if processor.shared else ()


def _alone(kind: type[Task]) -> type[Task]:
    return kind


def _resend(producers: Sequence[Task], number: int, shares: Sequence[float]) -> None:
    """Brings up to date what producers pay for sending on one of their ports."""
    for task in producers:
        port = task.ports[number]
        before, port.send_s = port.send_s, port.paths.mean_send_s(shares)
        task.send_s += port.send_s - before
