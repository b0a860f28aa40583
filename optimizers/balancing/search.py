"""Search for a balanced assignment, which can be stopped at any time, and Flux, with which it begins.

From the parts to the whole: Flux, an assignment that changes move by move, its neighbours, and the search over these.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.balancing.problem import TOLERANCE, Assignment, Balance, assignment, counting_bound
from twin.randomness import random_stream

# Flux ----------------------------------------------------------------------------------------------------------------
# Shah et al., ICDE 2003, as ALBIC describes it: the most loaded node gives a key group to the least loaded one,
# the second most to the second least, and so on, whenever that lessens the variance.
#
# One pass of that is far from enough, so passes are repeated until the budget is spent or nothing helps. The biggest
# group that helps is moved; *best fit* takes the one closest to half the difference instead.


@dataclass(frozen=True, slots=True)
class Flux:
    """Flux's solver. best_fit: move the group that fits best, not the biggest."""

    best_fit: bool = False
    name: str = "flux"

    def solve(self, balance: Balance) -> Assignment:
        """Balances the bottleneck resource; groups on marked nodes are given away like others."""
        return assignment(balance, flux(balance, best_fit=self.best_fit), counting_bound(balance))


def flux(balance: Balance, *, best_fit: bool) -> np.ndarray:
    """[G] nodes after all passes of Flux."""
    node_g, left = balance.home_g.copy(), balance.budget
    use_h = [np.bincount(node_g, use_g, len(room_h)) for use_g, room_h in balance.side_constraints]
    while True:
        before_g = node_g.copy()
        load_h = balance.load_h(node_g)
        order = np.argsort(-load_h, kind="stable")
        takers = order[~balance.marked_h[order]][::-1]
        for giver, taker in zip(order, takers, strict=False):
            if load_h[giver] <= load_h[taker]:
                break
            group = _suitable(balance, node_g, load_h, (int(giver), int(taker)), left, use_h, best_fit=best_fit)
            if group is not None:
                for (use_g, _), used_h in zip(balance.side_constraints, use_h, strict=True):
                    used_h[giver] -= use_g[group]
                    used_h[taker] += use_g[group]
                node_g[group] = taker
                left -= balance.costs_g[group]
        if (node_g == before_g).all():
            return node_g


def _suitable(
    balance: Balance,
    node_g: np.ndarray,
    load_h: np.ndarray,
    ends: tuple[int, int],
    left: float,
    use_h: list[np.ndarray],
    *,
    best_fit: bool,
) -> int | None:
    """Group to move between two nodes (giver, taker), None if none helps: variance falls if its work is less than twice
    the amount that would make them equal."""
    giver, taker = ends
    here = np.flatnonzero((node_g == giver) & (balance.home_g == giver) & ~balance.stays_g)
    capacities = 1.0 / balance.capacity_h[giver] + 1.0 / balance.capacity_h[taker]
    ideal = (load_h[giver] - load_h[taker]) / capacities
    work = balance.work_g[here]
    fits = (work > 0.0) & (work < 2.0 * ideal * (1 - 1e-12)) & (balance.costs_g[here] <= left + 1e-9)
    for (use_g, room_h), used_h in zip(balance.side_constraints, use_h, strict=True):
        fits &= used_h[taker] + use_g[here] <= room_h[taker] + 1e-9
    if not fits.any():
        return None
    score = -np.abs(work - ideal) if best_fit else work
    return int(here[np.where(fits, score, -np.inf).argmax()])


# an assignment that changes ------------------------------------------------------------------------------------------
# While an assignment is searched, its loads, costs and side constraints are kept up to date move by move.
#
# Any search ends with two repairs: marked nodes are emptied (`drained`), and migrations that bring nothing are taken
# back (`pruned`).


