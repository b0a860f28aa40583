"""One random job: what optimizers answer and claim of it, in runs and beside every plan under the rate model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.claimed_jobs import claimed_job, every_plan
from optimizers.counted import as_plans
from optimizers.interface import Problem, Solution, Status, traits_of
from optimizers.numa.baselines import scattered
from optimizers.numa.moves import neighbours
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.selection import estimate, goodness
from optimizers.space import Space, counts_of
from twin.errors import BadInput
from twin.metrics import Metrics
from twin.plan import ExecutionPlan
from twin.randomness import child_seed, stream
from twin.rates.model import RateModel
from twin.rates.numa_job import NumaJob
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

OBJECTIVE = "throughput_per_s"
SPACES = {
    "local-search": Space(free_replicas=False),
    "exhaustive": Space(free_replicas=False),
    "branch-and-bound": Space(free_replicas=False, spread=False),
    "costream": Space(free_replicas=False, costream_rules=True),
    "milp": Space(free_replicas=False),
    "milp-rate": Space(free_replicas=False),
    "fusion": Space(free_replicas=False),
    "rlas": Space(free_replicas=True),
    "rlas-placement": Space(free_replicas=False),
}
"""The optimizers that keep the given plan, and the plans that each speaks of."""
RUNS = 3
WORSE = 0.02
LONG = {
    True: {"warmup_s": 20.0, "horizon_s": 26.0, "period_s": 1.0},
    False: {"warmup_s": 300.0, "horizon_s": 480.0, "period_s": 20.0},
}
"""Of runs that begin to count when channels are full, on sockets or on hosts: thousands of tuples a channel take a
replica that is slower than the others many seconds, and as long its operator is as fast as all of them together."""
LOOKED_AT, SIMULATED = 600, 5
"""Random plans by the rate model, and those of them, and of the single changes, that are run."""


def problem(job: Scenario) -> Problem:
    """Throughput, as all optimizers can be asked for it."""
    return Problem(scenario=job, cost_model=RateModel(), objective=OBJECTIVE)


def long_job(seed: int, *, on_sockets: bool | None = None) -> Scenario:
    """Of `claimed_job`, in LONG runs."""
    job = claimed_job(seed, on_sockets=on_sockets)
    return job.with_run(**LONG[bool(job.cluster.hosts[0].sockets)])


def runs(job: Scenario, plan: ExecutionPlan, count: int = RUNS) -> list[Metrics]:
    """The same random numbers for every plan."""
    return [run(job.with_plan(plan).with_run(seed=child_seed(0, index)).model_dump_json()) for index in range(count)]


@lru_cache(100)
def run(text: str) -> Metrics:
    """Of a scenario as text, as several optimizers answer the same."""
    return simulate(parse(Scenario, json.loads(text))).metrics


def lost(job: Scenario, answer: ExecutionPlan, other: ExecutionPlan, count: int) -> float:
    """By how much, relatively, one plan lets less through than another in paired runs; 0 if by no more than WORSE, or
    within noise."""
    mine, theirs = (np.array([run.throughput_per_s for run in runs(job, plan, count)]) for plan in (answer, other))
    less, error = theirs - mine, np.std(theirs - mine, ddof=1) / np.sqrt(count) if count > 1 else 0.0
    share = float(less.mean() / max(theirs.mean(), 1e-12))
    return share if share > WORSE and less.mean() > 2.0 * error else 0.0


def shortfall(job: Scenario, answer: ExecutionPlan, other: ExecutionPlan, count: int = RUNS) -> float:
    """As `lost`; what is not worse in one run is not run again."""
    return lost(job, answer, other, count) if answer != other and lost(job, answer, other, 1) else 0.0


@dataclass(frozen=True)
class Known:
    """All plans of a job, with the given numbers of replicas, and 600 with random ones: counts, and what the rate model
    says. Axis n."""

    counts_nol: np.ndarray
    objective_n: np.ndarray
    sane_n: np.ndarray

    @classmethod
    def of(cls, job: Scenario) -> Known:
        """Those that are valid."""
        model, rng = NumaJob(job), stream(job.run.seed, "claims-free")
        most = int(model.cores_l.sum())
        free = [scattered(model, most, rng).astype(int) for _ in range(LOOKED_AT)]
        counts_nol = np.concatenate([every_plan(job), free])
        counts_nol = counts_nol[Space(free_replicas=True).holds(job, counts_nol)]
        asked = problem(job)
        found = estimate(asked, as_plans(job, counts_nol))
        return cls(counts_nol, found.objective, goodness(asked, found)[0] == 0.0)

    def within(self, job: Scenario, space: Space) -> tuple[np.ndarray, np.ndarray]:
        """Objectives of the plans of a space, and whether they are sane."""
        inside_n = space.holds(job, self.counts_nol)
        return self.objective_n[inside_n], self.sane_n[inside_n]


def false_claim(asked: Problem, found: Solution, objective_n: np.ndarray, sane_n: np.ndarray) -> str:
    """What of status and bound is not true of these plans; empty if all is."""
    answer = estimate(asked, [found.plan]).candidate(0)
    best, best_sane = (float(each.max(initial=0.0)) for each in (objective_n, objective_n[sane_n]))
    bounded = best_sane if answer.sane else best  # where a plan keeps up, bounds are of plans that do
    if found.bound is not None and found.bound < bounded * (1.0 - 1e-6):
        return f"bound {found.bound:.4g} below a plan of {bounded:.4g}"
    if found.status is Status.INFEASIBLE and (sane_n.any() or answer.sane):
        return "infeasible, but a plan keeps up"
    if found.status is Status.OPTIMAL and not (answer.sane and answer.objective >= best_sane * (1.0 - 1e-3)):
        return f"optimal with {answer.objective:.4g}, but a plan has {best_sane:.4g}"
    return ""


def judge(job: Scenario, name: str, known: Known) -> list[Any]:
    """By how much, relatively, the answer lets less through than the given plan in runs, 0 if it does not beyond noise;
    what is claimed and not true; what is claimed. Empty if the optimizer refuses the job."""
    asked, optimizer = problem(job), OPTIMIZERS[name]
    try:
        found = Planner(optimizer).solve(asked)
    except BadInput:
        return []
    false = false_claim(asked, found, *known.within(job, SPACES[name])) if traits_of(optimizer).by_objective else ""
    return [shortfall(job, found.plan, job.plan), false, found.status.value]


def judged(seed: int) -> list[Any]:
    """What the optimizers answer, by name, and how the rate model errs, by quantity."""
    job = long_job(seed)
    known = Known.of(job)
    return [{name: judge(job, name, known) for name in SPACES}, predicted(job)]


def run_long(seed: int) -> list[float]:
    """`beaten` of a job on sockets."""
    return list(beaten(long_job(seed, on_sockets=True)))


def predicted(job: Scenario) -> dict[str, float]:
    """The factor, at least 1, between the rate model and runs of the given plan, by quantity."""
    said, seen = RateModel().predict(job, [job.plan]), runs(job, job.plan, 1)
    factors = {}
    for name in ("throughput_per_s", "processing_latency_s", "e2e_latency_s"):
        value = float(np.mean([run.value(name) for run in seen]))
        ours = float(said[name][0])
        if 0.0 < value < np.inf and 0.0 < ours < np.inf:
            factors[name] = max(ours / value, value / ours)
    factors["backpressured, agrees"] = float((said["backpressured"][0] > 0.5) == seen[0].backpressured)
    return factors


def beaten(job: Scenario) -> tuple[float, float]:
    """By how much one change of RLAS's plan, and a random plan, beat it in long runs; 0 if none does."""
    asked, model = problem(job), NumaJob(job)
    answer = OPTIMIZERS["rlas"].solve(asked).plan
    here, most = counts_of(job, answer), int(model.cores_l.sum())
    near = neighbours(here, max(most, int(here.sum())), scale=True)
    rng = stream(job.run.seed, "claims-random")
    other = np.array([scattered(model, most, rng) for _ in range(LOOKED_AT)])
    gains = []
    for each in (near, other):
        found = estimate(asked, as_plans(job, each)).objective
        best = np.argsort(-found)[:SIMULATED]
        gains.append(max(shortfall(job, answer, plan, 2) for plan in as_plans(job, each[best])))
    return gains[0], gains[1]
