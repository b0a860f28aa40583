"""Two exact runs and a fast one of the same configurations, and how far they are from each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.validity.cases import Case
from benchmarks.validity.runs import Result, run_all
from benchmarks.validity.selection import MIN_OUTPUTS, default_job, exact_jobs, fast_job, keeps_up, long_job
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
FAR = 2.0
"""A factor by which no fast run may be off without a warning in its result."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two exact runs and the fast run of each configuration, in the order of the seeds.

    long: fast runs of the default length, whose segments are as coarse as most users' are, of those configurations
    that keep up; None of the others, and of families whose runs have that length anyway. default: runs that leave
    the fidelity to the simulator; empty of families of which it follows none exactly.
    """

    family: str
    cases: Sequence[Case]
    exact: Sequence[Result]
    second: Sequence[Result]
    fast: Sequence[Result]
    long: Sequence[Result | None] = ()
    default: Sequence[Result] = ()

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

    def silently_far(self) -> list[int]:
        """Seeds whose fast run is further off than `FAR` from both exact runs in any quantity, and says nothing."""
        far = np.zeros(len(self.cases), bool)
        for quantity in QUANTITIES:
            fast = self.values(quantity, self.fast)
            ratios = np.stack([fast / self.values(quantity, runs) for runs in (self.exact, self.second)])
            with np.errstate(invalid="ignore"):
                far |= np.all(np.maximum(ratios, 1 / ratios) > FAR, axis=0)
        silent = np.array([not each["warnings"] for each in self.fast])
        return [case.seed for case, found in zip(self.cases, far & silent & self.rich, strict=True) if found]

    def at_length(self) -> Comparison | None:
        """The same with the fast runs of the default length; None if there are none."""
        some = [index for index, each in enumerate(self.long) if each is not None]
        if not some:
            return None
        parts = [[runs[index] for index in some] for runs in (self.cases, self.exact, self.second, self.long)]
        return Comparison(self.family, *parts)  # type: ignore[arg-type]

    def by_default(self) -> Comparison | None:
        """The same with the runs that leave the fidelity to the simulator; None if there are none."""
        return Comparison(self.family, self.cases, self.exact, self.second, self.default) if self.default else None


def compare(family: str, which: str, cases: Sequence[Case], store: Store, workers: int) -> Comparison:
    """Simulates what is not in the store. which: "heldout" or "dev"."""
    fast = run_all([fast_job(case) for case in cases], store, workers, f"fast runs ({family})")
    long: list[Result | None] = []
    default: list[Result] = []
    if family == "ordinary":
        some = [case for case in cases if keeps_up(case)]
        done = iter(run_all([long_job(case) for case in some], store, workers, f"long fast runs ({family})"))
        seeds = {case.seed for case in some}
        long = [next(done) if case.seed in seeds else None for case in cases]
        default = run_all([default_job(case) for case in cases], store, workers, f"runs by default ({family})")
    exact = run_all(exact_jobs(which, cases), store, workers, f"exact runs ({family})")
    return Comparison(family, cases, exact[: len(cases)], exact[len(cases) :], fast, long, default)


def q_errors(ratio: np.ndarray) -> np.ndarray:
    """max(r, 1 / r) of the ratios that are numbers."""
    ratio = ratio[np.isfinite(ratio) & (ratio > 0)]
    return np.maximum(ratio, 1 / ratio)
