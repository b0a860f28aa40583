"""How long tuples of a stream are on their way: from where their producer is done with them to where they are taken up.

Latency markers of Flink wait in the same lines, and are served by nobody (`twin.markers`).
"""

from __future__ import annotations

from typing import Any


class Way:
    """Of one stream, all replicas together. tuples: taken up so far; took_s: what it took all of them."""

    __slots__ = ("took_s", "tuples")

    def __init__(self) -> None:
        self.tuples = 0
        self.took_s = 0.0


class WayMeter:
    """Reads the way of one stream, by the names of its ends; one row a period."""

    def __init__(self, ends: tuple[str, str], way: Way) -> None:
        self.ends = ends
        self.way = way
        self._tuples = 0
        self._took_s = 0.0

    def row(self, start_s: float) -> dict[str, Any]:
        """Of the period that began then; resets the meter."""
        tuples, took_s = self.way.tuples - self._tuples, self.way.took_s - self._took_s
        self._tuples, self._took_s = self.way.tuples, self.way.took_s
        return {"ends": self.ends, "start_s": start_s, "tuples": tuples, "took_s": took_s}
