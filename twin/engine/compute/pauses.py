"""Stop-the-world pauses of a host, as of a garbage collector: for a while none of its tasks works.

A task that is idle or in service starts or ends that much later; the jobs of a shared processor stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np
import simpy

from twin.engine.compute.processor import Processor
from twin.engine.station.task import Task


def pauses(
    env: simpy.Environment,
    tasks: Callable[[], Sequence[Task]],
    processors: Callable[[], Sequence[Processor]],
    interval_s: float,
    pause_s: float,
    rng: np.random.Generator,
) -> Generator[simpy.Event, object, None]:
    """The SimPy process of one host: pauses of equal length, with exponential times in between.

    tasks, processors: those that a pause meets, asked for when it begins.
    """
    while True:
        yield env.timeout(float(rng.exponential(interval_s)))
        until_s = env.now + pause_s
        for processor in processors():
            processor.pause(until_s)
        for task in tasks():
            task.pause(until_s)
        yield env.timeout(pause_s)