class SearchState:
    """Assignment under search. node_g: [G] node of each group. work_h: [H] work on a node. deviation_h: as in
    `Balance`. spent: cost so far."""

    def __init__(self, balance: Balance, node_g: np.ndarray, band: float = 0.0) -> None:
        self.balance, self.band = balance, band
        self.sides = balance.side_constraints
        self.put(node_g)

    def put(self, node_g: np.ndarray) -> None:
        """Starts over from an assignment."""
        balance = self.balance
        nodes = len(balance.capacity_h)
        self.node_g = node_g.copy()
        self.work_h = np.bincount(node_g, balance.work_g, nodes)
        self.used = [np.bincount(node_g, use_g, nodes) for use_g, _ in self.sides]
        self.moved_g = node_g != balance.home_g
        self.spent = balance.spent(node_g)
        self.deviation_h = balance.deviation_h(node_g)

    @property
    def left(self) -> float:
        """Budget that is not spent yet."""
        return self.balance.budget - self.spent + 1e-9

    def move(self, moves: Iterable[tuple[int, int]]) -> None:
        """Moves each (group, node) and updates loads and costs."""
        balance = self.balance
        for group, node in moves:
            before = int(self.node_g[group])
            self.node_g[group] = node
            for used_h, (use_g, _) in zip(self.used, self.sides, strict=True):
                used_h[before] -= use_g[group]
                used_h[node] += use_g[group]
            self.spent += balance.costs_g[group] * (int(node != balance.home_g[group]) - int(self.moved_g[group]))
            self.moved_g[group] = node != balance.home_g[group]
            for end, sign in ((before, -1.0), (node, 1.0)):
                self.work_h[end] += sign * balance.work_g[group]
                deviation = self.work_h[end] / balance.capacity_h[end] - balance.mean
                self.deviation_h[end] = max(deviation, 0.0) if balance.marked_h[end] else deviation

    def excess(self, deviation: np.ndarray, nodes: np.ndarray | int) -> np.ndarray:
        """Deviation of these nodes beyond the band, percentage points; a marked node may be below the mean."""
        below = np.where(self.balance.marked_h[nodes], 0.0, -deviation)
        return np.asarray(np.maximum(np.maximum(deviation, below) - self.band, 0.0))

    @property
    def worst(self) -> float:
        """Load distance beyond the band, percentage points."""
        return max(float(np.abs(self.deviation_h).max()) - self.band, 0.0)


def drained(balance: Balance, node_g: np.ndarray, most: float = np.inf) -> np.ndarray:
    """[G] nodes after the groups of marked nodes, the biggest first, went to the least loaded unmarked node that has
    room.

    Groups move as long as the budget pays, and no unmarked node gets more than `most` percentage points above the mean.
    """
    state = SearchState(balance, node_g)
    unmarked = np.flatnonzero(~balance.marked_h)
    waiting = np.flatnonzero(balance.marked_h[node_g] & ~balance.stays_g)
    for group in waiting[np.argsort(-balance.work_g[waiting], kind="stable")]:
        after_h = (state.work_h[unmarked] + balance.work_g[group]) / balance.capacity_h[unmarked]
        fits = after_h - balance.mean <= most + 0.1 * TOLERANCE
        for used_h, (use_g, room_h) in zip(state.used, state.sides, strict=True):
            fits &= used_h[unmarked] + use_g[group] <= room_h[unmarked] + 1e-9
        if balance.costs_g[group] <= state.left and fits.any():
            state.move([(int(group), int(unmarked[np.where(fits, after_h, np.inf).argmin()]))])
    return state.node_g


def pruned(balance: Balance, node_g: np.ndarray, below: float, above: float) -> np.ndarray:
    """[G] nodes after all migrations that serve nothing were taken back one by one, the dearest first.

    Migrations are undone as long as no node gets more than so many percentage points below the mean, or above; and no
    group goes back to a marked node.
    """
    node_g = node_g.copy()
    while len(candidates := _returnable(balance, node_g, below + 0.1 * TOLERANCE, above + 0.1 * TOLERANCE)):
        group = candidates[np.lexsort((balance.work_g[candidates], -balance.costs_g[candidates]))[0]]
        node_g[group] = balance.home_g[group]
    return node_g


