"""How fast tuples came lately, by the ends of the last few segments: one may be short by chance."""

from __future__ import annotations

RECENT = 4
"""Segments."""


class Recent:
    """So many tuples came with each of the last segments, until when."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: list[tuple[int, float]] = []

    def copy(self) -> Recent:
        """Another one that has seen the same."""
        other = Recent()
        other._last = self._last.copy()
        return other

    def add(self, n: int, last_s: float) -> None:
        """A segment of n tuples has come."""
        self._last.append((n, last_s))
        if len(self._last) > RECENT + 1:
            del self._last[0]

    def rate_per_s(self) -> float:
        """Tuples a second; 0 before it is known."""
        last = self._last
        if len(last) <= RECENT or last[-1][1] <= last[0][1]:
            return 0.0
        tuples = sum([n for n, _ in last[1:]])
        return max(0.0, tuples - 1.0) / (last[-1][1] - last[0][1])  # (k - 1) / time is unbiased
