"""Small random jobs with all of their plans, and the best of them by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizers.milp.optimizer import highest_rate
from optimizers.objectives import at_rate
from optimizers.program import ProgramLimits
from optimizers.space import Space
from scenarios.spaces.generator import COSTREAM, random_scenario
from twin.metrics import Estimates
from twin.rates.model import RateModel
from twin.rates.seats import Placements
from twin.scenario import RunSettings, Scenario

MOST = 5000
HOT = 0.9


@dataclass(frozen=True)
class Job:
    """Job with all of its plans. hosts_po: every plan with one host an operator, operators as the query lists them."""

    seed: int
    deployment: Scenario
    space: Space
    hosts_po: np.ndarray

    def costs(self, factor: float = 1.0) -> Estimates:
        """Costs of all plans by the rate model, at `factor` times the offered rates."""
        job = at_rate(self.deployment, factor)
        return RateModel().predict(job, Placements(job, self.hosts_po))

    def feasible(self, factor: float = 1.0) -> np.ndarray:
        """Whether each plan runs without backpressure or failure."""
        costs = self.costs(factor)
        return (costs["backpressured"] < 0.5) & (costs["success"] >= 0.5)

    @property
    def hosts_used(self) -> np.ndarray:
        return np.array([len(set(row)) for row in self.hosts_po.tolist()])


def jobs(seeds: range) -> Iterator[Job]:
    """Random jobs: every second has pinned sources, every third few moves, every other two are hot."""
    for seed in seeds:
        job = random_scenario(COSTREAM, seed, RunSettings())
        hosts, operators = [host.name for host in job.cluster.hosts], job.query.operators
        if len(hosts) ** len(operators) > MOST:
            continue
        if seed % 4 < 2:
            job = at_rate(job, max(highest_rate(job, Space(), ProgramLimits()).factor, 1e-3) * HOT / 0.99)
        plans = np.array(list(itertools.product(range(len(hosts)), repeat=len(operators))))
        home = np.array([hosts.index(job.plan.locations(each.name)[0].host) for each in operators])
        pinned, moves = frozenset[str](), None
        if seed % 2:
            kept = [each.kind == "source" for each in operators]
            pinned = frozenset(each.name for each in job.query.sources)
            plans = plans[(plans == home)[:, kept].all(axis=1)]
        if seed % 3 == 0:
            moves = 2
            plans = plans[(plans != home).sum(axis=1) <= moves]
        yield Job(seed, job, Space(pinned=pinned, most_moves=moves, free_subtasks=False), plans)
