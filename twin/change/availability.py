"""Whether a job is up, whether its plan is changing, and which work a failure interrupts."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

Process = Generator[simpy.Event, Any, Any]


class Availability:
    """outage: the event that ends the current outage; None while the job is up. changes: how many changes of the plan
    are under way."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.outage: simpy.Event | None = None
        self.changes = 0
        self._interruptible: list[simpy.Process] = []

    def up(self) -> Process:
        """Waits until no outage is left."""
        while self.outage is not None:
            yield self.outage

    def fail(self) -> None:
        """The job, or a part of it, goes down: whatever is being moved is back where it was."""
        if self.outage is None:
            self.outage = self.env.event()
        processes, self._interruptible = self._interruptible, []
        for process in processes:
            if process.is_alive:
                process.interrupt()

    def recover(self) -> None:
        """All of the job is up again."""
        ended, self.outage = self.outage, None
        assert ended is not None
        ended.succeed()

    def all_done(self, works: Sequence[Process]) -> Process:
        """Does several works at the same time, which a failure ends early. Returns whether all were done."""
        processes = [self.env.process(_caught(work)) for work in works]
        self._interruptible += processes
        results = yield self.env.all_of(processes)
        self._interruptible = [other for other in self._interruptible if other not in processes]
        return all(results.values())


def _caught(work: Process) -> Process:
    try:
        yield from work
    except simpy.Interrupt:
        return False
    return True
