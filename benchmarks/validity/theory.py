"""The simulator against queueing theory: one `Check` a law, exact and fast side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm, t

from benchmarks.validity.check import FULL_LENGTH, Check
from benchmarks.validity.runs import Job, run_all
from benchmarks.validity.store import Store
from benchmarks.validity.theory_dealing import dealing_checks
from benchmarks.validity.theory_inputs import input_checks
from benchmarks.validity.theory_queues import queue_checks
from twin.scenario import Fidelity

SEEDS: dict[str, dict[Fidelity, int]] = {"small": {"exact": 12, "fast": 3}, "full": {"exact": 12, "fast": 12}}
"""By scale and fidelity. A standard error from three seeds is itself a draw, and says little of how sure a mean is."""
LENGTH = {"small": 0.25, "full": FULL_LENGTH}
EXACT_LIMIT_SE = 4.0
"""If standard errors were known; see `limit_se`."""
FAST_LIMIT = 0.07
BUSY_LIMIT, BUSY_LIMIT_POINTS = 0.05, 2.0
"""Of the share of time that an operator is busy: whichever is more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's outcome: mean and standard error over so many seeds, by fidelity. warned: of those whose runs all said
    in their warnings that they do not resolve something."""

    check: Check
    mean: dict[Fidelity, float]
    error: dict[Fidelity, float]
    seeds: dict[Fidelity, int]
    warned: set[Fidelity] = field(default_factory=set)

    @property
    def reference(self) -> float:
        """What theory says; where it says nothing, what exact runs do."""
        return self.mean["exact"] if self.check.expected is None else self.check.expected

    def off_se(self, fidelity: Fidelity) -> float:
        """Deviation from the reference in standard errors."""
        return (self.mean[fidelity] - self.reference) / max(self.error[fidelity], 1e-12 * self.reference)

    def off(self, fidelity: Fidelity) -> float:
        """Relative deviation from the reference."""
        return self.mean[fidelity] / self.reference - 1

    def kept(self, fidelity: Fidelity) -> bool:
        """Exact: within `limit_se` standard errors, or half a percent. Fast: within 7 % and two standard errors.

        Busy times of fast runs: within 5 % or 2 points, and two standard errors.
        """
        if fidelity == "exact":
            return abs(self.off_se("exact")) <= limit_se(self.seeds["exact"]) or abs(self.off("exact")) < 0.005
        error = self.error["fast"]
        if self.check.expected is None:
            error = float(np.hypot(error, self.error["exact"]))
        limit = FAST_LIMIT
        if self.check.busy:
            limit = max(BUSY_LIMIT, BUSY_LIMIT_POINTS / self.reference)
        return abs(self.off("fast")) <= limit + 2 * error / self.reference


def limit_se(seeds: int, known: float = EXACT_LIMIT_SE) -> float:
    """How many standard errors, estimated from so many seeds, mean as much as `known` ones would.

    Student's t of the same probability of a false alarm: 6 in 100,000 for four.
    """
    return float(t.isf(norm.sf(known), seeds - 1))


def examine(store: Store, workers: int, scale: str) -> list[Finding]:
    """All checks, simulated where the store lacks them."""
    seeds = SEEDS[scale]
    listed = [(check, fidelity) for check in checks() for fidelity in check.fidelities]
    runs = [check.jobs(fidelity, seeds[fidelity], LENGTH[scale]) for check, fidelity in listed]
    results = iter(run_all([job for each in runs for job in each], store, workers, "runs against theory"))
    found: dict[int, Finding] = {}
    for (check, fidelity), mine in zip(listed, runs, strict=True):
        measured = [next(results) for _ in mine]
        values = np.array([check.read(each) for each in measured])
        finding = found.setdefault(id(check), Finding(check, {}, {}, seeds))
        finding.mean[fidelity] = float(values.mean())
        finding.error[fidelity] = float(values.std(ddof=1) / np.sqrt(len(values)))
        if all(each["warnings"] for each in measured):
            finding.warned.add(fidelity)
    return list(found.values())


def jobs(scale: str, fidelity: Fidelity) -> list[Job]:
    """The runs of all checks."""
    some = (check for check in checks() if fidelity in check.fidelities)
    return [job for check in some for job in check.jobs(fidelity, SEEDS[scale][fidelity], LENGTH[scale])]


def checks() -> list[Check]:
    """Every law that the simulator is held to."""
    return [*queue_checks(), *input_checks(), *dealing_checks()]


def theory_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows."""
    rows: list[tuple[str, ...]] = [
        ("law", "case", "theory", "exact", "off by s.e.", "kept", "fast", "off by %", "kept")
    ]
    for each in findings:
        check, cells = each.check, []
        for fidelity in ("exact", "fast"):
            if fidelity not in each.mean:
                cells += ["-", "-", "-"]
                continue
            value = f"{each.mean[fidelity]:.4g} ± {each.error[fidelity]:.2g}"
            if fidelity == "exact" and check.expected is None:
                cells += [value, "-", "-"]
                continue
            off = f"{each.off_se('exact'):+.1f}" if fidelity == "exact" else f"{100 * each.off('fast'):+.1f}"
            missed = "**no**, says so" if fidelity in each.warned else "**no**"
            cells += [value, off, "yes" if each.kept(fidelity) else missed]
        expected = "-" if check.expected is None else f"{check.expected:.4g} {check.unit}".strip()
        rows.append((check.law, check.case, expected, *cells))
    return rows
