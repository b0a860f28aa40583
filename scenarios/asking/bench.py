"""Where runs are made: each once, on as many processes as there are cores. How many makes no difference to results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import TracebackType
from typing import Self

from scenarios.asking.kept import Kept, Outcome
from scenarios.asking.measures import measures
from scenarios.asking.single_run import key, run
from scenarios.planning.processes import processes
from scenarios.telling.progress import Progress
from twin.engine.measure.standard_errors import few_results
from twin.errors import BadInput
from twin.guards.effort import require_feasible
from twin.guards.fidelity import settled
from twin.run import Run
from twin.scenario import Scenario

STARTED_S = 2.0
"""CPU seconds of runs for which it is worth while to start processes."""

Job = tuple[Scenario, int]
"""What is run, and its seed."""


def outcome(scenario: Scenario, seed: int) -> Outcome:
    """Of one run."""
    return outcome_of(run(scenario, seed))


def outcome_of(made: Run, course: Mapping[str, Sequence[float]] | None = None) -> Outcome:
    """What is kept of a run, without the warning that it says little alone. course: besides its measures."""
    alone = few_results(made.metrics.throughput_per_s, made.standard_errors)
    return Outcome(measures(made), tuple(each for each in made.warnings if each not in alone), course)


def effort_s(scenario: Scenario) -> float:
    """CPU seconds of a run, roughly. Raises BadInput if it would not finish within hours."""
    return require_feasible(scenario, settled(scenario).run, scenario.events).cpu_s


class Bench:
    """Makes runs and remembers them; to be left, as a context, when no more are wanted.

    workers: processes; absent: one a core. of: what is kept of a run. Raises BadInput for fewer workers than 1.
    """

    def __init__(
        self, kept: Kept | None = None, workers: int | None = None, of: Callable[[Scenario, int], Outcome] = outcome
    ) -> None:
        if workers is not None and workers < 1:
            raise BadInput(f"--workers {workers}: at least 1")
        self.kept = kept or Kept()
        self.made = 0
        self._of = of
        self._workers = workers or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._keys: dict[int, tuple[Scenario, str, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def check(self, scenario: Scenario) -> None:
        """Raises BadInput if a run would not finish within hours."""
        self._known(scenario)

    def outcomes(self, jobs: Sequence[Job], report: Progress = lambda _done, _total: None) -> list[Outcome]:
        """Of each job, in order; what is known already is not made again. report: told (done, total) new runs.

        Raises BadInput as `twin.simulation.simulate` does.
        """
        keys = [self._key(*job) for job in jobs]
        new = {each: job for each, job in zip(keys, jobs, strict=True) if each not in self.kept.outcomes}
        report(0, max(1, len(new)))
        for done, (each, found) in enumerate(self._made(new), start=1):
            self.kept.add(each, found)
            self.made += 1
            report(done, len(new))
        return [self.kept.outcomes[each] for each in keys]

    def missing_s(self, jobs: Sequence[Job]) -> float:
        """CPU seconds that `outcomes` would take, roughly."""
        new = {self._key(*job): job for job in jobs}
        return sum(self._known(scenario)[2] for each, (scenario, _) in new.items() if each not in self.kept.outcomes)

    def _made(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Outcome]]:
        """In the order in which they are finished."""
        few = len(jobs) < 2 or (self._pool is None and self.missing_s([*jobs.values()]) < STARTED_S)
        if few or self._workers == 1:
            for each, job in jobs.items():
                yield each, self._of(*job)
            return
        futures = {self._processes().submit(self._of, *job): each for each, job in jobs.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = processes(self._workers)
        return self._pool

    def _key(self, scenario: Scenario, seed: int) -> str:
        return f"{self._known(scenario)[1]}-{seed}"

    def _known(self, scenario: Scenario) -> tuple[Scenario, str, float]:
        if id(scenario) not in self._keys:  # it is kept, so that no other gets its identity
            self._keys[id(scenario)] = (scenario, key(scenario), effort_s(scenario))
        return self._keys[id(scenario)]
