"""The plans that were looked at: each is estimated once by the problem's cost model, until the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from optimizers.interface import Problem
from optimizers.milp.space import Space, counts_of
from optimizers.selection import Estimated, estimate, goodness
from twin.plan import ExecutionPlan
from twin.rates.placements import CountedPlans, Placements


class Candidates:
    """admitted: of plans in the space [N, O, L], which ones count at all, beyond the space; all unless given."""

    def __init__(
        self, problem: Problem, space: Space, admitted: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        self._problem, self._space, self._admitted = problem, space, admitted
        self._row: dict[bytes, int] = {}
        self._counts: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._goodness = np.zeros((3, 0))

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def left(self) -> int:
        """Estimates that may still be asked for."""
        return self._problem.budget - len(self)

    def knows(self, counts_ol: np.ndarray) -> bool:
        """Whether a plan was looked at."""
        return _key(counts_ol) in self._row

    def look_at(self, plans: Iterable[np.ndarray]) -> None:
        """Estimates those that are new, in the space and admitted, as far as the budget goes."""
        new = list({_key(each): each for each in plans if _key(each) not in self._row}.values())
        if not new:
            return
        counts_nol = np.stack(new)
        counts_nol = counts_nol[self._space.holds(self._problem.deployment, counts_nol)]
        if self._admitted is not None and len(counts_nol):
            counts_nol = counts_nol[self._admitted(counts_nol)]
        counts_nol = counts_nol[: self.left]
        if not len(counts_nol):
            return
        found = estimate(self._problem, as_plans(self._problem, counts_nol))
        self._row |= {_key(each): len(self) + index for index, each in enumerate(counts_nol)}
        self._counts.extend(counts_nol)
        self._numbers.append(np.stack([found.objective, found.backpressured, found.success]))
        self._goodness = np.hstack([self._goodness, goodness(self._problem, found)])

    @property
    def best(self) -> int:
        """The row of the best; of equally good ones the one looked at first."""
        return int(np.lexsort(self._goodness[::-1])[0])

    def counts(self, row: int) -> np.ndarray:
        """Replicas [O, L]."""
        return self._counts[row]

    def objective(self, row: int) -> float:
        """Its estimated target metric."""
        return float(np.hstack(self._numbers)[0, row])

    def sane(self, row: int) -> bool:
        """Whether it is predicted to run without backpressure."""
        return not self._goodness[0, row]

    def found(self) -> Estimated:
        """Everything that was looked at."""
        return Estimated(as_plans(self._problem, np.stack(self._counts)), *np.hstack(self._numbers))


def as_plans(problem: Problem, counts_nol: np.ndarray) -> list[ExecutionPlan] | CountedPlans | Placements:
    """The form that cost models read fastest.

    A deployment's own plan is passed as it is, as it may say who has which key group.
    """
    job = problem.deployment
    plans = CountedPlans(job, counts_nol)
    if job.plan.key_groups:
        given_ol = counts_of(job, job.plan)
        return [job.plan if (counts_nol[n] == given_ol).all() else plans[n] for n in range(len(plans))]
    if any(host.socket_count > 1 for host in job.cluster.hosts) or ((counts_nol > 0).sum(axis=2) != 1).any():
        return plans
    topological = [operator.name for operator in job.query.topological]
    listed = [topological.index(operator.name) for operator in job.query.operators]
    placements = Placements(job, counts_nol.argmax(axis=2)[:, listed])
    same = counts_nol.sum(axis=2)[:, listed] == np.array(placements.replicas)
    return placements if same.all() else plans


def _key(counts_ol: np.ndarray) -> bytes:
    return np.ascontiguousarray(counts_ol, np.int64).tobytes()
