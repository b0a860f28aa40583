"""Logics without windows: filters and maps, joins with a table that one input changes, and routers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.logic import Logic
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.calendar import Calendar
    from twin.engine.output import Outlet


class SelectLogic(Logic):
    """Logic of a filter or map: sends `selectivity` records on average for each input record; if `thins`, one at
    most."""

    def __init__(self, selectivity: float, thins: bool) -> None:
        super().__init__()
        self.selectivity = selectivity
        self.thins = thins
        self.law = "in = out + dropped + in service + stopped" if thins else ""
        self.n_out = 0

    def in_service(self) -> int:
        """Number of records that will leave when the service ends."""
        return self.n_out if self.station.in_service else 0

    def plan(self, record: Record) -> float:
        """Draws how many records leave."""
        selectivity = self.selectivity
        if selectivity == 1.0:
            n_out = 1
        elif self.thins:
            n_out = 1 if self.station.draws.uniform() < selectivity else 0
        else:
            n_out = self.station.draws.rounded(selectivity)
        self.n_out = n_out
        if not n_out:
            self.dropped += 1
        return n_out * self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends the drawn number of records."""
        record.at_s = at_s
        send_times(record, self.n_out, self.out, self.station.env)


def send_times(record: Record, times: int, out: Outlet, env: Calendar) -> None:
    """Sends `times` records that are as old as this one."""
    for _ in range(times - 1):
        env.tick()
        out.send(record.copy())
    if times:
        out.send(record)


class TableLogic(SelectLogic):
    """Logic of a join with a table. side: number of the input whose records change the table."""

    def __init__(self, selectivity: float, side: int) -> None:
        super().__init__(selectivity, selectivity <= 1.0)
        self.side = side

    def plan(self, record: Record) -> float:
        """Keeps records that change the table; plans others as a filter or map does."""
        inbox = record.inbox
        if inbox is None or inbox.side != self.side:
            return super().plan(record)
        self.n_out = 0
        self.dropped += 1
        return 0.0


class RouteLogic(Logic):
    """Logic of a router. shares: by output stream, its share of the records. exclusive: whether a record goes to at
    most one stream; else each stream gets it by chance.

    A record that goes to several streams counts as one. If exclusive, only records that go to a stream count as passed
    on; else all do.
    """

    def __init__(self, shares: list[float], exclusive: bool) -> None:
        super().__init__()
        self.shares = shares
        self.exclusive = exclusive
        self.law = "in = out + dropped + in service + stopped"
        self.goes = [False] * len(shares)
        self.n_out = 0

    def in_service(self) -> int:
        """Number of records in service, 0 or 1, that will be passed on."""
        return self.n_out if self.station.in_service else 0

    def plan(self, record: Record) -> float:
        """Draws the streams to which a record goes."""
        draws, ports = self.station.draws, self.station.output.ports
        left, rest, work_s = True, 1.0, 0.0
        for number, share in enumerate(self.shares):
            chance = min(1.0, share / rest) if rest > 0.0 else 0.0
            goes = left and draws.uniform() < chance
            self.goes[number] = goes
            if goes:
                work_s += ports[number].send_s
            if self.exclusive:
                left = left and not goes
                rest -= share
        self.n_out = 0 if self.exclusive and left else 1
        self.dropped += 1 - self.n_out
        return work_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends a record to the streams that were drawn."""
        record.at_s = at_s
        if self.n_out:
            self.station.output.send_by(record, self.goes.copy())
