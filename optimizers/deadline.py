"""Deadline of a search, which then returns its best plan so far: after a time limit, or when somebody asks it to
stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

Stopped = Callable[[], bool]
"""Whether the caller asks for the best plan so far."""


def never() -> bool:
    """Never stops a search."""
    return False


@dataclass(frozen=True, slots=True)
class Deadline:
    """Time limit, and a way to stop earlier. until_s: end of the time, on the clock of time.perf_counter(). stopped:
    whether somebody has asked to stop."""

    until_s: float = math.inf
    stopped: Stopped = never

    @classmethod
    def of(cls, seconds: float | None, stopped: Stopped = never) -> Deadline:
        """Deadline so many seconds from now. seconds: None: no limit."""
        return cls(math.inf if seconds is None else time.perf_counter() + seconds, stopped)

    @property
    def left_s(self) -> float:
        """Seconds left; 0 once the time is up or somebody has stopped the search."""
        return 0.0 if self.stopped() else max(0.0, self.until_s - time.perf_counter())

    def part(self, share: float) -> Deadline:
        """Deadline after a share of the time left."""
        return self if self.until_s == math.inf else replace(self, until_s=time.perf_counter() + share * self.left_s)

    @property
    def over(self) -> bool:
        """Whether the time is up: the best plan so far is to be returned."""
        return self.left_s <= 0.0

    @property
    def endless(self) -> bool:
        """Whether there is neither a time limit nor a way to stop."""
        return self.until_s == math.inf and self.stopped is never


ENDLESS = Deadline()
"""Deadline without a limit."""
