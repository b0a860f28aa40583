"""Rules that plans obey, and the plans that obey them: placements after Costream, and subtasks in slots; and plans that
are equal but for the names of hosts.

For spaces of plans (`optimizers.space`), and for whoever draws plans. What a plan costs does not matter here.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from twin.cluster import Cluster, Host
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.query import Query
from twin.rates.seats import distinct_rows
from twin.scenario import Scenario

# Costream's rules ----------------------------------------------------------------------------------------------------
# Costream's three rules for realistic placements (Costream, Section V and Figure 5), as predicates on any DAG.
#
# 1. Operators may share a host. It is a permission, so there is nothing to check. 2. Data never flows to a host of a
# weaker capability bin. 3. Data that left a host never returns to it.
#
# The paper sorts hosts into three bins that "are intersected in their feature range" and gives no numbers; its public
# code has them per feature: CPU 50-300, 300-600, 600-800 %, RAM 1-4, 4-16, 8-32 GB. Hosts whose features are drawn
# independently fit no such box, so each gets a score: the mean of the places of its CPU and its RAM in the ranges of
# Table II, on a logarithmic scale, 0 for the weakest machine of the table and 1 for the strongest. The boxes then span
# scores of 0-0.52, 0.52-0.85 and 0.75-1; `BINS` has these, with the first two made to overlap like the others. A host
# in an overlap counts as either.


Placement = Mapping[str, str]
"""For each operator, the name of the host that all its subtasks run on."""

CPU_PERCENT = (50.0, 800.0)
RAM_MB = (1000.0, 32000.0)
"""CPU and memory of the weakest and of the strongest machine (Costream, Table II)."""
BINS = ((0.0, 0.55), (0.5, 0.85), (0.75, 1.0))
"""Score ranges, both ends included, from weak to strong. They cover [0, 1]."""


class BinRange(NamedTuple):
    """Weakest and strongest bin (0, 1, 2) that a host can count as."""

    lowest: int
    highest: int


def capability(host: Host) -> float:
    """Score of a host in [0, 1]; machines beyond the range of Table II count as its ends."""
    return (_place(host.left_percent, *CPU_PERCENT) + _place(host.ram_mb, *RAM_MB)) / 2


def _place(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, math.log(value / low) / math.log(high / low)))


def bin_range(host: Host) -> BinRange:
    """Bins whose range holds the host's score."""
    score = capability(host)
    found = [index for index, (low, high) in enumerate(BINS) if low <= score <= high]
    return BinRange(found[0], found[-1])


def bin_ranges(cluster: Cluster) -> dict[str, BinRange]:
    """Bins of every host, by name."""
    return {host.name: bin_range(host) for host in cluster.hosts}


def is_valid(query: Query, bins: Mapping[str, BinRange], placement: Placement) -> bool:
    """Whether a placement obeys all rules."""
    number = {host: h for h, host in enumerate(bins)}
    return bool(valid_rows(query, bins, np.array([[number[placement[each.name]] for each in query.operators]]))[0])


def valid_rows(query: Query, bins: Mapping[str, BinRange], hosts_po: np.ndarray) -> np.ndarray:
    """[P] whether each of many placements is valid: rows of indices into `bins`, operators as listed.

    Rule 2: along every path, hosts can be given bins that never fall. That is so if and only if no operator's strongest
    bin is below the weakest bin of an operator upstream. Rule 3: on no path does a host occur again after the data has
    left it.
    """
    lowest_h, highest_h = np.array(list(bins.values())).T
    column = {operator.name: index for index, operator in enumerate(query.operators)}
    floor: dict[str, np.ndarray] = {}
    visited: dict[str, np.ndarray] = {}
    valid_p, rows = np.ones(len(hosts_po), bool), np.arange(len(hosts_po))
    for operator in query.topological:
        host_p = hosts_po[:, column[operator.name]]
        floor_p = lowest_h[host_p]
        visited_ph = np.zeros((len(hosts_po), len(bins)), bool)
        for stream in query.inputs(operator.name):
            before_ph = visited[stream.producer]
            valid_p &= (host_p == hosts_po[:, column[stream.producer]]) | ~before_ph[rows, host_p]
            floor_p = np.maximum(floor_p, floor[stream.producer])
            visited_ph |= before_ph
        valid_p &= floor_p <= highest_h[host_p]
        visited_ph[rows, host_p] = True
        floor[operator.name], visited[operator.name] = floor_p, visited_ph
    return valid_p


