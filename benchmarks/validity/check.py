"""A law that the simulator is held to: a deployment, what to read of its runs, and what theory says that it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.validity.runs import Job, Result
from tests.twin.worlds import HOST
from twin.deployment import Deployment
from twin.scenario import RunSettings

RATE_PER_S = 1000.0
LARGE = {**HOST, "cpu_percent": 20_000}
"""A host on which nothing has to share a core."""
Read = Callable[[Result], float]


@dataclass(frozen=True, slots=True)
class Check:
    """A law: what a deployment should measure.

    tuples: offered in a run. busy: whether what is read is a share of time. run: names the runs; checks that share
    theirs share it.
    """

    law: str
    case: str
    unit: str
    expected: float
    job: Deployment
    read: Read
    tuples: float = 40_000
    measure: str = "metrics"
    samples: int = 10
    busy: bool = False
    run: str = ""

    def jobs(self, seeds: int, length: float) -> list[Job]:
        """One a seed; a tenth of each run is warm-up. length: share of the tuples."""
        rate = sum(law.mean_rate_per_s for law in self.job.workload.arrivals.values())
        horizon_s = length * self.tuples / rate
        settings = RunSettings(horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / self.samples)
        label = self.run or f"{self.law}, {self.case}"
        return [Job(label, self.job, settings.model_copy(update={"seed": seed}), self.measure) for seed in range(seeds)]


def with_busy(check: Check, **loads: float) -> Iterator[Check]:
    """The check, and of its own runs the share of time that operators are busy."""
    yield replace(check, run=check.run or f"{check.law}, {check.case}")
    yield from only_busy(check, **loads)


def only_busy(check: Check, **loads: float) -> Iterator[Check]:
    """Of a check's runs, the share of time that operators are busy.

    On a core of its own that is an operator's load, by the utilisation law.
    """
    run = check.run or f"{check.law}, {check.case}"
    case = check.case.removeprefix("wait ").removeprefix("sojourn ").removeprefix("age of results ")
    for operator, load in loads.items():
        yield replace(
            check,
            case=f"{operator} busy {case}",
            unit="%",
            expected=100 * load,
            read=_busy(operator),
            busy=True,
            run=run,
        )


def _busy(operator: str) -> Read:
    def read(result: Result) -> float:
        return 100.0 * float(result["operators"][operator]["busy"])

    return read


def mean_ms(kind: str, minus_s: float = 0.0) -> Read:
    """Reads the mean of a latency, less something, in milliseconds."""

    def read(result: Result) -> float:
        return 1e3 * (result[f"{kind}_latency_s"]["mean"] - minus_s)

    return read


def server(name: str, service_s: float, scv: float = 1.0, key_groups: int | None = None) -> dict[str, Any]:
    """An operator that passes every tuple on after a service. key_groups: None: its tuples have no keys."""
    keyed = {"kind": "filter"} if key_groups is None else {"kind": "map", "key_groups": key_groups}
    return keyed | {"name": name, "selectivity": 1, "service_time_s": service_s, "service_scv": scv}
