"""Request to the suite, in plain values, and its answer. The same request gives the same rows in every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scenarios.files.documents import CLOSED
from scenarios.planning.leader_board import Standing
from scenarios.planning.validation import ValidationRow

BUDGET = 300
"""Default number of plans that a cost model may estimate for a problem of the suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRequest:
    """Request to the suite. optimizers: names, separated by commas; None: the usual ones of each kind of problem.
    cost_models, drive, budget, seconds: for optimizers that place operators. replications: simulated runs of each
    chosen plan. references: number of other plans that are simulated for comparison."""

    optimizers: str | None
    cost_models: str
    drive: str | None = None
    budget: int = BUDGET
    seconds: float | None = None
    replications: int = 3
    references: int = 30
    seed: int = 0


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteJudged(BenchmarkRequest):
    """The answer of `twin benchmark`. suite: its version. most: number of problems of each family; null: all of them.
    standings: over all families that ask for placements."""

    suite: int
    families: tuple[str, ...]
    most: int | None
    standings: tuple[Standing, ...]
    by_family: Mapping[str, tuple[Standing, ...]]
    rows: tuple[ValidationRow, ...]