# placements that obey Costream's rules -------------------------------------------------------------------------------
# They are counted, listed, and drawn uniformly.
#
# Seen from the sink, every operator of a tree-shaped query has one path downstream. An operator then either stays on
# the host of its consumer, or moves to a host that is not on that path and not of a stronger bin than any host on it;
# the operators upstream of its siblings do not matter. Hosts that span the same bins are interchangeable, so the
# number of ways to place an operator and all above it depends only on how many hosts of each such class the path has
# taken. That makes counting exact and cheap, and drawing by the counts exactly uniform.
#
# In a query whose operators feed several consumers, only the first stream out of each operator is followed, and
# placements that then break a rule are rejected: still uniform over the valid placements.


MAX_LISTED = 50_000
"""Most placements that `PlacementSpace.all` lists."""
MAX_DRAWS_PER_PLACEMENT = 2_000
"""Most draws of `PlacementSpace.draw` until one is valid."""
MAX_ROUNDS = 20
"""Most rounds of `PlacementSpace.sample`, each of as many draws as placements are asked for."""
NOTHING_FOUND = "no valid placement among the draws for a query that is no tree; offer more hosts"

Taken = tuple[int, ...]
"""Number of hosts of each class of interchangeable ones that the path from here to the sink has visited."""
Move = tuple[int, int, Taken]
"""A step of a path: the class from which a host is taken, hosts left in it before, and hosts taken afterwards."""


def different(draws: Callable[[], np.ndarray], size: int) -> np.ndarray:
    """The first `size` different rows of draws [N, ...], or fewer after MAX_ROUNDS of them."""
    found = draws()
    for _ in range(MAX_ROUNDS):
        found = found[np.sort(distinct_rows(found.reshape(len(found), math.prod(found.shape[1:])))[0])]
        if len(found) >= size:
            break
        found = np.concatenate([found, draws()])
    return found


