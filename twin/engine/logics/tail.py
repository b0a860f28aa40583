"""Filters, maps and a sink at the station of another logic, in whose wake records pass them: nothing lies in between.

For logics that tell those behind them how far they are, and send by themselves, not only as services end: what they
send has passed all that follows before the next punctuation leaves. What the followers work is the head's (`send_s`).
"""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.logic import ChainStep, Station
from twin.engine.output import Outlet
from twin.engine.record import Record


class Onwards(Outlet):
    """The outlet from one follower to the next; after the last, to the station's output."""

    def __init__(self, tail: Tail, number: int) -> None:
        super().__init__()
        self.tail = tail
        self.number = number

    def send(self, record: Record) -> None:
        """Takes a record over."""
        self.tail.enter(self.number, record)


class Tail(Outlet):
    """each_s: CPU seconds that all of them take of a record which comes to the first; gain: how many leave the last."""

    def __init__(self, station: Station, steps: Sequence[ChainStep], each_s: float, gain: float) -> None:
        super().__init__()
        self._station = station
        self._steps = steps
        self.each_s = each_s
        self.gain = gain
        self.know_send(station.output.send_s)
        for number, step in enumerate(steps, 1):
            step.logic.start(station, Onwards(self, number))

    def know_send(self, send_s: float) -> None:
        """See Outlet."""
        self.send_s = self.each_s + self.gain * send_s

    def send(self, record: Record) -> None:
        """Takes a record over."""
        self.enter(0, record)

    def enter(self, number: int, record: Record) -> None:
        """A record comes to the follower of that number."""
        if number == len(self._steps):
            self._station.output.send(record)
            return
        step = self._steps[number]
        step.came += 1
        step.logic.plan(record)
        step.logic.emit(record, record.at_s)
