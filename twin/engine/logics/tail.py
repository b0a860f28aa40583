"""Filters, maps and a sink at the station of another logic, in whose wake records pass them: nothing lies in between.

For logics that tell those behind them how far they are, and send by themselves, not only as services end: what they
send has passed all that follows before the next punctuation leaves. What the followers work is the head's (`send_s`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.logic import Logic, Outlet
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.station.task import Task


class Onwards(Outlet):
    """From one follower to that of a number; after the last, to where the station's tuples leave."""

    __slots__ = ("number", "tail")

    def __init__(self, tail: Tail, number: int) -> None:
        super().__init__()
        self.tail = tail
        self.number = number

    def send(self, record: Record) -> None:
        """Takes a record over."""
        self.tail.enter(self.number, record)


class Tail(Outlet):
    """each_s: CPU seconds that all of them take of a tuple which comes to the first; gain: how many leave the last."""

    __slots__ = ("_came", "_logics", "_station", "each_s", "gain")

    def __init__(self, station: Task, logics: list[Logic], each_s: float, gain: float) -> None:
        super().__init__()
        self._station = station
        self._logics = logics
        self._came = [0] * len(logics)
        self.each_s = each_s
        self.gain = gain
        self.know_send(station.send_s)
        for number, logic in enumerate(logics, 1):
            logic.start(station, Onwards(self, number))

    def know_send(self, send_s: float) -> None:
        """See Outlet."""
        self.send_s = self.each_s + self.gain * send_s

    def send(self, record: Record) -> None:
        """Takes a record over."""
        self.enter(0, record)

    def enter(self, number: int, record: Record) -> None:
        """A record comes to the follower of that number."""
        if number == len(self._logics):
            self._station.send(record)
            return
        self._came[number] += 1
        logic = self._logics[number]
        logic.plan(record)
        logic.emit(record, record.at_s)

    def followers(self) -> list[Logic]:
        """See Outlet."""
        return self._logics

    def came(self, number: int) -> int:
        """See Outlet."""
        return self._came[number]
