"""Batches of a run, which show how much of its means is chance; and runs that end as soon as means are known well
enough.

A run has some dozens of batches at any time: at eighty they are joined two by two, and those that follow are as long as
these. Each time that the run has grown by two fifths, throughput and latencies are judged by their standard errors over
batches (Law and Carson, Operations Research 27, 1979). A test that is repeated often stops by chance sooner or later,
and all means are to be known at once, so that more standard errors must fit into the precision than an interval has
(`MARGIN`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import simpy
from simpy.core import StopSimulation

from twin.job import Job
from twin.kinds.registry import SINKS
from twin.metrics import measured
from twin.run import metrics_of
from twin.scenario import RunSettings, Scenario
from twin.standard_errors import (
    FEWEST_BATCHES,
    NO_ERRORS,
    StandardErrors,
    edges_s,
    standard_errors,
    whole_slides_s,
)
from twin.steadiness import FILLED, filled_s, memory_s, slides_s
from twin.world.clock import Clock
from twin.world.meters import Row, Statistics
from twin.world.parts import SinkCounts
from twin.world.world import World


def batches_of(job: Job, settings: RunSettings, world: World, statistics: Statistics) -> Batches | None:
    """Batches of a run that is about to begin, after its warm-up; None if it is too short for them.

    They begin when windows are full, as the filling of windows is no chance.
    """
    long_s = memory_s(job)
    start_s = max(settings.warmup_s, filled_s(long_s, settings.horizon_s))
    ends_s = edges_s(start_s, settings.horizon_s, long_s, slides_s(job.deployment))
    if not ends_s:
        return None
    batches = Batches(world.env, sinks_of(job, world), ends_s[:-1])
    statistics.listeners.append(batches.period_ended)
    return batches


def too_short(job: Job, settings: RunSettings) -> str:
    """Caution that a run is too short for batches, with the horizon at which it has `FEWEST_BATCHES`."""
    long_s = memory_s(job)
    each_s = whole_slides_s(long_s, slides_s(job.deployment))
    enough_s = max(settings.warmup_s, FILLED * long_s) + FEWEST_BATCHES * each_s
    return (
        f"{NO_ERRORS}: they come from {FEWEST_BATCHES} or more parts of a run, each as long as its longest window or "
        f"round of bursts ({each_s:g} s); make run.horizon_s {enough_s:.12g} or more, or replicate"
    )


def sinks_of(job: Job, world: World) -> list[SinkCounts]:
    """Logics that count results, of all subtasks of sinks."""
    found = [(job.component(sink.name), sink) for sink in job.query.result_sinks]
    parts = [
        task.logic.part(component.operators.index(sink))
        for component, sink in found
        for task in world.tasks[component.name]
    ]
    return [counts for part in parts if (counts := part.sink()) is not None]


class Batches:
    """Reads the sinks whenever a batch ends. `period_ended` has to be called whenever the sinks are emptied."""

    def __init__(self, env: Clock, sinks: Sequence[SinkCounts], edges_s: Iterable[float]) -> None:
        """edges_s: the beginning of the first batch, and the ends of all but the last, which `table` ends."""
        self.sinks = sinks
        self._before = np.zeros(3)
        self._edges: list[tuple[float, np.ndarray]] = []
        self._env = env
        env.process(self._run(edges_s))

    def period_ended(self, operators: Sequence[Row], _hosts: Sequence[Row]) -> None:
        """Adds the results of a period: the sinks have been read into these rows, and emptied."""
        for row in operators:
            if row["kind"] in SINKS:
                self._before += [row["latencyCount"], row["processingLatencySum_s"], row["e2eLatencySum_s"]]

    def table(self) -> np.ndarray:
        """Table of the batches, [4, B]: seconds, results, and the sums of processing and end-to-end latencies in
        seconds.

        The last batch ends now.
        """
        ends = [*self._edges, self._now()]
        return np.array([[until - since, *(end - start)] for (since, start), (until, end) in pairwise(ends)]).T

    def _run(self, edges_s: Iterable[float]) -> Generator[simpy.Event, object, None]:
        for edge_s in edges_s:
            yield self._env.first(max(0.0, edge_s - self._env.now))
            self._edges.append(self._now())

    def _now(self) -> tuple[float, np.ndarray]:
        fresh = [(sink.count, sink.processing_sum_s, sink.e2e_sum_s) for sink in self.sinks]
        return self._env.now, self._before + np.sum(fresh, axis=0)


LOOKS = (40, 56)
"""Numbers of batches at which means are judged; after the last, batches are joined two by two."""
MARGIN = 2.5
"""Standard errors that must fit into the precision, so that all means together are as close in 95 of 100 runs."""
RESULTS = 30.0
"""Least expected results of a batch, at the rates that the job is offered."""


class PrecisionStop:
    """Ends a run as soon as its means are known as well as `run.precision` says; `reached` then is true."""

    def __init__(self, job: Job, scenario: Scenario, world: World, statistics: Statistics) -> None:
        settings = scenario.run
        self.precision, self.warmup_s = settings.precision or math.inf, settings.warmup_s
        self.reached = False
        self._statistics = statistics
        self._env = world.env
        self._batches = Batches(world.env, sinks_of(job, world), self._edges_s(self.warmup_s, _length_s(job)))
        statistics.listeners.append(self._batches.period_ended)

    def table(self) -> np.ndarray:
        """Table of the whole batches, [4, B]; see `Batches.table`."""
        return joined(self._batches.table()[:, :-1])

    def _edges_s(self, start_s: float, length_s: float) -> Iterator[float]:
        """Ends of batches in seconds. The next one is asked for when a batch has ended, and then means are judged."""
        number = 0
        while True:
            yield start_s + number * length_s
            if _looked(number) and self._known():
                self.reached = True
                self._env.first(0.0).callbacks.append(StopSimulation.callback)
                return
            number += together(number)

    @property
    def growing(self) -> bool:
        """Whether the brokers' backlog grows, so that end-to-end latencies have no mean."""
        rows = measured(self._statistics.operator_rows, self.warmup_s)
        return bool(rows) and metrics_of(rows, 0.0, crashed=False).backpressured

    def _known(self) -> bool:
        table = self.table()
        return shares(table, standard_errors(table, growing=self.growing)) <= self.precision


