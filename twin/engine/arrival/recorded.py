"""The clock of recorded records: each arrives when the file says."""

from __future__ import annotations

import math

import numpy as np

from twin.arrivals.replay import Replay

BLOCK = 1024
"""Records that a clock gives away at a time, at most."""
NEVER = np.array([math.inf])


class RecordedClock:
    """See twin.engine.arrival.clock.Clock. Replica k of R plays every R-th record, beginning with number k.

    A rate factor of 2 plays every record twice, of 1/2 every second one.
    """

    __slots__ = ("_cycle_s", "_number", "_step", "_times_s", "_used")

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
