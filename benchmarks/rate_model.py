"""Plans a second of the analytic cost model, and how long it takes for a single plan.

Run: python -m benchmarks.rate_model [--plans N]. Limits, by CPU time on one core: 100,000 plans/s where nothing is
saturated and 50,000 where everything is, for linear and two-way queries; 3 ms for a single plan.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import count
from time import process_time

import numpy as np

from benchmarks.table import print_table
from optimizers.enumeration import PlacementSpace
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.randomness import stream
from twin.rates.model import RateModel
from twin.scenario import RunSettings
from twin.workload import Arrivals, Poisson, Workload

FIRST_SEED = 20_000
HORIZON_S = 240.0
BEST_OF = 3
LOADS = {"unsaturated": 0.5, "saturated": 2.0}
"""Highest utilisation of the least loaded of the plans whose speed is measured, or of the most loaded one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of query: sources and operators from to."""

    name: str
    sources: int
    operators: tuple[int, int]


KINDS = (Kind("linear", 1, (5, 5)), Kind("two-way join", 2, (7, 9)), Kind("three-way join", 3, (11, 11)))


def job_of(kind: Kind) -> Deployment:
    """The first random one of that kind."""
    for seed in count(FIRST_SEED):
        job = random_scenario(SPACES["costream"], seed, RunSettings()).deployment
        low, high = kind.operators
        if len(job.query.sources) == kind.sources and low <= len(job.query.operators) <= high:
            return job
    raise AssertionError


def plans_of(job: Deployment, size: int) -> list[ExecutionPlan]:
    """That many valid random plans; some of them several times, if there are fewer."""
    rng = stream(0, "benchmark-plans")
    found = PlacementSpace(job.query, job.cluster).sample(rng, size)
    names = [operator.name for operator in job.query.operators]
    hosts = [host.name for host in job.cluster.hosts]
    plans = [
        ExecutionPlan(placement={name: (hosts[number],) for name, number in zip(names, row, strict=True)})
        for row in found.tolist()
    ]
    return [plans[index % len(plans)] for index in range(size)]


def at_load(job: Deployment, plans: list[ExecutionPlan], saturated: bool) -> Deployment:
    """The job at rates that leave all of the plans unsaturated, or saturate all of them."""
    low, high = np.log(1e-6), np.log(1e6)
    for _ in range(30):
        middle = (low + high) / 2
        used = RateModel(HORIZON_S).answer(_scaled(job, np.exp(middle)), plans[:200]).offered_pressure.max(axis=1)
        over = used.min() > LOADS["saturated"] if saturated else used.max() > LOADS["unsaturated"]
        low, high = (low, middle) if over else (middle, high)
    return _scaled(job, np.exp(high if saturated else low))


def _scaled(job: Deployment, factor: float) -> Deployment:
    arrivals: dict[str, Arrivals] = {
        name: Poisson(rate_per_s=law.mean_rate_per_s * factor) for name, law in job.workload.arrivals.items()
    }
    return job.model_copy(update={"workload": Workload(arrivals=arrivals)})


def seconds(job: Deployment, plans: list[ExecutionPlan]) -> float:
    """Best CPU time for all of the plans together."""
    found = []
    for _ in range(BEST_OF):
        start = process_time()
        RateModel(HORIZON_S).predict(job, plans)
        found.append(process_time() - start)
    return min(found)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=10_000)
    size = parser.parse_args().plans
    rows = []
    for kind in KINDS:
        job = job_of(kind)
        plans = plans_of(job, size)
        for name in LOADS:
            loaded = at_load(job, plans, name == "saturated")
            one = min(seconds(loaded, [plan]) for plan in plans[:20])
            rows.append((kind.name, len(job.query.operators), name, size / seconds(loaded, plans), one * 1e3))
    print_table("Rate model", ("query", "operators", "state", "plans/s", "ms, one plan"), rows)


if __name__ == "__main__":
    main()
