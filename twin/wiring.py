"""From a deployment to the mechanisms that run it: tasks on processors, inboxes, ports, network cards, brokers."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import simpy

from twin.cluster import CACHE_LINE_BYTES, Host
from twin.deployment import Deployment
from twin.engine.aggregate import AggregateTask
from twin.engine.batching import FLUSH_DRIFT, Batching, Burst, DelayingPort, GatheringPort
from twin.engine.broker import Broker
from twin.engine.channel import Inbox, Path, Port
from twin.engine.clock import clock
from twin.engine.draws import Draws
from twin.engine.jitter import Jitter, route
from twin.engine.join import JoinTask
from twin.engine.link_meter import LinkMeter
from twin.engine.memory import HostMemory
from twin.engine.network import Nic
from twin.engine.operators import SelectTask, SinkTask, SourceTask
from twin.engine.partition import Deal, deal, groups_of
from twin.engine.pauses import pauses
from twin.engine.processor import Processor
from twin.engine.sockets import BandwidthLimit
from twin.engine.statistics import HostMeter, OperatorMeter
from twin.engine.task import Task
from twin.plan import Location
from twin.profiles import Noise
from twin.query import Aggregate, AnyOperator, Filter, Join, Map, Sink, Source, Stream
from twin.randomness import stream
from twin.scenario import RunSettings
from twin.socket_wiring import limit_sockets


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
        common: dict[str, Any] = {
            "env": self.world.env,
            "name": name,
            "processor": self.world.processors[self.locations[operator.name][replica]],
            "draws": Draws(stream(self.settings.seed, f"task:{name}"), scv),
            "service_s": self.engine.service_s(self.query, operator),
            "service_scv": scv,
            "exact": self.exact,
        }
        replicas = len(self.locations[operator.name])
        match operator:
            case Source():
                return SourceTask(**common)
            case Sink():
                return SinkTask(**common)
            case Filter() | Map():
                return SelectTask(**common, selectivity=operator.selectivity, thins=isinstance(operator, Filter))
            case Aggregate():
                groups = max(1, groups_of(operator.groups, replica, replicas))
                return AggregateTask(**common, **self._window(operator), groups=groups)
            case Join():
                selectivity = operator.selectivity
                sides = len(self.query.inputs(operator.name))
                if selectivity is not None:  # the same key meets on the same replica: fewer pairs, likelier matches
                    selectivity = min(1.0, selectivity * replicas ** (sides - 1))
                return JoinTask(
                    **common,
                    **self._window(operator),
                    sides=sides,
                    selectivity=selectivity,
                    amplification=operator.amplification,
                )

    def _window(self, operator: Aggregate | Join) -> dict[str, Any]:
        return {
            "window": operator.window,
            "result_s": self.engine.result_s(operator),
            "scan_s": self.engine.scan_s(operator),
        }

    def _acquaint(self) -> None:
        """Tells each task what it pays for sending and who shares its processor."""
        tasks = [task for replicas in self.world.tasks.values() for task in replicas]
        for task in tasks:
            task.send_s = sum(port.send_s for port in task.ports)
            if task.processor.shared:
                others = (other for other in tasks if other.processor is task.processor and other is not task)
                task.hidden.neighbours = tuple(other.hidden for other in others)

    # streams -------------------------------------------------------------------------------------------------------

    def _connect(self, each: Stream) -> None:
        producers, consumers = self.world.tasks[each.producer], self.world.tasks[each.consumer]
        side = [other.producer for other in self.query.inputs(each.consumer)].index(each.producer)
        inboxes = [Inbox(task, side, self.engine.channel_tuples) for task in consumers]
        self.world.inboxes[each.producer, each.consumer] = inboxes
        how, consumer = self.query.partitioning(each), self.query.operator(each.consumer)
        size = self.engine.output_bytes(self.query, each.producer)
        for index, task in enumerate(producers):
            paths = [
                self._path(self.locations[each.producer][index], self.locations[each.consumer][k], inbox, size)
                for k, inbox in enumerate(inboxes)
            ]
            dealt = deal(how, consumer, len(producers), index, len(consumers))
            task.ports.append(self._port(task, paths, dealt, self.engine.batch_of(size), each))

    def _port(self, task: Task, paths: list[Path], dealt: Deal, batch: int, each: Stream) -> Port:
        """One that sends at once, or in batches."""
        if batch == 1 or self.engine.flush_s is None:
            return Port(task, paths, dealt, self.cap)
        rng = stream(self.settings.seed, f"batches:{task.name}->{each.consumer}")
        flush_s = self.engine.flush_s * (1.0 + FLUSH_DRIFT * float(rng.uniform(-1.0, 1.0)))
        batching = Batching(batch, flush_s, float(rng.random()) * flush_s)
        if self.exact:
            return GatheringPort(task, paths, dealt, self.cap, batching)
        return DelayingPort(task, paths, dealt, self.cap, batching, self.bursts, Draws(rng))

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
            brokers.append(Broker(self.world.env, task, arrivals, law.gap_scv, n))  # type: ignore[arg-type]
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
