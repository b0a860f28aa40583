"""From a deployment to the mechanisms that run it: tasks on processors, inboxes, ports, network cards, brokers."""

from __future__ import annotations

from collections.abc import Callable

from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.engine.arrival.broker import Broker
from twin.engine.arrival.clock import clock
from twin.engine.arrival.shares import read_shares
from twin.engine.calendar import Calendar
from twin.engine.host import HostMemory, pauses
from twin.engine.measure.meters import HostMeter, LinkMeter, OperatorMeter, WayMeter
from twin.engine.processor import Processor
from twin.engine.station.pool import make_pool
from twin.engine.station.task import Task
from twin.job import Component, Job, compile
from twin.plan import Location
from twin.profiles import Noise
from twin.randomness import stream
from twin.scenario import RunSettings
from twin.wiring.event_time import EventTimes, finish, prepare
from twin.wiring.network import Network
from twin.wiring.sockets import limit_sockets
from twin.wiring.streams import connect
from twin.wiring.tasks import make_key_groups, make_task
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
        self.hosts = {host.name: host for host in deployment.cluster.hosts}
        self.locations = {operator.name: each.places for each in self.job.components for operator in each.operators}
        self.replayable = replayable
        self.checkpoints = checkpoints
        self.noise = self.engine.noise if settings.noise else Noise()
        self.world = World(Calendar())
        self.network = Network(deployment, self.world, self.noise, settings.seed)
        self.places: dict[Task, Location] = {}
        self.event_times = EventTimes(self.query)
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
            if component.replicas > 1 and self.job.one_queue(name):
                world.pools[name] = make_pool(world.tasks[name])
        prepare(self)
        for each in self.job.edges:
            connect(self, each)
        finish(self)
        for groups in world.key_groups.values():
            groups.number()
        for host in world.nics:
            self.pause(host)
        for tasks in world.tasks.values():
            for task in tasks:
                task.know_ports()
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

    # the ends ------------------------------------------------------------------------------------------------------

    def _brokers(self, source: Component) -> list[Broker]:
        tasks = self.world.tasks[source.name]
        law = self.deployment.workload.arrivals[source.name]
        shares, brokers = read_shares(source.operator, len(tasks), law), []
        for replica, task in enumerate(tasks[: len(shares)]):
            own, shared = (
                stream(self.settings.seed, name) for name in (f"broker:{task.name}", f"arrivals:{source.name}")
            )
            arrivals = clock(law, replica, len(shares), own, shared, shares[replica])
            assert task.polling is not None
            task.polling.broker = Broker(self.world.env, task, arrivals)
            brokers.append(task.polling.broker)
            task.work()
        return brokers

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
