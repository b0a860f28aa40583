"""The flat demands on a processor, sorted, so that the level of its jobs costs next to nothing for hundreds of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

GRAIN = 4096.0
"""Adding and taking it away rounds a demand to a multiple of 2^-40 cores. Sums of up to twice as many such demands are
exact in floating point: taken along from one change to the next, they never drift."""


def grained(demand: float) -> float:
    """A demand of at most one core, so rounded that sums of demands are exact."""
    return (demand + GRAIN) - GRAIN


class Flats:
    """Demands in cores, `grained`. `total`: of all. `low`: how many lie below the level; `demand`: of those.

    Who asks for nothing is not among them: he is in nobody's way.
    """

    __slots__ = ("_sorted", "demand", "low", "total")

    def __init__(self) -> None:
        self._sorted: list[float] = []
        self.total = 0.0
        self.low = 0
        self.demand = 0.0

    def add(self, flat: float) -> None:
        """One more."""
        if flat == 0.0:
            return
        place = bisect_right(self._sorted, flat)
        self._sorted.insert(place, flat)
        self.total += flat
        if place <= self.low:
            self.low += 1
            self.demand += flat

    def remove(self, flat: float) -> None:
        """One less of that size."""
        if flat == 0.0:
            return
        place = bisect_left(self._sorted, flat)
        del self._sorted[place]
        self.total -= flat
        if place < self.low:
            self.low -= 1
            self.demand -= flat

    def level(self, capacity: float, jobs: int) -> float:
        """Water filling: what each of `jobs` > 0 gets, in cores; a flat demand above that is held to it, like a job.

        The sum of min(demand, level) is concave in the level. So Newton's method from where the level last was (the
        sums of `low`) comes at once below the solution, rises from there, and ends after few steps, mostly none.
        """
        flats, low = self._sorted, self.low
        level = (capacity - self.demand) / (jobs + len(flats) - low)
        fits = bisect_right(flats, level)
        while fits != low:
            self.demand += sum(flats[low:fits]) if fits > low else -sum(flats[fits:low])
            self.low = low = fits
            level = (capacity - self.demand) / (jobs + len(flats) - low)
            fits = bisect_right(flats, level, low)  # only upwards: rounding must not make it swing
        return level
