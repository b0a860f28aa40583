"""What a logic in Python uses of its subtask, and how its records come out of the memory of a run and go back there.

A record is an object of its own from the beginning of its service on, so that a logic may keep it. What a logic sends
while compiled code calls it is listed, and leaves when it has returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, addressof, c_double, c_int64
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.machine import layout as k
from twin.operators.panes import Dated, Partial, SpanContent
from twin.operators.records import IDLE, WATERMARK, EvaluationResult, InputProgress, Mark, Record
from twin.operators.updates import BATCH
from twin.operators.watermark import MODIFICATION, RELEASE
from twin.windows import US_PER_S, Span

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.world.memory import Draws, RunMemory
    from twin.world.parts import Item, Spent
    from twin.world.ports import Port

KINDS = {
    WATERMARK: k.WATERMARK,
    MODIFICATION: k.MODIFICATION,
    RELEASE: k.RELEASE,
    IDLE: k.IDLE,
    BATCH: k.BATCH,
}
"""Kinds of marks in memory, by their names."""
NAMES = {number: name for name, number in KINDS.items()}


def cells(layout: np.dtype[Any]) -> list[tuple[str, Any]]:
    """Fields of a structure, for a class that reads and writes them fast."""
    return [(name, c_double if kind.kind == "f" else c_int64) for name, (kind, *_) in (layout.fields or {}).items()]


class FastView(Structure):
    """Structure in memory, whose fields are read and written fast; `from_address` finds it."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...


class ItemCells(FastView):
    """Record in memory."""

    _fields_ = cells(k.ITEM)


class TaskCells(FastView):
    """Subtask in memory."""

    _fields_ = cells(k.TASK)


class StateCells(FastView):
    """State of a run in memory."""

    _fields_ = cells(k.STATE)


def write(item: ItemCells, record: Record) -> None:
    """Writes a record into its item, to be sent."""
    item.key, item.lot, item.ready_s = record.key, record.lot, record.ready_s
    item.born_s, item.taken_s, item.at_s, item.left_s = record.born_s, record.taken_s, record.at_s, record.left_s
    if isinstance(record, Dated):
        item.at_us, item.digest = record.at_us, record.digest
    elif isinstance(record, Partial):
        ((item.key, (item.count, item.digest, _, _)),) = record.content.held.items()
        item.at_us, item.end_us = record.span
    else:
        item.at_us, item.digest = int(record.at_s * US_PER_S), 0


def plain(item: ItemCells) -> Record:
    """Makes the record of an item."""
    return _read(item, Record(item.born_s, item.taken_s, item.at_s))


def dated(item: ItemCells) -> Record:
    """Makes the record with an event time of an item."""
    found = Dated(item.born_s, item.taken_s, item.at_s, item.at_us)
    found.digest = item.digest
    return _read(item, found)


def _read(item: ItemCells, record: Record) -> Record:
    record.left_s, record.key, record.lot, record.ready_s = item.left_s, item.key, item.lot, item.ready_s
    return record


def partial(item: ItemCells, groups: KeyGroups) -> Record:
    """Makes the partial result of an item. groups: those of the keys."""
    content = SpanContent(groups)
    content.held[item.key] = item.count, item.digest, item.born_s, item.taken_s
    return Partial(item.at_s, Span(item.at_us, item.end_us), content)


def mark_of(item: Item, origin: str, inbox: object) -> Mark:
    """Makes the mark of an item, that came to an inbox."""
    found = Mark(NAMES[item.mark], item.born_s, origin, item.at_s)
    found.inbox = inbox
    return found


class Station:
    """Subtask as logics in Python see it, also as far as it sends.

    alignment: set if marks come. timers: of logics that are due. listing: whether compiled code waits for what a logic
    lists. evaluating_for: the outcome of work under way that is no service.
    """

    if TYPE_CHECKING:
        here: int
        name: str
        env: Any
        memory: RunMemory
        ports: list[Port]
        records_out: int
        lots: int
        spent: Spent

    alignment: InputProgress | None = None
    evaluating_for: EvaluationResult | None = None
    listing = False

    # what it sends ---------------------------------------------------------------------------------------------------

    def send(self, record: Record) -> None:
        """Sends a record on every stream, through the logics that follow."""
        self.leave(self.memory.item(record))

    def send_by(self, record: Record, ways: Sequence[bool]) -> None:
        """Sends a record on some of the streams."""
        self.records_out += 1
        if self.lots:
            draws: Draws = self.memory.at[self.lots]
            record.lot = draws.uniform()
        record.left_s = record.at_s - record.taken_s
        for port, goes in zip(self.ports, ways, strict=True):
            if goes:
                item = self.memory.item(record)
                item.step = port.here
                self.leave(item)
            else:
                port.passed_over += 1

    def mark(self, kind: str, value: float, at_s: float | None = None) -> None:
        """Sends a mark to all consumers, behind the records sent so far: now, or at `at_s`."""
        for port in self.ports:
            port.mark(Mark(kind, value, self.name, self.env.now if at_s is None else at_s))

    def leave(self, item: ItemCells) -> None:
        """Lists what leaves; between two events it leaves at once."""
        here, cells = addressof(item), TaskCells.from_address(self.here)
        item.next = 0
        if cells.leaving:
            ItemCells.from_address(cells.last_leaving).next = here
        else:
            cells.leaving = here
        cells.last_leaving = here
        if not self.listing:
            self.memory.do(k.FOLLOW_UP, self.here)

    def spend(self, way: int, time_s: float) -> None:
        """Notes that a record has spent time here in one way (`twin.spending`)."""
        self.spent.note(way, time_s)

    # other work ------------------------------------------------------------------------------------------------------

    def job(self, outcome: EvaluationResult, work_s: float) -> None:
        """Begins work of `work_s` core-seconds that is no service, and sends `outcome` when it is done."""
        cells = TaskCells.from_address(self.here)
        self.evaluating_for = outcome
        cells.outcome, cells.job_due, cells.job_s = 1, 1, work_s
        if not self.listing:
            self.memory.do(k.FOLLOW_UP, self.here)

    def done(self) -> None:
        """Lists the results of work that is done."""
        outcome, self.evaluating_for = self.evaluating_for, None
        assert outcome is not None
        self.listing = True
        outcome.leave(self.env.now)
        self.listing = False
