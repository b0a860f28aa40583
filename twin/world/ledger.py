"""Ledger of a run that changes: what was lost, replayed and restored, and which events happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twin.world.lanes import Buffer
    from twin.world.parts import Card, Processor, Task


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


@dataclass(slots=True)
class Ledger:
    """Counts of losses and replays, in records, and events; empty in a run in which nothing changes.

    lost: queued at or on the way to a task when the job stopped. restored: put back into queues from a checkpoint. due:
    held by that checkpoint. windows_restored, windows_due: the same for the content of windows. unsent: by stream, lost
    before they were sent. aborted: by task name and number of the operator, in service when the job stopped. replayed:
    by source task name, read from the broker again. transfers: pieces of state, and lost records, that are still on the
    network. cut_short: by card or link, lost records that had more hops to go. moving_s: by processor, core-seconds of
    work on state that moves, booked as it begins and not yet done.
    """

    lost: int = 0
    restored: int = 0
    due: int = 0
    windows_restored: float = 0.0
    windows_due: float = 0.0
    duplicates: int = 0
    transfers: int = 0
    cut_short: Counter[Card] = field(default_factory=Counter)
    unsent: Counter[tuple[str, ...]] = field(default_factory=Counter)
    aborted: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    replayed: Counter[str] = field(default_factory=Counter)
    moving_s: dict[Processor, float] = field(default_factory=lambda: defaultdict(float))
    buffers: list[Buffer] = field(default_factory=list)
    retired: dict[str, list[Task]] = field(default_factory=dict)
    events: list[EventRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def record(self, kind: str, component: str, at_s: float, **detail: Any) -> EventRecord:
        """Adds a new event; the caller fills in its end."""
        event = EventRecord(kind, component, at_s, detail=detail)
        self.events.append(event)
        return event
