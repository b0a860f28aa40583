"""Ledger of a run that changes: what was lost, replayed and restored, and which events happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twin.engine.logic import Logic
from twin.engine.record import Record
from twin.engine.streams.channel import Inbox, Receiver
from twin.engine.streams.network import Leg

if TYPE_CHECKING:
    from twin.engine.processor import Processor
    from twin.engine.station.task import Task
    from twin.engine.streams.network import Nic


@dataclass(slots=True)
class EventRecord:
    """Record of one event of a run. end_s: None while it lasts. bytes: state that was moved over the network."""

    kind: str
    component: str
    at_s: float
    end_s: float | None = None
    paused_s: float | None = None
    bytes: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Row of the trace; the detail still as a mapping."""
        columns = ("at_s", "end_s", "kind", "component", "paused_s", "bytes", "detail")
        return {name: getattr(self, name) for name in columns}


class _Nowhere:
    """Receiver of tuples that a failure lost while they were on the network."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def deliver(self, record: Record) -> None:
        """Notes that a lost tuple has left the network. It was counted as lost before."""
        self.ledger.transfers -= record.n


class Buffer:
    """Buffer of tuples for key groups whose state is still on its way; afterwards it passes them on to their task.

    undone: whether the move was given up. The tuples then went back over other channels, in which control items do not
    overtake tuples, so those that come here are dropped.
    """

    def __init__(self) -> None:
        self.state_bytes = 0.0  # of the key groups on the way here, which count at neither end
        self.logic = Logic()  # which holds nothing, as only their state is waited for
        self.records: list[Record] = []
        self.target: Receiver | None = None
        self.undone = False

    @property
    def queued(self) -> int:
        """Number of tuples held."""
        return sum([record.n for record in self.records])

    def deliver(self, record: Record) -> None:
        """Takes a record, as a task would."""
        if self.target is None:
            self.records.append(record)
        elif record.n or not self.undone:
            self.target.deliver(record)

    def open(self, target: Receiver, now_s: float) -> None:
        """Hands over what is held, and from now on everything, to `target`. The tuples held arrive at `now_s`."""
        self.target = target
        held, self.records = self.records, []
        for record in held:
            record.at_s = now_s
            target.deliver(record)


@dataclass(slots=True)
class Ledger:
    """Counts of losses and replays, in tuples, and events; empty in a run in which nothing changes.

    lost: queued at or on the way to a task when the job stopped. restored: put back into queues from a checkpoint. due:
    held by that checkpoint. windows_restored, windows_due: the same for the content of windows. unsent: by stream, lost
    before they were sent. aborted: by task name, in service when the job stopped. replayed: by source task name, read
    from the broker again. transfers: pieces of state, and lost tuples, that are still on the network. cut_short: by
    card or link, lost tuples that had more hops to go. moving_s: by processor, core-seconds of work on state that
    moves, booked as it begins and not yet done.
    """

    lost: int = 0
    restored: int = 0
    due: int = 0
    windows_restored: float = 0.0
    windows_due: float = 0.0
    duplicates: int = 0
    transfers: int = 0
    cut_short: Counter[Nic] = field(default_factory=Counter)
    unsent: Counter[tuple[str, str]] = field(default_factory=Counter)
    aborted: Counter[str] = field(default_factory=Counter)
    replayed: Counter[str] = field(default_factory=Counter)
    moving_s: dict[Processor, float] = field(default_factory=lambda: defaultdict(float))
    buffers: list[Buffer] = field(default_factory=list)
    retired: dict[str, list[Task]] = field(default_factory=dict)
    events: list[EventRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def lose(self, record: Record) -> None:
        """Counts a record on the network as lost; it will arrive nowhere."""
        self.lost += record.n
        self.transfers += record.n
        stop: object = record.inbox
        if isinstance(stop, Leg):
            self.cut_short[stop.nic] += record.n
        record.inbox = Inbox(_Nowhere(self), 0, 0)

    def record(self, kind: str, component: str, at_s: float, **detail: Any) -> EventRecord:
        """Adds a new event; the caller fills in its end."""
        event = EventRecord(kind, component, at_s, detail=detail)
        self.events.append(event)
        return event
