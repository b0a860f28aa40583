"""Clocks: times at which records arrive, by an arrival law or as they were recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

import numpy as np

from twin.arrivals.law import ArrivalLaw, Phase
from twin.arrivals.replay import Replay

BLOCK = 1024
"""Most records in a block."""
NEVER = np.array([math.inf])


class RecordedClock:
    """Clock of recorded records: of R replicas, replica k plays every R-th record, beginning with number k.

    A rate factor of 2 plays every record twice, of 1/2 every second one.
    """

    def __init__(self, law: Replay, replica: int, replicas: int) -> None:
        self._times_s = law.times_s
        self._cycle_s = law.cycle_s if law.loop else math.inf
        self._step = replicas / law.rate_factor  # recorded ones per record played
        self._number = replica / law.rate_factor  # number of the last block's first record, among the recorded ones
        self._used = 0  # records in the last block

    def block(self) -> np.ndarray:
        """Returns the next arrivals, in seconds; fewer than a block at the end of a recording that does not loop."""
        self._number += self._used * self._step
        self._used = BLOCK
        numbers = np.floor(self._number + self._step * np.arange(BLOCK)).astype(np.int64)
        count = len(self._times_s)
        if math.isinf(self._cycle_s):
            found = self._times_s[numbers[numbers < count]]
            return np.asarray(found) if len(found) else NEVER
        return np.asarray(self._times_s[numbers % count] + numbers // count * self._cycle_s)

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Plays each record `factor` times as often from now on."""
        self._number += came * self._step
        self._used = 0
        self._step /= factor


ROUNDING = 1e-9
"""Share of a gap within which a due record counts as arrived."""
SILENT_PER_S = 1e-200
"""Highest rate at which no record comes: gaps could exceed the largest number."""


class ArrivalClock(Protocol):
    """Interface of the clocks, which give arrivals in blocks, each after the one before."""

    def block(self) -> np.ndarray:
        """Returns the next arrivals, in seconds; at least one, an infinite one if nothing comes any more. [1 to
        BLOCK]"""

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Multiplies all rates from now on. came: records of the last block that have come; the rest are drawn anew."""


def clock(
    law: ArrivalLaw,
    replica: int,
    replicas: int,
    rng: np.random.Generator,
    shared: np.random.Generator,
    part: float | None = None,
) -> ArrivalClock:
    """Clock of one replica of a source, which gets its equal share of the records; of evenly spaced ones, every n-th.

    part: the replica's share, if shares are not equal; a law with recorded times must have equal ones. rng: the
    replica's own generator. shared: a generator that is in the same state for all replicas of a source, which so see
    the same bursts.
    """
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        return RecordedClock(law, replica, replicas)
    if part is None:
        part = 1.0 / replicas
    share = law.scaled(part) if part != 1.0 else law
    if law.gap_scv == 0.0:
        return EvenClock(share.phases(shared), (replicas - 1 - replica) / replicas)
    return PoissonClock(share.phases(shared), rng)


def silent() -> ArrivalClock:
    """Clock of a replica to which nothing comes."""
    return EvenClock(())


def gone_on(clock: ArrivalClock, now_s: float, factor: float) -> ArrivalClock:
    """Advances a new clock to what comes after `now_s`, at `factor` times the law's rate."""
    block = clock.block()
    while block[-1] <= now_s:
        block = clock.block()
    clock.scale(factor, now_s, int(np.searchsorted(block, now_s, side="right")))
    return clock


class _PhaseClock:
    """Base of clocks that go through the phases of a law. The present phase lasts from `_at_s` until `_until_s`, with
    `_base` records a second.

    _elapsed: share of the gap to the next record that is over at `_at_s`, where gaps are equal.
    """

    def __init__(self, phases: Iterable[Phase]) -> None:
        self._phases: Iterator[Phase] = iter(phases)
        self._factor = 1.0
        self._at_s = self._until_s = self._base = self._elapsed = 0.0
        self._mark = (0.0, 0.0, 0.0, 0.0)  # state at the beginning of the last block
        self._entered: list[Phase] = []  # phases that the last block went through

    @property
    def _rate(self) -> float:
        rate = self._base * self._factor
        return rate if rate > SILENT_PER_S else 0.0

    def _enter(self) -> None:
        """Begins the next phase."""
        phase = next(self._phases, (math.inf, 0.0))
        self._entered.append(phase)
        length_s, self._base = phase
        self._at_s = self._until_s
        self._until_s = self._at_s + length_s

    def block(self) -> np.ndarray:
        """Returns the next arrivals, in seconds; an infinite one if nothing comes any more."""
        self._mark = self._at_s, self._until_s, self._base, self._elapsed
        self._entered = []
        while True:
            if self._at_s >= self._until_s:
                self._enter()
            if self._rate > 0.0:
                found = self._within(self._rate)
                if len(found):
                    return found
            elif self._until_s == math.inf:
                return NEVER
            else:
                self._at_s = self._until_s

    def _within(self, rate: float) -> np.ndarray:
        """Arrivals in the present phase. Moves the clock to the last of them, or to the end of the phase."""
        raise NotImplementedError

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Multiplies all rates from `now_s` on: goes back to where the last block began, and from there to `now_s`."""
        self._at_s, self._until_s, self._base, self._elapsed = self._mark
        self._phases, self._entered = chain(self._entered, self._phases), []
        while self._until_s <= now_s:
            self._pass(self._until_s)
            self._enter()
        self._pass(now_s)
        self._factor *= factor

    def _pass(self, to_s: float) -> None:
        """Moves the clock to a time in the present phase."""
        self._at_s = max(self._at_s, to_s)


class PoissonClock(_PhaseClock):
    """Clock with exponential gaps. They have no memory, so each phase begins with a new one."""

    def __init__(self, phases: Iterable[Phase], rng: np.random.Generator) -> None:
        super().__init__(phases)
        self._rng = rng

    def _within(self, rate: float) -> np.ndarray:
        expected = rate * (self._until_s - self._at_s)
        count = BLOCK if expected > BLOCK else min(BLOCK, 8 + int(1.5 * expected))
        found = self._at_s + np.cumsum(self._rng.standard_exponential(count)) / rate
        if found[-1] <= self._until_s:
            self._at_s = float(found[-1])
            return np.asarray(found)
        self._at_s = self._until_s
        return np.asarray(found[: found.searchsorted(self._until_s, side="right")])


class EvenClock(_PhaseClock):
    """Clock with equal gaps. A gap that is cut short by the end of a phase goes on in the next phase, at its rate.

    elapsed: share of the first gap that is over at time 0.
    """

    def __init__(self, phases: Iterable[Phase], elapsed: float = 0.0) -> None:
        super().__init__(phases)
        self._elapsed = elapsed

    def _within(self, rate: float) -> np.ndarray:
        gaps = self._elapsed + (self._until_s - self._at_s) * rate
        count = BLOCK if gaps > BLOCK else int(gaps + ROUNDING)
        found = np.minimum(self._at_s + (np.arange(1, count + 1) - self._elapsed) / rate, self._until_s)
        if gaps > BLOCK:
            self._at_s, self._elapsed = float(found[-1]), 0.0
        else:
            self._at_s, self._elapsed = self._until_s, min(1.0, max(0.0, gaps - count))
        return np.asarray(found)

    def _pass(self, to_s: float) -> None:
        """Moves the clock to a time in the present phase, and `_elapsed` with it; records on the way have come."""
        gaps = self._elapsed + max(0.0, to_s - self._at_s) * self._rate
        self._elapsed = min(1.0, max(0.0, gaps - int(gaps + ROUNDING)))
        super()._pass(to_s)
