"""Hosts: memory pressure by state and queues against RAM, up to the crash, and stop-the-world pauses."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from twin.engine.processor import Processor
from twin.engine.station.task import Task
from twin.profiles import Memory


@dataclass(slots=True)
class HostMemory:
    """Heap of one host, and the tasks on it."""

    ram_mb: float
    law: Memory
    processors: list[Processor]
    tasks: list[Task]
    used_mb: float = 0.0
    slowdown: float = 1.0

    def update(self) -> bool:
        """Measures the heap and slows the host's processors down. Returns whether the heap is full: the job crashes."""
        held = 0.0
        for task in self.tasks:
            queued = task.queued * task.inputs.tuple_bytes() if task.queued else 0.0
            held += task.logic.held_bytes() + queued + task.state_bytes
        self.used_mb = self.law.base_mb + held * self.law.object_overhead / 1e6
        share = self.used_mb / self.ram_mb
        self.slowdown = self.law.slowdown(share)
        for processor in self.processors:
            processor.slow("memory", self.slowdown)
        return share >= self.law.crash


def pauses(
    env: simpy.Environment,
    tasks: Callable[[], Sequence[Task]],
    processors: Callable[[], Sequence[Processor]],
    interval_s: float,
    pause_s: float,
    rng: np.random.Generator,
) -> Generator[simpy.Event, object, None]:
    """Pauses a host again and again, for equal lengths, with exponential times in between (a SimPy process).

    tasks, processors: return those that a pause stops; called when it begins.
    """
    while True:
        yield env.timeout(float(rng.exponential(interval_s)))
        until_s = env.now + pause_s
        for processor in processors():
            processor.pause(until_s)
        for task in tasks():
            task.pause(until_s)
        yield env.timeout(pause_s)
