"""The plan of the best objective, be it latency or throughput: programs make a start, the cost model decides.

First the program whose ages know of neighbours (for a latency, and operators on one socket each), else or beside it the
one that balances; the plan that stands in the deployment is a candidate too. From the best of these the search goes on
by small changes under the problem's own cost model, so that no program's errors remain unseen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from optimizers.candidates import Candidates
from optimizers.climbing import climb_on
from optimizers.counted import as_plans
from optimizers.interface import Problem
from optimizers.milp.placing import Aim, Placed, Placing
from optimizers.milp.proof import Proof, admissible, prove
from optimizers.program import GAP, Outcome
from optimizers.space import counts_of
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

TOO_MUCH = 1.02
"""Utilisation above which the rate model calls every plan backpressured."""
SOON, MANY = 0.1, 100
"""Share of the run in which backpressure is to show, and plans that are asked, before all are said to be overloaded."""
GAPS = ((200, GAP), (math.inf, 3e-2))
"""Relative gap to which programs are solved, of what placement can change, by operators times sockets up to which it is
asked for: small changes find the rest sooner."""


@dataclass(frozen=True, slots=True)
class Youngest:
    """What was looked at; what is proved of it; whether every plan is proved to be overloaded; what went wrong."""

    candidates: Candidates
    proof: Proof
    overloaded: bool
    message: str = ""


def youngest(problem: Problem) -> Youngest:
    """Raises BadInput if the space names what the job does not have."""
    job = PlacementCoefficients.of(problem.deployment)
    space, candidates = problem.space, Candidates(problem)
    latency = problem.objective != "throughput_per_s"
    starts, stopped, feasible = [], False, False
    if latency and not space.spreads(problem.deployment):
        found = _solved(job, candidates, "crowded")
        starts, stopped, feasible = _plans(found), found.outcome is Outcome.STOPPED, found.counts_ol is not None
    balanced = None
    if not feasible:
        balanced = _solved(job, candidates, "balanced")
        starts, stopped = starts + _plans(balanced), stopped or balanced.outcome is Outcome.STOPPED
    starts.append(counts_of(problem.deployment, problem.deployment.plan))
    candidates.look_at(starts)
    climb_on(candidates, starts if _rough(problem) else ())
    overloaded = isinstance(problem.cost_model, RateModel) and not job.bursty and _too_much(balanced)
    overloaded = overloaded and _shows(problem, candidates)
    proof = Proof(None, closed=False)
    sane = len(candidates) > 0 and candidates.candidate(candidates.best).sane
    if sane and admissible(problem, job):
        proof = prove(job, candidates)
    return Youngest(candidates, proof, overloaded, "the solver's time was up before it was done" if stopped else "")


def _solved(job: PlacementCoefficients, candidates: Candidates, aim: Aim) -> Placed:
    end_to_end = candidates.problem.objective == "e2e_latency_s"
    size = len(job.names) * len(job.places.host_l)
    limits = replace(candidates.limits, gap=next(gap for most, gap in GAPS if size <= most))
    return Placing(job, candidates.problem.space, aim, end_to_end=end_to_end).solve(limits)


def _rough(problem: Problem) -> bool:
    """Whether programs know less of plans: nothing of distances between sockets, and only loads of spread operators."""
    return problem.space.spreads(problem.deployment) or any(
        host.socket_count > 1 for host in problem.deployment.cluster.hosts
    )


def _plans(found: Placed) -> list[np.ndarray]:
    return [] if found.counts_ol is None else [found.counts_ol]


def _shows(problem: Problem, candidates: Candidates) -> bool:
    """Whether what is overloaded is backpressured long before the end of the run: channels may be too deep for it."""
    if not len(candidates) or not isinstance(problem.cost_model, RateModel):
        return False
    soon = RateModel(horizon_s=SOON * problem.cost_model.run_s(problem.scenario))
    plans = as_plans(problem.deployment, np.stack([candidates[row] for row in candidates.ranking[:MANY]]))
    found = soon.predict(problem.scenario, plans)
    return bool((found["backpressured"] * found["success"] > 0.5).all())


def _too_much(balanced: Placed | None) -> bool:
    """Whether even the least of the highest utilisations is too high, or no plan fits into memory."""
    return balanced is not None and (balanced.outcome is Outcome.INFEASIBLE or balanced.bound > TOO_MUCH)
