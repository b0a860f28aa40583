"""Test set of jobs that no round learns from, whose plans are all simulated once: a model is judged by its choice.

Regret is against the best of the job's simulated plans. A choice that is backpressured or fails where another plan does
not counts as FAR times the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.interface import Problem
from optimizers.selection import Estimated, goodness
from scenarios.executing.progress import Progress
from scenarios.improving.pool import JobPool
from scenarios.questions.bench import Bench
from scenarios.questions.kept import RunOutcome
from twin.metrics import BINARY_METRICS, CostModel, Narrowable
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.scenario import Scenario

OBJECTIVE = "processing_latency_s"
MEAN = f"{OBJECTIVE}.mean"
FAR = 10.0
"""Largest ratio of a choice's cost to the best."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of a model on one job. regret: of its choice, FAR - 1 at most. spoilt: whether the choice is of a worse
    kind than the best plan. errors: q-errors of the latency, for the plans that have one."""

    regret: float
    spoilt: bool
    errors: np.ndarray


@dataclass(frozen=True, slots=True)
class JudgingJob:
    """Job of the test set, with its plans and the outcome of each."""

    job: Scenario
    plans: Sequence[ExecutionPlan]
    outcomes: Sequence[RunOutcome]

    def judged(self, model: CostModel) -> Judgement:
        """Judges a model by the plan that it would choose. Raises BadInput as the model's `predict`."""
        costs = np.array([outcome.measures[MEAN] for outcome in self.outcomes])
        kinds = np.array([kind_of(outcome) for outcome in self.outcomes])
        order, _, said = seen(model, self.job, self.plans)
        best = np.lexsort((costs, kinds))[0]
        chosen = order[0]
        spoilt = bool(kinds[chosen] != kinds[best])
        ratio = costs[chosen] / costs[best] if np.isfinite(costs[best]) else 1.0
        known = np.isfinite(costs)
        errors = np.maximum(said / costs, costs / said)[known]
        return Judgement(FAR - 1 if spoilt else float(min(ratio, FAR)) - 1, spoilt, errors)


def kind_of(outcome: RunOutcome) -> int:
    """Kind of a run: 0 if it keeps up, 1 if it is backpressured, 2 if it fails."""
    return 2 if not outcome.measures["success"] else int(outcome.measures["backpressured"])


def seen(model: CostModel, job: Scenario, plans: Sequence[ExecutionPlan]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[P] each, for plans of a job by a model: rows from the best plan down, the members' disagreement, latency (s)."""
    narrow = model.only((OBJECTIVE, *BINARY_METRICS)) if isinstance(model, Narrowable) else model
    estimates = narrow.predict(job, plans)
    estimated = Estimated(plans, estimates[OBJECTIVE], *(estimates[name] for name in BINARY_METRICS))
    problem = Problem(scenario=job, cost_model=model, objective=OBJECTIVE)
    return np.lexsort(goodness(problem, estimated)[::-1]), estimates.spread, estimates[OBJECTIVE]


def judging_jobs(bench: Bench, pool: JobPool, jobs: int, plans: int, seed: int, report: Progress) -> list[JudgingJob]:
    """First judging jobs of a pool, their plans simulated on the same random numbers."""
    made = [pool.judging(number) for number in range(jobs)]
    chosen = [pool.plans(job, child_seed(seed, number), plans) for number, job in enumerate(made)]
    runs = [(job.with_plan(plan), seed) for job, its in zip(made, chosen, strict=True) for plan in its]
    outcomes = iter(bench.outcomes(runs, report))
    return [JudgingJob(job, its, [next(outcomes) for _ in its]) for job, its in zip(made, chosen, strict=True)]
