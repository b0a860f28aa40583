"""Finds what a metric typically is: its mean over runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scenarios.files.documents import CLOSED, Number
from scenarios.measures import of
from scenarios.questions.bench import Bench, of_mean
from twin.randomness import child_seed
from twin.scenario import Scenario


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalValue:
    """The answer of `twin typical`. half_width95: of the interval of the mean."""

    scenario: str
    metric: str
    seed: int
    mean: Number
    half_width95: Number
    values: tuple[Number, ...]


def typical(scenario: Scenario, metric: str, count: int, bench: Bench) -> TypicalValue:
    """Mean of a metric over runs."""
    jobs = [(scenario, child_seed(scenario.run.seed, index)) for index in range(count)]
    values = np.array([of(outcome.measures, metric) for outcome in bench.outcomes(jobs)])
    known = of_mean(values, metric)
    return TypicalValue(
        scenario=scenario.name,
        metric=metric,
        seed=scenario.run.seed,
        mean=known.mean,
        half_width95=known.half_width95,
        values=tuple(values.tolist()),
    )