def _returnable(balance: Balance, node_g: np.ndarray, below: float, above: float) -> np.ndarray:
    """Groups that may go home without one node leaving the band [percentage points], whatever the others do."""
    moved = np.flatnonzero((node_g != balance.home_g) & ~balance.marked_h[balance.home_g])
    work, start, end = balance.work_g[moved], node_g[moved], balance.home_g[moved]
    deviation_h = balance.load_h(node_g) - balance.mean
    fits = deviation_h[start] - work / balance.capacity_h[start] >= -below
    fits &= deviation_h[end] + work / balance.capacity_h[end] <= above
    for use_g, room_h in balance.side_constraints:
        fits &= np.bincount(node_g, use_g, len(room_h))[end] + use_g[moved] <= room_h[end] + 1e-9
    return moved[fits]


# its neighbourhood ---------------------------------------------------------------------------------------------------
# At one node, a key group goes, one comes, or both; or such an exchange is paid for by sending another group, whatever
# its node, back home.
#
# All are weighed at once. Their penalty is the sum of the eighth powers of the deviations beyond the band, in units of
# the largest one: nearly the maximum, but two bad nodes are worse than one.


BEST = 40
"""Number of exchanges for which payment by a revert is looked for."""
REVERTS = 300
"""Most reverts that are looked at."""
NOTHING = -1
"""Stands for a group where none goes (or comes)."""


def penalty(excess: np.ndarray) -> np.ndarray:
    """Eighth power of excesses over the band."""
    squared = excess * excess
    fourth = squared * squared
    return fourth * fourth


class Exchanges:
    """Exchanges of a node's groups (R rows, one of them nothing) with groups of its partners (C columns, or nothing)
    that cost at most what is left and `extra`. By exchange [R, C]: change of the penalty, cost, work that leaves the
    node, and whether the group that goes goes home."""

    def __init__(self, state: SearchState, node: int, partners: np.ndarray, unit: float, extra: float) -> None:
        balance, purse = state.balance, state.left + extra
        home_g, costs_g, free_g = balance.home_g, balance.costs_g, ~balance.stays_g
        goes = np.flatnonzero((state.node_g == node) & free_g)
        among_h = np.zeros(len(balance.marked_h), bool)
        among_h[partners] = True
        comes = np.flatnonzero(among_h[state.node_g] & free_g)
        if balance.marked_h[node]:
            comes = comes[home_g[comes] == node]
        goes_cost = np.concatenate([np.where(home_g[goes] == node, costs_g[goes], 0.0), [0.0]])
        begun = np.where(state.moved_g[comes], 0.0, costs_g[comes])
        comes_cost = np.concatenate([np.where(home_g[comes] == node, -costs_g[comes], begun), np.zeros(len(partners))])
        other = np.concatenate([state.node_g[comes], partners])
        goes, comes = np.append(goes, NOTHING), np.append(comes, np.full(len(partners), NOTHING))
        back = np.where((goes != NOTHING) & (home_g[goes] != node), costs_g[goes], 0.0)
        rows = goes_cost - back + comes_cost.min() <= purse
        columns = comes_cost + (goes_cost - back).min() <= purse
        self.node, self.goes_r, self.comes_c, self.other_c = node, goes[rows], comes[columns], other[columns]
        home_r = np.where(self.goes_r == NOTHING, NOTHING, home_g[self.goes_r])
        self.goes_home_RxC = home_r[:, None] == self.other_c
        saved_RxC = self.goes_home_RxC * costs_g[self.goes_r][:, None]  # noqa: N806  # its shape
        self.cost_RxC = goes_cost[rows][:, None] + comes_cost[columns] - saved_RxC
        self.shift_RxC = self._difference(balance.work_g)
        self.change_RxC = self._changes(state, unit, purse)

    def _difference(self, each_g: np.ndarray) -> np.ndarray:
        """[R, C] amount that leaves the node less the amount that comes."""
        goes_r = np.where(self.goes_r == NOTHING, 0.0, each_g[self.goes_r])
        return goes_r[:, None] - np.where(self.comes_c == NOTHING, 0.0, each_g[self.comes_c])

    def _changes(self, state: SearchState, unit: float, purse: float) -> np.ndarray:
        """[R, C] change of the penalty; infinite where the budget or a constraint forbids the exchange."""
        balance, node, other, shift = state.balance, self.node, self.other_c, self.shift_RxC
        here = _penalties(state, _raw(state, node), node, unit)
        after_here = _penalties(state, _raw(state, node) - shift / balance.capacity_h[node], node, unit)
        there = _penalties(state, _raw(state, other), other, unit)
        after_there = _penalties(state, _raw(state, other) + shift / balance.capacity_h[other], other, unit)
        change = after_here + after_there - (here + there)
        allowed = self.cost_RxC <= purse
        if balance.marked_h.any():
            allowed &= (self.goes_r == NOTHING)[:, None] | ~balance.marked_h[other] | self.goes_home_RxC
        for used_h, (use_g, room_h) in zip(state.used, state.sides, strict=True):
            moved = self._difference(use_g)
            allowed &= (used_h[node] - moved <= room_h[node] + 1e-9) & (used_h[other] + moved <= room_h[other] + 1e-9)
        return np.where(allowed, change, np.inf)

    def moves(self, row: int, column: int) -> list[tuple[int, int]]:
        """Moves (group, node) of one exchange."""
        goes, comes, other = int(self.goes_r[row]), int(self.comes_c[column]), int(self.other_c[column])
        return [(group, node) for group, node in ((goes, other), (comes, self.node)) if group != NOTHING]


