"""The clock of recorded records: each arrives when the file says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

import numpy as np

from twin.arrivals.law import ArrivalLaw, Phase
from twin.arrivals.replay import Replay

BLOCK = 1024
"""Records that a clock gives away at a time, at most."""
NEVER = np.array([math.inf])


class RecordedClock:
    """See twin.engine.arrival.clock.ArrivalClock. Replica k of R plays every R-th record, beginning with number k.

    A rate factor of 2 plays every record twice, of 1/2 every second one.
    """

    def __init__(self, law: Replay, replica: int, replicas: int) -> None:
        self._times_s = law.times_s
        self._cycle_s = law.cycle_s if law.loop else math.inf
        self._step = replicas / law.rate_factor  # recorded ones per record played
        self._number = replica / law.rate_factor  # of the first of the last block, among the recorded ones
        self._used = 0  # records of that block

    def block(self) -> np.ndarray:
        """See Clock: fewer at the end of a recording that does not loop."""
        self._number += self._used * self._step
        self._used = BLOCK
        numbers = np.floor(self._number + self._step * np.arange(BLOCK)).astype(np.int64)
        count = len(self._times_s)
        if math.isinf(self._cycle_s):
            found = self._times_s[numbers[numbers < count]]
            return np.asarray(found) if len(found) else NEVER
        return np.asarray(self._times_s[numbers % count] + numbers // count * self._cycle_s)

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Plays each record so many times as often."""
        self._number += came * self._step
        self._used = 0
        self._step /= factor


ROUNDING = 1e-9
"""Share of a gap within which a due record counts as arrived."""
SILENT_PER_S = 1e-200
"""A rate at which no record comes: its gaps would be longer than numbers can be."""


class ArrivalClock(Protocol):
    """Gives arrivals away in blocks, each behind the one before."""

    def block(self) -> np.ndarray:
        """The next arrivals, in seconds; at least one, which is infinite if nothing comes any more. [1 to BLOCK]"""

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Multiplies all rates from now on. Of the last block so many have come; the others will come otherwise."""


def clock(
    law: ArrivalLaw,
    replica: int,
    replicas: int,
    rng: np.random.Generator,
    shared: np.random.Generator,
    part: float | None = None,
) -> ArrivalClock:
    """The clock of one replica, which gets its equal share of a source's records: of evenly spaced ones each n-th.

    part: its share, where it is not; such a law has no recorded times. rng: its own. shared: in the same state for all
    replicas of a source, which see the same bursts at the same time.
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
    """The clock of a replica to which nothing comes."""
    return EvenClock(())


def gone_on(clock: ArrivalClock, now_s: float, factor: float) -> ArrivalClock:
    """Advances a new clock to what comes after `now_s`, at `factor` times the law's rate."""
    block = clock.block()
    while block[-1] <= now_s:
        block = clock.block()
    clock.scale(factor, now_s, int(np.searchsorted(block, now_s, side="right")))
    return clock


class _PhaseClock:
    """Goes through the phases of a law, and is at `_at_s` in one that lasts until `_until_s`, at `_base` a second.

    _elapsed: share of the gap to the next record that is over there, where gaps are equal.
    """

    def __init__(self, phases: Iterable[Phase]) -> None:
        self._phases: Iterator[Phase] = iter(phases)
        self._factor = 1.0
        self._at_s = self._until_s = self._base = self._elapsed = 0.0
        self._mark = (0.0, 0.0, 0.0, 0.0)  # where the last block began, ...
        self._entered: list[Phase] = []  # ... and the phases that it went through

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
        """See Clock."""
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
        """Arrivals in this phase from where the clock is, which then is at the last of them, or at the phase's end."""
        raise NotImplementedError

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """See Clock."""
        self._at_s, self._until_s, self._base, self._elapsed = self._mark
        self._phases, self._entered = chain(self._entered, self._phases), []
        while self._until_s <= now_s:
            self._pass(self._until_s)
            self._enter()
        self._pass(now_s)
        self._factor *= factor

    def _pass(self, to_s: float) -> None:
        """Goes to a time in this phase."""
        self._at_s = max(self._at_s, to_s)


class PoissonClock(_PhaseClock):
    """Exponential gaps. Having no memory, they begin anew in each phase."""

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
    """Equal gaps. A gap that a phase's end cuts short goes on in the next phase, at its rate.

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
        """See above; records on the way have come."""
        gaps = self._elapsed + max(0.0, to_s - self._at_s) * self._rate
        self._elapsed = min(1.0, max(0.0, gaps - int(gaps + ROUNDING)))
        super()._pass(to_s)
