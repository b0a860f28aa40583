"""Fake simulations with known outcomes, for tests of what surrounds them. Spark's workers can import them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from twin.cluster import Cluster, Host
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.query import Query
from twin.randomness import random_stream
from twin.scenario import RunSettings, Scenario
from twin.spec import parse
from twin.trace import Rows

QUERY = parse(
    Query,
    {
        "operators": [{"kind": "source", "name": "in", "columns": {"ints": 1}}, {"kind": "sink", "name": "out"}],
        "streams": [{"producer": "in", "consumer": "out"}],
    },
)


def make(index: int) -> Scenario:
    """Scenario of a source and a sink on one host; the rate tells the index."""
    host = Host(name="h", cpu_percent=100, ram_mb=1000, bandwidth_mbps=100, latency_ms=1)
    scenario = {
        "name": f"fake {index}",
        "query": QUERY,
        "cluster": Cluster(hosts=(host,)),
        "plan": ExecutionPlan(placement={"in": "h", "out": "h"}),
        "workload": {"arrivals": {"in": {"law": "constant", "rate_per_s": index + 1}}},
        "run": RunSettings(horizon_s=20, warmup_s=10, period_s=10),
    }
    return parse(Scenario, scenario)


@dataclass(frozen=True)
class FakeRun:
    """Run of two periods with numbers drawn from the seed."""

    scenario: Scenario

    def rows(self, run: str, index: int, name: str) -> Rows:
        draws = random_stream(self.scenario.run.seed, "fake").integers(1, 100, size=2)
        operators = []
        for period, draw in enumerate(draws.tolist()):
            span = {
                "run": run,
                "parallelism": 1,
                "period": period,
                "start_s": 10.0 * period,
                "end_s": 10.0 * (period + 1),
            }
            operators.append({**span, "operator": "in", "kind": "source", "numRecordsIn": draw, "arrived": draw})
            latencies = {"latencyCount": draw}
            for kind in ("processing", "e2e"):
                latencies |= {f"{kind}LatencySum_s": draw / 1000, f"{kind}LatencyCounts": [draw]}
                latencies |= {f"{kind}LatencyBuckets": [350]}
            operators.append({**span, "operator": "out", "kind": "sink", "numRecordsIn": draw, **latencies})
        settings = self.scenario.run.model_dump(include={"seed", "horizon_s", "warmup_s", "period_s"})
        about = {"run": run, "index": index, "name": name, "status": "ok", "crashed": False, "cpu_s": 0.0, **settings}
        about |= {"deployment": self.scenario.deployment.model_dump_json(exclude_none=True)}
        return {"runs": [about], "operators": operators, "hosts": []}


def simulate(scenario: Scenario) -> FakeRun:
    """Fake run, at once."""
    return FakeRun(scenario)


def index_of(deployment: Deployment) -> int:
    """Index of the scenario in `make`."""
    return int(deployment.workload.arrivals["in"].mean_rate_per_s) - 1


@dataclass(frozen=True)
class Slow:
    """Simulation that takes a while."""

    seconds: float

    def __call__(self, scenario: Scenario) -> FakeRun:
        time.sleep(self.seconds)
        return FakeRun(scenario)


@dataclass(frozen=True)
class Broken:
    """Simulation in which some runs raise, some hang and swallow exceptions, some never end, some end their process."""

    raising: frozenset[int] = frozenset()
    hanging: frozenset[int] = frozenset()
    busy: frozenset[int] = frozenset()
    dying: frozenset[int] = frozenset()

    def __call__(self, scenario: Scenario) -> FakeRun:
        index = index_of(scenario)
        if index in self.raising:
            raise ZeroDivisionError(f"run {index}\nhas two lines")
        if index in self.dying:
            os.kill(os.getpid(), signal.SIGKILL)
        while index in self.busy:
            sum(range(1000))
        while index in self.hanging:
            try:
                time.sleep(0.01)
            except Exception:
                continue
        return FakeRun(scenario)


@dataclass(frozen=True)
class DyingOnce:
    """Simulation whose first process for run 3 dies, like an innocent run on a machine that goes down."""

    notes: str

    def __call__(self, scenario: Scenario) -> FakeRun:
        marker = Path(self.notes) / "died"
        if index_of(scenario) == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return FakeRun(scenario)
