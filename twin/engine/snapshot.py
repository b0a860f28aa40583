"""What a task was at a checkpoint, and goes back to."""

from __future__ import annotations

from twin.engine.outcome import Outcome
from twin.engine.record import Record
from twin.engine.streams.control import Alignment


class Snapshot:
    """A station's. queue: what it has still to serve. serving: what it had served and not sent the results of.

    evaluating: what it was about to send for an evaluation. windows: tuples that its windows held, as it counted them
    itself. alignment: how far its inputs were. kept: what its logic noted of itself. told: by port, how far it had said
    that it was.
    """

    __slots__ = ("alignment", "evaluating", "kept", "queue", "serving", "told", "windows")

    def __init__(
        self,
        queue: list[Record],
        serving: Record | None,
        evaluating: Outcome | None,
        windows: float,
        alignment: Alignment | None,
        kept: object,
        told: list[dict[str, float]],
    ) -> None:
        self.queue = queue
        self.serving = serving
        self.evaluating = evaluating
        self.windows = windows
        self.alignment = alignment.copy() if alignment is not None else None
        self.kept = kept
        self.told = told

    @property
    def queued(self) -> int:
        """Tuples in the queue."""
        return sum([record.n for record in self.queue])
