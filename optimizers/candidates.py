"""Plans that an optimizer has looked at: each is estimated once by the problem's cost model, until the budget is
spent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from optimizers.interface import Candidate, Deadline, Problem, Solution, Status
from optimizers.program import FEW_NODES, ProgramLimits
from optimizers.selection import RANKS, Estimated, best_first, estimate, estimate_with, ranks, shortfall
from optimizers.space import as_plans, nothing_found
from twin.metrics import Slow
from twin.plan import ExecutionPlan

AT_ONCE = 500
"""Number of plans that a cost model estimates together, unless each takes it long."""
NONE_FEASIBLE = "no plan looked at is predicted to keep up; this one lets the most through"
P = TypeVar("P")
Prefers = Callable[[np.ndarray, Estimated], np.ndarray]
"""Computes numbers [K, N] of plans [N, O, L] and their estimates that rank before the objective; less is better."""
Judge = Callable[[Problem, Sequence[ExecutionPlan]], tuple[Estimated, np.ndarray]]
"""Computes a cost model's estimates of plans, and the numbers [K, N] that rank them; less is better."""


def by_risk(problem: Problem, plans: Sequence[ExecutionPlan]) -> tuple[Estimated, np.ndarray]:
    """Estimates plans and ranks them: feasible plans first; of others the one least likely to fail; then by the
    objective (Costream's choice)."""
    found = estimate(problem, plans)
    return found, ranks(problem, found)


def by_throughput(problem: Problem, plans: Sequence[ExecutionPlan]) -> tuple[Estimated, np.ndarray]:
    """Estimates plans and ranks them: feasible plans first, then those that keep up, others by their throughput."""
    found, (throughput,) = estimate_with(problem, plans, ("throughput_per_s",))
    keys = ranks(problem, found)
    keys[1] = np.where(found.runs, keys[1], 1.0 / (1.0 + throughput))
    return found, keys


class KnownPlans(ABC, Generic[P]):
    """Plans of the problem's space, in some form P, that were looked at.

    prefers: numbers that rank before those of `judge`, at `extra` estimates a plan; not asked for where the problem's
    budget is too small for one plan. total: number of plans in the space, if known.
    """

    def __init__(
        self,
        problem: Problem,
        judge: Judge = by_throughput,
        *,
        deadline: Deadline | None = None,
        prefers: Prefers | None = None,
        extra: int = 0,
        total: int | None = None,
    ) -> None:
        asks = prefers is not None and problem.budget > extra
        self.problem, self._judge, self._total = problem, judge, total
        self._prefers, self._each = (prefers, 1 + extra) if asks else (None, 1)
        self.deadline = problem.deadline() if deadline is None else deadline
        self._batch = 1 if isinstance(problem.cost_model, Slow) else AT_ONCE
        self._row: dict[Hashable, int] = {}
        self._items: list[P] = []
        self._parts: list[Estimated] = []
        self._first: list[int] = []
        self._made: dict[int, Candidate] = {}
        self._keys = np.zeros((0, 0))
        self.bound: float | None = None
        """Bound of the objective of all plans, None while none is known."""

    @abstractmethod
    def key(self, item: P) -> Hashable:
        """Key of a plan: equal for equal plans."""

    @abstractmethod
    def counts_of(self, item: P) -> np.ndarray:
        """Subtasks of a plan by operator and socket [O, L]."""

    @abstractmethod
    def plans(self, items: Sequence[P]) -> Sequence[ExecutionPlan]:
        """The items as plans of the job."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def evaluations(self) -> int:
        """Number of estimates asked for so far."""
        return len(self) * self._each

    @property
    def complete(self) -> bool:
        """Whether all plans of the space were looked at."""
        return len(self) == self._total

    @property
    def left(self) -> int:
        """Number of plans that may still be looked at; 0 once the problem's time is up, but for the first batch."""
        late = len(self) > 0 and self.deadline.over
        return 0 if late or self.complete else (self.problem.budget - self.evaluations) // self._each

    @property
    def limits(self) -> ProgramLimits:
        """Limits of a mixed-integer program, so that the problem's time is kept."""
        nodes = None if self.problem.proves else FEW_NODES
        return ProgramLimits(nodes, deadline=self.deadline, waits=None if self.problem.report is None else self._waits)

    def _waits(self, seconds: float) -> None:
        best = self.candidate(self.best).objective if len(self) else None
        self.problem.tell("seconds of a program", int(seconds), best=best, bound=self.bound)

    def row(self, item: P) -> int | None:
        """The row of a plan; None if it was not estimated."""
        return self._row.get(self.key(item))

    def look_at(self, items: Iterable[P]) -> None:
        """Estimates the plans that are new and in the space, as far as budget and time go."""
        new = list({self.key(each): each for each in items if self.row(each) is None}.values())
        if not new:
            return
        counts_nol = np.stack([self.counts_of(each) for each in new])
        holds_n = self.problem.space.holds(self.problem.deployment, counts_nol)
        new = [each for each, holds in zip(new, holds_n, strict=True) if holds]
        for first in range(0, len(new), self._batch):
            some = new[first : first + self._batch][: self.left]
            if not some:
                return
            self._estimate(some)

    def _estimate(self, items: list[P]) -> None:
        found, keys = self._judge(self.problem, self.plans(items))
        if self._prefers is not None:
            keys = np.vstack([self._prefers(np.stack([self.counts_of(each) for each in items]), found), keys])
        self._row |= {self.key(each): row for row, each in enumerate(items, len(self))}
        self._first.append(len(self))
        self._items += items
        self._parts.append(found)
        self._keys = np.hstack([self._keys, keys]) if self._keys.size else keys
        best = self._objective(self.best)
        self.problem.tell("plans estimated", self.evaluations, self.problem.budget, best=best, bound=self.bound)

    @property
    def ranking(self) -> np.ndarray:
        """Rows from the best down; of equally good ones the one looked at first."""
        return best_first(self._keys)

    @property
    def best(self) -> int:
        """Row of the best plan."""
        return int(self.ranking[0])

    def best_of(self, rows: list[int]) -> int:
        """Best of some rows; of equally good ones the first."""
        return rows[int(best_first(self._keys[:, rows])[0])]

    def __getitem__(self, row: int) -> P:
        return self._items[row]

    def candidate(self, row: int) -> Candidate:
        """Plan of a row with its estimates."""
        if row not in self._made:
            part = bisect_right(self._first, row) - 1
            self._made[row] = self._parts[part].candidate(row - self._first[part])
        return self._made[row]

    def _objective(self, row: int) -> float:
        part = bisect_right(self._first, row) - 1
        return float(self._parts[part].objective[row - self._first[part]])

    def found(self) -> Estimated:
        """Estimates of all plans looked at."""
        return Estimated.joined(self._parts, self.plans(self._items))

    def preferred(self, row: int | slice) -> np.ndarray | None:
        """Numbers of `prefers` for a row [K], or for several [K, N]; None if it was not asked."""
        return None if self._prefers is None else self._keys[:-RANKS, row]


