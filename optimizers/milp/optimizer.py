"""Plans by mixed-integer programs over the rate model's coefficients: `twin optimize X --optimizer milp`.

They aim at the best objective, the highest rate (`goal=rate`), or the fewest hosts with head room (`goal=hosts`). The
programs are solved by HiGHS; the problem's own cost model estimates their plans, which small changes then improve under
it, so that no program's errors remain unseen. The given plan is always a candidate. For the best
objective the program whose ages include neighbours makes the start (for a latency, and operators on one socket each),
else or beside it the one that balances.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from optimizers.candidates import Candidates
from optimizers.climbing import climb_on
from optimizers.counted import as_plans
from optimizers.interface import Candidate, Problem, Solution, Status, Traits
from optimizers.milp.fewest_hosts import CLOSE, FeasibleAtRate, Fewest, fewest_hosts
from optimizers.milp.highest_rate import highest_rate
from optimizers.milp.placing import Aim, Placing, ProgramPlan
from optimizers.milp.proof import Proof, admissible, prove
from optimizers.objectives import PRICE
from optimizers.program import GAP, ProgramLimits, ProgramOutcome
from optimizers.requirements import LATENCIES, at_rate, priced, prices_h
from optimizers.selection import as_close, dealt_anew, insane, instead, said
from optimizers.space import counts_of
from optimizers.space_plans import SpacePlans
from twin.errors import BadInput
from twin.randomness import random_stream
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

TOO_MUCH = 1.02
"""Utilisation above which the rate model calls every plan backpressured."""
SOON, MANY = 0.1, 100
"""Share of the run in which backpressure is to show, and number of plans checked, to call all plans overloaded."""
GAPS = ((200, GAP), (math.inf, 3e-2))
"""Relative gap of programs, of what placement can change, by the number of operators times sockets up to which it
holds: small changes find the rest sooner."""


def _solved(job: PlacementCoefficients, candidates: Candidates, aim: Aim) -> ProgramPlan:
    end_to_end = candidates.problem.objective == "e2e_latency_s"
    size = len(job.names) * len(job.places.host_l)
    limits = replace(candidates.limits, gap=next(gap for most, gap in GAPS if size <= most))
    return Placing(job, candidates.problem.space, aim, end_to_end=end_to_end).solve(limits)


def _rough(problem: Problem) -> bool:
    """Whether programs leave out costs: distances between sockets, and all but the loads of spread operators."""
    return problem.space.spreads(problem.deployment) or any(
        host.socket_count > 1 for host in problem.deployment.cluster.hosts
    )


def _shows(problem: Problem, candidates: Candidates) -> bool:
    """Whether overloaded plans are backpressured long before the end of the run: channels may be too deep for that."""
    if not len(candidates) or not isinstance(problem.cost_model, RateModel):
        return False
    soon = replace(problem.cost_model, horizon_s=SOON * problem.cost_model.run_s(problem.scenario), warmup_s=0.0)
    plans = as_plans(problem.deployment, np.stack([candidates[row] for row in candidates.ranking[:MANY]]))
    found = soon.predict(problem.scenario, plans)
    return bool((found["backpressured"] * found["success"] > 0.5).all())


def _too_much(balanced: ProgramPlan | None) -> bool:
    """Whether even the least possible peak utilisation is too high, or no plan fits into memory."""
    return balanced is not None and (balanced.outcome is ProgramOutcome.INFEASIBLE or balanced.bound > TOO_MUCH)


Goal = Literal["objective", "rate", "hosts"]
HEAD_ROOM = 0.2
"""Head room of plans on the fewest hosts: share of the offered rate that they must bear beyond it."""
STOPPED = "the solver's time was up before it was done"
OVERLOADED = "every plan is overloaded: more is offered than any placement bears; this one lets the most through"


@dataclass(frozen=True, slots=True)
class Milp:
    """Planner by mixed-integer programs. goal: as above; on the fewest hosts, numbers of replicas are free unless the
    space says otherwise, and head room is the default. ruled: whether it obeys Costream's rules itself."""

    name: str = "milp"
    goal: Goal = "objective"
    ruled: bool = False

    @property
    def traits(self) -> Traits:
        """Traits by goal; on the fewest hosts the answer has head room unless other head room is required."""
        usual = self.goal == "objective"
        room, goal = (HEAD_ROOM, PRICE) if self.goal == "hosts" else (None, None)
        return Traits(
            by_objective=usual,
            goal=goal,
            costream_rules=self.ruled,
            head_room=room,
            drivable=usual,
            analytic=usual,
        )

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput if the space names what the job does not have, holds no plan of it, or frees
        numbers of replicas that the programs keep."""
        started_s = time.perf_counter()
        if problem.space.free_replicas and self.goal != "hosts":
            raise BadInput(f"{self.name} keeps numbers of replicas; use rlas or milp-hosts, or leave out free replicas")
        problem.space.check(problem.deployment)
        problem = problem.settled(free_replicas=self.goal == "hosts", costream_rules=self.ruled)
        solvers = {"objective": self._objective, "rate": self._rate, "hosts": self._hosts}
        found = solvers[self.goal](problem)
        message = said(found.message, dealt_anew(problem, found.plan))
        return replace(found, message=message, seconds=time.perf_counter() - started_s)

    def _objective(self, problem: Problem) -> Solution:
        job, candidates = PlacementCoefficients.of(problem.deployment), Candidates(problem)
        in_one_place = problem.objective in LATENCIES and not problem.space.spreads(problem.deployment)
        solved = [_solved(job, candidates, "crowded")] if in_one_place else []
        balanced = None
        if not solved or solved[0].counts_ol is None:
            balanced = _solved(job, candidates, "balanced")
            solved.append(balanced)
        if problem.objective == PRICE:
            ahead = PlacementCoefficients.of(at_rate(problem.deployment, problem.requirements.factor))
            price_h = prices_h(problem.deployment, problem.requirements.prices)
            solved.append(Placing(ahead, problem.space, "hosts", prices_h=price_h).solve(candidates.limits))
        starts = [each.counts_ol for each in solved if each.counts_ol is not None]
        starts.append(counts_of(problem.deployment, problem.deployment.plan))
        candidates.look_at(starts)
        climb_on(candidates, starts if _rough(problem) else ())
        by_rates = isinstance(problem.cost_model, RateModel)
        overloaded = by_rates and not job.bursty and _too_much(balanced) and _shows(problem, candidates)
        sane = len(candidates) > 0 and candidates.candidate(candidates.best).sane
        proof = prove(job, candidates) if sane and admissible(problem, job) else Proof(None, closed=False)
        best = self._best(problem, candidates)
        if overloaded and not best.sane:
            return replace(best, status=Status.INFEASIBLE, message=OVERLOADED)
        status = Status.OPTIMAL if proof.closed else Status.FEASIBLE
        stopped = any(each.outcome is ProgramOutcome.STOPPED for each in solved)
        return replace(best, status=status, bound=proof.bound, message=best.message or STOPPED * stopped)

    def _rate(self, problem: Problem) -> Solution:
        found = highest_rate(problem.deployment, problem.space, ProgramLimits(deadline=problem.deadline()))
        ahead = replace(problem, scenario=at_rate(problem.scenario, found.factor or 1.0))
        no_price_h = np.zeros(len(problem.deployment.cluster.hosts))
        candidates = Candidates(problem, prefers=FeasibleAtRate(ahead, no_price_h), extra=1)
        given = counts_of(problem.deployment, problem.deployment.plan)
        candidates.look_at([given] if found.counts_ol is None else [found.counts_ol, given])
        climb_on(candidates)
        best, chosen = self._best(problem, candidates), candidates.best
        if (row := candidates.row(given)) is not None and _as_good(
            candidates.candidate(row), candidates.candidate(chosen)
        ):
            best, chosen = instead(best, candidates.candidate(row)), row
        risk = candidates.preferred(chosen)
        if found.counts_ol is None or risk is None or risk[0] > 0.0:
            return replace(best, message=best.message or "the highest rate that this plan bears was not confirmed")
        return replace(best, message=f"the plan bears {found.factor:.3g} times the offered rates")

    def _hosts(self, problem: Problem) -> Solution:
        required = self.traits.required(problem)
        head_room = required.head_room or 0.0
        found = fewest_hosts(problem, head_room, required.prices)
        best = self._best(problem, found.candidates)
        used = sorted(best.plan.hosts(*best.plan.placement))
        limits = replace(required, head_room=None).words
        ahead = f"{1.0 + head_room:g} times the offered rates"
        by_rates = isinstance(problem.cost_model, RateModel)
        if math.isinf(found.price):
            proved = by_rates and math.isinf(found.bound)
            status = Status.INFEASIBLE if proved else Status.FEASIBLE
            words = f"bears {ahead}" + (f", {limits}" if limits else "")
            return replace(best, status=status, message=f"no plan was found that {words}")
        hosts = f"1 host ({used[0]}) bears" if len(used) == 1 else f"{len(used)} hosts ({', '.join(used)}) bear"
        within = f", under a plan that {limits}" if limits else ""
        says = _says(found, by_rates, priced=priced(problem.deployment, required.prices))
        unsafe = insane(problem, found.candidates.candidate(found.candidates.best))
        return replace(best, message=said(unsafe, f"{hosts} {ahead}{within}{says}"))

    def _best(self, problem: Problem, candidates: Candidates) -> Solution:
        """Solution of the best candidate, without a proof. Raises BadInput if no plan of the space is found."""
        if not len(candidates):  # no program has an answer, so any plan is as good
            plans = SpacePlans(problem.deployment, replace(problem.space, free_replicas=False))
            candidates.look_at(plans.sample(random_stream(problem.seed, "milp"), 1))
        return candidates.solution(time.perf_counter())


def _as_good(one: Candidate, best: Candidate) -> bool:
    """Whether neither plan keeps up, and their predictions differ by no more than the error of predictions."""
    return not one.runs and not best.runs and as_close(one.objective, best.objective)


def _says(found: Fewest, by_rates: bool, *, priced: bool) -> str:
    """Words on the price of other plans, which only the rate model's loads bound."""
    price = f" for {found.price:g}" if priced else ""
    if not by_rates:
        return price
    if found.price <= found.bound * (1.0 + CLOSE):
        return f"{price}; {'nothing is cheaper' if priced else 'no fewer will do'}"
    return f"{price}; no plan can do with less than {found.bound:g}"
