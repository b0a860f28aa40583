"""Desk of one job: its present state on the page, and the results that are ready: runs, a comparison, a film.

The run at the scenario's own seed is the one that `twin run` prints. For the comparison, pairs of runs on the same
random numbers follow, those of `twin whatif`, and intervals narrow as they come.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from scenarios.beside import PredictionBesideRuns
from scenarios.doubts import doubts
from scenarios.questions.bench import outcome
from scenarios.questions.kept import RunOutcome
from scenarios.questions.measures import USUAL
from scenarios.questions.replications import Samples, Wanted
from scenarios.questions.single_run import key, run
from scenarios.questions.variants import Variant
from scenarios.questions.whatif import VariantsCompared, answer
from streamtwin.serve.film import Film, filmed
from streamtwin.serve.inquiry import PAIRS, SET, Alteration, Inquiry, given
from streamtwin.serve.workers import Made, RunTask, Workers
from streamtwin.tables.tables import number, seconds
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario

TOO_LONG_S = 60.0
"""CPU seconds that a run may still take, after its first, to be made on the page."""


@dataclass
class Asked:
    """State of an inquiry. Raises BadInput if the scenario cannot be read, or does not take the changes."""

    inquiry: Inquiry
    since_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.given = given(self.inquiry.name)
        self.now = self.inquiry.scenario()
        self.before = self.inquiry.scenario(self.inquiry.earlier) if self.inquiry.changes else None
        self.key = _key(self.now)

    @cached_property
    def predicted(self) -> dict[str, float]:
        """Prediction of the rate model, by metric."""
        found = RateModel().planning().predict(self.now, [self.now.plan])
        return {name: float(values[0]) for name, values in found.by_metric.items()}

    @property
    def said_to_keep_up(self) -> bool:
        """Whether the rate model predicts that the job keeps up."""
        return self.predicted["backpressured"] < 0.5 <= self.predicted["success"]

    @property
    def meanwhile(self) -> str:
        """Sentence with the prediction, which is shown until the run is done."""
        keeps = "keeps up" if self.said_to_keep_up else "does not keep up"
        rate, latency = number(self.predicted["throughput_per_s"]), seconds(self.predicted["e2e_latency_s"])
        return f" The rate model predicts: it {keeps}, {rate} results a second, {latency} from end to end."

    def beside(self, run: Run) -> list[str]:
        """Sentences on the predicted end-to-end latency beside a run."""
        said, unseen, kept = self.predicted["e2e_latency_s"], doubts(RateModel(), self.now), run.metrics.keeps_up
        keep_up = None if kept and run.full else (self.said_to_keep_up, kept)  # a longer run may show that it does not
        found = PredictionBesideRuns.of(said, run.metrics.value("e2e_latency_s"), unseen, keep_up=keep_up)
        return found.told(f"an end-to-end latency of {seconds(said)}")

    @cached_property
    def run(self) -> RunTask:
        """Task of the run that `twin run` prints."""
        return _run(self.now, 0)

    @cached_property
    def film(self) -> RunTask:
        """Task of the run in short periods."""
        return RunTask(f"film {self.key}", "film", 3, filmed, (self.now, TOO_LONG_S))

    @cached_property
    def found(self) -> Scenario | None:
        """Scenario under the plan that the last long question found, if it was asked of this state; else None."""
        change = self.plan_found()
        return None if change is None else self.inquiry.scenario((*self.inquiry.changes, change))

    def plan_found(self) -> Alteration | None:
        """Change that takes the plan found; None if none was found, or it is the given one."""
        answered = self.inquiry.answer
        if answered is None or answered["question"] != "optimize" or answered["of"] != self.key:
            return None
        return Alteration(SET, answered["plan"]) if answered["plan"] else None

    def tasks(self) -> Iterator[RunTask]:
        """Yields all tasks of this state; the most urgent have the lowest ranks."""
        yield self.run
        yield self.film
        if self.found is not None:
            yield _run(self.found, 1)
        for case in filter(None, (self.now, self.before, self.found)):
            yield from pairs_of(case)


def pairs_of(case: Scenario) -> list[RunTask]:
    """Tasks of the runs of a scenario in a comparison."""
    seeds = [child_seed(case.run.seed, index) for index in range(PAIRS)]
    name = key(case)
    return [
        RunTask(f"outcome {name} {seed}", "outcome", 1 + index, outcome, (case, seed, TOO_LONG_S))
        for index, seed in enumerate(seeds)
    ]


def _run(scenario: Scenario, rank: int) -> RunTask:
    return RunTask(f"run {_key(scenario)}", "run", rank, run, (scenario, scenario.run.seed, 0, TOO_LONG_S))


def _key(scenario: Scenario) -> str:
    return f"{key(scenario)}-{scenario.run.seed}"


class Desk:
    """Desk of one job: its present state, and the results by now."""

    def __init__(self, name: str, workers: Workers) -> None:
        self.name, self._workers = name, workers
        self.asked: Asked | None = None
        self.wrong = ""
        self._film: tuple[str, Film] | None = None
        self.answered_s: float | None = None

    def look_at(self, inquiry: Inquiry) -> None:
        """Makes an inquiry the present state, with the scenario's file as it is now. If it does not fit, `wrong` says
        why."""
        try:
            if self.asked is None or self.asked.inquiry != inquiry or self.asked.given is not given(inquiry.name):
                before, self.asked = self.asked, None
                self.asked, self.wrong = Asked(inquiry), ""
                if before is None or before.key != self.asked.key:
                    self.answered_s = None
        except BadInput as error:
            self.asked, self.wrong = None, str(error)
        self._workers.want(self.name, [*self.asked.tasks()] if self.asked else [])

    def run(self) -> Made | None:
        """Run of the present state; None until it is done."""
        return None if self.asked is None else self._workers.made(self.asked.run)

    def found_run(self) -> Run | None:
        """Run under the plan found; None until it is done."""
        found = (
            None if self.asked is None or self.asked.found is None else self._workers.made(_run(self.asked.found, 1))
        )
        return None if found is None else found.result

    def film(self) -> Film | None:
        """Film of the present state; None until it is done."""
        if self.asked is None:
            return None
        made = self._workers.made(self.asked.film)
        if made is None or made.result is None:
            return None
        if self._film is None or self._film[0] != self.asked.key:
            self._film = self.asked.key, Film.of(self.asked.now, made.result)
        return self._film[1]

    def compared(self, first: str, second: str) -> VariantsCompared | None:
        """Comparison of two of `before`, `now` and `found` on all pairs so far; None while there are fewer than two."""
        asked = self.asked
        cases = [None if asked is None else getattr(asked, name) for name in (first, second)]
        known = [self._outcomes(case) for case in cases if case is not None]
        pairs = min(map(len, known), default=0) if len(known) == 2 else 0
        if asked is None or pairs < 2:
            return None
        variants = [Variant(name, case) for name, case in zip((first, second), cases, strict=True) if case is not None]
        samples = Samples([outcomes[:pairs] for outcomes in known])
        return answer(variants, list(USUAL), Wanted(PAIRS), asked.now.run.seed, samples)

    def _outcomes(self, case: Scenario) -> list[RunOutcome]:
        """Outcomes of a scenario's runs by now, in order."""
        found = []
        for task in pairs_of(case):
            made = self._workers.made(task)
            if made is None or made.result is None:
                break
            found.append(made.result)
        return found

    def progress(self) -> tuple[int, int, float]:
        """Number of runs done and of all runs, and the CPU seconds of those done."""
        made = [self._workers.made(task) for task in (self.asked.tasks() if self.asked else ())]
        done = [each for each in made if each is not None]
        return len(done), len(made), sum(each.cpu_s for each in done)

    def stage(self) -> str:
        """Text that changes when there is something new to see."""
        if self.asked is None:
            return self.wrong
        if self.answered_s is None and self.run() is not None:
            self.answered_s = time.monotonic() - self.asked.since_s
        return f"{self.asked.inquiry.version} {self.asked.key} {self.progress()[:2]}"
