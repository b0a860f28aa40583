"""The any-time engine: Flux, then the best exchanges at the worst nodes, then kicks, until nothing is left to gain.

Effort is counted in looks at a node's neighbourhood, not in seconds, so that a balance has one answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.bounds import counting_bound
from optimizers.balancing.exchanges import Exchanges, best_exchange, best_paid_exchange
from optimizers.balancing.flux import flux
from optimizers.balancing.interface import TOLERANCE, Assignment, assignment
from optimizers.balancing.state import SearchState, drained, pruned
from twin.randomness import random_stream

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
