"""The simulator against queueing theory: one `Check` a law."""

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
"""If standard errors were known; see `limit_se`."""
CLOSE = 0.005
"""A mean that is within such a share of theory is right, however small its standard error."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's outcome: mean and standard error over `SEEDS` seeds."""

    check: Check
    mean: float
    error: float

    @property
    def off_se(self) -> float:
        """Deviation from theory in standard errors."""
        return (self.mean - self.check.expected) / max(self.error, 1e-12 * self.check.expected)

    @property
    def kept(self) -> bool:
        """Whether it is within `limit_se` standard errors, or `CLOSE`."""
        return abs(self.off_se) <= limit_se(SEEDS) or abs(self.mean / self.check.expected - 1) < CLOSE

    @property
    def words(self) -> tuple[str, ...]:
        """Cells of a table, as NUMBERS says."""
        theory = f"{self.check.expected:.4g} {self.check.unit}".strip()
        simulated = f"{self.mean:.4g} ± {self.error:.2g}"
        return theory, simulated, f"{self.off_se:+.1f}", "yes" if self.kept else "**no**"


def limit_se(seeds: int, known: float = LIMIT_SE) -> float:
    """How many standard errors, estimated from so many seeds, mean as much as `known` ones would.

    Student's t of the same probability of a false alarm: 6 in 100,000 for four.
    """
    return float(t.isf(norm.sf(known), seeds - 1))


def examine(cache: Path, scale: str) -> list[Finding]:
    """All checks, simulated where the folder of finished runs lacks them."""
    listed, found = checks(), []
    results = iter(results_of([run for check in listed for run in check.runs(SEEDS, LENGTH[scale])], cache))
    for check in listed:
        values = np.array([check.read(next(results)) for _ in range(SEEDS)])
        found.append(Finding(check, float(values.mean()), float(values.std(ddof=1) / np.sqrt(SEEDS))))
    return found


def checks() -> list[Check]:
    """Every law that the simulator is held to."""
    return [*queue_checks(), *stream_checks()]


NUMBERS = ("theory", "simulated", "off by s.e.", "kept")


def theory_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows: all cases."""
    return [("law", "case", *NUMBERS), *((each.check.law, each.check.case, *each.words) for each in findings)]


def law_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows: a law each, with its case that is farthest off; the farthest laws first.

    What is not kept counts as farther off than what is.
    """
    laws: dict[str, list[Finding]] = {}
    for each in sorted(findings, key=lambda each: (each.kept, -abs(each.off_se))):
        laws.setdefault(each.check.law, []).append(each)
    rows = [(law, str(len(cases)), cases[0].check.case, *cases[0].words) for law, cases in laws.items()]
    return [("law", "cases", "farthest off", *NUMBERS), *rows]
