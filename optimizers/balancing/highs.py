"""A mixed-integer program to HiGHS and back. Comes as highspy, because scipy's has no warm start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

FEASIBLE = 2
"""HiGHS's word for a solution that keeps all constraints."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """min cost x, low <= matrix x <= high, 0 <= x <= upper; the first `integers` columns are whole."""

    cost: np.ndarray
    matrix: csr_matrix
    low: np.ndarray
    high: np.ndarray
    upper: np.ndarray
    integers: int


@dataclass(frozen=True)
class Answer:
    """x: None if there is none yet. dual: nothing costs less; -inf if nothing is proved. said: how it ended."""

    x: np.ndarray | None
    dual: float
    said: str


def solved(program: Program, start: np.ndarray, *, seconds: float, gap: float) -> Answer:
    """Best found within the seconds, or within the relative gap. start: a solution to begin with."""
    import highspy

    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("time_limit", float(seconds)), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(name, value)
    solver.setOptionValue("mip_rel_gap", gap)
    solver.setOptionValue("mip_abs_gap", min(gap, 1e-7))
    solver.passModel(_model(program, highspy))
    solution = highspy.HighsSolution()
    solution.col_value = list(start)
    solution.value_valid = True
    solver.setSolution(solution)
    solver.run()
    info, said = solver.getInfo(), solver.modelStatusToString(solver.getModelStatus())
    found = info.primal_solution_status == FEASIBLE
    x = np.asarray(solver.getSolution().col_value) if found else None
    dual = float(info.mip_dual_bound)
    return Answer(x, dual if np.isfinite(dual) else -np.inf, str(said))


def _model(program: Program, highspy: Any) -> Any:
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = program.matrix.shape
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = np.zeros(len(program.cost)), program.upper
    model.row_lower_, model.row_upper_ = program.low, program.high
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = program.matrix.indptr, program.matrix.indices
    model.a_matrix_.value_ = program.matrix.data
    kinds = highspy.HighsVarType
    model.integrality_ = [kinds.kInteger] * program.integers + [kinds.kContinuous] * (
        len(program.cost) - program.integers
    )
    return model
