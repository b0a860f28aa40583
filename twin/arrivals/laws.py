"""Arrival laws: times and rates at which records reach a source's subtasks. A new one is a file beside this."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from twin.spec import Spec

# what a law says -----------------------------------------------------------------------------------------------------
# Interface of arrival laws: the rate over time, and the variation of the gaps between records.


MAX_RATE_PER_S = 10**9
MIN_RATE_PER_S = 1e-9
"""Lowest rate: one record in 30 years. Lower ones mean no records, and reciprocals of far lower ones overflow."""
Rate = Annotated[float, Field(ge=MIN_RATE_PER_S, le=MAX_RATE_PER_S, description="records a second")]
RateOrNone = Annotated[float, Field(ge=0, le=MAX_RATE_PER_S, description="records a second; 0: nothing arrives")]
PhaseLength = Annotated[float, Field(ge=1e-3, le=10**9, description="seconds")]
"""Length of a phase that repeats: phases shorter than a millisecond cost time and change nothing."""

Phase = tuple[float, float]
"""Stretch of time at one rate: (length in seconds > 0 or infinite, records a second >= 0)."""


class ArrivalLaw(Protocol):
    """Interface of a source's arrival law: a sequence of phases. The clock draws the random times within them."""

    @property
    def mean_rate_per_s(self) -> float:
        """Records a second in the long run, > 0, for analytic models and features."""

    @property
    def peak_rate_per_s(self) -> float:
        """Highest rate of any phase."""

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of the time between records, within a phase: 0 if they are evenly spaced."""

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """Phases from time 0 on; after the last, if there is one, nothing arrives. rng: for random phases."""

    def scaled(self, factor: float) -> Self:
        """Law with all rates multiplied by a factor > 0."""


class Varying(Spec):
    """Base of laws whose rate changes."""

    poisson: Annotated[bool, Field(description="false: records are evenly spaced within a phase")] = True

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of gaps within a phase: 1 for exponential gaps, 0 for equal ones."""
        return 1.0 if self.poisson else 0.0


def require_records(rates: Iterable[float], where: str) -> None:
    """Raises ValueError if all rates are below MIN_RATE_PER_S."""
    if not any(rate >= MIN_RATE_PER_S for rate in rates):
        raise ValueError(
            f"{where} is 0 throughout (below {MIN_RATE_PER_S:g}), so that nothing ever arrives; make a rate > 0"
        )


# constant rates ------------------------------------------------------------------------------------------------------
# Laws of constant rate: evenly spaced, and Poisson.


class _Steady(Spec):
    rate_per_s: Rate

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate, in records a second."""
        return self.rate_per_s

    @property
    def peak_rate_per_s(self) -> float:
        """Highest rate, which is the mean rate."""
        return self.rate_per_s

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """A single phase, without end."""
        yield math.inf, self.rate_per_s

    def scaled(self, factor: float) -> Self:
        """Law with the rate multiplied by a factor > 0."""
        return self.model_copy(update={"rate_per_s": self.rate_per_s * factor})


class Constant(_Steady):
    """Law of evenly spaced records."""

    law: Literal["constant"] = "constant"

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of gaps: 0, as all are equal."""
        return 0.0


class Poisson(_Steady):
    """Law of independent exponential gaps."""

    law: Literal["poisson"] = "poisson"

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of gaps: 1, as they are exponential."""
        return 1.0


# steps ---------------------------------------------------------------------------------------------------------------
# Steps: a rate that changes at given times.


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
        require_records((step.rate_per_s for step in self.steps), "the rate of all steps")
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over the period, or over all steps."""
        times = [step.at_s for step in self.steps]
        end_s = extent_s(times[0], times[-1], len(times)) if self.period_s is None else self.period_s
        if len(times) == 1 and self.period_s is None:
            return self.steps[0].rate_per_s
        times.append(end_s)
        records = sum(
            step.rate_per_s * (end - start) for step, (start, end) in zip(self.steps, pairwise(times), strict=True)
        )
        return records / end_s

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


# days ----------------------------------------------------------------------------------------------------------------
# Diurnal law: a rate that rises and falls like a day's.


SLICES = 64
"""Phases a period. Each has the mean of the sinusoid, so counts over whole phases are those of the sinusoid."""


