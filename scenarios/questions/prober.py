"""Makes the runs of a search for a border, of the scenario with a knob at a value, and tells if a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scenarios.executing.progress import Audience
from scenarios.questions.bench import Bench, Job
from scenarios.questions.condition import Condition
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import Knob
from twin.errors import BadInput
from twin.metrics import BACKPRESSURE_SHARE
from twin.randomness import child_seed
from twin.scenario import Scenario

RATES = ("load", "rate_per_s")
"""Endings of names of knobs that change the rates of sources."""
LONG_S = 10.0
"""CPU seconds of runs, together, from which on progress is shown."""


@dataclass
class Prober:
    """Makes the runs that a search asks for, and remembers why a value gave no valid scenario."""

    scenario: Scenario
    knob: Knob
    condition: Condition
    bench: Bench
    audience: Audience
    seed: int
    refused: dict[float, str] = field(default_factory=dict)
    cases: dict[float, Scenario | None] = field(default_factory=dict)

    def ask(self, asked: Sequence[tuple[int, float]]) -> list[bool]:
        """Whether the condition holds, for each (repetition, value); false where the scenario is not valid."""
        outcomes = self.outcomes(asked)
        holds = [outcome is not None and self.condition.holds(outcome.measures) for outcome in outcomes]
        self.audience.stage(_told(asked, holds))
        return holds

    def outcomes(self, asked: Sequence[tuple[int, float]]) -> list[RunOutcome | None]:
        """Outcome for each (repetition, value); None where the scenario is not valid."""
        cases = [self.at(value) for _, value in asked]
        jobs = [
            (case, child_seed(self.seed, index))
            for case, (index, _) in zip(cases, asked, strict=True)
            if case is not None
        ]
        made = iter(self._made(jobs))
        return [None if case is None else next(made) for case in cases]

    def aim(self, index: int, value: float) -> float | None:
        """Likely border by a run at `value` that did not keep up: the rate of which it would read 99 %.

        None unless the question is about the rates at which the job keeps up.
        """
        about_rates = self.condition.metrics == {"backpressured"} and self.knob.name.endswith(RATES)
        scenario, outcome = self.at(value), self.outcomes([(index, value)])[0]
        if scenario is None or outcome is None or not about_rates:
            return None
        offered = sum(law.mean_rate_per_s for law in scenario.workload.arrivals.values())
        read = 1.0 - outcome.measures["backpressure_per_s"] / max(offered, 1e-300)
        return value * read / (1.0 - BACKPRESSURE_SHARE)

    def _made(self, jobs: Sequence[Job]) -> list[RunOutcome]:
        """Makes the runs, and shows progress if they take long."""
        if self.bench.missing_s(jobs) < LONG_S:
            return self.bench.outcomes(jobs)
        with self.audience.progress("runs") as report:
            return self.bench.outcomes(jobs, report)

    def at(self, value: float) -> Scenario | None:
        """Scenario with the knob at `value`; None if that is no valid scenario, or a run would take too long."""
        if value not in self.cases:
            try:
                case = self.knob.turned(self.scenario, int(value) if value.is_integer() else value)
                self.bench.check(case)
                self.cases[value] = case
            except BadInput as error:
                self.cases[value], self.refused[value] = None, str(error)
        return self.cases[value]


def _told(asked: Sequence[tuple[int, float]], holds: Sequence[bool]) -> str:
    low, high = min(value for _, value in asked), max(value for _, value in asked)
    where = f"at {low:,.6g}" if low == high else f"at {low:,.6g} to {high:,.6g}"
    return f"{where}: holds in {sum(holds)} of {len(asked)} runs"
