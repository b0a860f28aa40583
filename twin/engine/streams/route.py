"""A route of several hops: the producer's network card, then one link after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.engine.segment import Segment
    from twin.engine.streams.channel import Inbox
    from twin.engine.streams.network import Nic


class Leg:
    """One hop of one stream's route, from one producer replica to one inbox.

    A card or link hands what has arrived to the task of the segment's inbox. While a segment is on its way the leg
    stands in for both, and takes it on to the next leg; the last one gives the segment its inbox back.
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

    def transmit(self, segment: Segment, path: object) -> None:
        """Sends a segment over this hop and those after it."""
        self.tuples += segment.n
        segment.inbox = self.inbox
        self.nic.transmit(segment, self)

    def deliver(self, segment: Segment) -> None:
        """What has crossed this hop goes on."""
        assert self.onward is not None
        self.onward.transmit(segment, None)


def destination(segment: Segment) -> Inbox | None:
    """The inbox at the end of a segment's way; None if it is not on its way to one."""
    stop: Inbox | Leg | None = segment.inbox
    while isinstance(stop, Leg):
        stop = stop.inbox if stop.onward is None else stop.onward
    return stop