class Candidates(KnownPlans[np.ndarray]):
    """Known plans in the form of subtasks by operator and socket [O, L]."""

    def key(self, item: np.ndarray) -> bytes:
        """Key of a plan: equal for equal counts, whatever the type of the numbers."""
        return np.ascontiguousarray(item, np.int64).tobytes()

    def counts_of(self, item: np.ndarray) -> np.ndarray:
        """Subtasks of a plan [O, L]: the item itself."""
        return item

    def row(self, item: np.ndarray) -> int | None:
        """The row of a plan, as it is deployed; None if it was not estimated."""
        return super().row(self._deployed(item))

    def look_at(self, items: Iterable[np.ndarray]) -> None:
        """Estimates plans as they are deployed."""
        super().look_at(map(self._deployed, items))

    def _deployed(self, item: np.ndarray) -> np.ndarray:
        return self.problem.space.deployable(self.problem.deployment, item)

    def plans(self, items: Sequence[np.ndarray]) -> Sequence[ExecutionPlan]:
        """The items as plans, in the form that cost models read fastest."""
        return as_plans(self.problem.deployment, np.stack(items))

    def solution(self, started_s: float, *, weighed: int = 0, rows: Container[int] | None = None) -> Solution:
        """Best plan and its alternatives, without a proof. rows: chooses only among these, which must have one known
        plan.

        Raises BadInput if no plan of the space was found.
        """
        problem = self.problem
        words = problem.space.words(problem.deployment)
        if not len(self):
            raise nothing_found(problem.deployment, problem.space)
        ranking = [int(row) for row in self.ranking if rows is None or int(row) in rows]
        best, *others = (self.candidate(row) for row in ranking[: 1 + problem.alternatives])
        found = Solution.of(best, Status.FEASIBLE, evaluations=self.evaluations, started_s=started_s, others=others)
        message = shortfall(problem, best) if best.runs else NONE_FEASIBLE
        return replace(found, message=message, weighed=weighed, among=words)
