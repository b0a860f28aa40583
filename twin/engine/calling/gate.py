"""A system outside that takes so many calls a second, of all replicas together, one after the other."""

from __future__ import annotations

from twin.engine.calling.shown import Shown
from twin.engine.compute.load import Load
from twin.engine.compute.waiting import CRITICAL, tuple_wait_s

RENEW_S = 1.0
"""Simulated seconds for which means are used."""


class Gate:
    """each_s: from one call to the next at least. members: replicas that call. wait_s: mean wait of a call that
    segments do not show.
    """

    __slots__ = ("_free_s", "_load", "_shown", "_until_s", "each_s", "members", "wait_s")

    def __init__(self, per_s: float) -> None:
        self.each_s = 1.0 / per_s
        self.members = 0
        self.wait_s = 0.0
        self._free_s = 0.0  # when the next call may be made
        self._load = Load()
        self._shown = Shown()
        self._until_s = 0.0

    def admit(self, n: int, first_s: float, last_s: float) -> tuple[float, float]:
        """When the first and the last of n calls may be made, that are to be made evenly between two times."""
        begun_s = max(self._free_s, first_s)
        self._free_s = begun_s + n * self.each_s
        return begun_s, max(last_s, self._free_s - self.each_s)

    def pour(self, n: int, gap_scv: float, first_s: float, last_s: float) -> tuple[float, float]:
        """The same in a fast run, where calls come with gaps of that variability: of several replicas at the same time.

        What one has before it are the calls that are too many, and not those which are spread over the same time.
        """
        load = self._load
        load.tuples += n
        load.gaps += n * gap_scv
        load.last_s = max(load.last_s, last_s)
        behind_s = max(0.0, self._free_s - first_s)
        self._free_s = first_s + behind_s + n * self.each_s
        late_s = max(0.0, self._free_s - self.each_s - last_s)
        self._shown.note(n, min(behind_s, late_s), late_s)
        self._renew(last_s)
        return first_s + min(behind_s, late_s), last_s + late_s

    def _renew(self, now_s: float) -> None:
        """The mean wait, as in GI/D/1, if it is time."""
        if now_s < self._until_s:
            return
        self._until_s = now_s + RENEW_S
        self._load.refresh()
        used = self._load.tuples_per_s * self.each_s
        gap_scv = self._load.gap_scv  # of what was dealt in turn, the parts together are as irregular as the whole
        if gap_scv < 1.0:
            gap_scv = min(1.0, gap_scv * self.members)
        wait_s = tuple_wait_s(used, gap_scv, 0.0, self.each_s) if used < CRITICAL else 0.0
        self.wait_s = self._shown.left_s(wait_s, now_s)
