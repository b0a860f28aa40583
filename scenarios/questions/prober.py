"""Makes the runs of a search for a border, of the scenario with a knob at a value, and tells if a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scenarios.executing.progress import Audience
from scenarios.questions.bench import Bench, Job
from scenarios.questions.bisection import NO_AIM, Ask, Border, Range, search
from scenarios.questions.condition import Condition
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import Knob
from twin.errors import BadInput, TooMuch
from twin.job import compile
from twin.metrics import BACKPRESSURE_SHARE
from twin.randomness import child_seed
from twin.scenario import Scenario

RATES = ("load", "rate_per_s")
"""Endings of names of knobs that change the rates of sources."""
LONG_S = 10.0
"""CPU seconds of runs, together, from which on progress is shown; also of the first runs, whose time is not known."""


@dataclass
class Prober:
    """Makes the runs that a search asks for, and remembers why a value gave no valid scenario, or none that runs.

    made: values of which there is a run.
    """

    scenario: Scenario
    knob: Knob
    condition: Condition
    bench: Bench
    audience: Audience
    seed: int
    refused: dict[float, str] = field(default_factory=dict)
    cases: dict[float, Scenario | None] = field(default_factory=dict)
    made: set[float] = field(default_factory=set)

    def search(self, repetitions: Sequence[int], within: Range, ask: Ask | None = None) -> list[Border]:
        """Border of each repetition, by runs, or by `ask`. Raises BadInput if no value gives a valid scenario."""
        if ask is None:
            borders = search(self.ask, repetitions, within, self.aim, self.allowed)
        else:
            borders = search(ask, repetitions, within, NO_AIM, self.valid)
        if not any(border.seen for border in borders):
            raise BadInput(next(iter(self.refused.values())))
        return borders

    def refusal(self, borders: Sequence[Border]) -> str | None:
        """Reason why nothing is allowed beyond the first border that is, or would be, at the end of what is allowed."""
        return next((self.refused.get(border.wall) for border in borders if border.wall is not None), None)

    def ask(self, asked: Sequence[tuple[int, float]]) -> list[bool]:
        """Whether the condition holds, for each (repetition, value); all values give valid scenarios."""
        holds = [self.condition.holds(outcome.measures) for outcome in self.outcomes(asked)]
        self.audience.stage(_told(asked, holds))
        return holds

    def outcomes(self, asked: Sequence[tuple[int, float]]) -> list[RunOutcome]:
        """Outcome for each (repetition, value); all values give valid scenarios."""
        found = self._made([(self.case(value), child_seed(self.seed, index)) for index, value in asked])
        self.made.update(value for _, value in asked)
        return found

    def aim(self, index: int, value: float) -> float | None:
        """Likely border by a run at `value` that did not keep up: the rate of which it would read 99 %.

        None unless the question is about the rates at which the job keeps up.
        """
        about_rates = self.condition.metrics == {"backpressured"} and self.knob.name.endswith(RATES)
        if not about_rates:
            return None
        scenario, outcome = self.case(value), self.outcomes([(index, value)])[0]
        offered = sum(law.mean_rate_per_s for law in scenario.workload.arrivals.values())
        read = 1.0 - outcome.measures["backpressure_per_s"] / max(offered, 1e-300)
        return value * read / (1.0 - BACKPRESSURE_SHARE)

    def _made(self, jobs: Sequence[Job]) -> list[RunOutcome]:
        """Makes the runs, and shows progress if they take long."""
        if len(jobs) == 1 or (self.bench.took_s(self.bench.missing(jobs)) or LONG_S) < LONG_S:
            return self.bench.outcomes(jobs)
        with self.audience.progress("runs") as report:
            return self.bench.outcomes(jobs, report)

    def valid(self, value: float) -> bool:
        """Whether the scenario is valid with the knob at `value`."""
        return self.at(value) is not None

    def allowed(self, value: float) -> bool:
        """Whether the scenario is valid with the knob at `value`, and its run does not take too much: that is tried,
        unless there are runs on both sides of the value."""
        if self.valid(value) and not (self.made and min(self.made) <= value <= max(self.made)):
            try:
                self.outcomes([(0, value)])
            except TooMuch as error:
                self.cases[value], self.refused[value] = None, str(error)
        return self.valid(value)

    def case(self, value: float) -> Scenario:
        """Scenario with the knob at `value`, which is allowed."""
        found = self.at(value)
        assert found is not None, self.refused[value]
        return found

    def at(self, value: float) -> Scenario | None:
        """Scenario with the knob at `value`; None if that is no valid scenario, or its run takes too much."""
        if value not in self.cases:
            try:
                case = self.knob.turned(self.scenario, int(value) if float(value).is_integer() else value)
                compile(case).require_pairs()
                self.cases[value] = case
            except BadInput as error:
                self.cases[value], self.refused[value] = None, str(error)
        return self.cases[value]


def _told(asked: Sequence[tuple[int, float]], holds: Sequence[bool]) -> str:
    low, high = min(value for _, value in asked), max(value for _, value in asked)
    where = f"at {low:,.6g}" if low == high else f"at {low:,.6g} to {high:,.6g}"
    return f"{where}: holds in {sum(holds)} of {len(asked)} runs"
