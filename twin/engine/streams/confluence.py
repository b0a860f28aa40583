"""Where streams meet: the work that overlapping segments bring to one task, as fluids in the order of arrival.

A task serves one segment after the other, but the tuples of segments that overlap in time came interleaved. Were each
segment's work to queue behind all of the one before it, work would wait that never did: the task was idle between the
tuples of the first, and served those of the second there. So the work of each segment is spread over the time in which
its tuples came, and the workload (what a tuple that arrives has to wait for) is followed only as far as all segments
are known: up to `reach` before the front, the latest tuple of all.
"""

from __future__ import annotations

import heapq
import math

FORGET = 0.98
"""Per segment, of how far back one reached."""
LEAST_TURNS, TURNS = 4, 8
"""The work of segments that come in turn is spread over the time of at least, and at most, so many of them."""
SLOW = 0.1
"""Weight of a segment in the mean time between two of an inbox."""


def round_of(producers: int, consumers: int) -> int:
    """Segments after which a consumer replica's come again at the same distances, if producer replicas deal together.

    Each of them splits its segments, which end at times of its own, among its fair share of the consumers.
    """
    if producers == 1:
        return 1
    dealt = producers * -(-consumers // producers)
    return max(LEAST_TURNS, dealt // math.gcd(dealt, consumers))


class Lane:
    """What one inbox brings: a segment every `gap_s` on average, in rounds of so many.

    batch: tuples that travel together. What is less leaves when its producer flushes, every `flush_s`.
    """

    __slots__ = ("batch", "flush_s", "gap_s", "last_s", "turns")

    def __init__(self, turns: int) -> None:
        self.turns = min(turns, TURNS)
        self.batch = 1
        self.flush_s = 0.0
        self.gap_s = 0.0
        self.last_s = 0.0

    def know(self, turns: int) -> None:
        """The rounds are others now."""
        self.turns = min(turns, TURNS)

    def burst_s(self, n: int, span_s: float) -> float:
        """Time over which n tuples came that left a window at one moment, among those of other producers."""
        return self.flush_s if n < self.batch and self.turns > 1 and self.flush_s > span_s else span_s

    def width_s(self, a_s: float, b_s: float) -> float:
        """Time over which the tuples of a segment came that spans [a_s, b_s]."""
        span_s = b_s - a_s
        if self.turns == 1 or span_s <= 0.0:  # a burst is one
            return span_s
        gap_s = b_s - self.last_s
        if gap_s > 0.0:
            self.last_s = b_s
        else:
            gap_s = 0.0
        self.gap_s += SLOW * (gap_s - self.gap_s)
        return max(span_s, self.turns * self.gap_s)


class Confluence:
    """A task's workload, in seconds of its own work; times are those of the segments' stamps.

    since_s: nothing came before. able_s: until when nothing was served, at last.
    wait_s, clock_s: set by `add`. What the tuple at the segment's end waits for; and how long after it the work that
    is known is done, which is when the task is free again.
    """

    __slots__ = (
        "_ahead_s",
        "_at_s",
        "_behind_s",
        "_front_s",
        "_idle_s",
        "_knots",
        "_rate",
        "_reach_s",
        "able_s",
        "clock_s",
        "wait_s",
    )

    def __init__(self, since_s: float = 0.0) -> None:
        self.wait_s = 0.0
        self.clock_s = 0.0
        self.able_s = since_s
        self._at_s = since_s  # all that came until then is known
        self._behind_s = 0.0  # the workload at that time
        self._ahead_s = 0.0  # work known to have come later
        self._rate = 0.0  # at which work comes then
        self._knots: list[tuple[float, float, float]] = []  # time, change of the rate, work that comes at once
        self._front_s = since_s
        self._reach_s = 0.0
        self._idle_s = 0.0  # lately, before `_at_s`

    @property
    def known(self) -> tuple[float, float]:
        """Until when all is known that came, and the workload at that time."""
        return self._at_s, self._behind_s

    def add(self, low_s: float, high_s: float, work_s: float, usual: float) -> None:
        """Work that comes evenly over [low_s, high_s], or at once. usual: the share of time that the task works."""
        if high_s > self._front_s:
            self._front_s = high_s
        reach_s = self._reach_s * FORGET
        if self._front_s - low_s > reach_s:
            reach_s = self._front_s - low_s
        self._reach_s = reach_s
        to_s = self._front_s - reach_s
        if to_s > self._at_s:
            self._advance(to_s)
        span_s = high_s - self._at_s
        if high_s > low_s:
            self._spread(low_s, high_s, work_s)
            own_s = 0.0
        else:
            own_s = work_s
        net_s = self._behind_s + self._ahead_s - span_s
        self.clock_s = net_s if net_s > 0.0 else 0.0
        if self._behind_s < span_s:  # chance decides what it will be: as it was lately
            self.wait_s = self._behind_s
        else:
            unknown_s = max(0.0, usual * span_s - self._ahead_s)
            self.wait_s = net_s + unknown_s if net_s + unknown_s > 0.0 else 0.0
        if own_s:
            self._at_once(high_s, own_s)

    def unable(self, until_s: float) -> None:
        """Nothing was served until then: whatever is known to have come waits for it."""
        self.able_s = until_s
        self._advance(self._front_s)
        self._idle_s = min(self._idle_s, self._reach_s)
        if until_s - self._at_s > self._behind_s:
            self._behind_s = until_s - self._at_s

    def delay(self, time_s: float) -> None:
        """The task is free that much later than it was said to be; or earlier, if < 0."""
        self._behind_s = max(0.0, self._behind_s + time_s)

    def _spread(self, low_s: float, high_s: float, work_s: float) -> None:
        at_s = self._at_s
        rate = work_s / (high_s - low_s)
        if low_s < at_s:
            early_s = rate * (min(high_s, at_s) - low_s)
            self._late(early_s)
            if high_s <= at_s:
                return
            self._rate += rate
            self._ahead_s += work_s - early_s
        else:
            heapq.heappush(self._knots, (low_s, rate, 0.0))
            self._ahead_s += work_s
        heapq.heappush(self._knots, (high_s, -rate, 0.0))

    def _at_once(self, at_s: float, work_s: float) -> None:
        if at_s <= self._at_s:
            self._late(work_s)
        else:
            heapq.heappush(self._knots, (at_s, 0.0, work_s))
            self._ahead_s += work_s

    def _late(self, work_s: float) -> None:
        """Work that came before: done in the idle time that there was, as far as it suffices."""
        done_s = work_s if work_s < self._idle_s else self._idle_s
        self._idle_s -= done_s
        self._behind_s += work_s - done_s

    def _advance(self, to_s: float) -> None:
        knots = self._knots
        while knots and knots[0][0] <= to_s:
            at_s, change, work_s = heapq.heappop(knots)
            self._flow(at_s)
            self._rate += change
            self._behind_s += work_s
            self._ahead_s -= work_s
        if not knots:
            self._rate = self._ahead_s = 0.0
        self._flow(to_s)

    def _flow(self, to_s: float) -> None:
        time_s = to_s - self._at_s
        if time_s <= 0.0:
            return
        came_s = self._rate * time_s
        self._ahead_s -= came_s
        left_s = self._behind_s + came_s - time_s
        if left_s < 0.0:
            idle_s = self._idle_s - left_s
            self._idle_s = idle_s if idle_s < self._reach_s else self._reach_s
            left_s = 0.0
        self._behind_s = left_s
        self._at_s = to_s
