"""When a search must return its best plan so far: after a time limit, or when somebody asks it to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

Stopped = Callable[[], bool]
"""Whether whoever asked wants the best so far."""


def never() -> bool:
    """Nobody stops."""
    return False


@dataclass(frozen=True, slots=True)
class Deadline:
    """until_s: as time.perf_counter() tells it."""

    until_s: float = math.inf
    stopped: Stopped = never

    @classmethod
    def of(cls, seconds: float | None, stopped: Stopped = never) -> Deadline:
        """A deadline from now on. seconds: None: no limit."""
        return cls(math.inf if seconds is None else time.perf_counter() + seconds, stopped)

    @property
    def left_s(self) -> float:
        """0 if there is none."""
        return 0.0 if self.stopped() else max(0.0, self.until_s - time.perf_counter())

    def part(self, share: float) -> Deadline:
        """So much of what is left."""
        return self if self.until_s == math.inf else replace(self, until_s=time.perf_counter() + share * self.left_s)

    @property
    def over(self) -> bool:
        """Whether it is time for the best so far."""
        return self.left_s <= 0.0

    @property
    def endless(self) -> bool:
        """Whether nothing can end it."""
        return self.until_s == math.inf and self.stopped is never


ENDLESS = Deadline()
"""Nothing ends it."""
