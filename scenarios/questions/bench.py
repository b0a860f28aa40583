"""Makes the runs of questions: each run once, by an executor. Results do not depend on the executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from scenarios.executing.processes import Processes
from scenarios.executing.progress import Progress
from scenarios.questions.kept import Kept, RunOutcome
from scenarios.questions.measures import measures
from scenarios.questions.single_run import key, run
from twin.engine.measure.standard_errors import NO_ERRORS, few_results
from twin.errors import TooMuch
from twin.executor import Executor
from twin.guards.watch import MOST_S
from twin.run import Run
from twin.scenario import Scenario
from twin.steadiness import filling

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
