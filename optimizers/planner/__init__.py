"""Planner around every optimizer: it lets the optimizer propose plans, judges them, and chooses.

The optimizer proposes plans. Under a learned cost model, it proposes by the rate model, and the learned model chooses
among these plans (`driving`). What the rate model finds for each load is a candidate too (`starts`). The given plan is
kept unless the answer is worth its moves (`judging`). A more accurate cost model, such as the simulator, then chooses
among the best few (`proving`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from optimizers.driving import calibrated, near
from optimizers.interface import Deadline, Optimizer, Problem, Propose, Solution, Traits, traits_of
from optimizers.planner.judging import JUDGED, kept, unless_given
from optimizers.planner.proving import RatesAt, Starts, planned_for, proved, starts, unless_start
from optimizers.registry import DRIVEN, OPTIMIZERS
from twin.errors import BadInput, suggest
from twin.metrics import CostModel
from twin.rates.model import RateModel

FREE = "free"
"""Name of the drive under which the optimizer itself asks the cost model about whatever plan it likes."""
BEARING = "milp-rate"
"""Name of the optimizer whose plan bears the highest rate."""
LEAST_S = 1e-3
"""Least time for a search that was left none, so that it can give the best that it begins with."""
DRIVES: Mapping[str, Callable[[Problem, Propose, Traits], Solution]] = {"near": near, "calibrated": calibrated}


@dataclass(frozen=True, slots=True)
class Planner:
    """Optimizer with all that surrounds it. keeps: whether the given plan is kept unless a better one is found. drive:
    one of DRIVES; None: the optimizer asks the problem's cost model itself. truth: cost model that chooses among the
    best `count` plans; None: none does.

    Raises BadInput for a count below 1.
    """

    optimizer: Optimizer
    keeps: bool = True
    drive: str | None = None
    truth: CostModel | None = None
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise BadInput(f"number of plans to prove must be >= 1, got {self.count}")

    @property
    def name(self) -> str:
        """Name of the optimizer, its drive, and the number of plans that are proved."""
        proof = None if self.truth is None else f"prove-{self.count}"
        return "+".join(filter(None, [self.optimizer.name, self.drive, proof]))

    @property
    def traits(self) -> Traits:
        """Traits of the optimizer."""
        return traits_of(self.optimizer)

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput if the optimizer cannot take the problem, or answers with a plan that is not
        in its space; AnswerError if its answer is no solution of the job."""
        started_s, deadline = time.perf_counter(), problem.deadline()
        begun = self._begun(problem, deadline)
        left = replace(problem, seconds=None if problem.seconds is None else max(deadline.left_s, LEAST_S))
        if self.truth is not None:
            found = proved(left, self._driven, self.traits, self.truth, self.count, begun)
        elif begun.plans:
            beside = 1 + len(begun.plans) + JUDGED
            found = self._driven(replace(left, budget=max(1, problem.budget - beside)))
            found = unless_start(problem, found, begun, deadline)
        else:
            return self._driven(problem)
        return replace(found, seconds=time.perf_counter() - started_s)

    def _begun(self, problem: Problem, deadline: Deadline) -> Starts:
        """Plans by rates for each load, where another cost model judges and the optimizer is to be compared with
        them; and the plan that bears the most, where runs judge."""
        by_rates = self.truth is None and isinstance(problem.cost_model, RateModel | RatesAt)
        if by_rates or not self.keeps or self.traits.baseline or not self.traits.by_objective:
            return Starts()
        bears = None if self.truth is None else OPTIMIZERS[BEARING]
        return starts(problem, self._proposed, self.traits, bears, deadline)

    def _driven(self, problem: Problem) -> Solution:
        if isinstance(problem.cost_model, RatesAt):
            return planned_for(problem.cost_model.load, problem, self._proposed)
        if self.drive is None:
            return self._proposed(problem)
        found = DRIVES[self.drive](problem, self._proposed, self.traits)
        return unless_given(problem, found) if self.keeps and self.traits.by_objective else found

    def _proposed(self, problem: Problem) -> Solution:
        return kept(problem, self.optimizer) if self.keeps else self.optimizer.solve(problem)


def drive_of(optimizer: Optimizer, drive: str | None, *, learned: bool) -> str | None:
    """Drive of an optimizer by the cost model, one of DRIVES or None. drive: the one asked for, or `free`; None: the
    default, which is `near` for an analytic optimizer under a learned model.

    Raises BadInput for an unknown drive, one for a model that is not learned, or an optimizer that takes none.
    """
    if drive is None:
        return "near" if learned and traits_of(optimizer).analytic else None
    if drive == FREE:
        return None
    if drive not in DRIVES:
        raise BadInput(f"unknown drive {drive!r}; {suggest(drive, (*DRIVES, FREE))}")
    if not learned:
        raise BadInput(f"--drive {drive} is for a learned cost model or sim; rates need no drive, leave it out")
    if not traits_of(optimizer).drivable:
        raise BadInput(f"{optimizer.name} cannot be driven; use {', '.join(DRIVEN)}, or leave --drive out")
    return drive
