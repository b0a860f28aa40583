"""For the tests of arrivals: laws, what a clock of one hands over, a source that only collects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import simpy

from twin.arrivals.law import ArrivalLaw
from twin.engine.arrival.broker import Broker
from twin.engine.arrival.clock import Clock, clock
from twin.engine.segment import Segment
from twin.randomness import stream
from twin.run import Run
from twin.spec import parse
from twin.workload import Workload

TWO_STATES = {"law": "bursty", "states": [{"rate_per_s": 400, "mean_s": 0.5}, {"rate_per_s": 0, "mean_s": 1.5}]}
DIURNAL = {"law": "diurnal", "rate_per_s": 300, "amplitude": 1, "period_s": 8, "phase": 0.25}
STEPS = {
    "law": "steps",
    "period_s": 8,
    "steps": [{"at_s": 1, "rate_per_s": 500}, {"at_s": 3, "rate_per_s": 0}, {"at_s": 6, "rate_per_s": 100}],
}
SPIKES = {"law": "spikes", "rate_per_s": 100, "factor": 8, "every_s": 4, "duration_s": 1}
RATES = "time_s,rate_per_s\n100,50\n102,700\n103,0\n104,100\n"  # lasts 4 + 4/3 s
LAWS = {
    "poisson": {"law": "poisson", "rate_per_s": 200},
    "constant": {"law": "constant", "rate_per_s": 200},
    "diurnal": DIURNAL,
    "steps": STEPS,
    "spikes": SPIKES,
}


def law_of(data: dict[str, Any]) -> ArrivalLaw:
    return parse(Workload, {"arrivals": {"source": data}}).arrivals["source"]


def clock_of(law: ArrivalLaw, size: int, seed: int = 1, replica: int = 0, replicas: int = 1) -> Clock:
    return clock(law, replica, replicas, size, stream(seed, f"own{replica}"), stream(seed, "shared"))


def groups(clock: Clock, until_s: float, at_once: int = 1) -> Iterator[tuple[int, float, float]]:
    """(tuples, since, last) of all groups handed over by a time."""
    while True:
        clock.plan(clock.due_s, at_once)
        if clock.due_s > until_s:
            return
        if clock.n:
            yield clock.n, clock.since_s, clock.last_s


def counts(clock: Clock, edges: np.ndarray, at_once: int = 1) -> np.ndarray:
    """Tuples between neighbouring edges; a group's tuples lie evenly between its ends."""
    found = np.zeros(len(edges))
    for n, since, last in groups(clock, edges[-1] + 0.5, at_once):
        share = (edges - since) / (last - since) if last > since else (edges >= last)
        found += n * np.clip(share, 0.0, 1.0)
    return np.diff(found)


class Collector:
    """Stands in for a source that takes nothing until told."""

    def __init__(self) -> None:
        self.name = "collector"
        self.queue: deque[Segment] = deque()
        self.queued = 0
        self.tuples_in = 10**9  # a source that keeps up takes segments as they come
        self.behind = False
        self.refill = lambda: None

    def deliver(self, segment: Segment) -> None:
        self.queue.append(segment)
        self.queued += segment.n

    def take_all(self) -> list[Segment]:
        taken: list[Segment] = []
        while self.queue or self.behind:
            if not self.queue:
                self.refill()
            taken += self.queue
            self.queued -= sum(segment.n for segment in self.queue)
            self.queue.clear()
        return taken


def broker_of(data: dict[str, Any], size: int, seed: int = 1) -> tuple[simpy.Environment, Collector, Broker]:
    env, source, law = simpy.Environment(), Collector(), law_of(data)
    return env, source, Broker(env, source, clock_of(law, size, seed), law.gap_scv, size)


def arrived(run: Run) -> np.ndarray:
    return np.array([row["arrived"] for row in run.operator_rows if row["operator"] == "source"])
