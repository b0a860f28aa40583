"""ALBIC's adaptation framework (Algorithm 1) as pure functions: plan, decide on scaling, plan again, apply.

Nodes keep their index for good; who is marked for removal is in `Balance.kill_h`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.interface import Assignment, Solver, assignment
from optimizers.balancing.state import drained
from twin.errors import BadInput


@dataclass(frozen=True, slots=True)
class Decision:
    """add: nodes of capacity 1 to start. remove: nodes to mark for removal. keep: marked ones that are needed after
    all."""

    add: int = 0
    remove: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.add or self.remove or self.keep)


Scaling = Callable[[Balance, Assignment], Decision]
"""Decides after it has seen what balancing alone would do."""


def never(_balance: Balance, _plan: Assignment) -> Decision:
    """The cluster stays as it is."""
    return Decision()


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Nodes by load: scales out if a node is planned above `high` percent, in if the mean is below `low`; towards a
    mean of `target`. Raises BadInput unless 0 < low < target < high."""

    low: float = 40.0
    target: float = 60.0
    high: float = 85.0

    def __post_init__(self) -> None:
        if not 0.0 < self.low < self.target < self.high:
            raise BadInput(f"0 < low < target < high is needed, got {self.low}, {self.target}, {self.high}")

    def __call__(self, balance: Balance, plan: Assignment) -> Decision:
        """Removes the least loaded nodes, as many as leave the mean at or below the target."""
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


@dataclass(frozen=True, slots=True)
class AdaptationRound:
    """plan: to apply. balance: that it is for, after scaling. empty: marked nodes without key groups: to terminate."""

    balance: Balance
    plan: Assignment
    decision: Decision
    empty: tuple[int, ...]


def adapted(balance: Balance, solver: Solver, scaling: Scaling = never, *, stalled: bool = False) -> AdaptationRound:
    """One round of Algorithm 1. stalled: the last round did not move a group off a marked node, so this one does first:
    groups that cannot be divided may fit nowhere without a larger load distance, and would stay for good."""
    held_h = np.bincount(balance.home_g, minlength=len(balance.capacity_h)) > 0
    empty = tuple(int(node) for node in np.flatnonzero(balance.marked_h & ~held_h))
    plan = planned(balance, solver, stalled=stalled)
    decision = scaling(balance, plan)
    if decision:
        balance = scaled(balance, decision)
        plan = planned(balance, solver, stalled=stalled)
    return AdaptationRound(balance, plan, decision, empty)


def planned(balance: Balance, solver: Solver, *, stalled: bool) -> Assignment:
    """The solver's plan; if stalled and it moves nothing off marked nodes, one that does."""
    plan = solver.solve(balance)
    waiting = balance.marked_h[plan.node_g]
    if not (stalled and waiting.any() and waiting.sum() == balance.marked_h[balance.home_g].sum()):
        return plan
    forced_g = drained(balance, balance.home_g)
    return assignment(balance, forced_g, plan.bound, "nothing else empties the marked nodes")


def scaled(balance: Balance, decision: Decision) -> Balance:
    """The balance on the cluster after the decision; new nodes come last. Raises BadInput as `Balance`."""
    kill_h = balance.marked_h.copy()
    kill_h[list(decision.remove)] = True
    kill_h[list(decision.keep)] = False
    more = np.ones(decision.add)
    memory_h = balance.memory_h
    if memory_h is not None:
        memory_h = np.concatenate([memory_h, more * np.median(memory_h)])
    return replace(
        balance,
        capacity_h=np.concatenate([balance.capacity_h, more]),
        kill_h=np.concatenate([kill_h, ~more.astype(bool)]),
        memory_h=memory_h,
    )


def separately(balance: Balance, solver: Solver) -> Assignment:
    """Scale-in that is not integrated (Fig. 5): as long as a marked node has key groups, all of the budget empties it;
    only then is balanced."""
    if not balance.marked_h[balance.home_g].any():
        return solver.solve(balance)
    return assignment(balance, drained(balance, balance.home_g), 0.0)


def rounds(
    start: Balance, plan: Callable[[Balance], Assignment], drifts: Iterable[Callable[[Balance], Balance]]
) -> Iterator[tuple[Balance, Assignment]]:
    """Round after round: loads drift, a plan is made and applied."""
    balance = start
    for drift in drifts:
        balance = drift(balance)
        found = plan(balance)
        yield balance, found
        balance = moved(balance, found.node_g)


def moved(balance: Balance, node_g: np.ndarray) -> Balance:
    """The next round's balance: groups are where they were sent, and each node sees its own percent of them."""
    loads = {name: balance.work(name) / balance.capacity_h[node_g] for name in balance.loads}
    return replace(balance, home_g=node_g, loads=loads)
