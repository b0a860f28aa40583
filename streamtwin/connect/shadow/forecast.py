"""When a job will not keep up any more, if the trends of its rates hold: by the rate model."""

from __future__ import annotations

from dataclasses import dataclass

from streamtwin.connect.shadow.belief import Belief
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

STEPS = 12
"""Times ahead that are looked at; the crossing is then found between two of them."""
GRAIN = 0.01
"""Precision of the forecast time, as a share of the time ahead."""


@dataclass(frozen=True, slots=True)
class HighestLoad:
    """The highest utilisation of what any operator depends on, and that operator. Above 1 it cannot keep up."""

    used: float
    operator: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """in_s: until there is backpressure; 0: there is by now; None: not within ahead_s. operator: where it begins."""

    ahead_s: float
    now: HighestLoad
    then: HighestLoad
    in_s: float | None
    operator: str | None


def pressure(scenario: Scenario, plan: ExecutionPlan) -> HighestLoad:
    """At the rates that the scenario offers."""
    answer = RateModel().answer(scenario, [plan])
    worst = int(answer.offered_pressure[0].argmax())
    return HighestLoad(float(answer.offered_pressure[0, worst]), answer.operators[worst])


def forecast(belief: Belief, plan: ExecutionPlan, ahead_s: float) -> Forecast:
    """The first time within ahead_s at which something is overloaded."""
    now, then = (pressure(belief.ahead(at_s), plan) for at_s in (0.0, ahead_s))
    if now.used > 1.0:
        return Forecast(ahead_s, now, then, 0.0, now.operator)
    low_s = 0.0
    for step in range(1, STEPS + 1):
        high_s = ahead_s * step / STEPS
        if pressure(belief.ahead(high_s), plan).used > 1.0:
            at_s = _crossing_s(belief, plan, low_s, high_s)
            return Forecast(ahead_s, now, then, at_s, pressure(belief.ahead(at_s), plan).operator)
        low_s = high_s
    return Forecast(ahead_s, now, then, None, None)


def _crossing_s(belief: Belief, plan: ExecutionPlan, low_s: float, high_s: float) -> float:
    """Between a time at which all keep up, and one at which they do not: the latter, near enough."""
    while high_s - low_s > GRAIN * high_s:
        middle_s = (low_s + high_s) / 2
        over = pressure(belief.ahead(middle_s), plan).used > 1.0
        low_s, high_s = (low_s, middle_s) if over else (middle_s, high_s)
    return high_s
