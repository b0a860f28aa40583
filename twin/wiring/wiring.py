"""From a deployment to the mechanisms that run it: tasks on processors, inboxes, ports, network cards, brokers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.engine.arrival.broker import Broker
from twin.engine.arrival.clock import clock
from twin.engine.arrival.shares import read_shares
from twin.engine.calendar import Calendar
from twin.engine.compute.memory import HostMemory
from twin.engine.compute.pauses import pauses
from twin.engine.compute.processor import Processor
from twin.engine.measure.link_meter import LinkMeter
from twin.engine.measure.statistics import HostMeter, OperatorMeter
from twin.engine.measure.way import WayMeter
from twin.engine.station.task import Task
from twin.engine.streams.batching import Burst
from twin.engine.streams.channel import DEEP
from twin.engine.streams.confluence import Confluence
from twin.engine.streams.pool import make_pool
from twin.job import Component, Edge, Job, compile
from twin.plan import Location
from twin.profiles import Noise
from twin.randomness import stream
from twin.scenario import RunSettings
from twin.wiring.acquaint import acquaint
from twin.wiring.event_time import EventTimes, finish, prepare
from twin.wiring.meeting import overlapping, passed_whole, rounds, streams
from twin.wiring.network import Network
from twin.wiring.resolution import resolution
from twin.wiring.sockets import limit_sockets
from twin.wiring.streams import connect
from twin.wiring.tasks import make_key_groups, make_task
from twin.wiring.together import together
from twin.wiring.world import World


class Wiring:
    """Builds the world of one job. Same deployment, settings and seed: the same world.

    replayable: whether sources may have to read tuples again. checkpoints: that cost something, if any are taken.
    """

    def __init__(
        self,
        what: Deployment | Job,
        settings: RunSettings,
        replayable: bool = False,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.job = compile(what)
        deployment = self.deployment = self.job.deployment
        self.query = deployment.query
        self.engine = deployment.engine
        self.settings = settings
        self.exact = settings.fidelity == "exact"
        self.hosts = {host.name: host for host in deployment.cluster.hosts}
        self.locations = {operator.name: each.places for each in self.job.components for operator in each.operators}
        self.cap = 1 if self.exact else max(1, self.job.least_room // 2)
        self.span_s = 0.0 if self.exact else resolution(self.job, settings).span_s
        self.replayable = replayable
        self.checkpoints = checkpoints
        self.noise = self.engine.noise if settings.noise else Noise()
        self.bursts: defaultdict[Task, Burst] = defaultdict(Burst)
        self.world = World(Calendar())
        self.network = Network(deployment, self.world, self.noise, settings.seed)
        self.places: dict[Task, Location] = {}
        self.event_times = EventTimes(self.query)
        self.rounds: dict[tuple[str, str], int] = {}  # see meeting
        self.announced: Callable[[], None] = lambda: None  # told of changes of form; no checkpoint is older then

    def build(self) -> World:
        """Everything, in an order that depends on names alone, and not on hashing or on what is listed first."""
        world = self.world
        used = dict.fromkeys(location for locations in self.locations.values() for location in locations)
        for location in used:
            self.processor(location)
        for component in self.job.components:
            name = component.name
            world.tasks[name] = [self.task(component, k, place) for k, place in enumerate(component.places)]
            make_key_groups(self, component)
            if self.exact and self.servers(name) > 1:
                world.pools[name] = make_pool(world.tasks[name])
        prepare(self)
        self.rounds = rounds(self)
        for each in self.job.edges:
            connect(self, each)
        finish(self)
        for host in world.nics:
            self.pause(host)
        self._acquaint_all()
        for source in self.job.sources:
            world.brokers[source.name] = self._brokers(source)
        limit_sockets(self)
        for host in world.nics:
            world.memories[host] = self.memory(host)
        return world

    # hosts ---------------------------------------------------------------------------------------------------------

    def processor(self, place: Location) -> Processor:
        """The processor of a socket, made when it is first used, with its host's network card.

        One of reference cores, or of cores of its own clock, on which reference work takes 1 / speed as long.
        """
        world, host = self.world, self.hosts[place.host]
        if place not in world.processors:
            speed = host.core_speed(place.socket)
            processor = world.processors[place] = Processor(world.env, host.socket_capacity(place.socket) / speed)
            if speed != 1.0:
                processor.slow("clock", 1.0 / speed)
            self.network.nic(place.host)
        return world.processors[place]

    def pause(self, host: str) -> None:
        """Starts the pauses of a host, if the engine has any."""
        interval_s, pause_s = self.noise.gc_interval_s, self.noise.gc_pause_s
        if interval_s is not None:
            rng = stream(self.settings.seed, f"pauses:{host}")
            env = self.world.env
            env.process(
                pauses(env, lambda: self.tasks_on(host), lambda: self.processors_of(host), interval_s, pause_s, rng)
            )

    def processors_of(self, host: str) -> list[Processor]:
        """Those of a host's sockets that were ever used."""
        return [each for location, each in self.world.processors.items() if location.host == host]

    def tasks_on(self, host: str) -> list[Task]:
        """The tasks that sit on a host now."""
        return [task for tasks in self.world.tasks.values() for task in tasks if self.places[task].host == host]

    def memory(self, host: str) -> HostMemory:
        """A host's heap, with the tasks that sit there."""
        placed = [
            task
            for tasks in self.world.tasks.values()
            for task in tasks
            if self.places[task].host == host and not task.polls  # a source's queue is the broker's
        ]
        return HostMemory(
            ram_mb=self.hosts[host].ram_mb,
            law=self.engine.memory,
            processors=self.processors_of(host),
            tasks=placed,
        )

    # operators -----------------------------------------------------------------------------------------------------

    def task(self, component: Component, replica: int, place: Location) -> Task:
        """A task of a component at a place. `replica`: its number, which names its random numbers."""
        task = make_task(self, component, replica, place)
        self.places[task] = place
        return task

    def tasks_of(self, operator: str) -> list[Task]:
        """The tasks that an operator runs in, perhaps with others."""
        return self.world.tasks[self.job.component(operator).name]

    def _acquaint_all(self) -> None:
        """Tells each task what it pays for sending and who shares its processor."""
        sharing: dict[int, dict[str, list[Task]]] = defaultdict(lambda: defaultdict(list))  # by processor
        meeting = set() if self.exact else overlapping(self)
        for name, tasks in self.world.tasks.items():
            for task in tasks:
                sharing[id(task.processor)][name].append(task)
                task.know_ports()
                self.know_company(name, task)
                if name in meeting:
                    task.confluence = Confluence()
        for processor in self.world.processors.values():
            acquaint(self.job, self.replicas, processor, sharing[id(processor)])

    def know_company(self, operator: str, task: Task) -> None:
        """Tells a task of an operator in what company tuples reach it."""
        task.hidden.servers = self.servers(operator)
        task.hidden.know_streams(streams(self, operator), passed_whole(self, operator))
        task.hidden.together = 1.0 if self.exact else together(self.job, operator)

    def replicas(self, operator: str) -> int:
        """That an operator has."""
        return self.job.component(operator).replicas

    def producers(self, edge: Edge) -> int:
        """Producer replicas that send on a stream to any one consumer replica."""
        return 1 if edge.how.paired else self.replicas(self.job.components[edge.producer].name)

    def servers(self, operator: str) -> int:
        """Replicas that take from a common queue; 1 if they have a queue each."""
        return self.replicas(operator) if self.job.one_queue(operator) else 1

    # the ends ------------------------------------------------------------------------------------------------------

    def _brokers(self, source: Component) -> list[Broker]:
        tasks = self.world.tasks[source.name]
        law = self.deployment.workload.arrivals[source.name]
        shares, brokers = read_shares(source.operator, len(tasks), law), []
        most = max(1.0 / len(shares) if share is None else share for share in shares)
        n = self.segment_size(source, law.mean_rate_per_s * most * len(tasks))
        for replica, task in enumerate(tasks[: len(shares)]):
            own, shared = (
                stream(self.settings.seed, name) for name in (f"broker:{task.name}", f"arrivals:{source.name}")
            )
            arrivals = clock(law, replica, len(shares), n, own, shared, shares[replica])
            brokers.append(Broker(self.world.env, task, arrivals, law.gap_scv, n, max(1, self.cap // 2)))  # type: ignore[arg-type]
        return brokers

    def segment_size(self, source: Component, rate_per_s: float) -> int:
        """Tuples a segment of a replica of a source of that rate.

        Where the source cannot keep up, or channels are short, they are at most half a channel: what it takes fills
        one, and coarse segments would fill it too far.
        """
        if self.exact:
            return 1
        tasks = self.world.tasks[source.name]
        n = math.ceil(rate_per_s / len(tasks) * self.span_s)
        work = rate_per_s / len(tasks) * self.job.service_s(source)
        keeps_up = work < min(task.processor.speed for task in tasks)
        return max(1, n if keeps_up and self.cap >= DEEP else min(self.cap, n))

    # meters --------------------------------------------------------------------------------------------------------

    def meters(self) -> tuple[list[OperatorMeter], list[HostMeter], list[LinkMeter], list[WayMeter]]:
        """The meters of all operators, used hosts, their cards and all links, and streams."""
        world = self.world
        operators = [
            OperatorMeter(
                each.name,
                each.kind,
                self.tasks_of(each.name),
                world.brokers.get(each.name, []),
                self.job.component(each.name).operators.index(each),
            )
            for each in self.query.operators
        ]
        hosts = [
            HostMeter(name, memory.processors, world.nics[name], memory) for name, memory in world.memories.items()
        ]
        links = [LinkMeter(name, nic) for name, nic in (*world.nics.items(), *world.links.items())]
        return operators, hosts, links, [WayMeter(ends, way) for ends, way in world.ways.items()]
