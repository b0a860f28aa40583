"""Jobs of uneven keys on four workers, run under policies, and figures of their runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import deployment, sink, source
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

WORKERS = ("w0", "w1", "w2", "w3")
STOP_S = 4.0  # restart for a change of the plan


def skewed(rate: float = 600, zipf: float = 0.8, cores: tuple[float, ...] = (1, 1, 1, 1), **keys: Any) -> Deployment:
    """Job source -> m (a map) -> a (a count), both keyed, on four workers; the source is on a host of its own."""
    hosts = [{"name": "in", "cpu_percent": 400, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}]
    hosts += [hosts[0] | {"name": name, "cpu_percent": 100 * each} for name, each in zip(WORKERS, cores, strict=True)]
    window = {"policy": "time", "size_s": 2, "slide_s": 2}
    counted = {"group_by": "int", "groups": 200, "key_groups": 40, "window": window, "service_time_s": 1e-3}
    job = deployment(
        [
            source(service_time_s=1e-5),
            {"kind": "map", "name": "m", "key_groups": 40, "service_time_s": 2e-3},
            {"kind": "aggregate", "name": "a", **counted},
            sink(),
        ],
        [("source", "m"), ("m", "a"), ("a", "sink")],
        {"source": rate},
        hosts=hosts,
        placement={"source": "in", "m": list(WORKERS), "a": list(WORKERS), "sink": "in"},
    )
    given = job.model_dump(mode="json", exclude_none=True)
    given["workload"]["keys"] = {"m": {"zipf": zipf, **keys}}
    return Deployment.model_validate(given)


def placed(job: Deployment, **places: list[str]) -> Deployment:
    """Job with other places of some operators."""
    placement = {**job.plan.placement, **{name: tuple(each) for name, each in places.items()}}
    return job.with_plan(job.plan.model_copy(update={"placement": placement}))


def run(job: Deployment, policy: Any, *events: Any, horizon_s: float = 60, period_s: float = 10) -> Run:
    settings_ = RunSettings(horizon_s=horizon_s, period_s=period_s)
    scenario = Scenario.of(job, settings_, events)
    return simulate(scenario.with_policy(policy)) if isinstance(policy, PolicySpec) else simulate(scenario, policy)


def distances(result: Run) -> list[float]:
    """Load distance of the workers' utilisation by period, in percentage points."""
    found: dict[int, list[float]] = {}
    for row in result.host_rows:
        if row["host"] in WORKERS:
            found.setdefault(row["period"], []).append(100 * row["cpuUtilisation"])
    return [float(np.abs(np.array(each) - np.mean(each)).max()) for each in found.values()]


@dataclass
class Watching:
    """Policy that keeps what it sees, and takes the given decisions."""

    script: dict[int, Reconfiguration] = field(default_factory=dict)
    seen: list[PeriodStatistics] = field(default_factory=list)
    name: str = "watching"

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        self.seen.append(statistics)
        return self.script.get(len(self.seen))


def require_sums_of_hosts(seen: list[PeriodStatistics]) -> None:
    """Checks that key groups' shares of each worker add up to its utilisation, where nothing else runs on it."""
    for period in seen:
        percent = dict.fromkeys(WORKERS, 0.0)
        for operator, groups in period.key_groups.items():
            for each in groups:
                percent[period.placement[operator][each.subtask]] += each.cpu_percent
        for host, total in percent.items():
            assert total == pytest.approx(100 * period.hosts[host]["cpuUtilisation"], rel=1e-9)


def restarting(job: Deployment, how: str = "restart") -> Deployment:
    engine = job.engine.model_dump(mode="json") | {"rescaling": {"how": how, "redeploy_s": STOP_S, "state_mbps": 1e9}}
    return Deployment.model_validate(job.model_dump(mode="json", exclude_none=True) | {"engine": engine})


def moved(result: Run) -> list[dict[str, Any]]:
    return [dict(row) for row in result.event_rows if row["kind"] == "migration"]


def moved_by_round(result: Run) -> list[int]:
    """Number of key groups that migrate in each round in which any does."""
    found = Counter[float]()
    for row in moved(result):
        found[row["at_s"]] += len(row["detail"]["key_groups"])
    return list(found.values())
