"""A checkpoint under way: what is known of each task, and its row among the events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import simpy

from twin.change.checkpoint import Checkpoint
from twin.engine.record import Record
from twin.engine.station.task import Snapshot

if TYPE_CHECKING:
    from twin.engine.measure.ledger import Ledger
    from twin.engine.station.barriers import Barriers
    from twin.engine.station.task import Task

KIND = "checkpoint"
"""The kind of its row among the events."""


@dataclass(slots=True)
class CheckpointPart:
    """The part of one task. held_bytes: its state; changed_bytes: state to upload; flying_bytes: tuples on their way.

    came: tuples that it had taken up; counted: results. work_s: CPU seconds. waited_s: from the first barrier to the
    last. put_aside: tuples that waited meanwhile.
    """

    held_bytes: float = 0.0
    changed_bytes: float = 0.0
    flying_bytes: float = 0.0
    came: int = 0
    counted: int = 0
    work_s: float = 0.0
    reached_s: float = 0.0
    waited_s: float = 0.0
    put_aside: int = 0
    snapshot: Snapshot | None = None
    flying: list[Record] = field(default_factory=list)
    done: bool = False

    @property
    def uploaded_bytes(self) -> float:
        """Bytes to upload: the state that changed, and tuples."""
        return self.changed_bytes + self.flying_bytes

    @property
    def fetched_bytes(self) -> float:
        """Bytes to fetch to go back to the checkpoint."""
        return self.held_bytes + self.flying_bytes

    def know(self, gate: Barriers) -> None:
        """The task has had all its barriers."""
        snapshot = gate.snapshot
        assert snapshot is not None
        self.snapshot, self.flying, self.reached_s = snapshot, gate.flying, gate.reached_s
        self.waited_s, self.put_aside = gate.waited_s, gate.put_aside
        tuples = [*self.flying, *snapshot.queue]
        self.flying_bytes = sum([record.n * record.inbox.tuple_bytes for record in tuples if record.inbox is not None])


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
