"""How well two simulations of the same configurations agree: q-errors, agreement of the binary metrics, bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.validity.cases import Case
from benchmarks.validity.runs import Result, run_all
from benchmarks.validity.selection import MIN_OUTPUTS, exact_jobs, fast_job
from benchmarks.validity.store import Store


def _latency(name: str, part: str) -> Callable[[Result], float]:
    def read(result: Result) -> float:
        latency = result[name]
        return float(latency[part]) if latency else float("nan")

    return read


QUANTITIES: dict[str, Callable[[Result], float]] = {
    "T": lambda result: float(result["throughput_per_s"]),
    "Le": _latency("e2e_latency_s", "mean"),
    "Lp": _latency("processing_latency_s", "mean"),
    "Le p95": _latency("e2e_latency_s", "p95"),
    "Lp p95": _latency("processing_latency_s", "p95"),
}
LIMITS: dict[str, dict[str, tuple[float, float]]] = {
    "costream": {
        "T": (1.02, 1.10),
        "Le": (1.03, 1.25),
        "Lp": (1.03, 1.25),
        "Le p95": (1.05, 1.35),
        "Lp p95": (1.05, 1.35),
    },
    "shared": {"T": (1.02, 1.10), "Le": (1.05, 1.40), "Lp": (1.05, 1.40)},
    "ordinary": {
        "T": (1.02, 1.10),
        "Le": (1.03, 1.25),
        "Lp": (1.03, 1.25),
        "Le p95": (1.05, 1.35),
        "Lp p95": (1.05, 1.35),
    },
}
"""Largest median and 95th percentile of the q-error, fast against exact, by family."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two exact runs and the fast run of each configuration, in the order of the seeds."""

    family: str
    cases: Sequence[Case]
    exact: Sequence[Result]
    second: Sequence[Result]
    fast: Sequence[Result]

    @property
    def rich(self) -> np.ndarray:
        """Where all three runs gave results enough to compare. [cases] of bool"""
        runs = zip(self.exact, self.second, self.fast, strict=True)
        return np.array([min(each["tuples_out"] for each in three) >= MIN_OUTPUTS for three in runs])

    @property
    def behind(self) -> np.ndarray:
        """Where the first exact run is backpressured. [cases] of bool"""
        return np.array([bool(each["backpressured"]) for each in self.exact])

    @property
    def kinds(self) -> np.ndarray:
        """[cases] of str"""
        return np.array([case.kind for case in self.cases])

    def values(self, quantity: str, runs: Sequence[Result]) -> np.ndarray:
        """One a configuration, NaN where there is none. [cases]"""
        return np.array([QUANTITIES[quantity](each) for each in runs])

    def ratio(self, quantity: str, runs: Sequence[Result]) -> np.ndarray:
        """Those runs over the first exact ones. [cases]"""
        return self.values(quantity, runs) / self.values(quantity, self.exact)

    def ratio_to_both(self, quantity: str) -> np.ndarray:
        """Fast over the mean of both exact runs, which has less noise than either. [cases]"""
        both = (self.values(quantity, self.exact) + self.values(quantity, self.second)) / 2
        return self.values(quantity, self.fast) / both

    def agreement(self, metric: str, runs: Sequence[Result]) -> int:
        """In how many configurations a binary metric is that of the first exact run."""
        return sum(one[metric] == other[metric] for one, other in zip(self.exact, runs, strict=True))


def compare(family: str, which: str, cases: Sequence[Case], store: Store, workers: int) -> Comparison:
    """Simulates what is not in the store. which: "heldout" or "dev"."""
    fast = run_all([fast_job(case) for case in cases], store, workers, f"fast runs ({family})")
    done = run_all(exact_jobs(which, cases), store, workers, f"exact runs ({family})")
    return Comparison(family, cases, done[: len(cases)], done[len(cases) :], fast)


def q_errors(ratio: np.ndarray) -> np.ndarray:
    """max(r, 1 / r) of the ratios that are numbers."""
    ratio = ratio[np.isfinite(ratio) & (ratio > 0)]
    return np.maximum(ratio, 1 / ratio)


