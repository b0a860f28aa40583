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
        self._due_s = self._next_s()
        self._alarm.set(self._due_s)

    @property
    def backlog(self) -> int:
        """Tuples that wait."""
        return self.source.queued

    def scale(self, factor: float) -> None:
        """From now on tuples come `factor` times as fast; what was collected so far is handed over."""
        now, since = self.env.now, self._since_s
        due = self._due_s
        self._alarm.silence()
        self._alarm = Alarm(self.env, self._arrive)
        n = int(self.n * (now - since) / (due - since)) if due > since else 0
        self.law = self.law.model_copy(update={"rate_per_s": self.law.rate_per_s * factor})  # type: ignore[attr-defined]
        self._since_s = now
        self._due_s = self._next_s()
        self._alarm.set(self._due_s)
        if n:
            self.arrived += n
            first = since + (now - since) / n
            self.source.deliver(Segment(n, first, now, first, now, 0.0, 0.0, self.law.gap_scv))

    def _next_s(self) -> float:
        return self._since_s + self.law.gap_s(self.rng, self.n)

    def _arrive(self, alarm: Alarm) -> None:
        now, since = self.env.now, self._since_s
        first = since + (now - since) / self.n
        self._since_s = now
        self.arrived += self.n
        self._due_s = self._next_s()
        alarm.set(self._due_s)
        self.source.deliver(Segment(self.n, first, now, first, now, 0.0, 0.0, self.law.gap_scv))
