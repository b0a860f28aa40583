"""ALBIC: collocation within load balancing (Algorithm 2), and a round of its adaptation framework (Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from optimizers.balancing.problem import (
    Assignment,
    Balance,
    KeyGroupTraffic,
    Solver,
    assignment,
    contracted,
    counting_bound,
    partitioned,
)
from optimizers.balancing.search import Search, drained
from twin.errors import BadInput
from twin.randomness import random_stream

# collocation: Algorithm 2 --------------------------------------------------------------------------------------------
# ALBIC (Algorithm 2): a balancing problem in which key groups that exchange much traffic stay, and get, together.
#
# Step 1 scores pairs of key groups, Step 2 makes units of those that are collocated already, Step 3 pins one pair to a
# node, Step 4 balances units around that. If the load distance is then above maxLD, units are made smaller, down to
# single groups: the balance alone.


@dataclass(frozen=True, slots=True)
class Albic:
    """ALBIC's solver. max_distance, max_partition, step: maxLD, maxPL and stepPL in percent; score_factor: sF. share:
    part of the budget that Step 3 may spend on bringing pairs together; None: one pair a round, as published. inner:
    solves Step 4.

    Raises BadInput for a step or score factor that is not > 0, or a share outside [0, 1].
    """

    max_distance: float = 10.0
    max_partition: float = 25.0
    step: float = 5.0
    score_factor: float = 1.5
    share: float | None = None
    inner: Solver = field(default_factory=lambda: Search(looks=400))
    seed: int = 0
    name: str = "albic"

    def __post_init__(self) -> None:
        if not (self.step > 0.0 and self.score_factor > 0.0):
            raise BadInput(f"step and score_factor must be > 0, got {self.step} and {self.score_factor}")
        if self.share is not None and not 0.0 <= self.share <= 1.0:
            raise BadInput(f"share must be between 0 and 1, got {self.share}")

    def solve(self, balance: Balance) -> Assignment:
        """Balances around collocated units; without traffic, the inner solver's assignment."""
        traffic, limit = balance.traffic, self.max_partition
        if traffic is None:
            return self.inner.solve(balance)
        hot_e = traffic.outstanding(self.score_factor)
        while limit > 0.0:
            rng = random_stream(self.seed, "balancing.albic")
            found = self._planned(balance, traffic, hot_e, limit, rng)
            if balance.distance(found) <= self.max_distance and not balance.violation(found):
                return assignment(balance, found, counting_bound(balance))
            limit -= self.step
        return self.inner.solve(balance)

    def _planned(
        self, balance: Balance, traffic: KeyGroupTraffic, hot_e: np.ndarray, limit: float, rng: np.random.Generator
    ) -> np.ndarray:
        together_e = hot_e & (balance.home_g[traffic.sender_e] == balance.home_g[traffic.receiver_e])
        unit_g = units(balance, traffic, together_e, limit)
        pins = _Pins(balance, unit_g)
        apart = np.flatnonzero(hot_e & ~together_e)
        rng.shuffle(apart)
        for pair in apart[np.argsort(-traffic.rate_e[apart], kind="stable")]:
            ends = int(traffic.sender_e[pair]), int(traffic.receiver_e[pair])
            allowed = balance.budget if self.share is None else self.share * balance.budget
            if pins.joined(ends, allowed) and self.share is None:
                break
        return self.inner.solve(contracted(balance, unit_g, pins.node_u)).node_g[unit_g]


def units(balance: Balance, traffic: KeyGroupTraffic, together_e: np.ndarray, limit: float) -> np.ndarray:
    """[G] the unit of each group: sets of groups that the pairs `together_e` [E] connect, split until no unit exceeds
    the budget or the limit (percent of a node). A single group is never split."""
    from scipy.sparse import csr_matrix  # most commands start without
    from scipy.sparse.csgraph import connected_components

    groups = len(balance.home_g)
    ends = traffic.sender_e[together_e], traffic.receiver_e[together_e]
    linked = csr_matrix((np.ones(len(ends[0])), ends), shape=(groups, groups))
    unit_g = connected_components(linked, directed=False)[1].astype(int)
    sizes, count = np.bincount(unit_g), int(unit_g.max()) + 1
    waiting = [np.flatnonzero(unit_g == each) for each in np.flatnonzero(sizes > 1)]
    while waiting:
        members = waiting.pop()
        parts, weights = _pieces(balance, members, limit)
        if parts > 1 and len(members) > 1:
            part = partitioned(traffic.both_ways[members][:, members], weights, parts)
            if not part.any():  # METIS may leave all in one part
                part = np.arange(len(members)) % 2
            waiting += [members[part == each] for each in np.unique(part)]
        else:
            unit_g[members] = count
            count += 1
    return np.unique(unit_g, return_inverse=True)[1]


def _pieces(balance: Balance, members: np.ndarray, limit: float) -> tuple[int, np.ndarray]:
    """Number of parts into which to split a set of groups, and the weights that decide it (ALBIC, lines 18 and 19)."""
    cost, work = balance.costs_g[members], balance.work_g[members]
    paid = float(cost.sum() / balance.budget) if balance.budget else 0.0
    load = float(work.sum() / balance.capacity_h[balance.home_g[members[0]]]) / limit
    return math.ceil(max(paid, load) - 1e-9), cost if paid > load else work


class _Pins:
    """Pairs that shall be together, and their nodes (ALBIC, Step 3)."""

    def __init__(self, balance: Balance, unit_g: np.ndarray) -> None:
        self.balance, self.unit_g = balance, unit_g
        self.node_u: dict[int, int] = {}
        self.where_g = balance.home_g.copy()
        self.size_u = np.bincount(unit_g)

    def joined(self, ends: tuple[int, int], allowed: float) -> bool:
        """Brings the units of two groups together if that costs at most `allowed` of the budget; returns whether it
        did."""
        first, second = (int(self.unit_g[end]) for end in ends)
        nodes = int(self.where_g[ends[0]]), int(self.where_g[ends[1]])
        if nodes[0] == nodes[1]:
            return False
        for keep, go in self._choices((first, second), nodes):
            after_g = self.where_g.copy()
            node = nodes[keep]
            mover = (first, second)[go]
            after_g[self.unit_g == mover] = node
            if mover in self.node_u or self.balance.marked_h[node]:
                continue
            if self.balance.spent(after_g) <= allowed + 1e-9 and not self.balance.violation(after_g):
                self.where_g = after_g
                self.node_u |= {first: node, second: node}
                return True
        return False

    def _choices(self, units: tuple[int, int], nodes: tuple[int, int]) -> list[tuple[int, int]]:
        """(Unit that stays, unit that goes) as 0 or 1, in order of preference; the second serves if the first node may
        get nothing. A lone group goes to a unit (case 2); else the unit on the more loaded node goes (cases 1 and
        3)."""
        alone = [self.size_u[unit] == 1 for unit in units]
        if alone[0] != alone[1]:
            stays = int(alone[0])
        else:
            load_h = self.balance.load_h(self.where_g)
            stays = int(load_h[nodes[1]] < load_h[nodes[0]])
        return [(stays, 1 - stays), (1 - stays, stays)]


# adaptation: Algorithm 1 ---------------------------------------------------------------------------------------------
# Plans and decisions of one round of ALBIC's adaptation framework (Algorithm 1); `policies.adaptation` is its loop.
#
# A node keeps its index for good; `Balance.kill_h` marks the nodes that are to be removed.


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