class PlacementSpace:
    """The valid placements of one query on one cluster."""

    def __init__(self, query: Query, cluster: Cluster) -> None:
        self._query = query
        self._bins = bin_ranges(cluster)
        self._classes: list[BinRange] = sorted(set(self._bins.values()))
        sizes = Counter(self._bins.values())
        self._sizes = [sizes[each] for each in self._classes]
        self._members = [[name for name, found in self._bins.items() if found == each] for each in self._classes]
        self._above = {
            operator.name: [
                stream.producer for stream in query.inputs(operator.name) if query.outputs(stream.producer)[0] == stream
            ]
            for operator in query.operators
        }
        self._counted: dict[tuple[str, Taken], int] = {}
        self.is_tree = all(len(query.outputs(operator.name)) <= 1 for operator in query.operators)

    @cached_property
    def count(self) -> int:
        """Number of valid placements; an upper bound where `exact` is False."""
        return len(self._listed) if self.listable and not self.is_tree else self._relaxed

    @property
    def exact(self) -> bool:
        """Whether `count` is exact: for trees always, for others up to `MAX_LISTED` placements."""
        return self.is_tree or self.listable

    def all(self) -> np.ndarray:
        """Every valid placement [N, O], in a fixed order. Raises BadInput above `MAX_LISTED`."""
        if not self.listable:
            raise BadInput(
                f"{self.count} valid placements are too many to list (at most {MAX_LISTED}); "
                "use an optimizer that samples (costream, local-search)"
            )
        return self._listed.copy()

    @cached_property
    def _relaxed(self) -> int:
        """Placements of the query with only the first stream out of each operator."""
        nothing = (0,) * len(self._sizes)
        total = 1
        for sink in self._query.sinks:
            total *= sum(size * self._ways(sink.name, taken) for _, size, taken in self._moves(nothing))
        return total

    @property
    def listable(self) -> bool:
        """Whether `all` lists the placements."""
        return self._relaxed <= MAX_LISTED

    @cached_property
    def _listed(self) -> np.ndarray:
        """All valid placements [N, O], built operator by operator in data-flow order; what breaks a rule is dropped at
        once."""
        lowest_h, highest_h = np.array(list(self._bins.values())).T
        placed = np.zeros((1, 0), np.int64)
        floors: list[np.ndarray] = []  # by operator: the weakest bin that its data may still go to
        visited: list[np.ndarray] = []  # by operator: [N, H], the hosts its data have seen
        order = {operator.name: index for index, operator in enumerate(self._query.topological)}
        for operator in self._query.topological:
            fits_nh = np.ones((len(placed), len(self._bins)), bool)
            floor_nh = np.tile(lowest_h, (len(placed), 1))
            seen_nh = np.zeros_like(fits_nh)
            for stream in self._query.inputs(operator.name):
                above = order[stream.producer]
                stays_nh = placed[:, above, None] == np.arange(len(self._bins))
                fits_nh &= stays_nh | ~visited[above]
                floor_nh = np.maximum(floor_nh, floors[above][:, None])
                seen_nh |= visited[above]
            row_m, host_m = np.nonzero(fits_nh & (floor_nh <= highest_h))
            placed = np.column_stack([placed[row_m], host_m])
            floors = [*(floor[row_m] for floor in floors), floor_nh[row_m, host_m]]
            visited = [*(seen[row_m] for seen in visited), seen_nh[row_m]]
            visited[-1][np.arange(len(row_m)), host_m] = True
        return placed[:, [order[operator.name] for operator in self._query.operators]]

    def draw(self, rng: np.random.Generator) -> dict[str, str]:
        """Draws one valid placement, uniformly. Raises BadInput if rejection finds none (queries that are not trees
        only)."""
        for _ in range(MAX_DRAWS_PER_PLACEMENT):
            placement = self._draw_relaxed(rng)
            if self.is_tree or is_valid(self._query, self._bins, placement):
                return {operator.name: placement[operator.name] for operator in self._query.operators}
        raise BadInput(NOTHING_FOUND)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws `size` different valid placements [N, O], uniformly without replacement; all, shuffled, if there are
        fewer.

        Entries are indices into the cluster's hosts, columns the query's operators as listed. Raises BadInput if size
        is below 1, or rejection finds nothing (queries that are not trees only).
        """
        if size < 1:
            raise BadInput(f"number of candidate placements must be >= 1, got {size}")
        if self.listable and self.count <= 2 * size:
            return self._listed[rng.permutation(len(self._listed))[:size]]
        found = different(partial(self.draws, rng, size), size)
        if not len(found):
            raise BadInput(NOTHING_FOUND)
        return found[:size]

    def draws(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws valid placements [N, O], uniformly with replacement: `size` for a tree, else those of `size` draws that
        are valid."""
        hosts_no = self._draws_relaxed(rng, size)
        return hosts_no if self.is_tree else hosts_no[valid_rows(self._query, self._bins, hosts_no)]

    def _draws_relaxed(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws many placements at once, as `_draw_relaxed` draws one: paths that have taken the same hosts of each
        class choose together."""
        class_h = np.array([self._classes.index(each) for each in self._bins.values()])
        column = {operator.name: index for index, operator in enumerate(self._query.operators)}
        hosts_no = np.zeros((size, len(column)), np.int64)
        paths = {(0,) * len(self._sizes): 0}
        start_nh = np.zeros((size, len(class_h)), bool)
        stack = [(sink.name, np.full(size, -1), np.zeros(size, np.int64), start_nh) for sink in self._query.sinks]
        while stack:
            operator, below_n, path_n, seen_nh = stack.pop()
            choice_n, pick_n = rng.random((2, size))
            host_n, after_n = below_n.copy(), path_n.copy()
            for taken, number in list(paths.items()):
                rows = np.flatnonzero(path_n == number)
                for row, (index, left, after) in zip(
                    *self._chosen(operator, taken, rows, below_n, choice_n), strict=True
                ):
                    free = ~seen_nh[row] & (class_h == index)
                    nth = (pick_n[row] * left).astype(int)
                    host_n[row] = np.argmax(free.cumsum(axis=1) > nth[:, None], axis=1)
                    after_n[row] = paths.setdefault(after, len(paths))
            hosts_no[:, column[operator]] = host_n
            seen_nh = seen_nh.copy()
            seen_nh[np.arange(size), host_n] = True
            stack.extend((above, host_n, after_n, seen_nh) for above in self._above[operator])
        return hosts_no

    def _chosen(
        self, operator: str, taken: Taken, rows: np.ndarray, below_n: np.ndarray, choice_n: np.ndarray
    ) -> tuple[list[np.ndarray], list[Move]]:
        """Rows by the move that they make, and the moves; the other rows stay on the consumer's host. All of these
        rows' paths have taken the same hosts."""
        if not len(rows):
            return [], []
        moves = self._moves(taken)
        weights = [float(left * self._ways(operator, after)) for _, left, after in moves]
        stays = float(self._ways(operator, taken)) if below_n[rows[0]] >= 0 else 0.0
        chosen = np.searchsorted(np.cumsum(weights), choice_n[rows] * (sum(weights) + stays), side="right")
        if not stays:
            chosen = np.minimum(chosen, len(moves) - 1)
        return [rows[chosen == move] for move in range(len(moves))], moves

    def _moves(self, taken: Taken) -> list[Move]:
        """Moves to each class from which a host not on the path may be taken."""
        ceiling = min((each.highest for each, used in zip(self._classes, taken, strict=True) if used), default=99)
        return [
            (index, size - taken[index], (*taken[:index], taken[index] + 1, *taken[index + 1 :]))
            for index, size in enumerate(self._sizes)
            if size > taken[index] and self._classes[index].lowest <= ceiling
        ]

    def _ways(self, operator: str, taken: Taken) -> int:
        """Number of ways to place everything upstream of `operator`, which sits on the last host of the path."""
        key = (operator, taken)
        if key not in self._counted:
            total = 1
            for above in self._above[operator]:
                total *= self._ways(above, taken) + sum(
                    left * self._ways(above, after) for _, left, after in self._moves(taken)
                )
            self._counted[key] = total
        return self._counted[key]

    def _draw_relaxed(self, rng: np.random.Generator) -> dict[str, str]:
        placement: dict[str, str] = {}
        nothing = (0,) * len(self._sizes)
        stack = [(sink.name, "", nothing, frozenset[str]()) for sink in self._query.sinks]
        while stack:
            operator, below, taken, path = stack.pop()
            moves = self._moves(taken)
            weights = [float(left * self._ways(operator, after)) for _, left, after in moves]
            weights.append(float(self._ways(operator, taken)) if below else 0.0)
            chosen = int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights), side="right"))
            if chosen >= len(moves):
                host = below
            else:
                index, _, taken = moves[chosen]
                free = [name for name in self._members[index] if name not in path]
                host = free[int(rng.integers(len(free)))]
            placement[operator] = host
            stack.extend((above, host, taken, path | {host}) for above in self._above[operator])
        return placement


