"""Perfect plant for policies that scale: source -> m -> sink, in periods, without queueing theory or a simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tests.twin.worlds import chain
from twin.control import PeriodStatistics, Policy
from twin.deployment import Deployment
from twin.randomness import random_stream

ByPeriod = float | Callable[[int], float]
LENGTH_S = 10.0
SERVICE_S = 1e-3


def plant_job(**more: Any) -> Deployment:
    """Job of the plant; `m` can be scaled, and there are cores enough."""
    hosts = [
        {"name": name, "cpu_percent": 3200, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 1}
        for name in ("h0", "h1")
    ]
    middle = {"kind": "map", "name": "m", "service_time_s": SERVICE_S} | more
    return chain([middle], 1 / SERVICE_S, hosts=hosts, placement={"source": "h0", "m": "h0", "sink": "h0"})


class Plant:
    """Fluid plant: what arrives and waits is taken as far as the subtasks get.

    load: subtasks that arrivals keep busy all the time, by period; slower: factor on the time of a record, which is
    contained in the load. noise: relative standard deviation of arrivals in a period and of their measured work.
    """

    def __init__(
        self,
        load: ByPeriod,
        parallelism: int = 1,
        noise: float = 0.0,
        seed: int = 0,
        slower: ByPeriod = 1.0,
    ) -> None:
        self.load = load
        self.slower = slower
        self.noise = noise
        self.rng = random_stream(seed, "plant")
        self.places: tuple[str, ...] = ("h0",) * parallelism
        self.backlog = 0.0
        self.period = 0

    def run(self, policy: Policy, periods: int) -> list[int]:
        """Subtasks in each period; a decision at the end of one holds from the next on."""
        counts = []
        for _ in range(periods):
            statistics = self.step()
            counts.append(len(self.places))
            decision = policy.decide(statistics)
            for rescale in decision.rescales if decision else ():
                self.places = rescale.placement
        return counts

    def step(self, runs: float = 1.0) -> PeriodStatistics:
        """Statistics of the next period. runs: share of it in which the job is up."""
        index, self.period = self.period, self.period + 1
        work_s, there_s = SERVICE_S * _at(self.slower, index), len(self.places) * LENGTH_S
        arrived = _at(self.load, index) / work_s * LENGTH_S * max(0.0, 1.0 + self.noise * self.rng.standard_normal())
        taken = min(self.backlog + arrived, runs * there_s / work_s)
        self.backlog += arrived - taken
        busy_s = min(taken * work_s * max(0.0, 1.0 + self.noise * self.rng.standard_normal()), runs * there_s)
        busy = {"source": 0.0, "m": busy_s / there_s, "sink": 0.0}
        operators = {
            name: {
                "arrived": round(arrived) if name == "source" else None,
                "backlog": round(self.backlog) if name == "source" else None,
                "numRecordsIn": round(taken),
                "numRecordsOut": round(taken),
                "parallelism": len(self.places) if name == "m" else 1,
                "busyTimeMsPerSecond": 1000 * share,
                "backPressuredTimeMsPerSecond": 1000 * (1 - runs),
            }
            for name, share in busy.items()
        }
        hosts = {name: {"host": name, "cpuUtilisation": 0.2} for name in ("h0", "h1")}
        placement = {"source": ("h0",), "m": self.places, "sink": ("h0",)}
        subtasks = {name: [row] * len(placement[name]) for name, row in operators.items()}
        ends_s = index * LENGTH_S, (index + 1) * LENGTH_S
        return PeriodStatistics(*ends_s, operators, hosts, placement, subtasks=subtasks)


def changes(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Changes of the number of subtasks, in order: (before, after)."""
    return [(before, after) for before, after in pairwise(counts) if before != after]


def _at(value: ByPeriod, period: int) -> float:
    return value(period) if callable(value) else value
