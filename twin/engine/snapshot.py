"""What a task was at a checkpoint, and goes back to."""

from __future__ import annotations

from twin.engine.segment import Segment


class Snapshot:
    """Any task's. queue: what it has still to serve. serving: what it had served and not sent the results of.

    windows: tuples that its windows held, as it counted them itself.
    """

    __slots__ = ("queue", "serving", "windows")

    def __init__(self, queue: list[Segment], serving: Segment | None = None, windows: float = 0.0) -> None:
        self.queue = queue
        self.serving = serving
        self.windows = windows

    @property
    def queued(self) -> int:
        """Tuples in the queue."""
        return sum([segment.n for segment in self.queue])
