"""Migrations that bring traffic together, chosen together so that no node leaves a band of loads: descents and kicks.

A step carries out the best exchange there is: one migration, or two that make room for each other. Where none is left,
some migrations are taken back and others begun at random, and the descent starts anew. Effort is counted in steps, not
in seconds, so that a balance has one answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.migrations import Migrations, Rows, migrations
from optimizers.balancing.objective import Worth
from optimizers.balancing.traffic import Traffic
from twin.randomness import stream

FIRST = 24
"""Migrations of most gain, and as many of the best change, that are weighed with all that make room for them."""
TRIED = 24
"""Best exchanges that are computed exactly, until one is better than none."""
KICKED = 3
"""Migrations that a kick takes back, at most."""
WORSE = 0.5
"""How much worse than the last local optimum the next start may be, in pairs of mean traffic."""
NOTHING = 1e-6


def met(
    balance: Balance, traffic: Traffic, hot_e: np.ndarray, unit_g: np.ndarray, *, band: float, steps: int
) -> np.ndarray:
    """[G] nodes. hot_e: pairs worth bringing together. unit_g: groups that exchange much already, and may go as one."""
    return _Meeting(Worth(balance, traffic, hot_e, band), Rows.of(unit_g), steps).best()


@dataclass
class _Meeting:
    worth: Worth
    rows: Rows
    steps: int

    def best(self) -> np.ndarray:
        """Of all local optima."""
        worth, rng = self.worth, stream(0, "balancing.gathering")
        nothing_g = np.zeros(len(worth.balance.home_g), bool)
        best = here = self._descended(worth.balance.home_g, nothing_g)
        while self.steps > 0 and not self._done(best):
            found = self._descended(*self._kicked(here, rng))
            if worth.value(found) <= worth.value(here) + WORSE * rng.random():
                here = found
            best = min(best, found, key=worth.rank)
        return best

    def _done(self, node_g: np.ndarray) -> bool:
        """Whether everything is together that is worth it, and no node beyond the band."""
        worth = self.worth
        together_e = node_g[worth.traffic.sender_e] == node_g[worth.traffic.receiver_e]
        return bool(together_e[worth.hot_e].all()) and not worth.rank(node_g)[0]

    def _descended(self, node_g: np.ndarray, held_g: np.ndarray) -> np.ndarray:
        """The local optimum below in which some groups stay where they are, if the steps last."""
        after: np.ndarray | None = node_g
        while after is not None:
            node_g = after
            self.steps -= 1
            after = self._better(node_g, held_g) if self.steps >= 0 else None
        return node_g

    def _better(self, node_g: np.ndarray, held_g: np.ndarray) -> np.ndarray | None:
        """After the best exchange; None if nothing is better."""
        value = self.worth.value(node_g)
        there = migrations(self.worth, self.rows, node_g, held_g)
        for exchange in _exchanges(there):
            after_g = self._after(node_g, there, exchange)
            if self.worth.value(after_g) < value - NOTHING and not self.worth.balance.violation(after_g):
                return after_g
        return None

    def _kicked(self, node_g: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Some migrations are taken back, and one is begun that brings traffic together, whatever else it does; its
        groups are held."""
        balance = self.worth.balance
        moved, kicked_g, held_g = np.flatnonzero(node_g != balance.home_g), node_g.copy(), np.zeros(len(node_g), bool)
        back = rng.choice(moved, min(len(moved), 1 + int(rng.integers(KICKED))), replace=False)
        kicked_g[back] = balance.home_g[back]
        there = migrations(self.worth, self.rows, kicked_g, held_g)
        some = np.flatnonzero(np.isfinite(there.change_m) & (there.gain_m > 0.0))
        if len(some):
            begun = rng.choice(some, 1)
            kicked_g = self._after(kicked_g, there, begun)
            held_g[self.rows[int(there.row_m[begun[0]])]] = True
        return (node_g, held_g) if balance.violation(kicked_g) else (kicked_g, held_g)

    def _after(self, node_g: np.ndarray, there: Migrations, exchange: np.ndarray) -> np.ndarray:
        after_g = node_g.copy()
        for each in exchange:
            after_g[self.rows[int(there.row_m[each])]] = there.to_m[each]
        return after_g


def _exchanges(there: Migrations) -> Iterator[np.ndarray]:
    """Those that look as if they made it better, the best first."""
    if not len(there.row_m):
        return
    single = np.argsort(there.change_m, kind="stable")
    gaining = np.argsort(-there.gain_m, kind="stable")
    pair, change = there.pairs(np.union1d(single[:FIRST], gaining[:FIRST]), TRIED)
    single = single[:TRIED]
    found = [*((float(there.change_m[each]), [each]) for each in single), *zip(change.tolist(), pair.T, strict=True)]
    for looks, exchange in sorted(found, key=lambda each: each[0])[:TRIED]:
        if looks < -NOTHING:
            yield np.asarray(exchange)
