"""Chosen twice: an optimizer's best plans by a cheap cost model are estimated again by a truer one, the simulator.

The harder one searches under one imperfect model, the more one finds its errors: the plan that it likes best is likely
one that it underestimates. Among the best few, the truer model finds out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from optimizers.estimating import joined
from optimizers.interface import Optimizer, Problem, Solution, Status, traits_of
from optimizers.keeping import STOPPED
from optimizers.patience import Patience
from optimizers.selection import Estimated, choose, estimate, said
from optimizers.surer import with_room
from twin.errors import BadInput
from twin.metrics import CostModel
from twin.plan import ExecutionPlan

UNPROVED = "not simulated"
REFUTED = 0.2
"""Head room, as a share of the offered rates, of the plans that are simulated next if none of the best keeps up."""


@dataclass(frozen=True, slots=True)
class Proving:
    """The optimizer's solution and its next best, `count` >= 1 plans in all, judged by `truth`; and the given plan, if
    the optimizer looked at it. If none of these keeps up though the optimizer said so, as many more are judged that
    have head room by its cost model.

    An optimizer with a goal of its own (the fewest hosts) keeps its order; the first plan that does is taken.
    `evaluations` counts those of both models. Nothing is proved about plans outside: `bound` is None.
    """

    optimizer: Optimizer
    truth: CostModel
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise BadInput(f"number of plans to prove must be >= 1, got {self.count}")

    @property
    def name(self) -> str:
        """The optimizer's, and how many are proved."""
        return f"{self.optimizer.name}+prove-{self.count}"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if the optimizer cannot take the problem."""
        started_s, traits = time.perf_counter(), traits_of(self.optimizer)
        patience, searching = Patience.of(None, problem.stopped), problem.patience()
        first = self.optimizer.solve(replace(problem, alternatives=max(problem.alternatives, self.count - 1)))
        plans = [first.plan, *(each.plan for each in first.alternatives)][: self.count]
        given = None if first.given is None or not traits.by_objective else first.given.plan
        if given is not None and given not in plans and problem.space.includes(problem.deployment, given):
            plans.append(given)
        if patience.over:
            return replace(first, message=said(first.message, UNPROVED))
        asked = replace(problem, cost_model=self.truth)
        if not traits.by_objective:
            asked = replace(asked, requirements=traits.required(problem))
            return self._first_that_holds(first, self._simulated(asked, plans, patience))
        found, estimated_again = self._simulated(asked, plans, patience), 0
        if first.sane and not found.sane.any() and not patience.over:
            roomier, estimated_again = self._roomier(problem, searching)
            plans += [plan for plan in roomier if plan not in plans]
            more = [found, *([self._simulated(asked, new, patience)] if (new := plans[len(found.plans) :]) else [])]
            found = joined(more, plans[: sum(len(each.plans) for each in more)])
        evaluations = first.evaluations + estimated_again + len(found.plans)
        chosen = choose(problem, found, evaluations=evaluations, started_s=started_s, complete=False)
        if len(found.plans) < len(plans):
            chosen = replace(chosen, message=said(STOPPED, chosen.message))
        proved = given is not None and given in found.plans
        return replace(chosen, given=found.candidate(plans.index(given)) if given and proved else first.given)

    def _roomier(self, problem: Problem, searching: Patience) -> tuple[list[ExecutionPlan], int]:
        """As many plans that have head room by the problem's cost model, where none of the best held, and how many
        that model was asked about."""
        asked = with_room(problem, REFUTED, searching)
        if asked is None:
            return [], 0
        found = self.optimizer.solve(replace(asked, alternatives=max(problem.alternatives, self.count - 1)))
        plans = [found.plan, *(each.plan for each in found.alternatives if each.sane)]
        return plans[: self.count] if found.sane else [], found.evaluations

    def _first_that_holds(self, first: Solution, found: Estimated) -> Solution:
        """Of an optimizer with another goal: its order stays, without the plans that do not do in the simulator."""
        row = int(found.sane.argmax())
        chosen = found.candidate(row)
        refuted = f"{row} better plans did not bear it in simulation; this one does" if row else first.message
        if not chosen.sane:
            refuted = f"none of {len(found.plans)} plans bore it in simulation"
        others = tuple(found.candidate(other) for other in range(len(found.plans)) if other != row)
        return replace(
            first,
            status=Status.FEASIBLE,
            plan=chosen.plan,
            objective=chosen.objective,
            bound=None,
            evaluations=first.evaluations + len(found.plans),
            alternatives=others,
            message=refuted,
            sane=chosen.sane,
        )

    def _simulated(self, problem: Problem, plans: list[ExecutionPlan], patience: Patience) -> Estimated:
        """One after the other, until somebody stops."""
        parts: list[Estimated] = []
        for plan in plans:
            if parts and patience.over:
                break
            parts.append(estimate(problem, [plan]))
            problem.tell("plans simulated", len(parts), len(plans))
        return joined(parts, plans[: len(parts)])