def cell(errors: np.ndarray) -> str:
    """Median / 95th percentile / maximum."""
    if not len(errors):
        return "-"
    return f"{np.median(errors):.3f} / {np.quantile(errors, 0.95):.3f} / {errors.max():.2f}"


def error_table(found: Comparison) -> list[tuple[str, ...]]:
    """Header and rows: q-errors of the second exact seed and of fast, with the limits and whether they are kept."""
    limits, rich = LIMITS[found.family], found.rich
    rows: list[tuple[str, ...]] = [
        ("quantity", "two exact seeds", "fast against exact", "fast against the mean of both", "limit", "kept")
    ]
    for quantity in QUANTITIES:
        floor = q_errors(found.ratio(quantity, found.second)[rich])
        fast = q_errors(found.ratio(quantity, found.fast)[rich])
        both = q_errors(found.ratio_to_both(quantity)[rich])
        limit = limits.get(quantity)
        kept = "-"
        if limit and len(fast):
            kept = "yes" if np.median(fast) <= limit[0] and np.quantile(fast, 0.95) <= limit[1] else "**no**"
        words = f"{limit[0]:.2f} / {limit[1]:.2f}" if limit else "-"
        rows.append((quantity, cell(floor), cell(fast), cell(both), words, kept))
    size = len(found.cases)
    for name, metric in (("RO", "backpressured"), ("S", "success")):
        least, count = (found.agreement(metric, runs) for runs in (found.second, found.fast))
        kept = "yes" if count >= least else "**no**"
        rows.append((f"{name} agrees", f"{least} of {size}", f"{count} of {size}", "", "two exact seeds", kept))
    return rows


def bias_table(found: Comparison) -> list[tuple[str, ...]]:
    """Header and rows: geometric mean of fast over both exact runs' mean, and the 95th percentile of its q-error, by
    kind of query and by backpressure."""
    rows: list[tuple[str, ...]] = [("configurations", "how many", *(f"{name}" for name in QUANTITIES))]
    groups = {kind: found.kinds == kind for kind in dict.fromkeys(sorted(found.kinds, reverse=True))}
    pressed = {"keeps up": ~found.behind, "backpressured": found.behind}
    masks = {**groups, **pressed, **{f"{a}, {b}": groups[a] & pressed[b] for a in groups for b in pressed}}
    for name, mask in masks.items():
        here = mask & found.rich
        cells = []
        for quantity in QUANTITIES:
            ratio = found.ratio_to_both(quantity)[here]
            ratio = ratio[np.isfinite(ratio)]
            cells.append(
                f"{np.exp(np.mean(np.log(ratio))):.3f} ({np.quantile(q_errors(ratio), 0.95):.2f})"
                if len(ratio)
                else "-"
            )
        rows.append((name, str(int(here.sum())), *cells))
    return rows


def _centre(ratio: np.ndarray) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(ratio))))


def worst_table(found: Comparison, rows: int = 12) -> list[tuple[str, ...]]:
    """Header and rows: the configurations in which fast is furthest off in any quantity, with the ratios fast / exact
    (two exact seeds in brackets)."""
    ratios = np.stack([found.ratio_to_both(quantity) for quantity in QUANTITIES], axis=1)
    furthest = np.where(found.rich, np.nanmax(np.abs(np.log(np.where(ratios > 0, ratios, np.nan))), axis=1), -1.0)
    order = np.argsort(-furthest)[:rows]
    seconds = {quantity: found.ratio(quantity, found.second) for quantity in QUANTITIES}
    table: list[tuple[str, ...]] = [("seed", "kind", "backpressured", "results", *QUANTITIES)]
    for index in order:
        if furthest[index] < 0:
            continue
        cells = [
            f"{ratios[index, column]:.2f} ({seconds[quantity][index]:.2f})"
            for column, quantity in enumerate(QUANTITIES)
        ]
        case = found.cases[index]
        behind = "yes" if found.behind[index] else "no"
        table.append((str(case.seed), case.kind, behind, str(found.exact[index]["tuples_out"]), *cells))
    return table
