"""What the parts of a run are made from: a job, its settings, and the world that holds the parts made so far."""

from __future__ import annotations

from collections.abc import Callable

from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.engine.calendar import Calendar
from twin.engine.host import HostMemory, pauses
from twin.engine.processor import Processor
from twin.engine.station.task import Task
from twin.job import Job, compile
from twin.plan import Location
from twin.profiles import Noise
from twin.randomness import random_stream
from twin.scenario import RunSettings
from twin.wiring.event_times import EventTimes
from twin.wiring.network import Network
from twin.wiring.world import World


class Wiring:
    """Makes the parts of one job's world; `twin.wiring.build` says in which order.

    Equal deployment, settings and seed give an equal world. replayable: whether sources may have to read tuples again.
    checkpoints: those that cost something; None if no checkpoint does.
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
        self.event_times = EventTimes(self.query)
        self.announced: Callable[[], None] = lambda: None  # told of changes of form; no checkpoint is older then

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
            rng = random_stream(self.settings.seed, f"pauses:{host}")
            env = self.world.env
            env.process(
                pauses(env, lambda: self.tasks_on(host), lambda: self.processors_of(host), interval_s, pause_s, rng)
            )

    def processors_of(self, host: str) -> list[Processor]:
        """The processors of a host's sockets that were ever used."""
        return [each for location, each in self.world.processors.items() if location.host == host]

    def tasks_on(self, host: str) -> list[Task]:
        """The tasks that sit on a host now."""
        return [task for tasks in self.world.tasks.values() for task in tasks if task.place.host == host]

    def memory(self, host: str) -> HostMemory:
        """A host's heap, with the tasks that sit there."""
        placed = [task for task in self.tasks_on(host) if not task.polls]  # a source's queue is the broker's
        return HostMemory(self.hosts[host].ram_mb, self.engine.memory, self.processors_of(host), placed)

    def tasks_of(self, operator: str) -> list[Task]:
        """The tasks that an operator runs in, perhaps with others."""
        return self.world.tasks[self.job.component(operator).name]
