"""Law that the simulator is held to: a deployment, what to read of its runs, and its value by theory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.validity.runs import Result
from tests.twin.worlds import HOST
from twin.deployment import Deployment
from twin.scenario import RunSettings, Scenario

RATE_PER_S = 1000.0
LARGE = {**HOST, "cpu_percent": 20_000}
"""Host on which nothing has to share a core."""
Read = Callable[[Result], float]


@dataclass(frozen=True, slots=True)
class Check:
    """Law: what a deployment should measure.

    records: offered in a run. samples: periods of a run. busy: whether a share of time is read.
    """

    law: str
    case: str
    unit: str
    expected: float
    job: Deployment
    read: Read
    records: float = 40_000
    samples: int = 10
    busy: bool = False

    def runs(self, seeds: int, length: float) -> list[Scenario]:
        """Scenarios, one for each seed; a tenth of each run is warm-up. length: share of the records."""
        rate = sum(law.mean_rate_per_s for law in self.job.workload.arrivals.values())
        horizon_s = length * self.records / rate
        settings = RunSettings(horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / self.samples)
        return [Scenario.of(self.job, settings.model_copy(update={"seed": seed})) for seed in range(seeds)]


def latency(
    law: str,
    case: str,
    expected_s: float,
    job: Deployment,
    kind: str = "processing",
    minus_s: float = 0.0,
    records: float = 40_000,
    **loads: float,
) -> Iterator[Check]:
    """Checks of the mean of a latency less `minus_s`, and of `busy` in the same runs. kind: `processing` or `e2e`."""

    def read(result: Result) -> float:
        return 1e3 * (result[f"{kind}_latency_s"]["mean"] - minus_s)

    yield Check(law, case, "ms", 1e3 * expected_s, job, read, records)
    yield from busy(law, case, job, records, **loads)


def busy(law: str, case: str, job: Deployment, records: float, **loads: float) -> Iterator[Check]:
    """Checks of the share of time that operators are busy: each has a core of its own, so by the utilisation law."""
    at = case.removeprefix("wait ").removeprefix("sojourn ").removeprefix("age of results ")
    for operator, load in loads.items():
        yield Check(law, f"{operator} busy {at}", "%", 100 * load, job, _busy(operator), records, busy=True)


def _busy(operator: str) -> Read:
    return lambda result: 100.0 * float(result["operators"][operator]["busy"])


def throughput(result: Result) -> float:
    """Results a second of a run."""
    return float(result["throughput_per_s"])


def server(name: str, service_s: float, scv: float = 1.0, key_groups: int | None = None) -> dict[str, Any]:
    """Operator that passes every record on after a service. key_groups: None for records without keys."""
    keyed = {"kind": "filter"} if key_groups is None else {"kind": "map", "key_groups": key_groups}
    return keyed | {"name": name, "selectivity": 1, "service_time_s": service_s, "service_scv": scv}
