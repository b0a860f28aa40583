"""What the page shows of one job as it was last changed, and what of that is ready: runs, a comparison, a film.

The run at the scenario's own seed is the one that `twin run` prints. For the comparison, pairs of runs on the same
random numbers follow, those of `twin whatif`, and intervals narrow as they come.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

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
from twin.guards.effort import require_feasible
from twin.randomness import child_seed
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario

TOO_LONG_S = 60.0
"""Estimated CPU seconds of a run beyond which the page does not start it by itself."""


@dataclass
class Asked:
    """One state of an inquiry. Raises BadInput where the scenario cannot be read, or does not take the changes."""

    inquiry: Inquiry
    since_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.given = given(self.inquiry.name)
        self.now = self.inquiry.scenario()
        self.before = self.inquiry.scenario(self.inquiry.earlier) if self.inquiry.changes else None
        self.key = _key(self.now)
        effort = require_feasible(self.now)
        self.too_long = effort.describe() if effort.cpu_s > TOO_LONG_S else ""

    @cached_property
    def meanwhile(self) -> str:
        """What the rate model says of it, until the run is done."""
        return _predicted(self.now)

    @cached_property
    def run(self) -> RunTask:
        """The run that `twin run` prints."""
        return _run(self.now, 0)

    @cached_property
    def film(self) -> RunTask:
        """The same in short periods."""
        return RunTask(f"film {self.key}", "film", 3, filmed, (self.now,))

    @cached_property
    def found(self) -> Scenario | None:
        """The scenario under the plan that the last long question found, if it is one of this state."""
        change = self.plan_found()
        return None if change is None else self.inquiry.scenario((*self.inquiry.changes, change))

    def plan_found(self) -> Alteration | None:
        """The change that takes the plan found; None if none was, or it is the given one."""
        answered = self.inquiry.answer
        if answered is None or answered["question"] != "optimize" or answered["of"] != self.key:
            return None
        return Alteration(SET, answered["plan"]) if answered["plan"] else None

    def tasks(self) -> Iterator[RunTask]:
        """All that is wanted of this state, of which the most urgent have the lowest ranks."""
        if self.too_long:
            return
        yield self.run
        yield self.film
        if self.found is not None:
            yield _run(self.found, 1)
        for case in filter(None, (self.now, self.before, self.found)):
            yield from pairs_of(case)


def _predicted(scenario: Scenario) -> str:
    """What the rate model says, in a sentence."""
    found = RateModel().planning().predict(scenario, [scenario.plan])
    keeps = "does not keep up" if found["backpressured"][0] >= 0.5 else "keeps up"
    rate, latency = number(float(found["throughput_per_s"][0])), seconds(float(found["e2e_latency_s"][0]))
    return f" The rate model predicts: it {keeps}, {rate} results a second, {latency} from end to end."


def pairs_of(case: Scenario) -> list[RunTask]:
    """The runs of a scenario in a comparison."""
    seeds = [child_seed(case.run.seed, index) for index in range(PAIRS)]
    name = key(case)
    return [
        RunTask(f"outcome {name} {seed}", "outcome", 1 + index, outcome, (case, seed))
        for index, seed in enumerate(seeds)
    ]


def _run(scenario: Scenario, rank: int) -> RunTask:
    return RunTask(f"run {_key(scenario)}", "run", rank, run, (scenario, scenario.run.seed))


def _key(scenario: Scenario) -> str:
    return f"{key(scenario)}-{scenario.run.seed}"


class Desk:
    """One job: what was asked of it, and what is known by now."""

    def __init__(self, name: str, workers: Workers) -> None:
        self.name, self._workers = name, workers
        self.asked: Asked | None = None
        self.wrong = ""
        self._film: tuple[str, Film] | None = None
        self.answered_s: float | None = None

    def look_at(self, inquiry: Inquiry) -> None:
        """Makes this the present state, of the scenario as its file is now. If that does not fit, `wrong` says why."""
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
        """The run of the present state, as soon as it is there."""
        return None if self.asked is None or self.asked.too_long else self._workers.made(self.asked.run)

    def found_run(self) -> Run | None:
        """The run under the plan found."""
        found = (
            None if self.asked is None or self.asked.found is None else self._workers.made(_run(self.asked.found, 1))
        )
        return None if found is None else found.result

    def film(self) -> Film | None:
        """The film of the present state, as soon as it is there."""
        if self.asked is None:
            return None
        made = self._workers.made(self.asked.film)
        if made is None or made.result is None:
            return None
        if self._film is None or self._film[0] != self.asked.key:
            self._film = self.asked.key, Film.of(self.asked.now, made.result)
        return self._film[1]

    def compared(self, first: str, second: str) -> VariantsCompared | None:
        """Two of `before`, `now` and `found` on as many pairs as there are; None while there are fewer than two."""
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
        """Those that are there, in order."""
        found = []
        for task in pairs_of(case):
            made = self._workers.made(task)
            if made is None or made.result is None:
                break
            found.append(made.result)
        return found

    def progress(self) -> tuple[int, int, float]:
        """Runs done, runs in all, and the CPU seconds of those that are done."""
        made = [self._workers.made(task) for task in (self.asked.tasks() if self.asked else ())]
        done = [each for each in made if each is not None]
        return len(done), len(made), sum(each.cpu_s for each in done)

    def stage(self) -> str:
        """Changes when there is something new to see."""
        if self.asked is None:
            return self.wrong
        if self.answered_s is None and self.run() is not None:
            self.answered_s = time.monotonic() - self.asked.since_s
        return f"{self.asked.inquiry.version} {self.asked.key} {self.progress()[:2]}"
