"""The state of a running job as a balancing problem: which key group causes how much load, and where it is now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from optimizers.balancing.traffic import KeyGroupTraffic
from twin.errors import BadInput


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
