"""Makes the runs of questions, each once, by an executor, and as many as narrow intervals need.

Results do not depend on the executor. Run i of every case has the same seed, so that what differs between cases is not
chance (common random numbers: Law, Simulation Modeling and Analysis, 11.2). The number of runs grows until all
intervals are narrow enough, for all cases alike; the first round is not small, as an interval from few runs that happen
to agree ends the search too early (Law, 9.4.1). Intervals of means have two parts: the error by chance (Student's t),
and the grain of the averaged values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from scenarios.executing import Audience, Processes, Progress
from scenarios.files.documents import Number
from scenarios.measures import measures, of
from scenarios.planning.bench import half_width95
from scenarios.questions.kept import Kept, RunOutcome, key
from twin.errors import BadInput, TooMuch
from twin.guards.watch import MOST_S
from twin.histograms import GROWTH
from twin.metrics import NO_ERRORS, few_results
from twin.randomness import child_seed
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.steadiness import filling
from twin.work import Executor

Job = tuple[Scenario, int]
"""Scenario to run, and its seed."""
Of = Callable[[Scenario, int], RunOutcome]
"""Function that runs a scenario with a seed, and returns the outcome to keep."""


def outcome(scenario: Scenario, seed: int, most_s: float = MOST_S) -> RunOutcome:
    """Makes one run, and returns its outcome."""
    return outcome_of(run(scenario, seed, most_s=most_s))


def outcome_of(made: Run, course: Mapping[str, Sequence[float]] | None = None) -> RunOutcome:
    """Outcome of a run, without the warnings that questions judge by all runs together. course: columns by period to
    keep."""
    alone = [*few_results(made.metrics.throughput_per_s, made.standard_errors), *filling(made.full)]
    warnings = tuple(each for each in made.warnings if each not in alone and not each.startswith(NO_ERRORS))
    return RunOutcome(measures(made), warnings, course, made.cpu_s)


def _made(of: Of, job: Job) -> RunOutcome | TooMuch:
    try:
        return of(*job)
    except TooMuch as error:  # who asked for the run knows more about it
        return error


class Bench:
    """Makes runs and remembers their outcomes. It is a context manager, to be left when no more runs are wanted.

    executor: makes the runs, and ends with the context; None: processes, one a core. of: makes a run, and returns its
    outcome.
    """

    def __init__(self, executor: Executor | None = None, of: Of = outcome, kept: Kept | None = None) -> None:
        self.kept = kept or Kept()
        self.made = 0
        self._took_s = self._simulated_s = 0.0
        self._labels: dict[str, str] = {}
        self._work = partial(_made, of)  # so that other processes can receive it
        self._executor = executor or Processes()
        self._keys: dict[int, tuple[Scenario, str]] = {}

    def __enter__(self) -> Self:
        self._executor.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._executor.__exit__(kind, error, at)

    def label(self, scenario: Scenario, label: str) -> None:
        """Notes what a scenario is called, if one of its runs takes too much."""
        self._labels[self._known(scenario)] = f"{label}: "

    def outcomes(self, jobs: Sequence[Job], report: Progress = lambda _done, _total: None) -> list[RunOutcome]:
        """Outcome of each job, in order. Known runs are not made again. report: called with (done, total) of all jobs.

        Raises BadInput as `twin.simulation.simulate` does, with the scenario's label if a run takes too much.
        """
        keys = [self._key(*job) for job in jobs]
        new = {name: job for name, job in zip(keys, jobs, strict=True) if name not in self.kept.outcomes}
        if not new:
            return [self.kept.outcomes[name] for name in keys]
        names, times, known = list(new), Counter(keys), sum(name not in new for name in keys)
        report(known, len(keys))

        def done(position: int, made: RunOutcome | TooMuch) -> None:
            nonlocal known
            scenario = new[names[position]][0]
            if isinstance(made, TooMuch):
                raise TooMuch(f"{self._labels.get(self._known(scenario), '')}{made}")
            self.kept.add(names[position], made)
            self.made += 1
            self._took_s += made.cpu_s
            self._simulated_s += scenario.run.horizon_s if made.cpu_s else 0.0
            known += times[names[position]]
            report(known, len(keys))

        self._executor.each(self._work, [*new.values()], done)
        return [self.kept.outcomes[name] for name in keys]

    def missing(self, jobs: Sequence[Job]) -> list[Scenario]:
        """Scenarios of the runs that `outcomes` would make for these jobs."""
        new = {self._key(*job): job for job in jobs}
        return [scenario for name, (scenario, _) in new.items() if name not in self.kept.outcomes]

    def took_s(self, scenarios: Sequence[Scenario]) -> float | None:
        """CPU seconds of a run of each, if a simulated second takes as long as in the runs so far; None before them."""
        if not self._simulated_s:
            return None
        return sum(each.run.horizon_s for each in scenarios) * self._took_s / self._simulated_s

    def _key(self, scenario: Scenario, seed: int) -> str:
        return f"{self._known(scenario)}-{seed}"

    def _known(self, scenario: Scenario) -> str:
        """Key of a scenario."""
        if id(scenario) not in self._keys:  # the scenario is kept, so that no other object gets its id
            self._keys[id(scenario)] = (scenario, key(scenario))
        return self._keys[id(scenario)][1]


def run(scenario: Scenario, seed: int, looks: int = 0, most_s: float = MOST_S) -> Run:
    """Makes a run, as `twin.simulation.simulate` does; the same arguments give the same run."""
    return simulate(scenario.with_run(seed=seed), looks=looks, most_s=most_s)


FEWEST = 2
USUAL = 10
MOST = 500
"""Most runs of a case for `precision`; more are made only if their number is given."""
MOST_MORE = 4
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
        count = min(MOST, MOST_MORE * count, needed)


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


QUANTILE_GRAIN = math.sqrt(GROWTH) - 1.0
"""Relative error of a quantile, the middle of a histogram's bucket: in every run the true one may be at an edge."""
NOISE = 1e-12
"""Share of a mean below which a spread is due to rounding of sums."""


