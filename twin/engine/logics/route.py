"""Routers: each of the streams that leave gets a share of the records."""

from __future__ import annotations

from twin.engine.logic import Logic
from twin.engine.record import Record


class RouteLogic(Logic):
    """shares: by stream, of what comes. exclusive: a record goes to one of them at most, else to each by chance.

    What it passes on counts once: where it is exclusive, what went anywhere; else, all.
    """

    def __init__(self, shares: list[float], exclusive: bool) -> None:
        super().__init__()
        self.shares = shares
        self.exclusive = exclusive
        self.law = "in = out + dropped + in service + stopped"
        self.goes = [False] * len(shares)
        self.n_out = 0

    def in_service(self) -> int:
        """Whether the record in service will go anywhere."""
        return self.n_out if self.station.in_service else 0

    def plan(self, record: Record) -> float:
        """Draws where it goes."""
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
        """Sends it where it goes."""
        record.at_s = at_s
        record.left_s = at_s - record.taken_s
        ways, n_out = self.goes.copy(), self.n_out
        self.station.output.tuples_out += n_out
        for port, goes in zip(self.station.output.ports, ways, strict=True):
            port.passed_over += n_out - goes
            if goes:
                port.send(record.copy())