class Diurnal(Varying):
    """Law whose rate follows a sinusoid: rate x (1 + amplitude x sin(2 pi (t / period + phase)))."""

    law: Literal["diurnal"] = "diurnal"
    rate_per_s: Annotated[Rate, Field(description="mean over a period")]
    amplitude: Annotated[float, Field(ge=0, le=1, description="share of the mean; 1: down to nothing")] = 0.5
    period_s: PhaseLength = 86_400.0
    phase: Annotated[float, Field(ge=0, le=1, description="share of a period that is over at time 0")] = 0.0

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over a period."""
        return self.rate_per_s

    @property
    def peak_rate_per_s(self) -> float:
        """Rate at the top of the wave."""
        return self.rate_per_s * (1.0 + self.amplitude)

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """SLICES phases a period, without end."""
        angles = 2.0 * math.pi * (np.arange(SLICES + 1) / SLICES + self.phase)
        swing = -np.diff(np.cos(angles)) * SLICES / (2.0 * math.pi)  # the sine's mean over each slice
        rates = np.maximum(0.0, self.rate_per_s * (1.0 + self.amplitude * swing)).tolist()
        while True:
            for rate_per_s in rates:
                yield self.period_s / SLICES, rate_per_s

    def scaled(self, factor: float) -> Self:
        """Law with the mean multiplied by a factor > 0, and the wave with it."""
        return self.model_copy(update={"rate_per_s": self.rate_per_s * factor})


# spikes --------------------------------------------------------------------------------------------------------------
# Spikes: a base rate with short spikes.


class Spikes(Varying):
    """Law with `factor` times the base rate for the last `duration_s` of every `every_s`.

    At random times the quiet time between two spikes is exponential, with the same mean.
    """

    law: Literal["spikes"] = "spikes"
    rate_per_s: Annotated[Rate, Field(description="between spikes")]
    factor: Annotated[float, Field(ge=0, le=10**6, description="rate in a spike / rate between spikes")] = 10.0
    every_s: PhaseLength = 60.0
    duration_s: PhaseLength = 5.0
    random: Annotated[bool, Field(description="at random times, every_s apart on average")] = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.duration_s >= self.every_s:
            raise ValueError(f"duration_s must be < every_s ({self.every_s:g}), got {self.duration_s:g}")
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over a spike and the quiet time before it."""
        return self.rate_per_s * (1.0 + (self.factor - 1.0) * self.duration_s / self.every_s)

    @property
    def peak_rate_per_s(self) -> float:
        """Rate in a spike, or outside it if the factor is below 1."""
        return self.rate_per_s * max(1.0, self.factor)

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """Quiet and spike phases in turn, without end."""
        quiet_s = self.every_s - self.duration_s
        while True:
            yield (float(rng.exponential(quiet_s)) if self.random else quiet_s), self.rate_per_s
            yield self.duration_s, self.rate_per_s * self.factor

    def scaled(self, factor: float) -> Self:
        """Law with the base rate multiplied by a factor > 0, and the spikes with it."""
        return self.model_copy(update={"rate_per_s": self.rate_per_s * factor})


# bursts --------------------------------------------------------------------------------------------------------------
# Bursts: a Markov-modulated Poisson process (Fischer and Meier-Hellstern, Performance Evaluation 18, 1993).


class BurstState(Spec):
    """State of a bursty law: its rate, and the mean of the exponential time for which it lasts."""

    rate_per_s: RateOrNone
    mean_s: PhaseLength


class Bursty(Varying):
    """Law whose rate jumps between states at random; each of the other states is equally likely to be the next.

    The run begins in a state drawn by the share of time that each takes, so no start-up has to be waited for.
    """

    law: Literal["bursty"] = "bursty"
    states: Annotated[tuple[BurstState, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        require_records((state.rate_per_s for state in self.states), "the rate of all states")
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Mean over all states, by their mean durations, as they are visited equally often."""
        records = sum(state.rate_per_s * state.mean_s for state in self.states)
        return records / sum(state.mean_s for state in self.states)

    @property
    def peak_rate_per_s(self) -> float:
        """Rate of the busiest state."""
        return max(state.rate_per_s for state in self.states)

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """Random phases, without end."""
        durations_s = np.array([state.mean_s for state in self.states])
        now = int(rng.choice(len(self.states), p=durations_s / durations_s.sum()))
        while True:
            state = self.states[now]
            yield float(rng.exponential(state.mean_s)), state.rate_per_s
            now = (now + int(rng.integers(1, len(self.states)))) % len(self.states)

    def scaled(self, factor: float) -> Self:
        """Law with the rates of all states multiplied by a factor > 0."""
        states = tuple(state.model_copy(update={"rate_per_s": state.rate_per_s * factor}) for state in self.states)
        return self.model_copy(update={"states": states})
