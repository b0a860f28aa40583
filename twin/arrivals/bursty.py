"""Bursts: a Markov-modulated Poisson process (Fischer and Meier-Hellstern, Performance Evaluation 18, 1993)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.arrivals.law import Phase, PhaseLength, RateOrNone, Varying, require_tuples
from twin.spec import Spec


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
        require_tuples((state.rate_per_s for state in self.states), "the rate of all states")
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Mean over all states, by their mean durations, as they are visited equally often."""
        tuples = sum(state.rate_per_s * state.mean_s for state in self.states)
        return tuples / sum(state.mean_s for state in self.states)

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