def _raw(state: SearchState, nodes: np.ndarray | int) -> np.ndarray:
    """Deviations of nodes in percentage points, negative also for marked nodes below the mean."""
    balance = state.balance
    return np.asarray(state.work_h[nodes] / balance.capacity_h[nodes] - balance.mean)


def _penalties(state: SearchState, deviation: np.ndarray, nodes: np.ndarray | int, unit: float) -> np.ndarray:
    return penalty(state.excess(deviation, nodes) * (1.0 / unit))


def best_exchange(state: SearchState, found: Exchanges) -> tuple[float, list[tuple[int, int]]]:
    """Change of the penalty by the best exchange that the budget pays for, and its moves."""
    change = np.where(found.cost_RxC <= state.left, found.change_RxC, np.inf)
    row, column = np.unravel_index(int(change.argmin()), change.shape)
    return float(change[row, column]), found.moves(int(row), int(column))


def best_paid_exchange(
    state: SearchState, found: Exchanges, unit: float, rng: np.random.Generator
) -> tuple[float, list[tuple[int, int]]]:
    """Change of the penalty by the best exchange that the revert of one other group pays for, and all moves; inf if
    none."""
    balance = state.balance
    reverts = np.flatnonzero(state.moved_g & ~balance.stays_g)
    flat = found.change_RxC.ravel()
    count = min(BEST, len(flat))
    if not len(reverts) or not count:
        return np.inf, []
    if len(reverts) > REVERTS:
        reverts = rng.choice(reverts, REVERTS, replace=False)
    best = np.argpartition(flat, count - 1)[:count]
    best = best[np.isfinite(flat[best])]
    row, column = np.unravel_index(best, found.change_RxC.shape)
    goes, comes = found.goes_r[row][:, None], found.comes_c[column][:, None]
    change = _with_reverts(state, found, unit, (row, column), reverts)
    short = found.cost_RxC[row, column][:, None] - balance.costs_g[reverts] > state.left
    change[short | (goes == reverts) | (comes == reverts)] = np.inf
    for used_h, (use_g, room_h) in zip(state.used, state.sides, strict=True):
        back = balance.home_g[reverts]  # the exchange may use the same room: only what fits beside it counts
        moved = np.abs(np.where(goes == NOTHING, 0.0, use_g[goes]) - np.where(comes == NOTHING, 0.0, use_g[comes]))
        change[used_h[back] + use_g[reverts] + moved > room_h[back] + 1e-9] = np.inf
    if not change.size or not np.isfinite(change.min()):
        return np.inf, []
    k, r = np.unravel_index(int(change.argmin()), change.shape)
    moves = found.moves(int(row[k]), int(column[k]))
    return float(change[k, r]), [(int(reverts[r]), int(balance.home_g[reverts[r]])), *moves]


