"""Mixed-integer linear programs, built row by row and solved by HiGHS: one thread, one answer for each program."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

from optimizers.interface import ENDLESS, Deadline

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix  # most commands start without

Terms = tuple[np.ndarray, "np.ndarray | csr_matrix | float"]
"""Terms of rows: columns [R, K] and coefficients that broadcast to them, or columns [K] and a sparse matrix [R, K]."""
SOON_S = 0.01
"""Seconds that a program has at least."""
GAP = 1e-4
"""Relative gap at which a program counts as solved by default."""
CLOSE = 1e-7
"""Absolute gap at which a program counts as solved: its least cost may be 0."""
FEW_NODES = 50
"""Nodes of a large program, or of one whose answer is wanted soon: by then its best values are mostly found."""
LONG = 5000
"""Number of rows from which HiGHS begins with an interior point, which then takes a tenth of the simplex's time."""
INTERIOR = {"solver": "ipm", "mip_lp_solver": "ipm"}
"""HiGHS's options for that; they change no answer but within its tolerances."""
FEASIBLE = 2
"""HiGHS's code for a solution that keeps all constraints."""
LOOK_S, GRACE_S = 0.05, 1.0
"""Seconds between two looks at the deadline, and by which HiGHS may be late: it keeps a time limit by about as much."""
LEFT_BEHIND = "solver left behind"

R = TypeVar("R")


class ProgramOutcome(StrEnum):
    """Outcome of a program. SOLVED: to the gap. STOPPED: a limit came first. INFEASIBLE: no values satisfy the rows."""

    SOLVED = "solved"
    STOPPED = "stopped"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Limits of a program. nodes: of the tree; seconds: that HiGHS has; deadline: of the caller, with which a program
    may end elsewhere the next time. waits: is called now and then with the seconds so far.

    whole: whether integers are to be whole; without, the answer comes sooner, its values are no plan, but its bound
    holds.
    """

    nodes: int | None = None
    seconds: float = math.inf
    deadline: Deadline = ENDLESS
    waits: Callable[[float], None] | None = None
    gap: float = GAP
    whole: bool = True

    @property
    def options(self) -> dict[str, float]:
        """The limits under HiGHS's names."""
        left_s = min(self.seconds, max(self.deadline.left_s, SOON_S))
        nodes = {} if self.nodes is None else {"mip_max_nodes": self.nodes}
        return {"mip_rel_gap": self.gap, "mip_abs_gap": CLOSE, "time_limit": left_s, **nodes}


NO_LIMITS = ProgramLimits()


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """Answer of a program. values: of all columns, None if none. cost: of the values. bound: no values cost less."""

    outcome: ProgramOutcome
    values: np.ndarray | None
    cost: float
    bound: float


