"""Steps: a rate that changes at given times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.arrivals.law import Phase, PhaseLength, RateOrNone, Varying, require_tuples
from twin.spec import Spec


class Step(Spec):
    """Step of a staircase: the rate from `at_s` on."""

    at_s: Annotated[float, Field(ge=0)]
    rate_per_s: RateOrNone


class Steps(Varying):
    """Law with a staircase of rates; before the first step nothing arrives. It can repeat every `period_s`.

    Without a period the last step lasts for ever. For the mean rate it then counts as long as the steps before it do on
    average, so that 24 hourly steps are a day.
    """

    law: Literal["steps"] = "steps"
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    period_s: Annotated[PhaseLength | None, Field(description="begin anew after so many seconds")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        times = [step.at_s for step in self.steps]
        for number, (before, after) in enumerate(pairwise(times), start=1):
            if after <= before:
                raise ValueError(f"steps.{number}.at_s = {after:g} is not after {before:g}; sort the steps by time")
        if self.period_s is not None and self.period_s <= times[-1]:
            raise ValueError(
                f"period_s = {self.period_s:g} ends before the last step at {times[-1]:g} s; make it longer"
            )
        require_tuples((step.rate_per_s for step in self.steps), "the rate of all steps")
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over the period, or over all steps."""
        times = [step.at_s for step in self.steps]
        end_s = extent_s(times[0], times[-1], len(times)) if self.period_s is None else self.period_s
        if len(times) == 1 and self.period_s is None:
            return self.steps[0].rate_per_s
        times.append(end_s)
        tuples = sum(
            step.rate_per_s * (end - start) for step, (start, end) in zip(self.steps, pairwise(times), strict=True)
        )
        return tuples / end_s

    @property
    def peak_rate_per_s(self) -> float:
        """Rate of the highest step."""
        return max(step.rate_per_s for step in self.steps)

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """One phase for each step, again in each period."""
        times, rates = zip(*((step.at_s, step.rate_per_s) for step in self.steps), strict=True)
        return staircase(times, rates, self.period_s)

    def scaled(self, factor: float) -> Self:
        """Law with the rates of all steps multiplied by a factor > 0."""
        steps = tuple(step.model_copy(update={"rate_per_s": step.rate_per_s * factor}) for step in self.steps)
        return self.model_copy(update={"steps": steps})


def extent_s(first_s: float, last_s: float, count: int) -> float:
    """End of a series of times, if the last entry lasts as long as the others do on average."""
    return last_s + (last_s - first_s) / (count - 1) if count > 1 else last_s


def staircase(times_s: Sequence[float], rates_per_s: Sequence[float], period_s: float | None) -> Iterator[Phase]:
    """Phases of the rates that begin at those times >= 0, ascending; repeated every `period_s`, if there is one."""
    while True:
        if times_s[0] > 0.0:
            yield times_s[0], 0.0
        for (start, end), rate_per_s in zip(pairwise(times_s), rates_per_s, strict=False):
            yield end - start, rate_per_s
        yield (math.inf if period_s is None else period_s - times_s[-1]), rates_per_s[-1]
        if period_s is None:
            return