# equal plans ---------------------------------------------------------------------------------------------------------
# Plans are equal that differ only in which of equal hosts they use: exchanging these changes nothing of a job, so one
# plan stands for all of them (redundancy elimination, BriskStream, Section 4).


def kinds(deployment: Deployment) -> Mapping[str, str]:
    """Kind of each host: equal for hosts that are equal in everything but their names."""
    return {host.name: host.model_copy(update={"name": "host"}).model_dump_json() for host in deployment.cluster.hosts}


def exchangeable(scenario: Scenario) -> Mapping[str, str]:
    """Class of each host: equal for hosts that may be exchanged. It is the kind, or the name where links, events or a
    policy tell equal hosts apart."""
    told_apart = scenario.cluster.links or scenario.events or scenario.policy is not None
    return {name: name if told_apart else kind for name, kind in kinds(scenario).items()}


def copies(scenario: Scenario) -> int:
    """Most plans that exchanging equal hosts makes of one."""
    return math.prod(math.factorial(count) for count in Counter(exchangeable(scenario).values()).values())


def class_of(scenario: Scenario) -> Callable[[ExecutionPlan], Hashable]:
    """Function that returns the class of a plan: equal for plans that exchanging equal hosts turns into each other."""
    kind = exchangeable(scenario)

    def of(plan: ExecutionPlan) -> Hashable:
        tasks = defaultdict[str, list[tuple[str, int, int]]](list)
        for name in plan.placement:
            for subtask, place in enumerate(plan.locations(name)):
                tasks[place.host].append((name, subtask, place.socket))
        used = frozenset((kind[host], frozenset(each)) for host, each in tasks.items())
        return used, tuple(sorted(plan.key_groups.items())), plan.fused

    return of


def distinct(scenario: Scenario, plans: Sequence[ExecutionPlan]) -> list[int]:
    """Rows of the plans that are different, in order: of plans that exchanging equal hosts turns into each other, the
    first."""
    of, firsts = class_of(scenario), dict[Hashable, int]()
    for row, plan in enumerate(plans):
        firsts.setdefault(of(plan), row)
    return list(firsts.values())


# task slots ----------------------------------------------------------------------------------------------------------
# An engine of task slots, such as Flink, deploys a plan as parallelism by operator, and slots on task managers.
#
# A slot takes at most one subtask of each operator of a slot sharing group, so a group needs as many slots as its
# highest parallelism, and its subtasks k run in its slot k. A job needs the slots of all its groups. Slots are spread
# evenly over the task managers that are used, as Flink does with `cluster.evenly-spread-out-slots`. One operator cannot
# have 4, 2, 1 subtasks on three task managers and the next one of its group 2, 2, 3; nor 1, 0, 0 and 0, 1, 1. Pinned
# operators are left out: they stay where they are.
#
# Letters at the end of a name are axes: n plans, o operators in data-flow order, h hosts, of one socket each.


