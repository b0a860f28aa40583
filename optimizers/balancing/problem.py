"""The balancing problem: key groups with loads and traffic, where they are, what moving them may cost; and solvers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from optimizers.interface import Status as Status
from twin.errors import BadInput

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


# traffic between key groups ------------------------------------------------------------------------------------------
# Traffic between key groups, and the part of it that stays on a node.


@dataclass(frozen=True)
class KeyGroupTraffic:
    """Rates between G key groups, one entry a pair; an absent pair exchanges nothing.

    operator_g: index of the operator that a group belongs to. sender_e, receiver_e: groups. rate_e: records (or bytes)
    a second, >= 0. Raises BadInput for columns of unequal length, unknown groups, a rate that is no number, and a group
    that sends to itself.
    """

    operator_g: np.ndarray
    sender_e: np.ndarray
    receiver_e: np.ndarray
    rate_e: np.ndarray

    def __post_init__(self) -> None:
        groups = len(np.asarray(self.operator_g))
        for name, kind in (("operator_g", int), ("sender_e", int), ("receiver_e", int), ("rate_e", float)):
            column = np.array(getattr(self, name), dtype=kind)
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        if not len(self.sender_e) == len(self.receiver_e) == len(self.rate_e):
            raise BadInput("traffic: sender_e, receiver_e and rate_e must be of one length, one entry a pair")
        ends = np.concatenate([self.sender_e, self.receiver_e])
        if len(ends) and not 0 <= ends.min() <= ends.max() < groups:
            raise BadInput(f"traffic names key group {ends.max()}, but there are {groups}; number them from 0")
        if not (np.isfinite(self.rate_e) & (self.rate_e >= 0.0)).all():
            raise BadInput("traffic: every rate must be a number >= 0; leave out pairs of which nothing is known")
        if (self.sender_e == self.receiver_e).any():
            raise BadInput("traffic: a key group sends to itself; leave that pair out, it never crosses a node")

    @cached_property
    def total(self) -> float:
        """Sum of all rates."""
        return float(self.rate_e.sum())

    @cached_property
    def both_ways(self) -> csr_matrix:
        """[G, G] rate that two groups exchange, both ways together (symmetric)."""
        from scipy.sparse import csr_matrix  # most commands start without

        groups = len(self.operator_g)
        one_way = csr_matrix((self.rate_e, (self.sender_e, self.receiver_e)), shape=(groups, groups))
        return (one_way + one_way.T).tocsr()

    def collocated(self, node_g: np.ndarray) -> float:
        """Sum of the rates between groups on the same node."""
        return float(self.rate_e[node_g[self.sender_e] == node_g[self.receiver_e]].sum())

    def factor(self, node_g: np.ndarray) -> float:
        """Collocation factor: percent of all traffic that stays on a node; 100 if there is none."""
        return 100.0 * self.collocated(node_g) / self.total if self.total else 100.0

    def outstanding(self, score_factor: float) -> np.ndarray:
        """[E] Whether a pair exchanges more than `score_factor` times what its sender sends a downstream group on
        average (ALBIC, Step 1). Downstream are all operators that receive anything from the sender's operator.
        """
        groups_o = np.bincount(self.operator_g)
        links = np.zeros((len(groups_o), len(groups_o)), bool)
        links[self.operator_g[self.sender_e], self.operator_g[self.receiver_e]] = True
        downstream_o = links @ groups_o
        output_g = np.bincount(self.sender_e, self.rate_e, len(self.operator_g))
        average_g = output_g / np.maximum(downstream_o[self.operator_g], 1)
        return np.asarray(self.rate_e > score_factor * average_g[self.sender_e])

    def mutual(self, score_factor: float) -> np.ndarray:
        """[E] Whether a pair is `outstanding` for its sender and for its receiver: more than an upstream group sends on
        average.

        A receiver that all groups send to alike makes no pairs.
        """
        other_way = KeyGroupTraffic(self.operator_g, self.receiver_e, self.sender_e, self.rate_e)
        return np.asarray(self.outstanding(score_factor) & other_way.outstanding(score_factor))


# the problem ---------------------------------------------------------------------------------------------------------
# The state of a running job as a balancing problem: which key group causes how much load, and where it is now.


@dataclass(frozen=True, kw_only=True)
class Balance:
    """Balancing problem: G key groups on H nodes (ALBIC, Section 4.3).

    loads: by resource, [G] the load of a group in percent of the node that it is on, >= 0. home_g: that node, an index.
    capacity_h: strength of a node as a multiple of one of capacity 1; loads on another node follow from it. kill_h:
    whether a node is marked for removal: it gives groups away and gets none. budget: what the migrations may cost
    together. cost_g: what migrating a group costs; 1 by default, so that `budget` counts groups; the paper's cost is
    alpha * state. state_g, memory_h: MB of state of a group, and what fits on a node (no limit by default).
    limits: most percent that a node may have of a resource that is not the bottleneck. A node that is above a limit
    already may stay so, but does not get more. traffic: between groups, if known. serialising: load, in percent of a
    node of capacity 1, that a unit of traffic between nodes costs both ends together. fixed_g: groups that stay.

    Raises BadInput for columns of the wrong length, numbers that are none (a gap in the statistics: see `filled`),
    negative ones, unknown homes, a cluster that is marked for removal as a whole, and a budget below 0.
    """

    loads: Mapping[str, np.ndarray]
    home_g: np.ndarray
    capacity_h: np.ndarray
    budget: float
    cost_g: np.ndarray | None = None
    kill_h: np.ndarray | None = None
    state_g: np.ndarray | None = None
    memory_h: np.ndarray | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    traffic: KeyGroupTraffic | None = None
    serialising: float = 0.0
    fixed_g: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.loads:
            raise BadInput("a balance needs the loads of one resource at least, such as {'cpu': [...]}")
        groups, nodes = len(np.asarray(self.home_g)), len(np.asarray(self.capacity_h))
        if not groups or not nodes:
            raise BadInput(f"a balance needs key groups and nodes, got {groups} and {nodes}")
        keep = object.__setattr__
        keep(self, "loads", MappingProxyType({k: _column(f"loads[{k!r}]", v, groups) for k, v in self.loads.items()}))
        keep(self, "limits", MappingProxyType(dict(self.limits)))
        keep(self, "capacity_h", _column("capacity_h", self.capacity_h, nodes))
        keep(self, "home_g", _column("home_g", self.home_g, groups, int))
        keep(self, "cost_g", _column("cost_g", np.ones(groups) if self.cost_g is None else self.cost_g, groups))
        keep(self, "kill_h", _column("kill_h", np.zeros(nodes) if self.kill_h is None else self.kill_h, nodes, bool))
        keep(self, "state_g", _column("state_g", np.zeros(groups) if self.state_g is None else self.state_g, groups))
        fixed_g = np.zeros(groups) if self.fixed_g is None else self.fixed_g
        keep(self, "fixed_g", _column("fixed_g", fixed_g, groups, bool))
        if self.memory_h is not None:
            keep(self, "memory_h", _column("memory_h", self.memory_h, nodes))
        self._check(groups, nodes)

    def _check(self, groups: int, nodes: int) -> None:
        if not (self.capacity_h > 0.0).all():
            raise BadInput(f"capacity_h of node {int(self.capacity_h.argmin())} must be > 0; leave out a node without")
        if self.home_g.max() >= nodes:
            raise BadInput(f"home_g names node {self.home_g.max()}, but there are {nodes}; number them from 0")
        if self.marked_h.all():
            raise BadInput("all nodes are marked for removal; leave one at least unmarked in kill_h")
        if not self.budget >= 0.0:
            raise BadInput(f"budget must be a number >= 0, got {self.budget}; inf is no limit")
        unknown = [name for name in self.limits if name not in self.loads]
        if unknown:
            raise BadInput(f"limits names {unknown[0]!r}, of which loads says nothing; known: {', '.join(self.loads)}")
        for name, limit in self.limits.items():
            if not limit >= 0.0:
                raise BadInput(f"limits[{name!r}] must be a number >= 0, got {limit}; leave it out for no limit")
        if not 0.0 <= self.serialising < np.inf:
            raise BadInput(f"serialising must be a number >= 0, got {self.serialising}")
        if self.traffic is not None and len(self.traffic.operator_g) != groups:
            raise BadInput(f"traffic is of {len(self.traffic.operator_g)} key groups, the balance of {groups}")

    @property
    def marked_h(self) -> np.ndarray:
        """[H] nodes marked for removal."""
        return np.asarray(self.kill_h)

    @property
    def costs_g(self) -> np.ndarray:
        """[G] what migrating a group costs."""
        return np.asarray(self.cost_g)

    @property
    def stays_g(self) -> np.ndarray:
        """[G] groups that may not be moved."""
        return np.asarray(self.fixed_g)

    @cached_property
    def counted(self) -> bool:
        """Whether the budget counts migrations."""
        return bool((self.costs_g == 1.0).all())

    @cached_property
    def bottleneck(self) -> str:
        """The resource with the greatest total usage, which is what gets balanced."""
        return max(self.loads, key=lambda name: float(self.work(name).sum()))

    def work(self, resource: str) -> np.ndarray:
        """[G] load in percent of a node of capacity 1."""
        return self.loads[resource] * self.capacity_h[self.home_g]

    @cached_property
    def work_g(self) -> np.ndarray:
        """[G] the bottleneck's load in percent of a node of capacity 1."""
        return self.work(self.bottleneck)

    @cached_property
    def mean(self) -> float:
        """Load [percent] of each unmarked node if they shared all load in proportion to their capacities. Not rounded
        up: with the paper's ceiling a perfect balance would show a distance of up to 1."""
        return float(self.work_g.sum() / self.capacity_h[~self.marked_h].sum())

    def load_h(self, node_g: np.ndarray) -> np.ndarray:
        """[H] load of each node in percent if its groups are those that `node_g` says."""
        return np.bincount(node_g, self.work_g, len(self.capacity_h)) / self.capacity_h

    def deviation_h(self, node_g: np.ndarray) -> np.ndarray:
        """[H] load of each node in percent above (or, if unmarked, below) the mean: constraints (3) and (4)."""
        above_h = self.load_h(node_g) - self.mean
        return np.where(self.marked_h, np.maximum(above_h, 0.0), above_h)

    def distance(self, node_g: np.ndarray) -> float:
        """Load distance in percentage points: the largest deviation of a node."""
        return float(np.abs(self.deviation_h(node_g)).max())

    def objective(self, node_g: np.ndarray) -> tuple[float, float]:
        """Objective of the MILP, less is better: the load distance, then the largest deviations above and below
        together."""
        deviation_h = self.deviation_h(node_g)
        above, below = max(float(deviation_h.max()), 0.0), max(-float(deviation_h.min()), 0.0)
        return max(above, below), above + below

    def spent(self, node_g: np.ndarray) -> float:
        """Cost of the migrations to these nodes."""
        return float(self.costs_g[node_g != self.home_g].sum())

    @cached_property
    def side_constraints(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """([G] use, [H] room) by each limited resource and by memory; room is never below what is used already."""
        found = [
            (self.work(name), limit * self.capacity_h) for name, limit in self.limits.items() if name != self.bottleneck
        ]
        if self.memory_h is not None:
            found.append((np.asarray(self.state_g), self.memory_h))
        nodes = len(self.capacity_h)
        return tuple((use_g, np.maximum(room_h, np.bincount(self.home_g, use_g, nodes))) for use_g, room_h in found)

    def violation(self, node_g: np.ndarray) -> str:
        """First constraint that an assignment [G] breaks, in words; empty if it breaks none."""
        moved_g = node_g != self.home_g
        if (moved_g & self.marked_h[node_g]).any():
            return "a key group moves to a node that is marked for removal"
        if (moved_g & self.stays_g).any():
            return "a fixed key group moves"
        if self.spent(node_g) > self.budget * (1 + 1e-9) + 1e-9:
            return f"the migrations cost {self.spent(node_g):g}, the budget is {self.budget:g}"
        for use_g, room_h in self.side_constraints:
            if (np.bincount(node_g, use_g, len(room_h)) > room_h * (1 + 1e-9) + 1e-9).any():
                return "a node gets more than its memory, or than the limit of a resource, allows"
        return ""


def _column(name: str, values: object, length: int, kind: type = float) -> np.ndarray:
    """Read-only copy of the values. Raises BadInput unless they are that many numbers, all finite and >= 0."""
    try:
        column = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise BadInput(f"{name} must be {length} numbers") from None
    if column.shape != (length,):
        raise BadInput(f"{name} must have {length} entries, got {column.shape[0] if column.ndim == 1 else 'a table'}")
    wrong = np.flatnonzero(~(np.isfinite(column) & (column >= 0.0)))
    if len(wrong):
        at = int(wrong[0])
        raise BadInput(f"{name}[{at}] must be a number >= 0, got {column[at]}; fill gaps in statistics with `filled`")
    if kind is not float and (column != column.astype(kind)).any():
        raise BadInput(f"{name} must be whole numbers")
    column = column.astype(kind)
    column.flags.writeable = False
    return column


def filled(values_g: np.ndarray, before_g: np.ndarray | None = None) -> np.ndarray:
    """Statistics [G] with gaps (NaN) filled by the values known before, or by 0 for a group of which nothing ever
    was."""
    values_g = np.asarray(values_g, float)
    earlier_g = np.zeros_like(values_g) if before_g is None else np.asarray(before_g, float)
    return np.where(np.isnan(values_g), np.nan_to_num(earlier_g), values_g)


# bounds --------------------------------------------------------------------------------------------------------------
# Lower bound of the load distance of every assignment within the budget.
#
# The counting bound: how many key groups must leave overloaded nodes, and arrive at underloaded ones, for a load
# distance d? If that is more than the budget pays for, no assignment reaches d.


STEPS = 50
"""Steps of the bisection; the bound is exact to 2^-50 of the present distance."""


def counting_bound(balance: Balance) -> float:
    """Least load distance, in percentage points, that any assignment within the budget can have (a lower bound)."""
    facts = _Facts(balance)
    low, high = facts.floor, max(balance.distance(balance.home_g), facts.floor)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if facts.possible(middle) else (middle, high)
    return low


class _Facts:
    """Work and cost of each node's groups in the order in which a relaxed migration takes them: most work for its cost
    first. Where the budget counts migrations, whole groups are counted; else the last group may be split."""

    def __init__(self, balance: Balance) -> None:
        self.balance = balance
        self.mean_h = balance.mean * balance.capacity_h
        self.work_h = np.bincount(balance.home_g, balance.work_g, len(self.mean_h))
        groups = np.flatnonzero(~balance.stays_g & (balance.work_g > 0.0))
        with np.errstate(divide="ignore"):  # what costs nothing comes first: inf
            worth = balance.work_g[groups] / balance.costs_g[groups]
        order = groups[np.argsort(-worth, kind="stable")]
        self.all = self._curve(order)
        homes = balance.home_g[order]
        self.own = [self._curve(order[homes == node]) for node in range(len(self.mean_h))]
        self.floor = self._largest_group()

    def possible(self, d: float) -> bool:
        """Whether an assignment within the budget may have a load distance of d; False is a proof that none has."""
        room_h = d * self.balance.capacity_h
        excess_h = self.work_h - self.mean_h - room_h
        lack_h = np.where(self.balance.marked_h, 0.0, self.mean_h - room_h - self.work_h)
        budget = self.balance.budget + 1e-9
        leaving = sum(self._cost(excess_h[node], self.own[node]) for node in np.flatnonzero(excess_h > 1e-9))
        short = lack_h[lack_h > 1e-9]
        arriving = float(sum(self._costs(short, self.all)))
        return bool(leaving <= budget and arriving <= budget and self._cost(short.sum(), self.all) <= budget)

    def _largest_group(self) -> float:
        """Load distance that the largest group causes on whatever node, percentage points."""
        balance = self.balance
        best = np.maximum(balance.capacity_h[~balance.marked_h].max(), balance.capacity_h[balance.home_g])
        best = np.where(balance.stays_g, balance.capacity_h[balance.home_g], best)
        return max(0.0, float((balance.work_g / best).max()) - balance.mean)

    def _curve(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cumulated work and cost of the first groups in an order; the first entry is of no groups."""
        totals = (self.balance.work_g[order], self.balance.costs_g[order])
        work, cost = (np.concatenate([[0.0], np.cumsum(each)]) for each in totals)
        return work, cost

    def _cost(self, work: float, curve: tuple[np.ndarray, np.ndarray]) -> float:
        return float(self._costs(np.array([work]), curve)[0])

    def _costs(self, work: np.ndarray, curve: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Least cost of moving that much work along a curve; inf where there is not as much."""
        totals, costs = curve
        if self.balance.counted:
            found = np.searchsorted(totals, work - 1e-9).astype(float)
        else:
            found = np.interp(work, totals, costs)
        return np.where(work > totals[-1] + 1e-9, np.inf, found)


# units that move together --------------------------------------------------------------------------------------------
# Key groups that migrate together: how they are made, by METIS, and a balance of units instead of groups.


def contracted(balance: Balance, unit_g: np.ndarray, pins: Mapping[int, int]) -> Balance:
    """Balancing problem of U units instead of groups; a pinned unit is on its node already, and paid for.

    unit_g: the unit of each group, 0 to U - 1. pins: unit -> node. The groups of a unit that is not pinned are on one
    node. Raises BadInput if the pins cost more than the budget.
    """
    units = int(unit_g.max()) + 1
    home_u = np.zeros(units, dtype=int)
    home_u[unit_g] = balance.home_g
    home_u[list(pins)] = list(pins.values())
    pinned = np.zeros(units, dtype=bool)
    pinned[list(pins)] = True
    paid = balance.costs_g[(home_u[unit_g] != balance.home_g)].sum()

    def total(values_g: np.ndarray) -> np.ndarray:
        return np.bincount(unit_g, values_g, units)

    return replace(
        balance,
        loads={name: total(balance.work(name)) / balance.capacity_h[home_u] for name in balance.loads},
        home_g=home_u,
        budget=max(balance.budget - paid, 0.0) if paid <= balance.budget + 1e-9 else balance.budget - paid,
        cost_g=total(balance.costs_g),
        state_g=total(np.asarray(balance.state_g)),
        fixed_g=pinned | (total(balance.stays_g.astype(float)) > 0),
        traffic=None,
    )


SCALE = 1000
"""Largest weight given to METIS, which wants whole weights of at least 1."""


def partitioned(edges: csr_matrix, weights: np.ndarray, parts: int) -> np.ndarray:
    """Part, 0 to at most `parts` - 1, of each vertex of a graph; the parts weigh about the same and little traffic is
    cut.

    edges: symmetric. weights: of vertices, >= 0. Never more parts than vertices.
    """
    import pymetis
    from scipy.sparse import csr_matrix

    count = len(weights)
    parts = min(parts, count)
    if parts <= 1:
        return np.zeros(count, dtype=int)
    if parts == count:
        return np.arange(count)
    if 2 < parts > count // 2:  # METIS leaves parts empty, and complains on the terminal
        return _heaviest_first(weights, parts)
    edges = csr_matrix(edges)
    graph = pymetis.CSRAdjacency(edges.indptr.astype(int), edges.indices.astype(int))
    found = pymetis.part_graph(parts, adjacency=graph, vweights=_whole(weights), eweights=_whole(edges.data))[1]
    return np.asarray(found, dtype=int)


def _heaviest_first(weights: np.ndarray, parts: int) -> np.ndarray:
    """Part of each vertex if the heaviest goes first, and each to the part that is then lightest."""
    part, filled = np.zeros(len(weights), dtype=int), np.zeros((parts, 2))
    for vertex in np.argsort(-weights, kind="stable"):
        part[vertex] = np.lexsort((filled[:, 1], filled[:, 0]))[0]
        filled[part[vertex]] += weights[vertex], 1.0
    return part


def _whole(weights: np.ndarray) -> np.ndarray:
    most = float(weights.max(initial=0.0))
    return np.maximum(np.rint(weights * (SCALE / most)), 1).astype(int) if most else np.ones(len(weights), dtype=int)


# solvers -------------------------------------------------------------------------------------------------------------
# Interface of all solvers: one balancing problem in, one assignment out.


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Answer of a solver: the node of each key group, and its costs and merits.

    status: OPTIMAL if proved that no assignment within the budget is better: has a smaller load distance or, for the
    MILP, a smaller weighted objective, but for what empties marked nodes. node_g: [G]. moves: the groups that
    migrate. cost: of the migrations. distance: load distance in percentage points; bound: no assignment within the
    budget has a smaller one. index: predicted average load in percent of that before (load index). collocation:
    percent of the traffic that stays on a node; None if it is not known. message: what a person should know.
    """

    status: Status
    node_g: np.ndarray
    moves: np.ndarray
    cost: float
    distance: float
    bound: float
    index: float
    collocation: float | None
    message: str = ""

    @property
    def gap(self) -> float:
        """Difference between the load distance found and its bound, in percentage points."""
        return max(self.distance - self.bound, 0.0)


class Solver(Protocol):
    """Chooses an assignment. The same balance gives the same assignment, but for a limit in seconds."""

    @property
    def name(self) -> str:
        """The name in SOLVERS."""

    def solve(self, balance: Balance) -> Assignment:
        """An assignment of the key groups; never raises for a valid balance, as staying is always possible."""


TOLERANCE = 1e-6
"""Difference in percentage points below which two load distances are the same."""


def assignment(
    balance: Balance, node_g: np.ndarray, bound: float, message: str = "", *, proved: bool = False
) -> Assignment:
    """Answer for the nodes found, with its status, cost, load distance and collocation. bound: of the load distance; 0
    if nothing is known. proved: optimal, whatever the bound says."""
    distance, before = balance.distance(node_g), balance.work_g.sum()
    traffic, saved = balance.traffic, 0.0
    if traffic is not None:
        saved = balance.serialising * (traffic.collocated(node_g) - traffic.collocated(balance.home_g))
    within = balance.spent(node_g) <= balance.budget * (1 + 1e-9) + 1e-9
    proved = within and (proved or distance <= bound + TOLERANCE)
    return Assignment(
        status=Status.OPTIMAL if proved else Status.FEASIBLE,
        node_g=node_g,
        moves=np.flatnonzero(node_g != balance.home_g),
        cost=balance.spent(node_g),
        distance=distance,
        bound=min(bound, distance) if within else bound,
        index=float(100.0 * (before - saved) / before) if before else 100.0,
        collocation=None if traffic is None else traffic.factor(node_g),
        message=message,
    )
