"""Work that a station does beside its records, once it has time: nothing comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from twin.engine.logic import Logic
from twin.engine.output import EvaluationResult
from twin.engine.record import Mark, Record
from twin.engine.station.task import Snapshot

if TYPE_CHECKING:
    from twin.engine.station.task import Task


class Chore(Logic):
    """work_s: CPU seconds."""

    def __init__(self, station: Task, work_s: float) -> None:
        super().__init__()
        self.station = station
        self.work_s = work_s

    def due(self, at_s: float, from_s: float) -> None:
        """See Logic."""
        self.station.job(EvaluationResult([], self.station.output, []), self.work_s)


def occupy(station: Task, work_s: float) -> None:
    """Gives a station so many CPU seconds of work: before the next record, or now if it is idle."""
    chore, now = Chore(station, work_s), station.env.now
    if station.busy or station.output.blocked:
        station.timers.append((chore, now))
    else:
        chore.due(now, now)


BARRIER = "barrier"
Way = tuple[int, object]
"""Side of the stream, and the task that sends."""


class Barriers:
    """Of one station. passed: told when its part of the checkpoint is known, with that part.

    number: of the checkpoint that is awaited; -1 if none is. ways: inputs, and outs: by port the replicas, that
    barriers come from and go to. came: inputs that are as far. since_s: when the first barrier came; reached_s: when
    the state was kept. flying: tuples on their way to a station that are part of the checkpoint. put_aside: tuples that
    were. work_s: CPU seconds that the checkpoint takes of the station, by its part.
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
        self.ways: set[Way] = set()
        self.outs: Sequence[Sequence[int]] = ()
        self.came: set[Way] = set()
        self.aside: list[Record] = []
        self.held: dict[object, int] = {}  # tuples put aside, by sender
        self.corked: list[Task] = []
        self.put_aside = 0
        self.since_s = 0.0
        self.reached_s = 0.0
        self.snapshot: Snapshot | None = None
        self.flying: list[Record] = []

    @property
    def waited_s(self) -> float:
        """Seconds from the first barrier to the last."""
        return self.station.env.now - self.since_s

    # a checkpoint --------------------------------------------------------------------------------------------------

    def expect(self, number: int, ways: set[Way], outs: Sequence[Sequence[int]]) -> None:
        """A checkpoint begins; a station without inputs is where it does."""
        self.number, self.ways, self.outs = number, ways, outs
        self.came, self.put_aside, self.snapshot, self.flying = set(), 0, None, []

    def begin(self) -> None:
        """At a station without inputs: between what it has sent and what it will send."""
        self.since_s = self.station.env.now
        self._keep()
        self._end()

    def abandon(self) -> None:
        """The checkpoint is given up, or was before this station had all its barriers."""
        self.number = -1
        self._let_go()
        if not self.station.busy:
            self.station.work()

    def heed(self, mark: Record) -> None:
        """An aligned barrier's turn in the queue has come."""
        assert isinstance(mark, Mark)
        if mark.value != self.number:
            return
        if not self.came:
            self.since_s = self.station.env.now
        self.came.add((mark.inbox.side, mark.sender))
        if len(self.came) == len(self.ways):
            self._keep()
            self._let_go()
            self._end()

    # aligned -------------------------------------------------------------------------------------------------------

    def holds(self, record: Record) -> bool:
        """Whether a record comes after an aligned barrier that others have still to send."""
        return bool(self.came) and not self.overtakes and (record.inbox.side, record.sender) in self.came

    def put(self, record: Record) -> None:
        """Puts it aside: other senders get its room in the channel, and its own stands still when it had its share."""
        inbox, sender, station = record.inbox, record.sender, self.station
        self.aside.append(record)
        self.put_aside += record.n
        self.held[sender] = held = self.held.get(sender, 0) + record.n
        senders = len([side for side, _ in self.ways if side == inbox.side])
        if held * senders >= inbox.capacity and sender not in self.corked:
            self.corked.append(sender)
            sender.output.block()
        inbox.credits += record.n
        if inbox.waiters:
            station.busy = True  # what arrives now waits for its turn
            inbox.wake()
            station.busy = False

    def _let_go(self) -> None:
        """What was put aside comes now, in order, before what is queued."""
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
        """Looks at what arrives; whether it was a barrier, which waits for nobody."""
        way = (record.inbox.side, record.sender)
        if not record.n and isinstance(record, Mark) and record.kind == BARRIER:
            if record.value == self.number:
                self._overtaken(way)
            return True
        if self.came and way not in self.came and record.n:
            self.flying.append(record.copy())
        return False

    def _overtaken(self, way: Way) -> None:
        first = not self.came
        self.came.add(way)
        if first:
            self.since_s = self.station.env.now
            self._keep()
        if len(self.came) == len(self.ways):
            self.came = set()
            self._end()

    # both ----------------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """What the station holds now is its part; everyone behind it hears so."""
        station = self.station
        now: float = station.env.now
        self.reached_s = now
        self.snapshot = station.snapshot()
        if self.overtakes:
            self._keep_unsent()
        elif self.ways:
            self.snapshot.queue = station.logic.pending()  # what is queued comes after the barriers
        mark = Mark(BARRIER, self.number, station.name, max(now, station.free_s))
        for port, replicas in zip(station.ports, self.outs, strict=True):
            port.barrier(replicas, mark, self.overtakes)
        work_s = self.work_s(self)
        if work_s > 0.0:
            occupy(station, work_s)

    def _keep_unsent(self) -> None:
        assert self.snapshot is not None
        self.snapshot.queue = [record for record in self.snapshot.queue if record.n]
        for port in self.station.ports:
            for path, record in port.unsent():
                if record.n:
                    unsent = record.copy()
                    path.direct(unsent)
                    self.flying.append(unsent)

    def _end(self) -> None:
        self.passed(self)
        self.number = -1
