"""The input side of a station: its queue, what is due besides, and control items in their turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from twin.engine.compute.inputs import Inputs
from twin.engine.segment import Segment
from twin.engine.streams.control import Alignment, Mark
from twin.engine.streams.sender import Sender

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.station.barrier_gate import BarrierGate
    from twin.engine.station.setup import Setup
    from twin.engine.streams.pool import Pool


class Intake(Sender):
    """Takes segments in, in order, and has them served one by one."""

    __slots__ = (
        "alignment",
        "dates",
        "errands",
        "gate",
        "halted",
        "inputs",
        "logic",
        "polls",
        "pool",
        "queue",
        "queued",
        "service_s",
        "tuples_in",
    )

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__(setup)
        self.logic = logic
        self.service_s = setup.service_s  # of a tuple; see Inbox.beyond_s
        self.inputs = Inputs(setup.service_s)
        self.queue: deque[Segment] = deque()
        self.queued = 0
        self.tuples_in = 0
        self.errands: deque[tuple[Logic, float]] = deque()  # what was due at which time and waits for the station
        self.halted = False
        self.dates = False  # it notes when a segment came to be known
        self.polls = False  # its queue is a broker's
        self.pool: Pool | None = None  # of replicas that take from one queue, in an exact run
        self.alignment: Alignment | None = None  # where control items come
        self.gate: BarrierGate | None = None  # where checkpoints are taken

    def deliver(self, segment: Segment) -> None:
        """Takes a segment whose last tuple has arrived."""
        if self.dates:
            segment.came_s = self.env.now
        segment.waited = self.busy or self.blocked > 0
        self.queue.append(segment)
        self.queued += segment.n
        if not segment.waited:
            self.work()

    def work(self) -> None:
        """Serves what is there until a service takes time or the station is blocked. What is due comes first."""
        while (self.queue or self.errands) and not self.busy and not self.blocked and not self.halted:
            if self.errands:
                logic, at_s = self.errands.popleft()
                logic.due(at_s, self.env.now)
                continue
            segment = self.queue.popleft()
            if segment.n:
                self.begin(segment)
            else:
                self.heed(segment)
        if self.pool is not None:
            self.pool.feed(self)

    def lost(self) -> int:
        """Tuples that are lost when it stops."""
        return self.queued

    def begin(self, segment: Segment) -> None:
        """Takes a segment up."""
        raise NotImplementedError

    # control items -------------------------------------------------------------------------------------------------

    def mark(self, kind: str, value: float) -> None:
        """Sends a control item to all consumers, behind what was sent so far."""
        at_s = self.env.now if self.exact else self.free_s  # later tuples leave later, on the axis of the stamps
        for port in self.ports:
            port.mark(Mark(kind, value, self.name, at_s))

    def heed(self, mark: Segment) -> None:
        """A control item's turn has come. When all inputs are as far, so is this station, and says so."""
        assert isinstance(mark, Mark)
        if self.gate is not None:
            self.gate.heed(mark)
            return
        if self.logic.heeds:
            self.logic.heed(mark)
            return
        assert mark.inbox is not None
        alignment = self.alignment
        if alignment is not None and alignment.take(mark.inbox.side, mark):
            least = alignment.least(mark.kind)
            alignment.reached(mark.kind, least)
            self.mark(mark.kind, least)
