"""When a source's tuples arrive: an arrival law at work, a group of tuples at a time.

A clock plans the next group and keeps it in plain attributes, because exact runs plan one for every tuple.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from twin.arrivals.law import ArrivalLaw, Phase
from twin.arrivals.replay import Replay
from twin.engine.arrival.backlog import EvenPiece, Piece, PoissonPiece
from twin.engine.arrival.recorded import RecordedClock

BLOCK = 256
ROUNDING = 1e-9
"""Of a gap: a tuple that is due so soon has come."""
SILENT_PER_S = 1e-200
"""A rate at which no tuple comes: its gaps would be longer than numbers can be."""


class Clock(Protocol):
    """The planned group: n >= 0 tuples after `since_s`, the last of them at `last_s`, handed over at `due_s`.

    Without tuples it says that nothing comes before `due_s`, which may be infinite.
    """

    n: int
    since_s: float
    last_s: float
    due_s: float

    def plan(self, now_s: float, groups: int) -> None:
        """The group after the planned one; that many usual groups in one, if they come at one rate."""

    def came(self, now_s: float) -> int:
        """How many of the planned group have come by now, or are told to have come where chance has not decided yet."""

    def cut(self, now_s: float) -> None:
        """Reduces the planned group to what has come by now; the next one follows from now on."""

    def scale(self, factor: float) -> None:
        """Multiplies all rates from now on; to be called between cut() and plan()."""

    def piece(self) -> Piece:
        """The planned group, to be taken apart later."""


def clock(
    law: ArrivalLaw,
    replica: int,
    replicas: int,
    size: int,
    rng: np.random.Generator,
    shared: np.random.Generator,
    part: float | None = None,
) -> Clock:
    """The clock of one replica, which gets its equal share of a source's tuples in groups of up to `size`.

    part: its share, where it is not; such a law has no recorded times. rng: its own. shared: in the same state for all
    replicas of a source, which see the same bursts at the same time.
    At the law's mean rate a usual group spans as long as `size` tuples take; below, it has fewer tuples.
    """
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        span_s = size * replicas / law.mean_rate_per_s
        return RecordedClock(law, replica, replicas, size, span_s)
    if part is None:
        part = 1.0 / replicas
    share = law.scaled(part) if part != 1.0 else law
    span_s = size / share.mean_rate_per_s
    if law.gap_scv == 0.0:
        return EvenClock(share.phases(shared), size, span_s)
    return PoissonClock(share.phases(shared), size, span_s, rng)


class _PhaseClock:
    """Goes through the phases of a law; a group never reaches into the next phase, so no burst is smeared out."""

    __slots__ = (
        "_base",
        "_ends",
        "_factor",
        "_phases",
        "_rate",
        "_size",
        "_span_s",
        "_until_s",
        "_usual",
        "due_s",
        "last_s",
        "n",
        "since_s",
    )

    def __init__(self, phases: Iterator[Phase], size: int, span_s: float) -> None:
        self._phases = phases
        self._size = size
        self._span_s = span_s
        self._factor = 1.0
        self._until_s = 0.0
        self._ends = True  # the planned group is the last of its phase
        self._base = self._rate = 0.0
        self._usual = 1
        self.n = 0
        self.since_s = self.last_s = self.due_s = 0.0

    def _enter(self) -> float:
        """Begins the next phase; returns its start."""
        start_s = self._until_s
        length_s, self._base = next(self._phases, (math.inf, 0.0))
        self._until_s = start_s + length_s
        self._ends = False
        self._set_rate()
        return start_s

    def _plan_rest(self, n: int) -> None:
        """The planned group is the last of its phase, and handed over at its end."""
        self.n = n
        self.due_s = self._until_s
        self._ends = True

    def _set_rate(self) -> None:
        rate = self._base * self._factor
        self._rate = rate if rate > SILENT_PER_S else 0.0
        self._usual = max(1, min(self._size, round(self._rate * self._span_s)))

    def scale(self, factor: float) -> None:
        """The rate of this and of all phases to come."""
        self._factor *= factor
        self._set_rate()


class PoissonClock(_PhaseClock):
    """Exponential gaps. Their sum is a Gamma variate; having no memory, they begin anew in each phase."""

    __slots__ = ("_gaps", "_rng", "_told")

    def __init__(self, phases: Iterator[Phase], size: int, span_s: float, rng: np.random.Generator) -> None:
        super().__init__(phases, size, span_s)
        self._rng = rng
        self._gaps: list[float] = []  # for groups of the full size, drawn in blocks
        self._told = 0

    def plan(self, now_s: float, groups: int) -> None:
        """See Clock."""
        if self._ends:
            now_s = self._enter()
        self.since_s = now_s
        rate = self._rate
        if rate <= 0.0:
            self._plan_rest(0)
            return
        self.n = n = self._usual * groups
        if n != self._size:
            gaps = float(self._rng.standard_gamma(n))
        elif self._gaps:
            gaps = self._gaps.pop()
        else:
            self._gaps = self._rng.standard_gamma(n, BLOCK)[::-1].tolist()
            gaps = self._gaps.pop()
        self._told = 0
        self.last_s = self.due_s = due_s = now_s + gaps / rate
        if due_s > self._until_s:
            # of the n - 1 before the last, which is beyond the phase, each is within it with equal probability
            self._draw(n, rate * (self._until_s - now_s) / gaps, self._until_s)
            self._plan_rest(self.n)

    def _draw(self, n: int, share: float, end_s: float) -> None:
        """Of n tuples, the last of which is beyond `end_s`, those by then: that share of the others on average."""
        self.n = max(self._told, int(self._rng.binomial(n - 1, min(1.0, share))))
        if self.n:  # uniform between since_s and end_s, the last of them as the largest of so many
            self.last_s = self.since_s + (end_s - self.since_s) * float(self._rng.random()) ** (1.0 / self.n)

    def _share(self, now_s: float) -> float:
        return max(0.0, now_s - self.since_s) / (self.last_s - self.since_s)

    def came(self, now_s: float) -> int:
        """As many as are expected. What has been told once is kept to."""
        if self.n and now_s < self.last_s:
            self._told = max(self._told, min(self.n - 1, int(self.n * self._share(now_s))))
            return self._told
        return self.n

    def cut(self, now_s: float) -> None:
        """See Clock."""
        self._ends = False
        if self.n and now_s < self.last_s:
            self._draw(self.n, self._share(now_s), now_s)

    def piece(self) -> Piece:
        """See Clock."""
        return PoissonPiece(self.n, self.since_s, self.last_s, self._rng)


class EvenClock(_PhaseClock):
    """Equal gaps. A gap that a phase's end cuts short goes on in the next phase, at its rate."""

    __slots__ = ("_elapsed",)

    def __init__(self, phases: Iterator[Phase], size: int, span_s: float) -> None:
        super().__init__(phases, size, span_s)
        self._elapsed = 0.0  # share of the gap to the next tuple that is over when the next group is planned

    def plan(self, now_s: float, groups: int) -> None:
        """See Clock."""
        if self._ends:
            now_s = self._enter()
        rate = self._rate
        if rate <= 0.0:
            self._plan_rest(0)
            return
        self.n = n = self._usual * groups
        self.since_s = now_s - self._elapsed / rate
        self.last_s = self.due_s = due_s = now_s + (n - self._elapsed) / rate
        if due_s <= self._until_s:
            self._elapsed = 0.0
        else:
            self._end_at(self._until_s, n - 1)
            self._plan_rest(self.n)

    def _end_at(self, end_s: float, most: int) -> None:
        """Plans the tuples by `end_s` alone; notes how much of the next gap is over then."""
        gaps = (end_s - self.since_s) * self._rate
        self.n = min(most, int(gaps + ROUNDING))
        self._elapsed = min(1.0, max(0.0, gaps - self.n))
        self.last_s = self.since_s + self.n / self._rate

    def came(self, now_s: float) -> int:
        """See Clock."""
        return min(self.n, int((now_s - self.since_s) * self._rate + ROUNDING))

    def cut(self, now_s: float) -> None:
        """See Clock."""
        self._ends = False
        if self._rate > 0.0:
            self._end_at(now_s, self.n)

    def piece(self) -> Piece:
        """See Clock."""
        return EvenPiece(self.n, self.since_s, self.last_s)
