"""The plan of the best objective, be it latency or throughput: programs make a start, the cost model decides.

First the program whose ages know of neighbours (for a latency, and operators on one socket each), else or beside it the
one that balances; the plan that stands in the deployment is a candidate too. From the best of these the search goes on
by small changes under the problem's own cost model, so that no program's errors remain unseen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from optimizers.counted import as_plans
from optimizers.interface import Problem
from optimizers.milp.candidates import Candidates
from optimizers.milp.moves import climb
from optimizers.milp.placing import Aim, Placed, Placing
from optimizers.milp.proof import Proof, admissible, prove
from optimizers.program import GAP, Outcome
from optimizers.space import Space, counts_of
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


def youngest(problem: Problem, space: Space) -> Youngest:
    """Raises BadInput if the space names what the job does not have."""
    job = PlacementCoefficients.of(problem.deployment)
    candidates = Candidates(problem, space)
    latency = problem.objective != "throughput_per_s"
    starts, stopped, feasible = [], False, False
    if latency and not space.spreads(problem.deployment):
        found = _solved(problem, job, space, candidates, "crowded")
        starts, stopped, feasible = _plans(found), found.outcome is Outcome.STOPPED, found.counts_ol is not None
    balanced = None
    if not feasible:
        balanced = _solved(problem, job, space, candidates, "balanced")
        starts, stopped = starts + _plans(balanced), stopped or balanced.outcome is Outcome.STOPPED
    starts.append(counts_of(problem.deployment, problem.deployment.plan))
    candidates.look_at(starts, always=True)
    climb(candidates, problem.deployment, space, starts=starts if _rough(problem, space) else ())
    overloaded = isinstance(problem.cost_model, RateModel) and not job.bursty and _too_much(balanced)
    overloaded = overloaded and _shows(problem, candidates)
    proof = Proof(None, closed=False)
    sane = len(candidates) > 0 and candidates.candidate(candidates.best).sane
    if sane and admissible(problem, job, space):
        proof = prove(problem, job, space, candidates)
    return Youngest(candidates, proof, overloaded, "the solver's time was up before it was done" if stopped else "")


def _solved(problem: Problem, job: PlacementCoefficients, space: Space, candidates: Candidates, aim: Aim) -> Placed:
    end_to_end = problem.objective == "e2e_latency_s"
    size = len(job.names) * len(job.places.host_l)
    limits = replace(candidates.limits, gap=next(gap for most, gap in GAPS if size <= most))
    return Placing(job, space, aim, end_to_end=end_to_end).solve(limits)


def _rough(problem: Problem, space: Space) -> bool:
    """Whether programs know less of plans: nothing of distances between sockets, and only loads of spread operators."""
    return space.spreads(problem.deployment) or any(host.socket_count > 1 for host in problem.deployment.cluster.hosts)


def _plans(found: Placed) -> list[np.ndarray]:
    return [] if found.counts_ol is None else [found.counts_ol]


def _shows(problem: Problem, candidates: Candidates) -> bool:
    """Whether what is overloaded is backpressured long before the end of the run: channels may be too deep for it."""
    if not len(candidates) or not isinstance(problem.cost_model, RateModel):
        return False
    soon = RateModel(horizon_s=SOON * problem.cost_model.run_s(problem.scenario))
    plans = as_plans(problem.deployment, np.stack([candidates.counts(row) for row in candidates.ranking[:MANY]]))
    found = soon.predict(problem.scenario, plans)
    return bool((found["backpressured"] * found["success"] > 0.5).all())


def _too_much(balanced: Placed | None) -> bool:
    """Whether even the least of the highest utilisations is too high, or no plan fits into memory."""
    return balanced is not None and (balanced.outcome is Outcome.INFEASIBLE or balanced.bound > TOO_MUCH)