def by_slots(deployment: Deployment) -> bool:
    """Whether the engine places subtasks in slots. Clusters with links or several sockets on a host are left out."""
    hosts, links = deployment.cluster.hosts, deployment.cluster.links
    return deployment.engine.slots and not links and all(host.socket_count == 1 for host in hosts)


def groups_of(deployment: Deployment) -> np.ndarray:
    """[O] numbers of the operators' slot sharing groups, in data-flow order."""
    names = list(deployment.query.slot_sharing_groups.values())
    return np.array([names.index(name) for name in names])


def fits(counts_noh: np.ndarray, pinned_o: np.ndarray, group_o: np.ndarray) -> np.ndarray:
    """[N] whether slots can hold each plan."""
    free_noh, groups = counts_noh[:, ~pinned_o], group_o[~pinned_o]
    if not free_noh.shape[1]:
        return np.ones(len(counts_noh), bool)
    slots_nh, nested_n = np.zeros_like(free_noh[:, 0]), np.ones(len(counts_noh), bool)
    for group in np.unique(groups):
        there_noh = free_noh[:, groups == group]
        slots_nh = slots_nh + there_noh.max(axis=1)
        order_no = there_noh.sum(axis=2).argsort(axis=1, kind="stable")
        rising_noh = np.take_along_axis(there_noh, order_no[:, :, None], axis=1)
        nested_n &= (np.diff(rising_noh, axis=1) >= 0).all(axis=(1, 2))  # fewer subtasks are in the first slots of more
    spread_nxh = np.concatenate([free_noh, slots_nh[:, None]], axis=1)
    used_nh = slots_nh > 0
    most_nx = np.where(used_nh[:, None], spread_nxh, 0).max(axis=2)
    least_nx = np.where(used_nh[:, None], spread_nxh, np.iinfo(np.int64).max).min(axis=2)
    return np.asarray(nested_n & (most_nx - least_nx <= 1).all(axis=1))


def deployed(counts_oh: np.ndarray, pinned_o: np.ndarray, group_o: np.ndarray) -> np.ndarray:
    """[O, H] deployable plan nearest to `counts_oh`: the same parallelism on the same hosts, with subtask k in slot k,
    and the slots of one group after those of another. The hosts with the most subtasks in `counts_oh` get the first
    slots.
    """
    found = counts_oh.copy()
    wished_h = counts_oh[~pinned_o].sum(axis=0)
    hosts = np.array([h for h in np.argsort(-wished_h, kind="stable") if wished_h[h]])
    first = 0
    for group in np.unique(group_o[~pinned_o]):
        there = np.flatnonzero(~pinned_o & (group_o == group))
        for o in there:
            found[o] = 0
            np.add.at(found[o], hosts[(first + np.arange(counts_oh[o].sum())) % len(hosts)], 1)
        first += counts_oh[there].sum(axis=1).max()
    return found


def evened(counts_oh: np.ndarray, free_o: np.ndarray) -> np.ndarray:
    """[O, H] plan with more subtasks of the operators in `free_o`, so that all used hosts have equally many."""
    hosts = np.flatnonzero(counts_oh.any(axis=0))
    found = counts_oh.copy()
    for o in np.flatnonzero(free_o):
        found[o] = 0
        found[o, hosts] = -(-counts_oh[o].sum() // len(hosts))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDeployment:
    """Deployment of a plan in slots. parallelism: subtasks by operator. task_managers: number of slots by host."""

    parallelism: Mapping[str, int]
    task_managers: Mapping[str, int]

    @classmethod
    def of(cls, plan: ExecutionPlan, names: Sequence[str], groups: Mapping[str, str]) -> SlotDeployment:
        """Deployment of a plan that slots can hold. names: of all operators. groups: slot sharing group by operator."""
        on = {name: [place.host for place in plan.locations(name)] for name in names}
        hosts = sorted({host for each in on.values() for host in each})
        shared = [[on[name] for name in names if groups[name] == group] for group in {groups[name] for name in names}]
        slots = {host: sum(max(each.count(host) for each in group) for group in shared) for host in hosts}
        return cls(parallelism={name: len(each) for name, each in on.items()}, task_managers=slots)

    @property
    def words(self) -> str:
        """Deployment in one line of words."""
        counts = ", ".join(f"{name} {count}" for name, count in self.parallelism.items())
        most = max(self.task_managers.values())
        slots = f"{most} slot{'s' if most > 1 else ''}"
        hosts = len(self.task_managers)
        managers = f"{hosts} task manager{'s' if hosts > 1 else ''} of {slots}{' each' if hosts > 1 else ''}"
        return f"to deploy: {managers} ({', '.join(self.task_managers)}); parallelism: {counts}"