class Program:
    """Program that minimises the cost of its columns subject to its rows."""

    def __init__(self) -> None:
        self._upper: list[np.ndarray] = []
        self._integer: list[np.ndarray] = []
        self._entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # coefficients, their rows and columns
        self._low: list[np.ndarray] = []
        self._high: list[np.ndarray] = []
        self._costs: list[tuple[np.ndarray, np.ndarray]] = []
        self.columns = 0
        self.height = 0

    def variables(
        self,
        shape: tuple[int, ...],
        *,
        upper: np.ndarray | float = math.inf,
        integer: np.ndarray | bool = False,
    ) -> np.ndarray:
        """Adds columns of that shape, >= 0, and returns their numbers."""
        size = math.prod(shape)
        self._upper.append(np.broadcast_to(np.asarray(upper, float), shape).ravel())
        self._integer.append(np.broadcast_to(integer, shape).ravel())
        self.columns += size
        return np.arange(self.columns - size, self.columns).reshape(shape)

    def rows(self, *terms: Terms, low: np.ndarray | float = -math.inf, high: np.ndarray | float = math.inf) -> None:
        """Adds a constraint for each row of the terms: low <= their sum <= high."""
        first, of = terms[0]
        count = of.shape[0] if _sparse(of) else len(first)
        for columns, coefficients in terms:
            if _sparse(coefficients):
                entries = coefficients.tocoo()
                self._entries.append((entries.data, self.height + entries.row, columns[entries.col]))
                continue
            wide = columns.reshape(count, -1)
            rows = np.repeat(np.arange(self.height, self.height + count), wide.shape[1])
            self._entries.append((np.broadcast_to(coefficients, columns.shape).ravel(), rows, wide.ravel()))
        self._low.append(np.broadcast_to(np.asarray(low, float), (count,)))
        self._high.append(np.broadcast_to(np.asarray(high, float), (count,)))
        self.height += count

    def row(self, *terms: Terms, low: float = -math.inf, high: float = math.inf) -> None:
        """Adds one constraint of terms [K]: low <= their sum <= high."""
        whole = ((columns, np.broadcast_to(np.asarray(of, float), columns.shape)) for columns, of in terms)
        self.rows(*((columns.reshape(1, -1), of.reshape(1, -1)) for columns, of in whole), low=low, high=high)

    def costs(self, columns: np.ndarray, each: np.ndarray | float) -> None:
        """Adds to the costs of these columns."""
        self._costs.append((columns.ravel(), np.broadcast_to(each, columns.shape).ravel()))

    def solve(self, limits: ProgramLimits = NO_LIMITS, start: np.ndarray | None = None) -> ProgramAnswer:
        """Solves the program. start: values of all columns to begin with. Raises RuntimeError if the program is
        unbounded. If anything else keeps HiGHS from an end, that counts as a limit."""
        import highspy  # takes longer than most commands take to start

        solver = highspy.Highs()
        how = INTERIOR if self.height >= LONG else {}
        usual: dict[str, bool | int] = {"output_flag": False, "threads": 1, "random_seed": 0}
        for name, value in (*usual.items(), *how.items(), *limits.options.items()):
            solver.setOptionValue(name, value)
        solver.passModel(self._model(highspy, limits.whole))
        if start is not None:
            known = highspy.HighsSolution()
            known.col_value, known.value_valid = list(start), True
            solver.setSolution(known)
        if aside(solver.run, limits.deadline, limits.waits) is None:
            return ProgramAnswer(ProgramOutcome.STOPPED, None, math.inf, -math.inf)
        status, kinds, info = solver.getModelStatus(), highspy.HighsModelStatus, solver.getInfo()
        if status == kinds.kInfeasible:
            return ProgramAnswer(ProgramOutcome.INFEASIBLE, None, math.inf, math.inf)
        if status == kinds.kUnbounded:
            raise RuntimeError("HiGHS: the program is unbounded")
        solved = status == kinds.kOptimal
        outcome, cost = (
            ProgramOutcome.SOLVED if solved else ProgramOutcome.STOPPED,
            float(info.objective_function_value),
        )
        whole = limits.whole and any(each.any() for each in self._integer)
        bound = float(info.mip_dual_bound) if whole else cost if solved else -math.inf
        if status == kinds.kUnboundedOrInfeasible:
            bound = -math.inf
        if info.primal_solution_status != FEASIBLE or not (whole or solved):
            return ProgramAnswer(outcome, None, math.inf, bound)
        return ProgramAnswer(outcome, np.asarray(solver.getSolution().col_value), cost, bound)

    def _model(self, highspy: Any, whole: bool) -> Any:
        from scipy.sparse import csr_array

        cost = np.zeros(self.columns)
        for columns, each in self._costs:
            np.add.at(cost, columns, each)
        coefficients, rows, columns = map(np.concatenate, zip(*self._entries, strict=True))
        matrix = csr_array((coefficients, (rows, columns)), shape=(self.height, self.columns))
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = matrix.shape
        model.col_cost_, model.col_lower_ = cost, np.zeros(self.columns)
        model.col_upper_ = np.concatenate(self._upper)
        model.row_lower_, model.row_upper_ = np.concatenate(self._low), np.concatenate(self._high)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
        model.a_matrix_.value_ = matrix.data
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[each] for each in (np.concatenate(self._integer) & whole).astype(int).tolist()]
        return model


def summed(row_k: np.ndarray, each_k: np.ndarray, rows: int | None = None) -> csr_matrix:
    """[R, K] sparse matrix with one entry in each column, in row `row_k`: it sums terms by row."""
    from scipy.sparse import csr_matrix

    shape = (int(row_k.max()) + 1 if rows is None else rows, len(row_k))
    return csr_matrix((each_k, (row_k, np.arange(len(row_k)))), shape=shape)


def _sparse(coefficients: Any) -> TypeGuard[csr_matrix]:
    return hasattr(coefficients, "tocoo")


def aside(call: Callable[[], R], deadline: Deadline, waits: Callable[[float], None] | None = None) -> R | None:
    """Result of a call that cannot be interrupted, in a thread that is left behind if the deadline passes first (None).
    waits: is called now and then with the seconds so far. Raises what the call raises."""
    if deadline.endless and waits is None:
        return call()
    found: list[R] = []
    raised: list[BaseException] = []

    def go() -> None:
        try:
            found.append(call())
        except BaseException as error:  # raised again in the thread that waits
            raised.append(error)

    thread = threading.Thread(target=go, name=LEFT_BEHIND, daemon=True)
    thread.start()
    waited_s = late_s = 0.0
    while thread.is_alive() and late_s <= (0.0 if deadline.stopped() else GRACE_S):
        thread.join(LOOK_S)
        waited_s += LOOK_S
        late_s = late_s + LOOK_S if deadline.over else 0.0
        if waits is not None and thread.is_alive():
            waits(waited_s)
    if raised:
        raise raised[0]
    return found[0] if found else None


def left_behind() -> bool:
    """Whether a solver left behind still computes; an interpreter that shuts down beside it may crash."""
    return any(thread.name == LEFT_BEHIND and thread.is_alive() for thread in threading.enumerate())
