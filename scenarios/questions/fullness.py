"""What had nothing to spare in a run: a longer one may show that it does not keep up, once its queues have filled."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from scenarios.questions.kept import Outcome
from scenarios.questions.measures import of
from twin.scenario import Scenario

NO_SPARE = 0.99
"""Share of the time."""


def full(scenario: Scenario, outcomes: Sequence[Outcome]) -> list[str]:
    """Operators that were busy, and hosts whose CPU was in use, all of the time, in the mean over the runs."""
    names = [f"operators.{each.name}.busy" for each in scenario.query.operators]
    names += [f"hosts.{each.name}.cpu" for each in scenario.cluster.hosts]
    means = {name: fmean(of(each.measures, name) for each in outcomes) for name in names}
    return [name.split(".", 1)[1].rpartition(".")[0] for name, mean in means.items() if mean >= NO_SPARE]
