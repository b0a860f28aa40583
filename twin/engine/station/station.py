"""What comes to an operator's replica, and what leaves it: its queue, its ports, and whether one of them is full."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from twin.engine.compute.inputs import Inputs
from twin.engine.record import Record
from twin.engine.streams.control import Alignment, Mark
from twin.engine.streams.outlet import Outlet

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.station.barrier_gate import BarrierGate
    from twin.engine.station.setup import Setup
    from twin.engine.streams.channel import Port
    from twin.engine.streams.keys import KeyGroups
    from twin.engine.streams.pool import Pool


class Station(Outlet):
    """Takes records in, in order, has them served one by one, and stands still while a port cannot send.

    queued: records that wait here, in `queue` or in a pool. errands: what was due at which time and waits for the
    station. busy: with a record, or other work. blocked: ports that hold a record back. free_s: when it had done its
    last work, or a pause ends. halted: for good. polls: its queue is a broker's. alignment: where control items come.
    gate: where checkpoints are taken. pool: of replicas that take from one queue. state_bytes: held beside the content
    of windows.
    """

    __slots__ = (
        "_blocked_since_s",
        "alignment",
        "blocked",
        "blocked_s",
        "busy",
        "draws",
        "env",
        "errands",
        "free_s",
        "gate",
        "halted",
        "inputs",
        "logic",
        "name",
        "polls",
        "pool",
        "ports",
        "processor",
        "queue",
        "queued",
        "service_s",
        "state_bytes",
        "tuples_in",
        "tuples_out",
    )

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__()
        self.env = setup.env
        self.name = setup.name
        self.processor = setup.processor
        self.draws = setup.draws
        self.service_s = setup.service_s  # of a record; see Inbox.beyond_s
        self.logic = logic
        self.inputs = Inputs()
        self.queue: deque[Record] = deque()
        self.queued = 0
        self.errands: deque[tuple[Logic, float]] = deque()
        self.ports: list[Port] = []
        self.tuples_in = 0
        self.tuples_out = 0
        self.busy = False
        self.blocked = 0
        self.blocked_s = 0.0
        self._blocked_since_s = 0.0
        self.free_s = 0.0
        self.halted = False
        self.polls = False
        self.state_bytes = 0.0
        self.alignment: Alignment | None = None
        self.gate: BarrierGate | None = None
        self.pool: Pool | None = None

    # what comes ------------------------------------------------------------------------------------------------------

    def deliver(self, record: Record) -> None:
        """Takes a record that has arrived."""
        self.queue.append(record)
        self.queued += record.n
        if not (self.busy or self.blocked):
            self.work()

    def work(self) -> None:
        """Serves what is there until a service takes time or the station is blocked. What is due comes first."""
        while (self.queue or self.errands) and not self.busy and not self.blocked and not self.halted:
            if self.errands:
                logic, at_s = self.errands.popleft()
                logic.due(at_s, self.env.now)
                continue
            record = self.queue.popleft()
            if record.n:
                self.begin(record)
            else:
                self.heed(record)
        if self.pool is not None:
            self.pool.feed(self)

    def begin(self, record: Record) -> None:
        """Takes a record up."""
        raise NotImplementedError

    def heed(self, mark: Record) -> None:
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

    def lost(self) -> int:
        """Records that are lost when it stops."""
        return self.queued

    # what leaves -----------------------------------------------------------------------------------------------------

    def know_ports(self) -> None:
        """What it costs to send a record, after any change of its ports; those who follow its logic hear of it."""
        self.send_s = sum([port.send_s for port in self.ports])
        if self.logic.out is not self:
            self.logic.out.know_send(self.send_s)

    def send(self, record: Record) -> None:
        """Sends a record on every output stream."""
        self.tuples_out += 1
        record.left_s = record.at_s - record.taken_s
        ports = self.ports
        if len(ports) > 1:
            for port in ports[1:]:
                port.send(record.copy())
        ports[0].send(record)

    def mark(self, kind: str, value: float) -> None:
        """Sends a control item to all consumers, behind what was sent so far."""
        for port in self.ports:
            port.mark(Mark(kind, value, self.name, self.env.now))

    def held_back(self, record: Record) -> None:
        """A record that a full channel held back leaves now."""
        record.at_s = max(record.at_s, self.env.now)

    # standing still --------------------------------------------------------------------------------------------------

    def block(self) -> None:
        """A port has a record that its channel cannot take."""
        self.blocked += 1
        if self.blocked == 1:
            self._blocked_since_s = self.env.now
            if self.processor.shared:
                self.processor.refresh()  # the clock is summed up then, which decides the last bit of what follows

    def unblock(self) -> None:
        """A port has sent all it held; with the last of them the station works again."""
        self.blocked -= 1
        if self.blocked:
            return
        now: float = self.env.now
        self.blocked_s += now - self._blocked_since_s
        if self.processor.shared:
            self.processor.refresh()
        if not self.busy:
            self.free_s = max(self.free_s, now)
            self.work()

    def blocked_until_now_s(self) -> float:
        """Time spent blocked so far."""
        return self.blocked_s + (self.env.now - self._blocked_since_s if self.blocked else 0.0)

    @property
    def engaged_until_s(self) -> float:
        """When work and pauses that have begun end; a time gone by if there are none."""
        return max(self.free_s, self._blocked_since_s)

    # what its logic is asked and told --------------------------------------------------------------------------------

    def window_bytes(self) -> float:
        """See Logic."""
        return self.logic.window_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        """See Logic."""
        return self.logic.held_keys()

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        self.logic.know_keys(keys, replica)
