"""How many tuples of a replica wait for answers, where a fast run does not follow them one by one."""

from __future__ import annotations

from math import exp, inf, log

from twin.calls import Calls
from twin.engine.calling.shown import Shown
from twin.engine.compute.load import Load
from twin.engine.compute.waiting import CRITICAL, tuple_wait_s

RENEW_S = 1.0
"""Simulated seconds for which means are used."""


class Places:
    """A level that rises with the tuples that come and falls as they are answered, like water in a leaking bucket.

    kept_s: mean time for which a tuple keeps its place. wait_s: mean time for which it waits for one,
    that segments do not show.
    """

    __slots__ = ("_at_s", "_level", "_shown", "_until_s", "calls", "capacity", "kept_s", "leak_s", "per_s", "wait_s")

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.capacity = inf if calls.capacity is None else float(calls.capacity)
        per_s = calls.replica_per_s
        self.leak_s = calls.mean_s if per_s == inf else self.capacity / per_s
        self.kept_s = calls.mean_s
        self.per_s = 0.0
        self.wait_s = 0.0
        self._level = 0.0
        self._shown = Shown()
        self._at_s = 0.0
        self._until_s = 0.0

    def admit(self, n: int, first_s: float, last_s: float) -> tuple[float, float]:
        """When the first and the last of n tuples get a place, that come evenly between two times."""
        leak_s, most = self.leak_s, self.capacity
        if most == inf or leak_s <= 0.0:
            return first_s, last_s
        begun_s = first_s if first_s > self._at_s else self._at_s
        width_s = max(0.0, last_s - begun_s)
        level = self._level * exp(-(begun_s - self._at_s) / leak_s)
        if width_s <= 0.0:
            now_s = begun_s + max(0.0, n - (most - level)) * leak_s / most
            self._level = min(most, level + n)
        else:
            now_s, self._level = self._risen(n, level, begun_s, width_s)
        self._at_s = now_s
        self._shown.note(n, begun_s - first_s, max(0.0, now_s - last_s))
        return begun_s, max(last_s, now_s)

    def _risen(self, n: int, level: float, begun_s: float, width_s: float) -> tuple[float, float]:
        """When all n have come, and the level then; what finds it at the top comes at the pace of the answers."""
        leak_s, most = self.leak_s, self.capacity
        top = n / width_s * leak_s
        after = top + (level - top) * exp(-width_s / leak_s)
        if after <= most:
            return begun_s + width_s, after
        free_s = leak_s * log((top - level) / (top - most))
        return begun_s + free_s + (n - n / width_s * free_s) * leak_s / most, most

    def renew(self, load: Load, now_s: float) -> None:
        """The means, if it is time, of a replica of that load."""
        if now_s < self._until_s:
            return
        self._until_s = now_s + RENEW_S
        load.refresh()
        self.per_s = load.tuples_per_s
        self.kept_s = self.calls.kept_s(self.per_s)
        if self.capacity == inf or self.per_s <= 0.0:
            return
        self.kept_s = min(self.kept_s, self.capacity / self.per_s)
        used = self.per_s / self.calls.replica_per_s
        wait_s, calls = 0.0, self.calls
        if used < CRITICAL:
            wait_s = tuple_wait_s(used, load.gap_scv, calls.bunching, calls.served_s, calls.servers)
        self.wait_s = self._shown.left_s(wait_s, now_s)
