"""What a task was at a checkpoint, and goes back to."""

from __future__ import annotations

from twin.engine.segment import Segment
from twin.engine.streams.control import Alignment


class Snapshot:
    """Any task's. queue: what it has still to serve. serving: what it had served and not sent the results of.

    windows: tuples that its windows held, as it counted them itself. alignment: how far its inputs were.
    """

    __slots__ = ("alignment", "queue", "serving", "windows")

    def __init__(
        self,
        queue: list[Segment],
        serving: Segment | None = None,
        windows: float = 0.0,
        alignment: Alignment | None = None,
    ) -> None:
        self.queue = queue
        self.serving = serving
        self.windows = windows
        self.alignment = alignment.copy() if alignment is not None else None

    @property
    def queued(self) -> int:
        """Tuples in the queue."""
        return sum([segment.n for segment in self.queue])
