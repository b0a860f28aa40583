"""Of a mean wait, what segments show by themselves."""

from __future__ import annotations

from math import exp

MEMORY_S = 10.0


class Shown:
    """Waits that segments had, forgotten over time; the rest of the wait that theory knows is hidden from them."""

    __slots__ = ("_since_s", "_tuples", "_wait_s")

    def __init__(self) -> None:
        self._tuples = 0.0
        self._wait_s = 0.0
        self._since_s = 0.0

    def note(self, n: int, first_s: float, last_s: float) -> None:
        """The first and the last of n tuples waited for so long."""
        self._tuples += n
        self._wait_s += n * (first_s + last_s) / 2.0

    def left_s(self, wait_s: float, now_s: float) -> float:
        """Of a mean wait, what has to be added."""
        keep = exp(-(now_s - self._since_s) / MEMORY_S)
        self._since_s = now_s
        self._tuples *= keep
        self._wait_s *= keep
        seen_s = self._wait_s / self._tuples if self._tuples > 0.0 else 0.0
        return max(0.0, wait_s - seen_s)