def _with_reverts(
    state: SearchState, found: Exchanges, unit: float, cells: tuple[np.ndarray, np.ndarray], reverts: np.ndarray
) -> np.ndarray:
    """[K, V] change of the penalty by each of K exchanges and V reverts together; nodes may be the same."""
    balance = state.balance
    capacity_h = balance.capacity_h
    row, column = cells
    shift, other = found.shift_RxC[row, column][:, None], found.other_c[column][:, None]
    work, start, end = balance.work_g[reverts], state.node_g[reverts], balance.home_g[reverts]

    def after(nodes: np.ndarray | int, moved: np.ndarray) -> np.ndarray:
        return _penalties(state, _raw(state, nodes) + moved / capacity_h[nodes], nodes, unit)

    def net(nodes: np.ndarray | int) -> np.ndarray:
        return work * ((end == nodes).astype(float) - (start == nodes).astype(float))

    before_h = _penalties(state, _raw(state, np.arange(len(capacity_h))), np.arange(len(capacity_h)), unit)
    change = after(found.node, net(found.node) - shift) - before_h[found.node]
    change = change + after(np.broadcast_to(other, (len(other), len(reverts))), net(other) + shift) - before_h[other]
    for nodes, sign in ((start, -1.0), (end, 1.0)):
        apart = (nodes != found.node) & (nodes != other)
        change += np.where(apart, after(nodes, sign * work) - before_h[nodes], 0.0)
    return change


# the search ----------------------------------------------------------------------------------------------------------
# Flux comes first, then the best exchanges at the worst nodes, then kicks, until nothing is left to gain.
#
# Effort is counted in looks at a node's neighbourhood, not in seconds, so that a balance has one answer.


OPPOSITE, ALIKE, OTHERS = 16, 4, 8
"""Number of nodes that a node exchanges with: at the other end of the order of loads, at its own end, and at random."""
STUCK = 4
"""Number of worst nodes without a better exchange after which the search is kicked."""
KICKED = 8
"""Number of migrations that a kick takes back."""
WORSE = 0.3
"""Most by which the next start may be worse than the last local optimum, as a part of its distance to the bound."""


@dataclass(frozen=True, slots=True)
class Search:
    """Solver by local search. looks: most neighbourhoods that are looked at; None: 1,500 and 12 for each node above 60.
    seconds: time limit, after which the best so far is returned. band: deviations up to it are as good as none, which
    saves migrations."""

    looks: int | None = None
    seconds: float = np.inf
    band: float = 0.0
    seed: int = 0
    name: str = "search"

    def solve(self, balance: Balance) -> Assignment:
        """Best assignment found; never worse than Flux."""
        bound = counting_bound(balance)
        best = _Climb(self, balance, max(bound, self.band)).best()
        most = max(self.band, balance.distance(best))
        best = pruned(balance, best, most, most)
        return assignment(balance, drained(balance, best, max(self.band, balance.distance(best))), bound)


