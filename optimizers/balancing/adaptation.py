"""Plans and decisions of one round of ALBIC's adaptation framework (Algorithm 1); `policies.adaptation` is its loop.

A node keeps its index for good; `Balance.kill_h` marks the nodes that are to be removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from optimizers.balancing.problem import Assignment, Balance, Solver, assignment
from optimizers.balancing.search import drained
from twin.errors import BadInput


@dataclass(frozen=True, slots=True)
class Decision:
    """Change of the set of nodes. add: nodes of capacity 1 to start. remove: nodes to mark for removal. keep: marked
    nodes that are needed after all."""

    add: int = 0
    remove: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Whether the set of nodes changes."""
        return bool(self.add or self.remove or self.keep)


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Scaling rule: scales out if the plan puts a node above `high` percent of load, in if the mean load is below `low`
    percent; towards a mean of `target` percent. Raises BadInput unless 0 < low < target < high."""

    low: float = 40.0
    target: float = 60.0
    high: float = 85.0

    def __post_init__(self) -> None:
        if not 0.0 < self.low < self.target < self.high:
            raise BadInput(f"0 < low < target < high is needed, got {self.low}, {self.target}, {self.high}")

    def __call__(self, balance: Balance, plan: Assignment) -> Decision:
        """Decides on one round. Scaling in removes the least loaded nodes, as many as leave the mean at or below the
        target."""
        load_h, unmarked = balance.load_h(plan.node_g), np.flatnonzero(~balance.marked_h)
        total, capacity = float(balance.work_g.sum()), float(balance.capacity_h[unmarked].sum())
        needed = total / self.target
        if load_h[unmarked].max() > self.high and balance.mean > self.target:
            marked = tuple(int(node) for node in np.flatnonzero(balance.marked_h))
            back = float(balance.capacity_h[list(marked)].sum()) if marked else 0.0
            return Decision(add=max(0, ceil(needed - capacity - back - 1e-9)), keep=marked)
        if balance.mean < self.low and not balance.marked_h.any():
            order = unmarked[np.argsort(load_h[unmarked], kind="stable")]
            spare = capacity - np.cumsum(balance.capacity_h[order][:-1])  # one stays, however little there is to do
            return Decision(remove=tuple(int(node) for node in order[: int((spare >= needed - 1e-9).sum())]))
        return Decision()


def planned(balance: Balance, solver: Solver, *, stalled: bool) -> Assignment:
    """The solver's assignment; if stalled and it moves nothing off marked nodes, one that empties them. stalled: the
    last round moved no group off a marked node. A group that fits nowhere without a larger load distance would
    otherwise stay for good."""
    plan = solver.solve(balance)
    waiting = balance.marked_h[plan.node_g]
    if not (stalled and waiting.any() and waiting.sum() == balance.marked_h[balance.home_g].sum()):
        return plan
    forced_g = drained(balance, balance.home_g)
    return assignment(balance, forced_g, plan.bound, "nothing else empties the marked nodes")
