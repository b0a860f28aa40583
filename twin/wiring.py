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

from twin.cluster import CACHE_LINE_BYTES, Host
from twin.deployment import Deployment
from twin.engine.aggregate import AggregateTask
from twin.engine.batching import FLUSH_DRIFT, Batching, Burst, DelayingPort, GatheringPort
from twin.engine.broker import Broker
from twin.engine.channel import Inbox, Path, Paths, Port
from twin.engine.clock import clock
from twin.engine.draws import Draws
from twin.engine.jitter import Jitter, route
from twin.engine.join import JoinTask
from twin.engine.keys import KeyGroups, drift, skewed
from twin.engine.link_meter import LinkMeter
from twin.engine.memory import HostMemory
from twin.engine.network import Nic
from twin.engine.operators import SelectTask, SinkTask, SourceTask
from twin.engine.partition import Deal, KeyedDeal, deal, groups_of
from twin.engine.pauses import pauses
from twin.engine.pool import Pool, PoolDraws, make_pool, pooled
from twin.engine.processor import Processor
from twin.engine.shedding import SheddingPort
from twin.engine.sockets import BandwidthLimit
from twin.engine.statistics import HostMeter, OperatorMeter
from twin.engine.task import Task
from twin.keys import contiguous, distinct_groups, group_count
from twin.plan import Location
from twin.profiles import Noise
from twin.query import Aggregate, AnyOperator, Filter, Join, Map, Sink, Source, Stream
from twin.randomness import stream
from twin.scenario import RunSettings
from twin.socket_wiring import limit_sockets

SHED_PARTS = 4
"""Where a full channel drops, segments are this much smaller, or they would drop more than single tuples do."""


