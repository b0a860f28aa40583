"""Checkpoint barriers at one station, aligned or unaligned, and the work that a checkpoint takes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twin.engine.logic import Logic
from twin.engine.output import EvaluationResult
from twin.engine.record import Mark, Record
from twin.engine.station.task import Snapshot

if TYPE_CHECKING:
    from twin.engine.station.task import Task


class Chore(Logic):
    """Work that a station does beside its records, without a result. work_s: CPU seconds."""

    def __init__(self, station: Task, work_s: float) -> None:
        super().__init__()
        self.station = station
        self.work_s = work_s

    def due(self, at_s: float) -> None:
        self.station.job(EvaluationResult([], self.station.output, []), self.work_s)


def occupy(station: Task, work_s: float) -> None:
    """Gives a station `work_s` CPU seconds of work: before the next record, or now if it is idle."""
    chore, now = Chore(station, work_s), station.env.now
    if station.busy or station.output.blocked:
        station.timers.append((chore, now))
    else:
        chore.due(now)


@dataclass(slots=True)
class CheckpointPart:
    """Part of one task in a checkpoint. held_bytes: its state. changed_bytes: state to upload. flying_bytes: tuples in
    flight to it.

    came: tuples that it had taken. counted: results. work_s: CPU seconds. since_s: when the first barrier came.
    reached_s: when the state was kept. waited_s: from the first barrier to the last. put_aside: tuples that waited
    meanwhile. flying: copies of the tuples in flight.
    """

    held_bytes: float = 0.0
    changed_bytes: float = 0.0
    flying_bytes: float = 0.0
    came: int = 0
    counted: int = 0
    work_s: float = 0.0
    since_s: float = 0.0
    reached_s: float = 0.0
    waited_s: float = 0.0
    put_aside: int = 0
    snapshot: Snapshot | None = None
    flying: list[Record] = field(default_factory=list)
    done: bool = False

    @property
    def uploaded_bytes(self) -> float:
        """Bytes to upload: the state that changed, and tuples in flight."""
        return self.changed_bytes + self.flying_bytes

    @property
    def fetched_bytes(self) -> float:
        """Bytes to fetch in order to go back to the checkpoint."""
        return self.held_bytes + self.flying_bytes


BARRIER = "barrier"
BarrierInput = tuple[int, object]
"""One input: side of the stream, and the task that sends."""


class Barriers:
    """Barriers of one station. overtakes: whether they are unaligned. passed: called when the station's part is known.

    number: the awaited checkpoint; -1 if none is. part: the station's part of it. ways: inputs from which barriers
    come. outs: by port, the replicas to which they go. came: inputs whose barrier has come. work_s: returns the CPU
    seconds that the checkpoint takes of the station.
    """

    def __init__(
        self,
        station: Task,
        overtakes: bool,
        work_s: Callable[[Barriers], float],
        passed: Callable[[Barriers], None],
    ) -> None:
        self.station = station
        self.overtakes = overtakes
        self.work_s = work_s
        self.passed = passed
        self.number = -1
        self.part = CheckpointPart()
        self.ways: set[BarrierInput] = set()
        self.outs: Sequence[Sequence[int]] = ()
        self.came: set[BarrierInput] = set()
        self.aside: list[Record] = []
        self.held: dict[object, int] = {}  # tuples put aside, by sender
        self.corked: list[Task] = []

    # a checkpoint --------------------------------------------------------------------------------------------------

    def expect(self, number: int, part: CheckpointPart, ways: set[BarrierInput], outs: Sequence[Sequence[int]]) -> None:
        """Prepares for the barriers of a checkpoint that begins. A station without inputs waits for `begin`."""
        self.number, self.part, self.ways, self.outs, self.came = number, part, ways, outs, set()

    def begin(self) -> None:
        """Begins a checkpoint at a station without inputs: between what it has sent and what it will send."""
        self.part.since_s = self.station.env.now
        self._keep()
        self._end()

    def abandon(self) -> None:
        """Gives the awaited checkpoint up."""
        self.number = -1
        self._let_go()
        if not self.station.busy:
            self.station.work()

    def heed(self, mark: Record) -> None:
        """Takes an aligned barrier whose turn in the queue has come."""
        assert isinstance(mark, Mark)
        if mark.value != self.number:
            return
        if not self.came:
            self.part.since_s = self.station.env.now
        self.came.add((mark.inbox.side, mark.sender))
        if len(self.came) == len(self.ways):
            self._keep()
            self._let_go()
            self._end()

    # aligned -------------------------------------------------------------------------------------------------------

    def holds(self, record: Record) -> bool:
        """Whether a record must wait until the aligned barriers of all other inputs have come."""
        return bool(self.came) and not self.overtakes and (record.inbox.side, record.sender) in self.came

    def put(self, record: Record) -> None:
        """Puts a record aside. Other senders get its room in the channel; its own is blocked when it has had its
        share."""
        inbox, sender, station = record.inbox, record.sender, self.station
        self.aside.append(record)
        self.part.put_aside += record.n
        self.held[sender] = held = self.held.get(sender, 0) + record.n
        senders = len([side for side, _ in self.ways if side == inbox.side])
        if held * senders >= inbox.capacity and sender not in self.corked:
            self.corked.append(sender)
            sender.output.block()
        inbox.credits += record.n
        if inbox.waiters:
            station.busy = True  # records that arrive now wait for their turn
            inbox.wake()
            station.busy = False

    def _let_go(self) -> None:
        """Queues the records that were put aside, in order, before those that are queued."""
        now: float = self.station.env.now
        aside, self.aside, self.came, self.held = self.aside, [], set(), {}
        for record in reversed(aside):
            record.inbox.credits -= record.n
            record.at_s = now
            self.station.queue.appendleft(record)
        corked, self.corked = self.corked, []
        for sender in corked:
            sender.output.unblock()

    # unaligned -----------------------------------------------------------------------------------------------------

    def arrived(self, record: Record) -> bool:
        """Looks at an item that arrives; returns whether it was an unaligned barrier, which waits for nobody."""
        way = (record.inbox.side, record.sender)
        if not record.n and isinstance(record, Mark) and record.kind == BARRIER:
            if record.value == self.number:
                self._overtaken(way)
            return True
        if self.came and way not in self.came and record.n:
            self.part.flying.append(record.copy())
        return False

    def _overtaken(self, way: BarrierInput) -> None:
        first = not self.came
        self.came.add(way)
        if first:
            self.part.since_s = self.station.env.now
            self._keep()
        if len(self.came) == len(self.ways):
            self.came = set()
            self._end()

    # aligned and unaligned -----------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Keeps the station's state as its part, and sends the barrier on."""
        station, part = self.station, self.part
        now: float = station.env.now
        part.reached_s = now
        snapshot = part.snapshot = station.snapshot()
        if self.overtakes:
            self._keep_unsent(snapshot)
        elif self.ways:
            snapshot.queue = station.logic.pending()  # queued records came after the barriers
        mark = Mark(BARRIER, self.number, station.name, max(now, station.free_s))
        for port, replicas in zip(station.ports, self.outs, strict=True):
            port.barrier(replicas, mark, self.overtakes)
        work_s = self.work_s(self)
        if work_s > 0.0:
            occupy(station, work_s)

    def _keep_unsent(self, snapshot: Snapshot) -> None:
        snapshot.queue = [record for record in snapshot.queue if record.n]
        for port in self.station.ports:
            for path, record in port.unsent():
                if record.n:
                    unsent = record.copy()
                    path.direct(unsent)
                    self.part.flying.append(unsent)

    def _end(self) -> None:
        part = self.part
        part.waited_s = self.station.env.now - part.since_s
        assert part.snapshot is not None
        tuples = [*part.flying, *part.snapshot.queue]
        part.flying_bytes = sum([record.n * record.inbox.tuple_bytes for record in tuples if record.inbox is not None])
        self.passed(self)
        self.number = -1
