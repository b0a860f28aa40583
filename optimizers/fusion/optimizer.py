"""Fuses operators by partition attributes (Enorm, Algorithm 1) and places them: `--optimizer fusion`.

An algorithm makes components of operators; a plan fuses the paths in them. A placement optimizer, if given
(`fusion+rlas`), places the fused job. Then a climb under the problem's cost model looks for better places; with a
placement optimizer it also fuses and parts operators, sources included, whatever the algorithm has found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from optimizers.candidates import by_risk
from optimizers.climbing import climb
from optimizers.deadline import Deadline
from optimizers.fusion.algorithms import baseline, by_attributes, by_communication
from optimizers.fusion.arrangement import (
    Arrangement,
    Arrangements,
    Link,
    arranged,
    changes_of,
    everything,
    gathered,
    links_of,
    possible,
    within,
)
from optimizers.fusion.components import Fusion
from optimizers.fusion.exact import least_communication
from optimizers.fusion.job import FusionJob
from optimizers.fusion.query_job import fusion_job
from optimizers.governor import governor_plan
from optimizers.interface import Optimizer, Problem, Solution, Traits, traits_of
from optimizers.selection import choose, said
from optimizers.space import counts_of
from optimizers.space_plans import SpacePlans
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.unsupported import unsupported_features

SECONDS, PART, LEAST_S = 30.0, 0.5, 0.1
"""Time of the exact solution: most seconds, part of the time left, and least seconds."""

Algorithm = Literal["comm", "pa", "baseline", "exact"]
Fused = tuple[Fusion, float | None]
"""A fusion, and the least communication of any fusion; None if not known."""


def _exact(job: FusionJob, _: int, deadline: Deadline) -> Fused:
    found = least_communication(job, seconds=max(LEAST_S, min(SECONDS, PART * deadline.left_s)))
    return found.fusion, found.bound


ALGORITHMS: Mapping[Algorithm, Callable[[FusionJob, int, Deadline], Fused]] = {
    "comm": lambda job, *_: (by_communication(job), None),
    "pa": lambda job, *_: (by_attributes(job), None),
    "baseline": lambda job, seed, _: (baseline(job, random_stream(seed, "fusion-baseline")), None),
    "exact": _exact,
}
"""Algorithms of fusion by name: of a job, a seed and a deadline. Each raises BadInput for a job that it cannot fuse."""

PLACING = 0.5
"""Share of the budget and of the time that a placement optimizer gets."""
NOTHING = "nothing of this job can run as one"
APART = "no fusion was found that is better than all operators apart"


@dataclass(frozen=True, slots=True)
class FusionOptimizer:
    """Planner that fuses and places operators. algorithm: one of ALGORITHMS. placing: optimizer that places the fused
    job; None: only the climb places, and it leaves the links of the algorithm as they are."""

    name: str = "fusion"
    algorithm: Algorithm = "comm"
    placing: Optimizer | None = None

    @property
    def traits(self) -> Traits:
        """Traits with the objective and the rules of the placement optimizer."""
        theirs = self._placing
        return Traits(objective=theirs.objective, costream_rules=theirs.costream_rules)

    @property
    def _placing(self) -> Traits:
        return Traits() if self.placing is None else traits_of(self.placing)

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput for a job that the algorithm cannot fuse, a cost model that does not see
        fusion, or as the placement optimizer does."""
        started_s, deadline = time.perf_counter(), problem.deadline()
        problem.space.check(problem.deployment)
        if self.traits.costream_rules:
            problem = replace(problem, space=replace(problem.space, costream_rules=True))
        allowed = possible(problem.deployment)
        fusion, least = ALGORITHMS[self.algorithm](fusion_job(problem.deployment), problem.seed, deadline)
        wanted = within(fusion, allowed)
        _check_seen(problem, wanted)
        scales = self._placing.objective is not None and problem.space.free_replicas is None
        bounded = self.placing is not None and not scales
        problem, starts, asked = self._starts(problem, wanted)
        free = allowed if self.placing else ()
        known = Arrangements(replace(problem, budget=problem.budget - asked), by_risk, deadline=deadline)
        whole = everything(problem.deployment, problem.space, free, known.left) if bounded else None
        climb(known, changes_of(problem, free), starts if whole is None else ())
        known.look_at(whole or ())
        complete = whole is not None and len(known) == len(whole)
        evaluations = asked + len(known)
        best = choose(problem, known.found(), evaluations=evaluations, started_s=started_s, complete=complete)
        among = said(best.among, "fused or apart").replace(";", ",") if complete else ""
        return replace(best, among=among, message=said(_told(problem, best.plan, fusion, least), best.message))

    def _starts(self, problem: Problem, wanted: list[Link]) -> tuple[Problem, list[Arrangement], int]:
        """Problem with its numbers of replicas settled, arrangements from which climbs begin, and number of estimates
        spent."""
        fixed = problem.settled(free_replicas=False)
        first = _first(fixed)
        starts = [_fused(fixed, first, wanted, towards) for towards in (0, 1)]
        if self.placing is None:
            return fixed, starts, 0
        job, budget = problem.deployment, max(1, int(PLACING * problem.budget))
        seconds = None if problem.seconds is None else PLACING * problem.seconds
        scenario = problem.scenario.with_plan(starts[0].plan(job))
        placed = self.placing.solve(replace(problem, scenario=scenario, budget=budget, seconds=seconds))
        answer = arranged(job, placed.plan)
        scaled = bool((answer.counts_ol.sum(axis=1) != first.counts_ol.sum(axis=1)).any())
        problem = problem.settled(free_replicas=scaled)
        joined = [_fused(problem, answer, wanted, towards) for towards in (0, 1)]
        return problem, [answer, *joined, *starts], placed.evaluations


