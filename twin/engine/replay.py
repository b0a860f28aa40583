"""A source that can read tuples again: it keeps what its broker handed over since the last checkpoint."""

from __future__ import annotations

import copy
from typing import Any

from twin.engine.operators import SourceTask
from twin.engine.segment import Segment


class ReplayableSource(SourceTask):
    """`log`: copies of all that was not yet emitted at the last checkpoint, or came since; None before the first."""

    __slots__ = ("log",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log: list[Segment] | None = None

    def deliver(self, segment: Segment) -> None:
        """Takes a segment from the broker."""
        if self.log is not None:
            self.log.append(copy.copy(segment))
        super().deliver(segment)

    def checkpoint(self) -> None:
        """From here on it can go back to this point."""
        in_service = [self._current[0]] if self.busy else []
        self.log = [copy.copy(segment) for segment in (*in_service, *self.queue)]

    def rewind(self) -> int:
        """Goes back to the last checkpoint; the tuples that are now waiting a second time."""
        before = self.queued
        log = [copy.copy(segment) for segment in self.log or ()]
        for segment in log:
            segment.waited = True
        self.queue.clear()
        self.queue.extend(log)
        self.queued = sum(segment.n for segment in log)
        return self.queued - before
