"""Random configurations: Table II at large, weak hosts shared by all, and ordinary jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.validity import ordinary
from optimizers.enumeration import PlacementSpace
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from twin.cluster import Cluster, Host
from twin.deployment import Deployment
from twin.job import compile
from twin.plan import ExecutionPlan
from twin.randomness import stream
from twin.rates.arrays import JobArrays
from twin.rates.layout import Layout
from twin.rates.load import flow_at, load
from twin.scenario import RunSettings
from twin.workload import Arrivals, Poisson, Workload

KINDS_BY_SOURCES = {1: "linear", 2: "2-way join", 3: "3-way join"}
DEFAULTS = RunSettings()
WEAK_CORES = (0.5, 1.0, 2.0)
UTILISATIONS = (0.5, 2.2)
RATES_PER_S = (2.0, 25_600.0)
"""A shared-host configuration whose sources would need a rate outside this range is left out."""


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration, found again by its family and seed.

    settings: how long it runs, beside the seed. settled: what the rate model set in it, as JSON.
    """

    family: str
    seed: int
    kind: str
    deployment: Deployment
    settings: RunSettings = DEFAULTS
    settled: Mapping[str, Any] | None = None


def case_of(family: str, seed: int, settled: Mapping[str, Any] | None = None) -> Case | None:
    """The configuration of that seed; None if the family leaves it out. settled: of a seed that was chosen before."""
    if family == "ordinary":
        drawn = ordinary.draw(seed, settled)
        return None if drawn is None else Case(family, seed, *drawn)
    job = random_scenario(SPACES["costream"], seed, RunSettings()).deployment
    kind = KINDS_BY_SOURCES[len(job.query.sources)]
    if family == "costream":
        return Case(family, seed, kind, job)
    weak, target = _on_weak_hosts(job, seed)
    factor = float(settled["rate_factor"]) if settled else _rate_factor(weak, target)
    loaded = _at_rates(weak, factor)
    return None if loaded is None else Case(family, seed, kind, loaded, settled={"rate_factor": factor})


def _on_weak_hosts(job: Deployment, seed: int) -> tuple[Deployment, float]:
    """The same query on one or two hosts of 0.5, 1 or 2 cores, and the log-uniform utilisation that they are to have.

    Memory and network are ample: what saturates is the processor, by the rate model.
    """
    rng = stream(seed, "weak-hosts")
    cores = [WEAK_CORES[int(rng.integers(len(WEAK_CORES)))] for _ in range(int(rng.integers(1, 3)))]
    cluster = Cluster(
        hosts=tuple(
            Host(name=f"weak{index}", cpu_percent=100 * each, ram_mb=32_000, bandwidth_mbps=10_000, latency_ms=1)
            for index, each in enumerate(cores)
        )
    )
    placement = PlacementSpace(job.query, cluster).draw(rng)
    target = float(np.exp(rng.uniform(*np.log(UTILISATIONS))))
    plan = ExecutionPlan(placement={name: (host,) for name, host in placement.items()})
    return Deployment(**{**dict(job), "cluster": cluster, "plan": plan}), target


def _at_rates(job: Deployment, factor: float) -> Deployment | None:
    """The job with all rates multiplied; None if a source would need a rate outside of `RATES_PER_S`."""
    arrivals: dict[str, Arrivals] = {
        name: Poisson(rate_per_s=law.mean_rate_per_s * factor) for name, law in job.workload.arrivals.items()
    }
    rates = [law.mean_rate_per_s for law in arrivals.values()]
    if min(rates) < RATES_PER_S[0] or max(rates) > RATES_PER_S[1]:
        return None
    return Deployment(**{**dict(job), "workload": Workload(arrivals=arrivals)})


def _rate_factor(job: Deployment, target: float) -> float:
    """By how much to multiply all rates so that the most loaded resource has that utilisation (bisection)."""
    layout = Layout.of_plans(JobArrays(compile(job)), [job.plan])
    calm = np.ones((len(job.query.operators), 1))
    low, high = np.log(1e-4), np.log(1e4)
    for _ in range(50):
        middle = (low + high) / 2
        rates = {name: np.array([law.mean_rate_per_s * np.exp(middle)]) for name, law in job.workload.arrivals.items()}
        used = float(load(layout, flow_at(layout.job, rates), calm).pressure(layout.job).max())
        low, high = (middle, high) if used < target else (low, middle)
    return float(np.exp(low))