class Interval(NamedTuple):
    """Mean with its errors: +- chance (95 %; None if it is not known), and +- grain, however many runs there are."""

    mean: float
    chance: float | None
    grain: float

    @property
    def half_width95(self) -> float | None:
        """Half of the 95 % interval: chance and grain together; None if chance is not known."""
        return None if self.chance is None else self.chance + self.grain


@dataclass(frozen=True, slots=True)
class MeanOfRuns:
    """A mean over runs, half its 95 % interval, and the runs' own values; null where a run has no finite one."""

    mean: Number
    half_width95: Number
    values: tuple[Number, ...]


def of_mean(values: np.ndarray, metric: str) -> Interval:
    """Mean of one case with its errors. values: [R], one for each run."""
    mean = float(np.mean(values))
    return Interval(mean, _chance(values), grain(metric) * abs(mean) if math.isfinite(mean) else 0.0)


def of_difference(values: np.ndarray, first: np.ndarray, metric: str) -> Interval:
    """Mean of `values` - `first` with its errors; both are [R] over the same runs, and finite."""
    both = abs(float(np.mean(values))) + abs(float(np.mean(first)))
    return Interval(float(np.mean(values - first)), _chance(values - first, both), grain(metric) * both)


def runs_for(values: np.ndarray, half_width: float, most: int) -> int:
    """Number of runs that narrow half of the 95 % interval of their mean to `half_width`, if they vary as these [R] do:
    at least R, and at most `most`."""
    from scipy.special import stdtrit  # here, because most commands need no SciPy

    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    counts = np.arange(len(values), max(most, len(values)))
    enough = stdtrit(counts - 1, 0.975) * spread <= half_width * np.sqrt(counts)
    return int(counts[enough][0]) if enough.any() else max(most, len(values))


def p_value(apart: np.ndarray, grain: float = 0.0) -> float:
    """p-value of paired differences `apart` [R], R >= 2: the probability of a mean so far beyond the grain by chance.

    Two-sided, Student's t.
    """
    beyond, spread = max(0.0, abs(float(np.mean(apart))) - grain), float(np.std(apart, ddof=1))
    if spread == 0.0 or beyond == 0.0:
        return 0.0 if beyond else 1.0
    from scipy.special import stdtr  # here, because most commands need no SciPy

    return float(2.0 * stdtr(len(apart) - 1, -beyond / spread * math.sqrt(len(apart))))


def grain(metric: str) -> float:
    """Grain of a metric, as a share of its value."""
    return QUANTILE_GRAIN if metric.rpartition(".")[2] in ("p50", "p95", "p99") else 0.0


def _chance(values: np.ndarray, scale: float | None = None) -> float | None:
    half = half_width95(values)
    size = abs(float(np.mean(values))) if scale is None else scale
    return 0.0 if half is not None and half < NOISE * size else half
