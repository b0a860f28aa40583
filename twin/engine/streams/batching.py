"""Jumbo tuples: a producer's tuples wait in its port until a batch is full, or until the next flush.

Flushes come periodically, as those of Flink's output flusher do, with periods that differ a little from port to port:
threads that sleep are not in step. An exact run collects tuples and lets a batch leave
as single tuples at one moment. A fast run adds the wait to the stamps, as it does with all waiting that segments hide.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from twin.engine.alarm import Alarm
from twin.engine.dealing.in_turn import Deal
from twin.engine.draws import Draws
from twin.engine.segment import Segment
from twin.engine.station.task import Task
from twin.engine.streams.channel import Path, Paths, Port
from twin.engine.streams.telling import tell

FLUSH_DRIFT = 0.05
"""Periods of ports differ by up to this share."""
RENEW_S = 1.0
"""Simulated seconds for which a computed wait is used."""


@dataclass(frozen=True, slots=True)
class Batching:
    """Batches of `tuples`, and a flush every `flush_s` beginning at `phase_s`."""

    tuples: int
    flush_s: float
    phase_s: float


class GatheringPort(Port):
    """Exact: one buffer a consumer replica."""

    __slots__ = ("_alarm", "_armed", "_buffers", "batching")

    def __init__(self, task: Task, paths: Paths, deal: Deal, cap: int, batching: Batching) -> None:
        super().__init__(task, paths, deal, cap)
        self.batching = batching
        self._buffers: defaultdict[int, list[Segment]] = defaultdict(list)
        self._alarm = Alarm(task.env, self._flush)
        self._armed = False

    def send(self, segment: Segment) -> None:
        """Puts tuples into their buffers; a full one leaves."""
        for index, piece in self.deal.parts(segment):
            buffer = self._buffers[index]
            buffer.append(piece)
            if len(buffer) >= self.batching.tuples:
                self._leave(index)
            elif not self._armed:
                self._armed = True
                now, every_s, phase_s = self.task.env.now, self.batching.flush_s, self.batching.phase_s
                self._alarm.set(phase_s + (math.floor((now - phase_s) / every_s) + 1) * every_s)

    def _flush(self, alarm: Alarm) -> None:
        self._armed = False
        self.flush()

    def flush(self) -> None:
        """Incomplete batches leave."""
        for index in [index for index, buffer in self._buffers.items() if buffer]:
            self._leave(index)

    def _leave(self, index: int) -> None:
        batch, self._buffers[index] = self._buffers[index], []
        now = self.task.env.now
        for piece in batch:
            piece.a_s = piece.b_s = now
            self._pass(self.paths[index], piece)

    def unsent(self) -> Iterable[tuple[Path, Segment]]:
        """What is in the buffers counts."""
        return [
            *self.outbox,
            *((self.paths[index], piece) for index in self._buffers for piece in self._buffers[index]),
        ]

    def clear(self) -> None:
        """Drops what is in the buffers too."""
        super().clear()
        self._buffers.clear()


@dataclass(slots=True)
class Burst:
    """How many tuples reach a task at one moment."""

    size: float = 1.0


class DelayingPort(Port):
    """Fast: makes tuples older by their wait for the batch, and by their turn in it at the consumer.

    A share of the tuples waits between bursts of arrivals, uniformly. Within one, a tuple that was served early waits
    long for the batch and one that was served late does not: the sum is nearly the same for all, so it is a mean.
    """

    __slots__ = (
        "_between_s",
        "_draws",
        "_open_share",
        "_since_s",
        "_together_s",
        "_tuples",
        "_until_s",
        "_varies",
        "batching",
        "bursts",
    )

    def __init__(
        self,
        task: Task,
        paths: Paths,
        deal: Deal,
        cap: int,
        batching: Batching,
        bursts: dict[Task, Burst],
        draws: Draws,
    ) -> None:
        super().__init__(task, paths, deal, cap)
        self.batching = batching
        self.bursts = bursts
        self._draws = draws
        self._open_share = self._between_s = self._together_s = self._since_s = self._until_s = 0.0
        self._tuples = 0
        self._varies = True

    def send(self, segment: Segment) -> None:
        """Shifts the stamps, then sends as ever."""
        if self.task.env.now >= self._until_s:
            self._renew()
        older_s, draws = self._together_s, self._draws
        if draws.uniform() < self._open_share:
            older_s += self._between_s * (2.0 * draws.uniform() if self._varies else 1.0)
        segment.born0_s -= older_s
        segment.born1_s -= older_s
        segment.taken0_s -= older_s
        segment.taken1_s -= older_s
        super().send(segment)

    def _renew(self) -> None:
        now, task, batch, flush_s = self.task.env.now, self.task, self.batching.tuples, self.batching.flush_s
        made = task.tuples_out - self.passed_over
        elapsed_s, tuples = now - self._since_s, made - self._tuples
        if elapsed_s <= 0.0 or tuples <= 0:
            return
        self._since_s, self._tuples, self._until_s = now, made, now + RENEW_S
        share = 1.0 if self.deal.copies else 1.0 / max(1, sum([weight > 0.0 for weight in self.deal.weights]))
        per_s = tuples / elapsed_s * share
        burst, gap_s = self._burst(share)
        self._together_s = max(0.0, min(burst, batch) - 1.0) / 2.0 * gap_s
        self._varies = True
        coming = per_s * flush_s
        if coming < batch:  # only flushes count, which know nothing of bursts
            self._open_share, self._between_s, self._together_s = 1.0, flush_s / 2.0, 0.0
        elif burst < batch:  # out of step a batch is full in the middle of a burst, and all wait as if they came evenly
            in_step = 1.0 if task.logic.windowed else self._in_step(batch / max(1.0, burst), per_s * gap_s)
            self._open_share = 1.0 - in_step * burst / batch if burst > 1.0 else 1.0
            self._between_s = fill_wait_s(per_s, batch, flush_s)
            self._together_s *= in_step
        else:  # what a burst leaves in an incomplete batch waits for the next burst, or for the flush
            apart = 1.0 - self._in_step(burst / batch, per_s * gap_s)
            self._open_share = apart * batch / (2.0 * burst)
            self._between_s = min(flush_s / 2.0, burst / per_s)
            self._varies = burst / per_s > flush_s / 2.0
            self._together_s *= 1.0 - apart * batch / burst
        if task.logic.windowed:  # its segments are the bursts
            every_s = now / max(1, task.logic.fired())
            tell(self, max(burst, coming), self.deal.producers, max(1.0, every_s / flush_s))
            return
        leaving = max(1.0, min(batch, coming))
        path = self._announce(leaving)
        tell(self, min(batch, coming))
        if path is None:
            return
        consumer = path.inbox.task
        assert isinstance(consumer, Task)
        if consumer.queued < batch:  # else it would be as busy with tuples one by one
            service_s = consumer.service_s + path.inbox.beyond_s + consumer.logic.more_s
            each_s = (service_s + path.fetch_s + consumer.send_s) * consumer.processor.slowdown
            cpu_s = (leaving - 1.0) / 2.0 * each_s / consumer.processor.speed
            self._together_s += max(cpu_s, consumer.logic.turn_s(leaving))

    def _announce(self, leaving: float) -> Path | None:
        """Tells the consumer's replicas how many tuples come at one moment; the path to one of them, if there is."""
        last: Path | None = None
        for index, weight in enumerate(self.deal.weights):
            if weight > 0.0 and isinstance(taker := self.paths[index].inbox.task, Task):  # else state is on its way
                last = self.paths[index]
                self.bursts[taker].size = leaving
        return last

    def _in_step(self, batches: float, load: float) -> float:
        """Share of time in which a burst fills whole batches and leaves nothing.

        The producers' flushes put incomplete batches between whole ones; after a flush of this port that finds the
        task idle its batches begin with the bursts again.
        """
        if self.task.logic.windowed or abs(batches - round(batches)) > 0.02:
            return 0.0
        return max(0.0, 1.0 - load) / 2.0

    def _burst(self, share: float) -> tuple[float, float]:
        """(Tuples for one consumer replica that the task makes from one burst, seconds between two of them)."""
        task = self.task
        made = (task.tuples_out - self.passed_over) / max(1, task.tuples_in)
        if task.logic.windowed:
            return task.tuples_out / max(1, task.logic.fired()) * share, 0.0
        service_s = task.service_s + task.inputs.beyond_s() + task.logic.more_s
        each_s = service_s * task.processor.slowdown / task.processor.speed
        return self.bursts[task].size * made * share, each_s / max(made * share, 1e-9)


def fill_wait_s(per_s: float, batch: int, flush_s: float) -> float:
    """Mean wait of a tuple for its batch, in seconds, where evenly spaced tuples come at that rate.

    Between two flushes N = rate x flush_s tuples fill as many batches as they can; the rest waits for the flush.
    """
    coming = per_s * flush_s
    if coming <= 0.0 or batch <= 1:
        return 0.0
    full = math.floor(coming / batch)
    rest = coming - full * batch
    return (full * batch * (batch - 1) + rest * rest) / (2.0 * per_s) / coming
