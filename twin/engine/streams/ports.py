"""Ports that do not send every record at once: batching, and load shedding.

Jumbo tuples: a producer's records wait in its port until a batch is full, or until the next flush. Flushes are
periodic, as those of Flink's output flusher. Their periods differ a little from port to port, as threads that sleep are
not in step. A batch leaves as single records at one moment.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from twin.engine.calendar import Alarm
from twin.engine.partitioners import Partitioner
from twin.engine.record import Record
from twin.engine.streams.channel import Path, Paths, Port, Sender

FLUSH_DRIFT = 0.05
"""Share by which the periods of ports differ at most."""


@dataclass(frozen=True, slots=True)
class Batching:
    """Batches of `tuples` records, and a flush every `flush_s` seconds, beginning at `phase_s`."""

    tuples: int
    flush_s: float
    phase_s: float


class GatheringPort(Port):
    """Port that gathers records into batches, with a buffer for each consumer replica."""

    def __init__(self, task: Sender, paths: Paths, partitioner: Partitioner, batching: Batching) -> None:
        super().__init__(task, paths, partitioner)
        self.batching = batching
        self._buffers: defaultdict[int, list[Record]] = defaultdict(list)
        self._alarm = Alarm(task.env, self._flush)
        self._armed = False

    def send(self, record: Record) -> None:
        """Puts a record into its buffer; a full buffer is sent."""
        for index, piece in self.partitioner.parts(record):
            self.gather(index, piece)

    def gather(self, index: int, record: Record) -> None:
        """Puts a record into the batch of a replica; a full batch is sent."""
        buffer = self._buffers[index]
        buffer.append(record)
        if len(buffer) >= self.batching.tuples:
            self.leave(index)
        elif not self._armed:
            self._armed = True
            now, every_s, phase_s = self.task.env.now, self.batching.flush_s, self.batching.phase_s
            self._alarm.set(phase_s + (math.floor((now - phase_s) / every_s) + 1) * every_s)

    def _flush(self, alarm: Alarm) -> None:
        self._armed = False
        self.flush()

    def flush(self) -> None:
        """Sends incomplete batches."""
        for index in list(self._buffers):
            if self._buffers[index]:
                self.leave(index)

    def leave(self, index: int) -> None:
        """Sends the batch of a replica."""
        batch, self._buffers[index] = self._buffers[index], []
        now, path = self.task.env.now, self.path_to(index)
        for piece in batch:
            piece.at_s = now
            self.pass_on(path, piece)

    def unsent(self) -> Iterable[tuple[Path, Record]]:
        """Records that have not left, with those in the buffers, and their paths."""
        return [
            *self.outbox,
            *((self.paths[index], piece) for index in self._buffers for piece in self._buffers[index]),
        ]

    def clear(self) -> None:
        """Drops records that have not left, with those in the buffers."""
        super().clear()
        self._buffers.clear()


class SheddingPort(Port):
    """Port that never waits: it drops a record for which there is no credit."""

    def pass_on(self, path: Path, record: Record) -> None:
        if path.inbox.credits >= record.n:
            self.transfer(path, record)
        else:
            self.dropped += record.n
