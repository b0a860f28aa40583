"""The plans that were looked at: each is estimated once by the problem's cost model, until the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np

from optimizers.counted import as_plans
from optimizers.estimating import batch
from optimizers.interface import OBJECTIVES, Candidate, Problem, Solution, Status
from optimizers.patience import Patience
from optimizers.program import Limits
from optimizers.selection import Estimated, fulfilled, predicted
from optimizers.space import Space
from optimizers.space_plans import NOTHING
from twin.errors import BadInput
from twin.metrics import BINARY_METRICS
from twin.plan import ExecutionPlan

NONE_SANE = "every plan looked at is predicted to fail or to be backpressured; this one lets the most through"
Prefers = Callable[[np.ndarray], np.ndarray]
"""Of plans [N, O, L], numbers [K, N] that come before the problem's objective; less is better."""


class Candidates:
    """The plans of a space. prefers: what comes before the objective, which costs `extra` estimates a plan; it is not
    asked where the problem's budget is too small for one plan."""

    def __init__(self, problem: Problem, space: Space, prefers: Prefers | None = None, extra: int = 0) -> None:
        asks = prefers is not None and problem.budget > extra
        self._problem, self._space = problem, space
        self._prefers, self._each = (prefers, 1 + extra) if asks else (None, 1)
        self._patience = problem.patience()
        self._batch = batch(problem)
        self._row: dict[bytes, int] = {}
        self._counts: list[np.ndarray] = []
        self._candidates: list[Candidate] = []
        self._keys = np.zeros((0, 0))
        self.bound: float | None = None
        """On the objective of any plan, as far as somebody has found out."""

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def evaluations(self) -> int:
        """Estimates asked for."""
        return len(self) * self._each

    @property
    def left(self) -> int:
        """Plans that may still be looked at; 0 once the problem's time is up."""
        return 0 if self.patience.over else self._affordable

    @property
    def _affordable(self) -> int:
        return (self._problem.budget - self.evaluations) // self._each

    @property
    def patience(self) -> Patience:
        """The problem's, from when this was made."""
        return self._patience

    @property
    def limits(self) -> Limits:
        """Of a program, so that the problem's time is kept."""
        return Limits(patience=self._patience, waits=None if self._problem.report is None else self._waits)

    def _waits(self, seconds: float) -> None:
        best = self.candidate(self.best).objective if len(self) else None
        self._problem.tell("seconds of a program", int(seconds), best=best, bound=self.bound)

    def row(self, counts_ol: np.ndarray) -> int | None:
        """Of a plan, if it was looked at."""
        return self._row.get(_key(counts_ol))

    def look_at(self, plans: Iterable[np.ndarray], *, always: bool = False) -> None:
        """Estimates those that are new and in the space, as far as budget and time go. always: one batch of them at
        least, whatever the time is."""
        new = list({_key(each): each for each in plans if self.row(each) is None}.values())
        if not new:
            return
        counts_nol = np.stack(new)
        counts_nol = counts_nol[self._space.holds(self._problem.deployment, counts_nol)]
        for first in range(0, len(counts_nol), self._batch):
            batch_nol = counts_nol[first : first + self._batch][
                : self._affordable if always and not first else self.left
            ]
            if not len(batch_nol):
                return
            self._estimate(batch_nol)

    def _estimate(self, counts_nol: np.ndarray) -> None:
        found, keys = _judged(self._problem, as_plans(self._problem.deployment, counts_nol))
        if self._prefers is not None:
            keys = np.vstack([self._prefers(counts_nol), keys])
        self._row |= {_key(each): len(self) + index for index, each in enumerate(counts_nol)}
        self._counts.extend(counts_nol)
        self._candidates += [found.candidate(index) for index in range(len(counts_nol))]
        self._keys = np.hstack([self._keys, keys]) if self._keys.size else keys
        best = self.candidate(self.best).objective
        self._problem.tell("plans estimated", self.evaluations, self._problem.budget, best=best, bound=self.bound)

    @property
    def ranking(self) -> np.ndarray:
        """Rows from the best down; of equally good ones the one looked at first."""
        return np.lexsort(self._keys[::-1])

    @property
    def best(self) -> int:
        """The row of the best."""
        return int(self.ranking[0])

    def best_of(self, rows: list[int]) -> int:
        """The best of some; of equally good ones the first."""
        return rows[int(np.lexsort(self._keys[::-1, rows])[0])]

    def counts(self, row: int) -> np.ndarray:
        """Replicas [O, L]."""
        return self._counts[row]

    def candidate(self, row: int) -> Candidate:
        """The plan with its estimates."""
        return self._candidates[row]

    def solution(self, started_s: float, *, weighed: int = 0, rows: Container[int] | None = None) -> Solution:
        """The best, and what comes next; nothing is claimed. rows: only of these, one of them at least.

        Raises BadInput if no plan of the space was found.
        """
        problem = self._problem
        if not len(self):
            raise BadInput(NOTHING.format(words=self._space.words(problem.deployment)))
        ranking = [int(row) for row in self.ranking if rows is None or int(row) in rows]
        best, *others = (self.candidate(row) for row in ranking[: 1 + problem.alternatives])
        return Solution(
            status=Status.FEASIBLE,
            plan=best.plan,
            objective=best.objective,
            bound=None,
            evaluations=self.evaluations,
            seconds=time.perf_counter() - started_s,
            alternatives=tuple(others),
            message="" if best.sane else NONE_SANE,
            sane=best.sane,
            weighed=weighed,
            among=self._space.words(problem.deployment),
        )

    def preferred(self, row: int) -> np.ndarray | None:
        """What comes before its objective; None if that was not asked."""
        return None if self._prefers is None else self._keys[:-3, row]


def _judged(problem: Problem, plans: Sequence[ExecutionPlan]) -> tuple[Estimated, np.ndarray]:
    """The plans with what the cost model says of them, and what they are ranked by [3, N].

    First those that are sane; of others the one that lets the most through; then by the objective.
    """
    metrics = (problem.objective, *BINARY_METRICS, "throughput_per_s")
    objective, backpressured, success, throughput = predicted(problem, plans, metrics)
    found = Estimated(plans, objective, backpressured, success, fulfilled(problem, plans))
    sane = found.sane
    cost = objective if OBJECTIVES[problem.objective] == "min" else -objective
    return found, np.stack([~sane, np.where(sane, 0.0, -throughput), cost])


def _key(counts_ol: np.ndarray) -> bytes:
    return np.ascontiguousarray(counts_ol, np.int64).tobytes()
