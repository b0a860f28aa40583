"""A route of several hops: the producer's network card, then one link after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.engine.record import Record
    from twin.engine.streams.channel import Inbox
    from twin.engine.streams.network import Nic


class Leg:
    """One hop of one stream's route, from one producer replica to one inbox.

    A card or link hands what has arrived to the task of the record's inbox. While a record is on its way the leg
    stands in for both, and takes it on to the next leg; the last one gives the record its inbox back.
    """

    __slots__ = ("bytes_each", "inbox", "latency_s", "nic", "onward", "task", "tuples")

    def __init__(self, nic: Nic, bytes_each: float, latency_s: float, onward: Leg | None, inbox: Inbox) -> None:
        self.nic = nic
        self.bytes_each = bytes_each
        self.latency_s = latency_s
        self.onward = onward
        self.inbox: Inbox | Leg = inbox if onward is None else self
        self.task = self
        self.tuples = 0
        nic.carry(self)

    def transmit(self, record: Record, path: object) -> None:
        """Sends a record over this hop and those after it."""
        self.tuples += record.n
        record.inbox = self.inbox
        self.nic.transmit(record, self)

    def deliver(self, record: Record) -> None:
        """What has crossed this hop goes on."""
        assert self.onward is not None
        self.onward.transmit(record, None)


def destination(record: Record) -> Inbox | None:
    """The inbox at the end of a record's way; None if it is not on its way to one."""
    stop: Inbox | Leg | None = record.inbox
    while isinstance(stop, Leg):
        stop = stop.inbox if stop.onward is None else stop.onward
    return stop
