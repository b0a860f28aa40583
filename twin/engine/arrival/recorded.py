"""The clock of recorded tuples: each arrives when the file says."""

from __future__ import annotations

import math

import numpy as np

from twin.arrivals.replay import Replay
from twin.engine.arrival.backlog import Piece, RecordedPiece

BLOCK = 256


class RecordedClock:
    """See twin.engine.arrival.clock.Clock. Replica k of R plays every R-th tuple, beginning with number k.

    A rate factor of 2 plays every tuple twice, of 1/2 every second one.
    """

    __slots__ = (
        "_ahead_s",
        "_cycle_s",
        "_number",
        "_size",
        "_span_s",
        "_step",
        "_times_s",
        "_used",
        "due_s",
        "last_s",
        "n",
        "since_s",
    )

    def __init__(self, law: Replay, replica: int, replicas: int, size: int, span_s: float) -> None:
        self._times_s = law.times_s
        self._cycle_s = law.cycle_s if law.loop else math.inf
        self._step = replicas / law.rate_factor  # recorded tuples per tuple played
        self._number = replica / law.rate_factor  # of the first tuple in `_ahead_s`, among the recorded ones
        self._ahead_s = self._times_s[:0]  # the next arrivals, a block at a time
        self._used = 0  # of these, up to the end of the planned group
        self._size = size
        self._span_s = span_s
        self.n = 0
        self.since_s = self.last_s = self.due_s = 0.0

    def plan(self, now_s: float, groups: int) -> None:
        """As many as come within a usual group's time of the first, but no more than its size."""
        groups = min(groups, BLOCK)
        most = self._size * groups
        if self._used + most > len(self._ahead_s):
            self._look_ahead(max(BLOCK, 4 * most))
        times, start = self._ahead_s, self._used
        if start == len(times):
            self.n, self.since_s, self.last_s, self.due_s = 0, now_s, now_s, math.inf
            return
        first_s = float(times[start])
        n = 1
        if most > 1:
            n = int(times[start : start + most].searchsorted(first_s + self._span_s * groups, side="right"))
        self.n = n
        self._used = start + n
        self.last_s = self.due_s = float(times[start + n - 1])
        self.since_s = first_s - (self.last_s - first_s) / (n - 1) if n > 1 else first_s

    def _look_ahead(self, n: int) -> None:
        """The next n arrivals, fewer at the end of a recording that does not loop."""
        self._number += self._used * self._step
        self._used = 0
        numbers = np.floor(self._number + self._step * np.arange(n)).astype(np.int64)
        count = len(self._times_s)
        if math.isinf(self._cycle_s):
            self._ahead_s = self._times_s[numbers[numbers < count]]
        else:
            self._ahead_s = self._times_s[numbers % count] + numbers // count * self._cycle_s

    @property
    def _planned_s(self) -> np.ndarray:
        return self._ahead_s[self._used - self.n : self._used]

    def came(self, now_s: float) -> int:
        """See Clock."""
        return int(self._planned_s.searchsorted(now_s, side="right"))

    def cut(self, now_s: float) -> None:
        """See Clock; the rest of the group comes with the next one."""
        came = self.came(now_s)
        self._used -= self.n - came
        self.n = came
        if came:
            self.last_s = float(self._ahead_s[self._used - 1])

    def scale(self, factor: float) -> None:
        """Plays each tuple so many times as often."""
        self._number += self._used * self._step
        self._used = 0
        self._ahead_s = self._times_s[:0]
        self._step /= factor

    def piece(self) -> Piece:
        """See Clock."""
        return RecordedPiece(self._planned_s)