class _Climb:
    """Descents from several starts, each followed by kicks."""

    def __init__(self, search: Search, balance: Balance, enough: float) -> None:
        self.balance, self.enough, self.band = balance, enough, search.band
        self.rng = random_stream(search.seed, "balancing.search")
        nodes = len(balance.capacity_h)
        self.looks = 1500 + 12 * max(0, nodes - 60) if search.looks is None else search.looks
        self.until_s = time.perf_counter() + search.seconds

    def best(self) -> np.ndarray:
        """[G] nodes of the best assignment found."""
        balance = self.balance
        starts = [flux(balance, best_fit=True), flux(balance, best_fit=False), balance.home_g]
        starts.sort(key=balance.objective)
        best, state = starts[0], SearchState(balance, starts[0], self.band)
        for start in starts[1:]:
            best = self._better(best, self._descended(state, start))
        best = self._better(self._descended(state, starts[0]), best)
        here = best
        while self._goes_on(best):
            found = self._descended(state, self._kicked(here))
            here = found if self._acceptable(found, here) else here
            best = self._better(best, found)
        return best

    def _acceptable(self, found: np.ndarray, here: np.ndarray) -> bool:
        distance = self.balance.distance(here)
        allowed = WORSE * self.rng.random() * (distance - self.enough)
        return self.balance.distance(found) <= distance + allowed

    def _better(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return min(one, other, key=self.balance.objective)

    def _goes_on(self, best: np.ndarray) -> bool:
        left = self.looks > 0 and time.perf_counter() < self.until_s
        return left and self.balance.distance(best) > self.enough + TOLERANCE

    def _descended(self, state: SearchState, start: np.ndarray) -> np.ndarray:
        """Local optimum reached from a start: no exchange at the worst nodes is better."""
        state.put(start)
        stuck = 0
        while stuck < STUCK and self.looks > 0 and time.perf_counter() < self.until_s:
            unit = state.worst
            if unit + self.band <= self.enough + TOLERANCE:
                break
            order = np.argsort(-np.abs(state.deviation_h), kind="stable")
            moves = self._step(state, int(order[min(stuck, len(order) - 1)]), unit)
            stuck = 0 if moves else stuck + 1
            state.move(moves)
        return state.node_g.copy()

    def _step(self, state: SearchState, node: int, unit: float) -> Sequence[tuple[int, int]]:
        """Moves of the best exchange at that node; none if no exchange is better. unit: the load distance."""
        self.looks -= 1
        revert = float(self.balance.costs_g[state.moved_g].max(initial=0.0))
        found = Exchanges(state, node, self._partners(state, node), unit, revert)
        if not found.change_RxC.size:
            return []
        change, moves = best_exchange(state, found)
        if change > -1e-9:
            change, moves = best_paid_exchange(state, found, unit, self.rng)
        return moves if change < -1e-9 else []

    def _partners(self, state: SearchState, node: int) -> np.ndarray:
        nodes = len(state.deviation_h)
        order = np.argsort(state.deviation_h * np.sign(state.deviation_h[node]), kind="stable")
        if nodes > OPPOSITE + ALIKE + OTHERS:
            drawn = self.rng.choice(nodes, OTHERS)
            order = np.unique(np.concatenate([order[:OPPOSITE], order[-ALIKE:], drawn]))
        return order[order != node]

    def _kicked(self, node_g: np.ndarray) -> np.ndarray:
        """[G] nodes with some migrations taken back. If all are few, their number is random and others are begun at
        random, as far as the budget pays; else the search would always restart from home."""
        balance, rng = self.balance, self.rng
        moved = np.flatnonzero(node_g != balance.home_g)
        few = len(moved) <= KICKED
        back = rng.choice(moved, int(rng.integers(len(moved) + 1)) if few else KICKED, replace=False)
        kicked = node_g.copy()
        kicked[back] = balance.home_g[back]
        if balance.violation(kicked):
            return node_g.copy()
        for group in rng.permutation(len(node_g))[: rng.integers(KICKED)] if few else ():
            begun = kicked.copy()
            begun[group] = rng.choice(np.flatnonzero(~balance.marked_h))
            kicked = kicked if balance.violation(begun) else begun
        return kicked
