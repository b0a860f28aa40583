"""How well fast runs know where operators spend their time: busy, held up by backpressure, idle; operator by operator.

A share of time is right if it is within 2 points, or within 5 %, of what exact runs say: autoscalers, bottleneck
analysis and utilisations in general go by these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.validity.agreement import Comparison
from benchmarks.validity.runs import Result

LIMIT, LIMIT_POINTS = 0.05, 2.0
WITHIN = 0.95
"""Share of the operators that have to be."""
STATES = ("busy", "backpressured", "idle")


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of time in percent, one an operator of a configuration. All [operators]."""

    seeds: Sequence[int]
    operators: Sequence[str]
    exact: np.ndarray
    second: np.ndarray
    fast: np.ndarray

    @property
    def both(self) -> np.ndarray:
        """Mean of the exact runs."""
        return (self.exact + self.second) / 2


def shares(found: Comparison, state: str) -> Shares:
    """Of all configurations' operators, how long they were in that state."""
    runs = zip(found.cases, found.exact, strict=True)
    places = [(case.seed, name) for case, run in runs for name in run["operators"]]
    columns = [_column(each, found.exact, state) for each in (found.exact, found.second, found.fast)]
    return Shares([seed for seed, _ in places], [name for _, name in places], *columns)


def _column(runs: Sequence[Result], order: Sequence[Result], state: str) -> np.ndarray:
    return np.array(
        [
            100.0 * _share(run["operators"][name], state)
            for run, first in zip(runs, order, strict=True)
            for name in first["operators"]
        ]
    )


def _share(operator: dict[str, float], state: str) -> float:
    return 1.0 - operator["busy"] - operator["backpressured"] if state == "idle" else operator[state]


def excess(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Deviation over what is allowed: at most 1 is right. Percent."""
    return np.abs(values - reference) / np.maximum(LIMIT_POINTS, LIMIT * reference)


def busy_table(found: Comparison) -> list[tuple[str, ...]]:
    """Header and rows: by state, the share of operators that are right, and how far the others are off, in points."""
    rows: list[tuple[str, ...]] = [
        ("share of time", "operators", "two exact seeds: within", "off by", "fast: within", "off by", "limit", "kept")
    ]
    for state in STATES:
        each = shares(found, state)
        cells: list[str] = []
        for values, reference in ((each.second, each.exact), (each.fast, each.both)):
            within = float(np.mean(excess(values, reference) <= 1.0))
            off = np.abs(values - reference)
            cells += [f"{100 * within:.1f} %", f"{np.quantile(off, 0.95):.2f} / {off.max():.1f}"]
        kept = "yes" if within >= WITHIN else "**no**"
        limit = f"{100 * WITHIN:.0f} % within {LIMIT_POINTS:g} points or {100 * LIMIT:g} %"
        rows.append((state, str(len(each.operators)), *cells, limit, kept))
    return rows


def default_busy_table(found: Comparison) -> list[tuple[str, ...]]:
    """The same, of runs that leave the fidelity to the simulator."""
    head, *rows = busy_table(found)
    return [tuple(cell.replace("fast", "default") for cell in head), *rows]


def worst_busy_table(found: Comparison, rows: int = 8) -> list[tuple[str, ...]]:
    """Header and rows: the operators whose share of time busy, or held up, fast is furthest off with."""
    entries = []
    for state in STATES[:2]:
        each = shares(found, state)
        off = excess(each.fast, each.both)
        entries += [(off[k], state, each, k) for k in np.argsort(-off)[:rows]]
    entries.sort(key=lambda entry: -entry[0])
    table: list[tuple[str, ...]] = [("seed", "operator", "share of time", "exact %", "second %", "fast %")]
    for _, state, each, k in entries[:rows]:
        numbers = (f"{column[k]:.1f}" for column in (each.exact, each.second, each.fast))
        table.append((str(each.seeds[k]), each.operators[k], state, *numbers))
    return table
