"""From a deployment to the mechanisms that run it: tasks on processors, inboxes, ports, network cards, brokers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

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
from twin.engine.memory import HostMemory
from twin.engine.network import Nic
from twin.engine.operators import SelectTask, SinkTask, SourceTask
from twin.engine.partition import KeyedDeal, deal, groups_of
from twin.engine.pool import Pool, PoolDraws, make_pool, pooled
from twin.engine.processor import Processor
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


class Wiring:
    """Builds the world of one deployment. Same deployment, settings and seed: the same world."""

    def __init__(self, deployment: Deployment, settings: RunSettings) -> None:
        self.deployment = deployment
        self.query = deployment.query
        self.engine = deployment.engine
        self.settings = settings
        self.exact = settings.fidelity == "exact"
        self.hosts = {host.name: host for host in deployment.cluster.hosts}
        self.locations = {each.name: deployment.plan.locations(each.name) for each in self.query.operators}
        self.cap = 1 if self.exact else max(1, self.engine.channel_tuples // 2)
        self.world = World(simpy.Environment())

    def build(self) -> World:
        """Everything, in an order that does not depend on hashing."""
        world = self.world
        used = dict.fromkeys(location for locations in self.locations.values() for location in locations)
        for location in used:
            host = self.hosts[location.host]
            world.processors[location] = Processor(world.env, host.socket_capacity(location.socket))
            if location.host not in world.nics:
                world.nics[location.host] = Nic(world.env, host.bandwidth_mbps)
        for operator in self.query.operators:
            replicas = len(self.locations[operator.name])
            world.tasks[operator.name] = [self._task(operator, replica) for replica in range(replicas)]
            self._key(operator)
            if self.exact and self._servers(operator.name) > 1:
                world.pools[operator.name] = make_pool(world.tasks[operator.name])
        for each in self.query.streams:
            self._connect(each)
        self._acquaint()
        for source in self.query.sources:
            world.brokers[source.name] = self._brokers(source)
        for host_name in world.nics:
            world.memories[host_name] = self._memory(host_name)
        return world

    # tasks ---------------------------------------------------------------------------------------------------------

    def _task(self, operator: AnyOperator, replica: int) -> Task:
        name = f"{operator.name}#{replica}"
        scv = self.engine.service_scv_of(operator)
        servers = self._servers(operator.name)
        draws = Draws(stream(self.settings.seed, f"task:{name}"), scv)
        if servers > 1 and not self.exact:
            draws = PoolDraws(draws.rng, scv, servers=servers)
        common: dict[str, Any] = {
            "env": self.world.env,
            "name": name,
            "processor": self.world.processors[self.locations[operator.name][replica]],
            "draws": draws,
            "service_s": self.engine.service_s(self.query, operator),
            "service_scv": scv,
            "exact": self.exact,
        }
        replicas = len(self.locations[operator.name])
        kind: Any = pooled if servers > 1 and self.exact else _alone
        match operator:
            case Source():
                return SourceTask(**common)
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

    def _acquaint(self) -> None:
        """Tells each task what it pays for sending and who shares its processor."""
        tasks = [task for replicas in self.world.tasks.values() for task in replicas]
        together: dict[int, list[Task]] = defaultdict(list)  # by processor
        for task in tasks:
            together[id(task.processor)].append(task)
        for task in tasks:
            task.send_s = sum(port.send_s for port in task.ports)
            if task.processor.shared:
                others = (other for other in together[id(task.processor)] if other is not task)
                task.hidden.neighbours = tuple(other.hidden for other in others)
        for operator in self.query.operators:
            for task in self.world.tasks[operator.name]:
                task.hidden.servers = self._servers(operator.name)

    # streams -------------------------------------------------------------------------------------------------------

    def _connect(self, each: Stream) -> None:
        producers, consumers = self.world.tasks[each.producer], self.world.tasks[each.consumer]
        side = [other.producer for other in self.query.inputs(each.consumer)].index(each.producer)
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
                paths[start] = self._paths(start, self.locations[each.consumer], inboxes, size)
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

    def _paths(self, start: Location, ends: Sequence[Location], inboxes: Sequence[Inbox], size: float) -> Paths:
        remote_s = size * self.engine.serialise_ns_per_byte * 1e-9
        send_s = [0.0 if end.host == start.host else remote_s for end in ends]
        if len(inboxes) < len(ends):  # a common queue: its tuples may be taken on any socket
            common = self._path(start, ends[0], inboxes[0], size)
            common.fetch_s = fmean(self._path(start, end, inboxes[0], size).fetch_s for end in ends)
            return Paths(lambda _: common, send_s[:1])
        return Paths(lambda replica: self._path(start, ends[replica], inboxes[replica], size), send_s)

    def _path(self, start: Location, end: Location, inbox: Inbox, size: float) -> Path:
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

    def _memory(self, host: str) -> HostMemory:
        placed = [
            (task, self.engine.bytes_of(self.query.columns_in[name]))
            for name, tasks in self.world.tasks.items()
            for task, location in zip(tasks, self.locations[name], strict=True)
            if location.host == host and not isinstance(task, SourceTask)  # a source's queue is the broker's
        ]
        return HostMemory(
            ram_mb=self.hosts[host].ram_mb,
            law=self.engine.memory,
            processors=[each for location, each in self.world.processors.items() if location.host == host],
            tasks=[task for task, _ in placed],
            tuple_bytes=[size for _, size in placed],
        )

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


def _alone(kind: type[Task]) -> type[Task]:
    return kind


def _resend(producers: Sequence[Task], number: int, shares: Sequence[float]) -> None:
    """Brings up to date what producers pay for sending on one of their ports."""
    for task in producers:
        port = task.ports[number]
        before, port.send_s = port.send_s, port.paths.mean_send_s(shares)
        task.send_s += port.send_s - before
