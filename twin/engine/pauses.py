"""Stop-the-world pauses of a host, as of a garbage collector: for a while none of its tasks works.

A task that is idle or in service starts or ends that much later; the jobs of a shared processor stand still. In a fast
run a task makes up for a pause within a segment if it has time to spare: what its tuples waited goes into their stamps.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import simpy

from twin.engine.draws import Draws
from twin.engine.hidden import HiddenWait
from twin.engine.processor import Processor
from twin.engine.task import Task

FULL = 0.98
"""Loads above count as this."""


def pauses(
    env: simpy.Environment,
    tasks: Sequence[Task],
    processors: Sequence[Processor],
    interval_s: float,
    pause_s: float,
    rng: np.random.Generator,
) -> Generator[simpy.Event, object, None]:
    """The SimPy process of one host: pauses of equal length, with exponential times in between."""
    while True:
        yield env.timeout(float(rng.exponential(interval_s)))
        until_s = env.now + pause_s
        for processor in processors:
            processor.pause(until_s)
        for task in tasks:
            task.pause(until_s)
        yield env.timeout(pause_s)


class PausedHiddenWait(HiddenWait):
    """Adds the waits for pauses that are over within a segment.

    After a pause of d seconds a host's operators drain what has come meanwhile at the pace of the slowest of them: as
    fluids, tuples wait d^2 / (2 (1 - load)) a pause for the highest load up to any of them. Each task adds what its
    own load adds to that; `upstream` are the tasks of the same host that feed it, none for a source or where tuples
    come from other hosts. Segments show the part that their task has no time to make up for.
    """

    __slots__ = ("_capacity", "_caught", "_interval_s", "_pause_s", "peak", "upstream")

    def __init__(self, service_scv: float, capacity: float, interval_s: float, pause_s: float) -> None:
        super().__init__(service_scv)
        self.upstream: tuple[PausedHiddenWait, ...] = ()
        self.peak = 0.0  # highest load from where tuples come to the host, up to here
        self._capacity = capacity
        self._interval_s = interval_s
        self._pause_s = pause_s
        self._caught = 0.0  # probability to wait for a pause

    def sample(self, draws: Draws, n: int, speed: float, now_s: float) -> tuple[float, float]:
        """See HiddenWait."""
        wait_s, varied_s = super().sample(draws, n, speed, now_s)
        if draws.uniform() < self._caught:
            wait_s += self._pause_s * draws.uniform()
        return wait_s, varied_s

    def _renew(self, n: int, speed: float, now_s: float) -> None:
        super()._renew(n, speed, now_s)
        load = self._used
        if self.neighbours and load > 0.0:  # what waits for one of them waits for all
            load = sum((self.load.work_per_s, *(other.load.work_per_s for other in self.neighbours))) / self._capacity
        before = max((each.peak for each in self.upstream), default=0.0)
        self.peak = max(before, min(load, FULL))
        spare_s = (1.0 - self.peak) * n / max(self.load.tuples_per_s, 1e-9)
        hidden = 1.0 - max(0.0, 1.0 - spare_s / self._pause_s) ** 2
        stretch = 1.0 / (1.0 - self.peak) - (1.0 / (1.0 - before) if self.upstream else 0.0)
        self._caught = min(1.0, self._pause_s / (self._interval_s + self._pause_s) * stretch * hidden)
