"""When tuples came, as a fast run knows it: so many by each time, on straight lines from first to last of a segment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

TOLD_BY = 2.0
"""A segment is told after so many times as long as the last one lasted, or none is on its way."""


class Came:
    """`times_s` do not fall, and by each of them so many tuples had come."""

    __slots__ = ("counts", "times_s")

    def __init__(self) -> None:
        self.times_s: list[float] = []
        self.counts: list[float] = []

    def add(self, n: int, first_s: float, last_s: float) -> None:
        """n tuples more, after all others; those before the last known time are taken to have been counted."""
        if self.times_s and first_s < self.times_s[-1]:
            return
        before = self.counts[-1] if self.counts else 0.0
        self.times_s += (first_s, last_s)
        self.counts += (before, before + n)

    def scale(self, factor: float) -> None:
        """As if so many times as many had come."""
        self.counts = [each * factor for each in self.counts]

    def by(self, at_s: float) -> float:
        """Of a segment that has not ended yet nothing is known: tuples are taken to come as in the last one, until one
        more would have been told."""
        place = bisect_right(self.times_s, at_s)
        if place == 0:
            return 0.0
        if place == len(self.times_s):
            came, lasted_s = self.counts[-1] - self.counts[-2], self.times_s[-1] - self.times_s[-2]
            late_s = at_s - self.times_s[-1]
            return self.counts[-1] + (came * late_s / lasted_s if late_s < TOLD_BY * lasted_s else 0.0)
        since_s, until_s = self.times_s[place - 1], self.times_s[place]
        since, until = self.counts[place - 1], self.counts[place]
        return since + (until - since) * (at_s - since_s) / (until_s - since_s)

    def between(self, since_s: float, until_s: float) -> float:
        """So many came between two times."""
        return self.by(until_s) - self.by(since_s)

    def back(self, at_s: float, tuples: float) -> float:
        """Since when so many came until `at_s`; long ago if so many did not."""
        count = self.by(at_s) - tuples
        if not self.counts or count <= 0.0:
            return -float("inf")
        place = min(bisect_left(self.counts, count), len(self.counts) - 1)
        since, until = self.counts[place - 1], self.counts[place]
        since_s, until_s = self.times_s[place - 1], self.times_s[place]
        return since_s + (until_s - since_s) * (count - since) / (until - since)
