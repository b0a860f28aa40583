"""Compares the simulator with queueing theory: one `Check` for each case of a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm, t

from benchmarks.validity.check import Check
from benchmarks.validity.runs import results_of
from benchmarks.validity.theory_queues import queue_checks
from benchmarks.validity.theory_streams import stream_checks

SEEDS = 12
LENGTH = {"small": 0.25, "full": 1.0}
LIMIT_SE = 4.0
"""Limit of a deviation in standard errors if they were known; `limit_se` allows for their estimation."""
CLOSE = 0.005
"""Relative deviation from theory that is always right, however small the standard error."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of a check: mean and standard error over `SEEDS` seeds."""

    check: Check
    mean: float
    error: float

    @property
    def off_se(self) -> float:
        """Deviation from theory in standard errors."""
        return (self.mean - self.check.expected) / max(self.error, 1e-12 * self.check.expected)

    @property
    def kept(self) -> bool:
        """Whether the deviation is within `limit_se` standard errors, or `CLOSE`."""
        return abs(self.off_se) <= limit_se(SEEDS) or abs(self.mean / self.check.expected - 1) < CLOSE

    @property
    def words(self) -> tuple[str, ...]:
        """Cells of a table, in the order of NUMBERS."""
        theory = f"{self.check.expected:.4g} {self.check.unit}".strip()
        simulated = f"{self.mean:.4g} ± {self.error:.2g}"
        return theory, simulated, f"{self.off_se:+.1f}", "yes" if self.kept else "**no**"


def limit_se(seeds: int, known: float = LIMIT_SE) -> float:
    """Number of standard errors, estimated from `seeds` seeds, that means as much as `known` ones would.

    Student's t of the same probability of a false alarm: 6 in 100,000 for four.
    """
    return float(t.isf(norm.sf(known), seeds - 1))


def examine(cache: Path, scale: str) -> list[Finding]:
    """Findings of all checks, simulated where the folder of finished runs lacks them."""
    listed, found = checks(), []
    results = iter(results_of([run for check in listed for run in check.runs(SEEDS, LENGTH[scale])], cache))
    for check in listed:
        values = np.array([check.read(next(results)) for _ in range(SEEDS)])
        found.append(Finding(check, float(values.mean()), float(values.std(ddof=1) / np.sqrt(SEEDS))))
    return found


def checks() -> list[Check]:
    """Checks of every law that the simulator is held to."""
    return [*queue_checks(), *stream_checks()]


NUMBERS = ("theory", "simulated", "off by s.e.", "kept")


def theory_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows of all cases."""
    return [("law", "case", *NUMBERS), *((each.check.law, each.check.case, *each.words) for each in findings)]


def law_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows, one for each law, with its case that is farthest off; the farthest laws first.

    A case that is not kept counts as farther off than one that is.
    """
    laws: dict[str, list[Finding]] = {}
    for each in sorted(findings, key=lambda each: (each.kept, -abs(each.off_se))):
        laws.setdefault(each.check.law, []).append(each)
    rows = [(law, str(len(cases)), cases[0].check.case, *cases[0].words) for law, cases in laws.items()]
    return [("law", "cases", "farthest off", *NUMBERS), *rows]
