"""The message broker in front of a source replica: tuples arrive by a law and wait without bound."""

from __future__ import annotations

import numpy as np
import simpy

from twin.engine.alarm import Alarm
from twin.engine.operators import SourceTask
from twin.engine.segment import Segment
from twin.workload import ArrivalLaw


class Broker:
    """Feeds one source replica with segments of `n` tuples; each is handed over when its last tuple has arrived."""

    def __init__(
        self, env: simpy.Environment, source: SourceTask, law: ArrivalLaw, n: int, rng: np.random.Generator
    ) -> None:
        self.env = env
        self.source = source
        self.law = law
        self.n = n
        self.rng = rng
        self.arrived = 0
        self._since_s = 0.0
        self._alarm = Alarm(env, self._arrive)
        self._alarm.set(self._next_s())

    @property
    def backlog(self) -> int:
        """Tuples that wait."""
        return self.source.queued

    def _next_s(self) -> float:
        return self._since_s + self.law.gap_s(self.rng, self.n)

    def _arrive(self, alarm: Alarm) -> None:
        now, since = self.env.now, self._since_s
        first = since + (now - since) / self.n
        self._since_s = now
        self.arrived += self.n
        alarm.set(self._next_s())
        self.source.deliver(Segment(self.n, first, now, first, now, 0.0, 0.0, self.law.gap_scv))