def shares(table: np.ndarray, errors: StandardErrors) -> float:
    """Largest of `MARGIN` standard errors as shares of their means; inf if nothing reached a sink."""
    length_s, results, processing_s, e2e_s = table.sum(axis=1)
    if not results:
        return math.inf
    found = (
        (errors.throughput_per_s, results / length_s),
        (errors.processing_latency_s, processing_s / results),
        (errors.e2e_latency_s, e2e_s / results),
    )
    return max((MARGIN * error / mean for error, mean in found if error is not None and mean), default=math.inf)


def _looked(number: int) -> bool:
    """Whether means are judged after that many batches: at 40, 56, 80, 112, and so on."""
    if number < min(LOOKS):
        return False
    return any(number == look << math.floor(math.log2(number / look)) for look in LOOKS if number >= look)


def together(number: int) -> int:
    """Number of first batches that are joined into one after `number` of them: 1 below 80, 2 below 160, and so on."""
    return 1 << max(0, math.floor(math.log2(max(1, number) / min(LOOKS))))


def joined(table: np.ndarray) -> np.ndarray:
    """Joins batches, the first of which are shorter, into batches of equal length. [4, B]

    Those at the start that do not make up a whole batch are dropped.
    """
    if not table.shape[1]:
        return table
    ends = np.cumsum(np.round(table[0] / table[0, 0])).astype(int)
    each = together(int(ends[-1]))
    starts = np.flatnonzero(np.isin(np.append(0, ends[:-1]), ends[-1] - each * np.arange(1, ends[-1] // each + 1)))
    return np.add.reduceat(table[:, starts[0] :], starts - starts[0], axis=1)


def _length_s(job: Job) -> float:
    """Length of the first batches in seconds: a batch has full windows and some dozens of results."""
    per_s = sum(job.rates[each.name].in_per_s for each in job.query.result_sinks)
    return whole_slides_s(max(memory_s(job), RESULTS / max(per_s, 1e-300)), slides_s(job.deployment))


def until_the_end(precision: float | None, why: str, enough: PrecisionStop | None) -> list[str]:
    """Cautions about a run that lasted until its horizon, though a precision was asked for.

    why: the source of change because of which it could not end before, if any.
    """
    if precision is None or (enough is not None and enough.reached):
        return []
    if enough is None:
        return [f"run.precision = {precision:g}: the run lasted until its horizon, as its means change with {why}"]
    table = enough.table()
    share = shares(table, standard_errors(table, growing=enough.growing)) if table.shape[1] >= min(LOOKS) else math.inf
    if not math.isfinite(share):
        return [f"run.precision = {precision:g} is not reached: too little happens until the horizon; run longer"]
    more = (share / precision) ** 2
    return [
        f"run.precision = {precision:g} is not reached, but {share:.2g}; a run {more:.1f} times as long should reach it"
    ]
