"""Choose a plan: one problem in, one solution out, under any cost model."""

from optimizers.interface import OBJECTIVES, Candidate, Optimizer, Problem, Solution, Status
from optimizers.registry import OPTIMIZERS, optimizer_by_name

__all__ = [
    "OBJECTIVES",
    "OPTIMIZERS",
    "Candidate",
    "Optimizer",
    "Problem",
    "Solution",
    "Status",
    "optimizer_by_name",
]
