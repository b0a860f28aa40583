"""A route of several hops: the producer's network card, then one link after the other; latency may vary in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twin.engine.record import Record
from twin.engine.streams.channel import Inbox
from twin.engine.streams.network import Nic


class Leg:
    """One hop of one stream's route, from one producer replica to one inbox.

    A card or link hands what has arrived to the task of the record's inbox. While a record is on its way the leg
    stands in for both, and takes it on to the next leg; the last one gives the record its inbox back.
    """

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


KNOT_S = 0.1
"""Seconds between two independent values; in between, the factor runs linearly."""
LINE_VARIANCE = 2.0 / 3.0
"""Variance of a point on a line between two independent values, as a share of theirs, on average."""


class Jitter:
    """One card's or link's factor on its latency: mean 1, with that squared coefficient of variation."""

    def __init__(self, rng: np.random.Generator, scv: float) -> None:
        self._rng = rng
        self._scv = scv / LINE_VARIANCE
        self.knot = 0
        self.low, self.high = self._draw(), self._draw()

    def _draw(self) -> float:
        return float(self._rng.standard_gamma(1.0 / self._scv)) * self._scv

    def move(self) -> None:
        """Goes on to the next knot."""
        self.knot += 1
        self.low, self.high = self.high, self._draw()

    def factor(self, now_s: float) -> float:
        """At a time not before that of the last call."""
        while now_s >= (self.knot + 1) * KNOT_S:
            self.move()
        share = max(0.0, now_s / KNOT_S - self.knot)
        return self.low + share * (self.high - self.low)


class _Crossing:
    """What a card or link needs to know of one record's crossing."""

    def __init__(self, bytes_each: float) -> None:
        self.bytes_each = bytes_each
        self.latency_s = 0.0


class JitteredLeg(Leg):
    """A hop whose latency varies; nothing overtakes what was sent before on the same route."""

    def __init__(
        self, nic: Nic, bytes_each: float, latency_s: float, onward: Leg | None, inbox: Inbox, jitter: Jitter
    ) -> None:
        super().__init__(nic, bytes_each, latency_s, onward, inbox)
        self.jitter = jitter
        self._crossing = _Crossing(bytes_each)
        self.arrival_s = 0.0

    def transmit(self, record: Record, path: object) -> None:
        """See Leg."""
        self.tuples += record.n
        record.inbox = self.inbox
        crossing, nic = self._crossing, self.nic
        leaves_s = record.at_s + nic.wait_s(record.at_s)  # at the earliest
        crossing.latency_s = max(self.latency_s * self.jitter.factor(nic.env.now), self.arrival_s - leaves_s)
        nic.transmit(record, crossing)
        self.arrival_s = record.at_s


def route(
    hops: Sequence[tuple[Nic, float]], bytes_each: float, inbox: Inbox, jitters: Mapping[Nic, Jitter] | None = None
) -> Leg:
    """The first leg of a route over these cards and links, each with its latency in seconds. At least one.

    jitters: of those whose latency varies.
    """
    leg: Leg | None = None
    for nic, latency_s in reversed(hops):
        jitter = jitters.get(nic) if jitters and latency_s > 0.0 else None
        if jitter is None:
            leg = Leg(nic, bytes_each, latency_s, leg, inbox)
        else:
            leg = JitteredLeg(nic, bytes_each, latency_s, leg, inbox, jitter)
    assert leg is not None
    return leg
