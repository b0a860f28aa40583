"""Wiring of a run: a job, its settings, and the world that holds the parts made so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.engine.calendar import Calendar
from twin.engine.host import HostMemory, pauses
from twin.engine.processor import Processor
from twin.engine.station.task import Task
from twin.event_time import merged_windows, partial_panes
from twin.job import Job, compile
from twin.kin import kin
from twin.panes import Panes, panes_of
from twin.plan import Location
from twin.profiles import Noise
from twin.query import Query, Stream
from twin.randomness import random_stream
from twin.scenario import RunSettings
from twin.windows import US_PER_S, EventWindow
from twin.wiring.network import Network
from twin.wiring.world import World

WATERMARKS = Panes(US_PER_S // 5, 0)
"""Panes at whose ends sources send watermarks if there are no windows: Flink's pipeline.auto-watermark-interval."""


def as_window(panes: Panes) -> EventWindow:
    """Tumbling window whose instances are the panes."""
    return EventWindow(length_s=panes.length_us / US_PER_S, start_s=panes.offset_us / US_PER_S)


@dataclass(frozen=True)
class EventTimes:
    """Event time of a query. Operators over event time, and those before them, heed punctuations."""

    query: Query

    @cached_property
    def timed(self) -> list[str]:
        """Operators over event time, in data-flow order."""
        return [operator.name for operator in self.query.topological if operator.needs_event_time]

    @cached_property
    def heeding(self) -> set[str]:
        """Names of operators over event time, and of all operators before them."""
        return set(self.timed).union(*(self.query.ancestors(name) for name in self.timed))

    def panes(self, name: str) -> Panes | None:
        """Panes of an operator over event time; None for one that keeps its state forever."""
        operator = self.query.operator(name)
        windows: tuple[EventWindow, ...] = getattr(operator, "windows", ())
        if operator.hands_over == "partials":
            return partial_panes(self.query, name)
        if operator.hands_over == "pairs":
            return WATERMARKS
        if operator.merges:
            return panes_of([*windows, *(each for stream in self.query.inputs(name) for each in self._sent(stream))])
        return panes_of(windows) if windows else None

    def _sent(self, stream: Stream) -> tuple[EventWindow, ...]:
        """Windows over whose instances a stream brings results that are merged."""
        producer = self.query.operator(stream.producer)
        if producer.hands_over == "partials":
            return (as_window(partial_panes(self.query, producer.name)),)
        return tuple(getattr(producer, "windows", ()))

    def sides(self, name: str) -> list[tuple[EventWindow, ...]]:
        """Windows that come whole on each input of a consolidate; none for an input that brings its own panes."""
        own, sent = self.panes(name), [self._sent(stream) for stream in self.query.inputs(name)]
        assert own is not None
        return [() if windows == (as_window(own),) else windows for windows in sent]

    @cached_property
    def finest(self) -> Panes:
        """Panes of which all other panes are made."""
        found = [panes for name in self.timed if (panes := self.panes(name)) is not None]
        return panes_of([as_window(panes) for panes in found]) if found else Panes(US_PER_S, 0)

    def merged_windows(self, name: str) -> tuple[EventWindow, ...]:
        """Windows that are made of an operator's panes."""
        return merged_windows(self.query, name)


class Wiring:
    """Makes the parts of one job's world; `twin.wiring.build` decides on their order.

    Equal deployment, settings and seed give an equal world. replayable: whether sources may have to read tuples again.
    checkpoints: checkpoints that cost something; None if no checkpoint does.
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
        self.kin = kin(self.query, deployment.plan)
        self.announced: Callable[[], None] = lambda: (
            None
        )  # called when windows change their form, so that no checkpoint is older

    # hosts ---------------------------------------------------------------------------------------------------------

    def processor(self, place: Location) -> Processor:
        """Processor of a socket, made when it is first used, with its host's network card.

        It has reference cores, or cores of its own clock speed, on which reference work takes 1 / speed as long.
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
        """Processors of a host's sockets that were ever used."""
        return [each for location, each in self.world.processors.items() if location.host == host]

    def tasks_on(self, host: str) -> list[Task]:
        """Tasks that sit on a host now."""
        return [task for tasks in self.world.tasks.values() for task in tasks if task.place.host == host]

    def memory(self, host: str) -> HostMemory:
        """Makes a host's heap, with the tasks that sit there."""
        placed = [task for task in self.tasks_on(host) if not task.polls]  # a source's queue is the broker's
        return HostMemory(self.hosts[host].ram_mb, self.engine.memory, self.processors_of(host), placed)

    def tasks_of(self, operator: str) -> list[Task]:
        """Tasks that an operator runs in, alone or chained with others."""
        return self.world.tasks[self.job.component(operator).name]
