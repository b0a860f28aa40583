"""What travels in channels one by one, records, barriers and watermarks; and the time that a paused host has."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import Any

RECORD, BARRIER, WATERMARK = "record", "barrier", "watermark"


@dataclass(slots=True)
class Item:
    """A record, a barrier or a watermark. t: when it is there [s]. number: of the barrier's checkpoint, or the time of
    the watermark [s]. born, taken: when the record's oldest input came to the broker and was taken [s]. event: its
    event time, or where its piece of event time begins [s]. side: the producer that it came from. late: whether the
    watermark had passed it."""

    t: float
    what: str = RECORD
    number: float = 0
    born: float = 0.0
    taken: float = 0.0
    event: float = 0.0
    key: int = 0
    side: str = ""
    late: bool = False

    def at(self, t: float, **changes: Any) -> Item:
        """The same at another time."""
        return replace(self, t=t, **changes)


class Pauses:
    """Time of a host that stops for `pause_s` at exponential intervals of running; without an interval, never."""

    def __init__(self, interval_s: float | None, pause_s: float, end_s: float, rng: Any) -> None:
        self.begins, self.worked, now, self.pause_s = list[float](), list[float](), 0.0, pause_s
        while interval_s is not None and now < end_s:
            ran_s = rng.exponential(interval_s)
            self.begins.append(now + ran_s)
            self.worked.append((self.worked[-1] if self.worked else 0.0) + ran_s)
            now += ran_s + pause_s

    def awake(self, t: float) -> float:
        """The time itself, or the end of the pause that it is in."""
        k = bisect_right(self.begins, t) - 1
        return max(t, self.begins[k] + self.pause_s) if k >= 0 else t

    def after(self, start: float, work_s: float) -> float:
        """Time at which work is done that begins at `start`, or after the pause that this is in."""
        if not self.begins:
            return start + work_s
        begun = self.awake(start)
        past = bisect_right(self.begins, begun)  # pauses that are over
        ran_s = begun - past * self.pause_s + work_s
        return ran_s + self.pause_s * max(past, bisect_left(self.worked, ran_s))
