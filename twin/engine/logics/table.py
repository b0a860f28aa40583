"""Joins with a table that one of the inputs changes: its records go no further, the others find rows."""

from __future__ import annotations

from twin.engine.logics.select import SelectLogic
from twin.engine.record import Record


class TableLogic(SelectLogic):
    """side: number of the input that changes the table."""

    __slots__ = ("side",)

    def __init__(self, selectivity: float, side: int) -> None:
        super().__init__(selectivity, selectivity <= 1.0)
        self.side = side

    def plan(self, record: Record) -> float:
        """What changes the table is kept."""
        inbox = record.inbox
        if inbox is None or inbox.side != self.side:
            return super().plan(record)
        self.n_out = 0
        self.dropped += 1
        return 0.0
