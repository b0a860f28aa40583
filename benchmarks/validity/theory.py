"""The simulator against queueing theory: one `Check` a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from benchmarks.validity.check import Check
from benchmarks.validity.runs import run_all
from benchmarks.validity.store import Store
from benchmarks.validity.theory_dealing import dealing_checks
from benchmarks.validity.theory_inputs import input_checks
from benchmarks.validity.theory_queues import queue_checks

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


def limit_se(seeds: int, known: float = LIMIT_SE) -> float:
    """How many standard errors, estimated from so many seeds, mean as much as `known` ones would.

    Student's t of the same probability of a false alarm: 6 in 100,000 for four.
    """
    return float(t.isf(norm.sf(known), seeds - 1))


def examine(store: Store, workers: int, scale: str) -> list[Finding]:
    """All checks, simulated where the store lacks them."""
    listed = checks()
    runs = [check.jobs(SEEDS, LENGTH[scale]) for check in listed]
    results = iter(run_all([job for each in runs for job in each], store, workers, "runs against theory"))
    found = []
    for check, mine in zip(listed, runs, strict=True):
        values = np.array([check.read(next(results)) for _ in mine])
        found.append(Finding(check, float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))))
    return found


def checks() -> list[Check]:
    """Every law that the simulator is held to."""
    return [*queue_checks(), *input_checks(), *dealing_checks()]


def theory_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows: all cases."""
    return [("law", "case", *NUMBERS), *((each.check.law, each.check.case, *_numbers(each)) for each in findings)]


def law_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows: a law each, with the case that is farthest off; its limit is kept if it is in all cases."""
    rows: list[tuple[str, ...]] = [("law", "cases", "farthest off", *NUMBERS)]
    for law in dict.fromkeys(each.check.law for each in findings):
        cases = [each for each in findings if each.check.law == law]
        farthest = min(cases, key=lambda each: (each.kept, -abs(each.off_se)))
        rows.append((law, str(len(cases)), farthest.check.case, *_numbers(farthest)))
    return rows


def farthest(laws: Sequence[tuple[str, ...]], count: int) -> list[tuple[str, ...]]:
    """Header and the rows of a law table that are farthest off, those whose limit is not kept first."""
    header, *rows = laws
    off, kept = header.index("off by s.e."), header.index("kept")
    return [header, *sorted(rows, key=lambda row: (row[kept] == "yes", -abs(float(row[off]))))[:count]]


NUMBERS = ("theory", "simulated", "off by s.e.", "kept")


def _numbers(found: Finding) -> tuple[str, ...]:
    theory = f"{found.check.expected:.4g} {found.check.unit}".strip()
    simulated = f"{found.mean:.4g} ± {found.error:.2g}"
    return theory, simulated, f"{found.off_se:+.1f}", "yes" if found.kept else "**no**"
