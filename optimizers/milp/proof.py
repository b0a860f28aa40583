"""Proof that the best plan known is the best there is, by the admissible loop: bound, estimate, exclude, again.

The program with every operator as if alone costs no plan more than the rate model does. So its best plan is estimated
and excluded, then its next best, until its bound is no better than the best plan known: then no plan is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizers.candidates import Candidates
from optimizers.interface import Problem
from optimizers.milp.ages import TOLERATED
from optimizers.milp.placing import Placing
from optimizers.program import ProgramOutcome
from twin.job import compile
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

ROUNDS = 4
"""Number of programs solved before the loop gives up."""
LARGE = 200
"""Operators times sockets above which one program is solved, without integrality: for a bound, not a proof."""
CLOSE = 1e-5
"""Relative difference below which plans count as equally good."""
FINE = 1e-7
"""Relative gap to which the loop's programs are solved."""
DEEP_CHANNELS = 100
"""Number of credits from which a full channel takes longer than any wait in front of a core that is not full."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof about a space. bound: no plan is better, None if not known. closed: whether the best plan is that good."""

    bound: float | None
    closed: bool


def admissible(problem: Problem, job: PlacementCoefficients) -> bool:
    """Whether programs bound the cost model's estimates of all plans of the problem's space."""
    return (
        isinstance(problem.cost_model, RateModel)
        and problem.objective == "processing_latency_s"
        and not problem.space.spreads(problem.deployment)
        and not (problem.deployment.engine.chaining or problem.deployment.plan.fused)  # one line, not several
        and not problem.scenario.plan.key_groups  # programs take contiguous ranges
        and not job.bursty
        and not problem.deployment.query.one_sided  # records that are joined are not all of one age
        and compile(problem.deployment).least_room >= DEEP_CHANNELS * (1.0 + float(job.operators.scv.max()))
    )


def refuted(candidates: Candidates, plans: Sequence[np.ndarray], bound_n: np.ndarray) -> bool:
    """Whether the cost model's estimate of a sane plan is below its own bound: then bounds prove nothing."""
    rows = [candidates.row(each) for each in plans]
    found = [(candidates.candidate(row), bound) for row, bound in zip(rows, bound_n, strict=True) if row is not None]
    return any(each.sane and each.objective < bound * (1.0 - CLOSE) for each, bound in found)


def missed(job: PlacementCoefficients, candidates: Candidates) -> bool:
    """Whether a sane plan is known that programs leave out, as it is overloaded too little to show in a run."""
    sane = [candidates[row] for row in range(len(candidates)) if candidates.candidate(row).sane]
    if not sane:
        return False
    shares_nol = np.stack(sane) / job.operators.replicas[:, None]
    return bool((job.loads(shares_nol).highest_n > TOLERATED).any())


def prove(job: PlacementCoefficients, candidates: Candidates) -> Proof:
    """Runs the loop and returns its proof; it may find a better plan. The best known plan is to be sane."""
    if missed(job, candidates):
        return Proof(None, closed=False)
    problem, bound = candidates.problem, None
    program, model = Placing(job, problem.space, "bound", most=TOLERATED), problem.cost_model
    horizon_s = model.run_s(problem.scenario) if isinstance(model, RateModel) else math.inf
    whole = len(job.names) * len(job.places.host_l) <= LARGE
    for _ in range(ROUNDS):
        found = program.solve(replace(candidates.limits, gap=FINE, whole=whole))
        if found.counts_ol is not None and refuted(candidates, [found.counts_ol], np.array([found.cost])):
            return Proof(None, closed=False)
        best = candidates.candidate(candidates.best)
        bound = min(found.bound, horizon_s)
        candidates.bound = bound if math.isfinite(bound) else None
        if found.outcome is ProgramOutcome.INFEASIBLE or bound >= best.objective * (1.0 - CLOSE):
            return Proof(min(bound, best.objective), closed=True)
        if not whole or found.counts_ol is None or found.outcome is ProgramOutcome.STOPPED or candidates.left <= 0:
            break
        candidates.look_at([found.counts_ol])
        if refuted(candidates, [found.counts_ol], np.array([found.cost])):
            return Proof(None, closed=False)
        program.exclude(found.counts_ol)
    best = candidates.candidate(candidates.best)
    if bound is None or not math.isfinite(bound):  # a program that was stopped soon has no bound
        return Proof(None, closed=False)
    return Proof(min(bound, best.objective), closed=False)
