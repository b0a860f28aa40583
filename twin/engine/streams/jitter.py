"""Latency that varies in time: records keep their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twin.engine.record import Record
from twin.engine.streams.channel import Inbox
from twin.engine.streams.network import Nic
from twin.engine.streams.route import Leg

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

    __slots__ = ("bytes_each", "latency_s")

    def __init__(self, bytes_each: float) -> None:
        self.bytes_each = bytes_each
        self.latency_s = 0.0


class JitteredLeg(Leg):
    """A hop whose latency varies; nothing overtakes what was sent before on the same route."""

    __slots__ = ("_crossing", "arrival_s", "jitter")

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
