"""A checkpoint under way: what is known of each task, and its row among the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from twin.change.checkpoint import Checkpoint

if TYPE_CHECKING:
    from twin.engine.measure.ledger import Ledger
    from twin.engine.station.barriers import CheckpointPart
    from twin.engine.station.task import Task

KIND = "checkpoint"
"""The kind of its row among the events."""


class Progress:
    """The progress of checkpoint `number`. parts: of all tasks. ended: the event that it is complete or given up."""

    def __init__(self, ledger: Ledger, env: simpy.Environment, number: int) -> None:
        self.parts: dict[Task, CheckpointPart] = {}
        self.ended = env.event()
        self.record = ledger.record(KIND, "job", env.now, number=number, status="under way")

    def checkpoint(self) -> Checkpoint:
        """The checkpoint that all parts make up."""
        made = Checkpoint(self.record.at_s)
        for task, part in self.parts.items():
            assert part.snapshot is not None
            made.tasks[task], made.counted[task] = part.snapshot, part.counted
            made.reached[task], made.sizes[task] = part.reached_s, part.fetched_bytes
            made.flying += part.flying
        return made

    def completed(self, now_s: float) -> None:
        """Closes its row as completed."""
        parts = self.parts.values()
        self.record.bytes = sum(part.uploaded_bytes for part in parts)
        self.record.detail |= {
            "status": "completed",
            "state_bytes": sum(part.held_bytes for part in parts),
            "flying_bytes": sum(part.flying_bytes for part in parts),
            "alignment_s": max(part.waited_s for part in parts),
            "put_aside": sum(part.put_aside for part in parts),
            "sync_cpu_s": sum(part.work_s for part in parts),
        }
        self._end(now_s)

    def failed(self, why: str, now_s: float) -> None:
        """Closes its row as failed, and says why."""
        self.record.detail |= {"status": "failed", "why": why}
        self._end(now_s)

    def _end(self, now_s: float) -> None:
        self.record.end_s = now_s
        self.ended.succeed()
