"""Which stretches of a run are looked at one by one, so as to say how much is chance."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import pairwise

import numpy as np
import simpy

from twin.engine.calendar import Calendar
from twin.engine.logic import SinkLogic
from twin.engine.measure.meters import Row, Statistics
from twin.engine.measure.standard_errors import edges_s
from twin.job import Job
from twin.kinds.registry import SINKS
from twin.scenario import RunSettings
from twin.steadiness import memory_s, slides_s
from twin.wiring.world import World


def batches_of(job: Job, settings: RunSettings, world: World, statistics: Statistics) -> Batches | None:
    """Batches of a run that is about to begin, after its warm-up; None if it is too short for them.

    Nor do they begin before windows are full: that they fill is no chance.
    """
    long_s = memory_s(job)
    filled_s = min(2.0 * long_s, settings.horizon_s / 4)
    ends_s = edges_s(max(settings.warmup_s, filled_s), settings.horizon_s, long_s, slides_s(job.deployment))
    if not ends_s:
        return None
    batches = Batches(world.env, sinks_of(job, world), ends_s[:-1])
    statistics.listeners.append(batches.period_ended)
    return batches


def sinks_of(job: Job, world: World) -> list[SinkLogic]:
    """The logics that count results, of all replicas of sinks."""
    tasks = [task for component in job.sinks for task in world.tasks[component.name]]
    logics = [task.logic.part(task.logic.operators() - 1) for task in tasks]
    return [sink for logic in logics if (sink := logic.sink()) is not None]


class Batches:
    """Reads the sinks whenever a batch ends. `period_ended` has to be called as soon as they begin to count anew."""

    def __init__(self, env: Calendar, sinks: Sequence[SinkLogic], edges_s: Iterable[float]) -> None:
        """edges_s: the ends of all batches but the last, which `table` ends; the first of them begins the first."""
        self.sinks = sinks
        self._before = np.zeros(3)
        self._edges: list[tuple[float, np.ndarray]] = []
        self._env = env
        env.process(self._run(edges_s))

    def period_ended(self, operators: Sequence[Row], _hosts: Sequence[Row]) -> None:
        """The sinks have been read into these rows, among others, and emptied."""
        for row in operators:
            if row["kind"] in SINKS:
                self._before += [row["latencyCount"], row["processingLatencySum_s"], row["e2eLatencySum_s"]]

    def table(self) -> np.ndarray:
        """[4, B] By batch: seconds, results, and the sums of their processing and end-to-end latencies in seconds.

        The last batch ends now.
        """
        ends = [*self._edges, self._now()]
        return np.array([[until - since, *(end - start)] for (since, start), (until, end) in pairwise(ends)]).T

    def _run(self, edges_s: Iterable[float]) -> Generator[simpy.Event, object, None]:
        for edge_s in edges_s:
            yield self._env.look(max(0.0, edge_s - self._env.now), first=True)
            self._edges.append(self._now())

    def _now(self) -> tuple[float, np.ndarray]:
        fresh = [(sink.count, sink.processing_sum_s, sink.e2e_sum_s) for sink in self.sinks]
        return self._env.now, self._before + np.sum(fresh, axis=0)
