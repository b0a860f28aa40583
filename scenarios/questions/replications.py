"""Runs several cases on the same random numbers, as often as needed for narrow intervals.

Run i of every case has the same seed, so that what differs between cases is not chance (common random numbers: Law,
Simulation Modeling and Analysis, 11.2). The number of runs grows until all intervals are narrow enough, for all cases
alike; the first round is not small, as an interval from few runs that happen to agree ends the search too early
(Law, 9.4.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scenarios.executing.progress import Audience
from scenarios.questions.bench import Bench
from scenarios.questions.intervals import Interval, of_difference, of_mean
from scenarios.questions.kept import RunOutcome
from scenarios.questions.measures import of
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.scenario import Scenario

FEWEST = 2
USUAL = 10
MOST = 500
"""Most runs of a case for `precision`; more are made only if their number is given."""
GROWTH = 4
"""Largest factor from the runs of a round to those of the next, as the first runs tell little of the number needed."""
SPARE = 1.05
"""Factor on the number of runs that the intervals so far ask for, so that another round is seldom needed."""


class Wanted(NamedTuple):
    """Number of runs. runs: of each case, or in the first round. precision: wanted half of the interval by chance, as a
    share of the mean; None if the number of runs is fixed."""

    runs: int = USUAL
    precision: float | None = None

    def check(self) -> None:
        """Raises BadInput if there would be no interval."""
        if self.runs < FEWEST:
            raise BadInput(f"--replications {self.runs}: an interval takes at least {FEWEST} runs")


class Samples(NamedTuple):
    """Outcomes [cases][runs]. needed: number of runs of each case that the precision would take; 0 if it is reached."""

    outcomes: list[list[RunOutcome]]
    needed: int = 0

    @property
    def runs(self) -> int:
        """Number of runs of each case."""
        return len(self.outcomes[0])

    def values(self, case: int, metric: str) -> np.ndarray:
        """[runs] values of a metric in all runs of one case."""
        return np.array([of(outcome.measures, metric) for outcome in self.outcomes[case]])


def replicate(
    bench: Bench, cases: Sequence[Scenario], metrics: Sequence[str], wanted: Wanted, seed: int, audience: Audience
) -> Samples:
    """Runs all cases until the precision is reached; others are compared with the first case. Raises BadInput as
    `Wanted.check`."""
    wanted.check()
    count = wanted.runs
    while True:
        samples = Samples(_runs(bench, cases, count, seed, audience))
        needed = runs_needed(samples, metrics, wanted.precision)
        if needed <= count or count >= MOST:
            return Samples(samples.outcomes, needed if needed > count else 0)
        count = min(MOST, GROWTH * count, needed)


def runs_needed(samples: Samples, metrics: Sequence[str], precision: float | None) -> int:
    """Number of runs of each case that the precision takes, judged by the samples; at least as many as there are.

    An interval that has no width, or whose values are not all finite, asks for no more runs.
    """
    if precision is None:
        return samples.runs
    worst = max((_worst(samples, metric) for metric in metrics), default=0.0) / precision
    return samples.runs if worst <= 1.0 else math.ceil(SPARE * samples.runs * worst**2)


def _worst(samples: Samples, metric: str) -> float:
    """Widest interval by chance, of a mean or of a difference from the first case, as a share of the mean."""
    first = samples.values(0, metric)
    shares = [0.0]
    for case in range(len(samples.outcomes)):
        values = samples.values(case, metric)
        shares.append(_share(of_mean(values, metric), float(np.mean(values))))
        if np.all(np.isfinite(first)) and np.all(np.isfinite(values)):
            shares.append(_share(of_difference(values, first, metric), float(np.mean(first))))
    return max(shares)


def _share(interval: Interval, scale: float) -> float:
    return interval.chance / abs(scale) if interval.chance and scale else 0.0


def _runs(bench: Bench, cases: Sequence[Scenario], count: int, seed: int, audience: Audience) -> list[list[RunOutcome]]:
    jobs = [(case, child_seed(seed, index)) for index in range(count) for case in cases]
    known = to_go(bench, bench.missing(jobs))
    audience.stage(f"{len(cases)} variants, {count} runs of each, the same random numbers for all{known}")
    with audience.progress("runs") as report:
        outcomes = bench.outcomes(jobs, report)
    return [outcomes[case :: len(cases)] for case in range(len(cases))]


def to_go(bench: Bench, missing: Sequence[Scenario]) -> str:
    """Words on how long the missing runs take, behind their number, if that is known."""
    cpu_s = bench.took_s(missing)
    if not missing:
        return ": all known already"
    return "" if cpu_s is None else f": about {cpu_s:.2g} CPU seconds to go"