def _first(problem: Problem) -> Arrangement:
    """Arrangement of the given plan, or of another one if that is not in the space, with nothing fused."""
    job, space = problem.deployment, problem.space
    for plan in (job.plan, governor_plan(problem)):
        if space.includes(job, plan):
            return Arrangement(counts_of(job, plan), frozenset())
    drawn = SpacePlans(job, replace(space, free_replicas=False)).sample(random_stream(problem.seed, "fusion"), 1)
    return Arrangement(drawn[0], frozenset())


def _fused(problem: Problem, here: Arrangement, wanted: list[Link], towards: int) -> Arrangement:
    """Arrangement with these links added, as far as the space has a place for both ends. towards: the end tried
    first."""
    for link in wanted:
        ends = list(gathered(problem.deployment, here, link))
        fitting = (each for each in (ends[towards], ends[1 - towards]) if _fits(problem, each))
        here = next(fitting, here)
    return here


def _fits(problem: Problem, here: Arrangement) -> bool:
    return bool(problem.space.holds(problem.deployment, here.counts_ol[None])[0])


def _check_seen(problem: Problem, wanted: list[Link]) -> None:
    """Raises BadInput if the cost model cannot tell fused operators from unfused ones."""
    model, job = problem.cost_model, problem.scenario
    trial = next((each for link in wanted[:1] for each in gathered(job, arranged(job, job.plan), link)), None)
    if trial is None:
        return
    fused = job.model_copy(update={"plan": trial.plan(job)})
    if set(unsupported_features(fused, ())) - set(unsupported_features(fused, ("fusion",))) & set(
        model.blind_to(fused)
    ):
        raise BadInput(f"cost model {model.name} does not see which operators run as one; use rates or sim")


def _told(problem: Problem, plan: ExecutionPlan, fusion: Fusion, least: float | None) -> str:
    """Message on the share of tuples that still go from task to task, or on why nothing is fused."""
    if not plan.fused:
        return NOTHING if not possible(problem.deployment) else APART
    links, transfers = links_of(plan), fusion.job.transfers
    sent = sum(each.rate_per_s for each in transfers if (each.producer, each.consumer) not in links)
    share = sent / (fusion.job.rate_per_s or 1.0)
    bound = "" if least is None else f"; components of common keys leave {least:.0%} at least"
    return f"{share:.0%} of what is sent goes from task to task{bound}"
