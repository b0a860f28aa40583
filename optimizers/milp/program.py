"""A mixed-integer linear program, row by row, and HiGHS to solve it: one thread, the same program the same answer."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from optimizers.milp.aside import aside
from optimizers.patience import ENDLESS, Patience

Terms = tuple[np.ndarray, "np.ndarray | float"]
"""Columns [R, K] and their coefficients, which broadcast to them: K terms of each of R rows."""
SOON_S = 0.01
"""A program has this long at least."""
GAP = 1e-4
"""Relative, at which a program counts as solved unless somebody asks for less."""


class Outcome(StrEnum):
    """SOLVED: to the gap. STOPPED: a limit came first. INFEASIBLE: no values satisfy the rows."""

    SOLVED = "solved"
    STOPPED = "stopped"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop. nodes: of the tree; patience: with which the same program may end elsewhere. waits: is told the
    seconds that it has taken, now and then.

    whole: whether integers are to be whole; without, the answer's values are no plan, but its bound holds, soon.
    """

    nodes: int | None = None
    patience: Patience = ENDLESS
    waits: Callable[[float], None] | None = None
    gap: float = GAP
    whole: bool = True

    @property
    def seconds(self) -> float | None:
        """That are left; None if there is no end."""
        return None if math.isinf(self.patience.left_s) else max(self.patience.left_s, SOON_S)


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Answer:
    """values: of all columns, None if none were found. cost: theirs. bound: no values cost less."""

    outcome: Outcome
    values: np.ndarray | None
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """By how much, relatively, the bound is below the cost; inf without values."""
        return math.inf if self.values is None else (self.cost - self.bound) / max(abs(self.cost), 1e-12)


class Program:
    """Minimise the cost of its columns subject to its rows."""

    def __init__(self) -> None:
        self._upper: list[np.ndarray] = []
        self._lower: list[np.ndarray] = []
        self._integer: list[np.ndarray] = []
        self._row: list[np.ndarray] = []
        self._column: list[np.ndarray] = []
        self._coefficient: list[np.ndarray] = []
        self._low: list[np.ndarray] = []
        self._high: list[np.ndarray] = []
        self._costs: list[tuple[np.ndarray, np.ndarray]] = []
        self.columns = 0
        self.height = 0

    def variables(
        self,
        shape: tuple[int, ...],
        *,
        lower: float = 0.0,
        upper: np.ndarray | float = math.inf,
        integer: np.ndarray | bool = False,
    ) -> np.ndarray:
        """New columns of that shape, as their numbers."""
        size = math.prod(shape)
        self._lower.append(np.full(size, lower))
        self._upper.append(np.broadcast_to(np.asarray(upper, float), shape).ravel())
        self._integer.append(np.broadcast_to(integer, shape).ravel())
        self.columns += size
        return np.arange(self.columns - size, self.columns).reshape(shape)

    def rows(self, *terms: Terms, low: np.ndarray | float = -math.inf, high: np.ndarray | float = math.inf) -> None:
        """As many rows as the terms have: low <= their sum <= high."""
        count = len(terms[0][0])
        for columns, coefficients in terms:
            wide = columns.reshape(count, -1)
            self._row.append(np.repeat(np.arange(self.height, self.height + count), wide.shape[1]))
            self._column.append(wide.ravel())
            self._coefficient.append(np.broadcast_to(coefficients, columns.shape).ravel())
        self._low.append(np.broadcast_to(np.asarray(low, float), (count,)))
        self._high.append(np.broadcast_to(np.asarray(high, float), (count,)))
        self.height += count

    def row(self, *terms: Terms, low: float = -math.inf, high: float = math.inf) -> None:
        """One row of terms [K]."""
        for columns, coefficients in terms:
            self._row.append(np.full(columns.size, self.height))
            self._column.append(columns.ravel())
            self._coefficient.append(np.full(columns.size, coefficients))
        self._low.append(np.array([low]))
        self._high.append(np.array([high]))
        self.height += 1

    def costs(self, columns: np.ndarray, each: np.ndarray | float) -> None:
        """What the columns cost, beside what others have said of them."""
        self._costs.append((columns.ravel(), np.broadcast_to(each, columns.shape).ravel()))

    def free_of_cost(self) -> None:
        """Forgets all costs: the same rows are to be solved for something else."""
        self._costs.clear()

    def solve(self, limits: Limits = NO_LIMITS) -> Answer:
        """Raises RuntimeError if the program is unbounded. Whatever else keeps HiGHS from an end counts as a limit."""
        cost = np.zeros(self.columns)
        for columns, each in self._costs:
            np.add.at(cost, columns, each)
        entries = [np.concatenate(each) for each in (self._coefficient, self._row, self._column)]
        matrix = csr_array((entries[0], (entries[1], entries[2])), shape=(self.height, self.columns))
        options = {"mip_rel_gap": limits.gap, "node_limit": limits.nodes, "time_limit": limits.seconds}
        ask = partial(
            milp,
            cost,
            integrality=np.concatenate(self._integer).astype(int) * limits.whole,
            bounds=Bounds(np.concatenate(self._lower), np.concatenate(self._upper)),
            constraints=LinearConstraint(matrix, np.concatenate(self._low), np.concatenate(self._high)),
            options={name: value for name, value in options.items() if value is not None},
        )
        with _silent():
            found = aside(ask, limits.patience, limits.waits)
        if found is None:
            return Answer(Outcome.STOPPED, None, math.inf, -math.inf)
        if found.status == 2:
            return Answer(Outcome.INFEASIBLE, None, math.inf, math.inf)
        if found.status == 3:
            raise RuntimeError(f"HiGHS: {found.message}")
        bound = -math.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
        if not limits.whole and found.status == 0:
            bound = float(found.fun)
        outcome = Outcome.SOLVED if found.status == 0 else Outcome.STOPPED
        if found.x is None:
            return Answer(outcome, None, math.inf, bound)
        return Answer(outcome, np.asarray(found.x), float(found.fun), bound)


@contextmanager
def _silent() -> Iterator[None]:
    """HiGHS prints some lines whatever it is told, and standard output may be read by a program."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # nothing is open there
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
