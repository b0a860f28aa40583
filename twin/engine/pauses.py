"""Stop-the-world pauses of a host, as of a garbage collector: for a while none of its tasks works.

A task that is idle or in service starts or ends that much later; the jobs of a shared processor stand still. In a fast
run a segment that is served as it comes takes the pause as work to be made up for, and absorbs it where the task has
time to spare: what its tuples waited then goes into their stamps.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import simpy

from twin.engine.draws import Draws
from twin.engine.hidden import HiddenWait
from twin.engine.processor import Processor
from twin.engine.task import Task


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
    """Adds the waits for pauses that end within a segment.

    A pause of d seconds makes tuples wait for d / (1 - load) seconds, between d and nothing: uniformly. A segment
    shows of it what its task has no time to make up for.
    """

    __slots__ = ("_caught", "_interval_s", "_pause_s")

    def __init__(self, service_scv: float, interval_s: float, pause_s: float) -> None:
        super().__init__(service_scv)
        self._interval_s = interval_s
        self._pause_s = pause_s
        self._caught = 0.0

    def sample(self, draws: Draws, n: int, speed: float, now_s: float) -> tuple[float, float]:
        """See HiddenWait."""
        wait_s, varied_s = super().sample(draws, n, speed, now_s)
        if draws.uniform() < self._caught:
            wait_s += self._pause_s * draws.uniform()
        return wait_s, varied_s

    def _renew(self, n: int, speed: float, now_s: float) -> None:
        super()._renew(n, speed, now_s)
        spare = 1.0 - min(self._used, 0.99)
        spare_s = spare * n / max(self.load.tuples_per_s, 1e-9)
        hidden = 1.0 - max(0.0, 1.0 - spare_s / self._pause_s) ** 2
        self._caught = min(1.0, self._pause_s / (self._interval_s + self._pause_s) / spare * hidden)