@dataclass(slots=True)
class World:
    """All mechanisms of one run, by name."""

    env: simpy.Environment
    processors: dict[Location, Processor] = field(default_factory=dict)
    nics: dict[str, Nic] = field(default_factory=dict)
    links: dict[str, Nic] = field(default_factory=dict)  # one a direction: "a->b"
    tasks: dict[str, list[Task]] = field(default_factory=dict)
    inboxes: dict[tuple[str, str], list[Inbox]] = field(default_factory=dict)
    brokers: dict[str, list[Broker]] = field(default_factory=dict)
    memories: dict[str, HostMemory] = field(default_factory=dict)
    key_groups: dict[str, KeyGroups] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    limits: list[BandwidthLimit] = field(default_factory=list)


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
        self.noise = self.engine.noise if settings.noise else Noise()
        self._jitters: dict[Nic, Jitter] = {}
        self.bursts: defaultdict[Task, Burst] = defaultdict(Burst)
        self.link_latency_s: dict[tuple[str, str], float] = {}
        self.world = World(simpy.Environment())

    def build(self) -> World:
        """Everything, in an order that does not depend on hashing."""
        world = self.world
        used = dict.fromkeys(location for locations in self.locations.values() for location in locations)
        for location in used:
            host = self.hosts[location.host]
            world.processors[location] = self._processor(host, location.socket)
            if location.host not in world.nics:
                world.nics[location.host] = Nic(world.env, host.bandwidth_mbps)
        for link in self.deployment.cluster.links:
            for ends in (link.between, link.between[::-1]):
                world.links["->".join(ends)] = Nic(world.env, link.bandwidth_mbps)
                self.link_latency_s[ends] = link.latency_ms * 1e-3
        if self.noise.jitter_scv > 0.0:
            for name, nic in (world.nics | world.links).items():
                self._jitters[nic] = Jitter(stream(self.settings.seed, f"jitter:{name}"), self.noise.jitter_scv)
        for operator in self.query.operators:
            replicas = len(self.locations[operator.name])
            world.tasks[operator.name] = [self._task(operator, replica) for replica in range(replicas)]
            self._key(operator)
            if self.exact and self._servers(operator.name) > 1:
                world.pools[operator.name] = make_pool(world.tasks[operator.name])
        for each in self.query.streams:
            self._connect(each)
        self._pause_hosts()
        self._acquaint()
        for source in self.query.sources:
            world.brokers[source.name] = self._brokers(source)
        limit_sockets(self)
        for host_name in world.nics:
            world.memories[host_name] = self._memory(host_name)
        return world

    def _processor(self, host: Host, socket: int) -> Processor:
        """One of reference cores, or of cores of its own clock, on which reference work takes 1 / speed as long."""
        speed = host.core_speed(socket)
        processor = Processor(self.world.env, host.socket_capacity(socket) / speed)
        if speed != 1.0:
            processor.slow("clock", 1.0 / speed)
        return processor

    def _pause_hosts(self) -> None:
        """Starts the pauses of every host, if the engine has any."""
        interval_s, pause_s = self.noise.gc_interval_s, self.noise.gc_pause_s
        if interval_s is None:
            return
        world = self.world
        for host in world.nics:
            mine = [each for location, each in world.processors.items() if location.host == host]
            tasks = [task for tasks in world.tasks.values() for task in tasks if task.processor in mine]
            rng = stream(self.settings.seed, f"pauses:{host}")
            world.env.process(pauses(world.env, tasks, mine, interval_s, pause_s, rng))

    # tasks ---------------------------------------------------------------------------------------------------------

    def _task(self, operator: AnyOperator, replica: int) -> Task:
        name = f"{operator.name}#{replica}"
        scv = self.engine.service_scv_of(operator) if self.settings.noise else 0.0
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
        how, consumer = self.query.partitioning(each), self.query.operator(each.consumer)
        size = self.engine.output_bytes(self.query, each.producer)
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
            task.ports.append(self._port(task, paths[start], dealt, each, self.engine.batch_of(size)))
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

    def _port(self, task: Task, paths: Paths, dealt: Deal, each: Stream, batch: int) -> Port:
        """One that sends at once, in batches, or drops what finds no room."""
        servers = self._servers(each.consumer)
        cap = max(1, self.cap // servers)  # the largest segment that may travel
        if each.overflow == "drop":
            return SheddingPort(task, paths, dealt, max(1, cap // SHED_PARTS))
        if batch == 1 or self.engine.flush_s is None:
            return Port(task, paths, dealt, cap)
        rng = stream(self.settings.seed, f"batches:{task.name}->{each.consumer}")
        flush_s = self.engine.flush_s * (1.0 + FLUSH_DRIFT * float(rng.uniform(-1.0, 1.0)))
        batching = Batching(batch, flush_s, float(rng.random()) * flush_s)
        if self.exact:
            return GatheringPort(task, paths, dealt, cap, batching)
        return DelayingPort(task, paths, dealt, cap, batching, self.bursts, Draws(rng))

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
            nic = self.world.nics[start.host]
            if self.deployment.cluster.links or self.noise.jitter_scv > 0.0:
                leg = route(self._hops(start.host, end.host), size, inbox, self._jitters)
                return Path(inbox, leg, 0.0, size, send_s, fetch_s)
            path = Path(inbox, nic, latency_s, size, send_s, fetch_s)
            nic.carry(path)
            return path
        host = self.hosts[start.host]
        # BriskStream, section 3.1: a tuple of N bytes costs ceil(N / S) remote cache lines; a batch fills whole lines.
        # Lines take their time whatever the clock.
        batch = self.engine.batch_of(size)
        lines = math.ceil(batch * size / CACHE_LINE_BYTES) / batch
        line_s = host.socket_latency_s(start.socket, end.socket) * host.core_speed(end.socket)
        return Path(inbox, None, 0.0, size, 0.0, lines * line_s)

    def _hops(self, start: str, end: str) -> list[tuple[Nic, float]]:
        """The network card, without latency, then the links of the route, each with its own; else the card alone."""
        if not self.deployment.cluster.links:
            return [(self.world.nics[start], self.hosts[start].latency_ms * 1e-3)]
        routes = self.deployment.cluster.routes
        links = routes.between(start, end) if routes.connected(start, end) else ()  # else nothing is dealt to it
        crossed = [(self.world.links["->".join(ends)], self.link_latency_s[ends]) for ends in links]
        return [(self.world.nics[start], 0.0), *crossed]

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
            (task, self.engine.input_bytes(self.query, name))
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

    def meters(self) -> tuple[list[OperatorMeter], list[HostMeter], list[LinkMeter]]:
        """The meters of all operators, used hosts, and the cards and links that a stream crosses."""
        world = self.world
        operators = [
            OperatorMeter(
                each.name,
                each.kind,
                world.tasks[each.name],
                world.brokers.get(each.name, []),
                self.engine.input_bytes(self.query, each.name),
            )
            for each in self.query.operators
        ]
        hosts = [
            HostMeter(name, memory.processors, world.nics[name], memory) for name, memory in world.memories.items()
        ]
        links = [LinkMeter(name, nic) for name, nic in {**world.nics, **world.links}.items() if nic.hops]
        return operators, hosts, links


def _alone(kind: type[Task]) -> type[Task]:
    return kind


def _resend(producers: Sequence[Task], number: int, shares: Sequence[float]) -> None:
    """Brings up to date what producers pay for sending on one of their ports."""
    for task in producers:
        port = task.ports[number]
        before, port.send_s = port.send_s, port.paths.mean_send_s(shares)
        task.send_s += port.send_s - before
