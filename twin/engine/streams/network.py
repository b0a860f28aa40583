"""Network cards, and directions of links: bandwidth shared by all streams, then a latency, which may vary in time.

A route of several hops is the producer's card, then one link after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
import simpy

from twin.engine.calendar import once
from twin.engine.record import Record
from twin.engine.streams.channel import Inbox

CONTROL_S = 1e-9
"""Seconds by which a control item arrives after the record before it, so that rounding does not change their order."""


class Hop(Protocol):
    """Use of a card or link by one stream."""

    latency_s: float


class Nic:
    """Network card, or one direction of a link: first in, first out at `bytes_per_s`.

    backlog_s: time that it took, at `last_s`, to send all that waited then. resumes_s: when it sends again, if it waits
    for records under way.
    """

    def __init__(self, env: simpy.Environment, bandwidth_mbps: float) -> None:
        self.env = env
        self.bytes_per_s = bandwidth_mbps * 1e6 / 8
        self.bytes_out = 0.0
        self.tuples_in = 0
        self.tuples_out = 0
        self.hops: list[Hop] = []  # uses of it by streams
        self.backlog_s = 0.0
        self.last_s = 0.0
        self.resumes_s = 0.0
        self._latency_factor = 1.0
        self._capacity_bytes = 0.0
        self._since_s = 0.0

    def transmit(self, record: Record, bytes_each: float, latency_s: float) -> None:
        """Sends a record; it is delivered to its inbox when it has arrived."""
        size, at_s = record.n * bytes_each, record.at_s
        if record.n:
            time_s = least_s = size / self.bytes_per_s
        else:
            time_s, least_s = CONTROL_S, bytes_each / self.bytes_per_s + CONTROL_S
        elapsed_s, backlog_s = at_s - self.last_s, self.backlog_s
        if elapsed_s > 0.0:
            self.last_s = at_s
            backlog_s -= elapsed_s
            if backlog_s < 0.0:
                backlog_s = 0.0
        self.backlog_s = backlog_s = backlog_s + time_s
        record.sent_s, record.latency_s = at_s, latency_s
        record.at_s = at_s + ((backlog_s if backlog_s > least_s else least_s) + latency_s)
        self.bytes_out += size
        self.tuples_in += record.n
        once(self.env, record.at_s, self._arrive, record)

    def _arrive(self, event: simpy.Event) -> None:
        record = event._value
        self.tuples_out += record.n
        record.inbox.task.deliver(record)

    # rare calls -------------------------------------------------------------------------------------------------

    def carry(self, hop: Hop) -> None:
        """Adds a stream's use of this card or link."""
        hop.latency_s *= self._latency_factor
        self.hops.append(hop)

    def degrade(self, bandwidth_factor: float = 1.0, latency_factor: float = 1.0) -> None:
        """Multiplies bandwidth and latency, from now on; the inverse factors restore them.

        Records that wait are sent at the new rate, and then have the new latency. They stay behind records that are
        under way; where the latency falls, they wait for these. Raises ValueError for factors that are not positive.
        """
        if bandwidth_factor <= 0.0 or latency_factor <= 0.0:
            raise ValueError(
                f"a link needs factors > 0 of its bandwidth and latency, got {bandwidth_factor} and {latency_factor}; "
                "for a broken link use a very small bandwidth factor"
            )
        now: float = self.env.now
        self._capacity_bytes, self._since_s = self.capacity_bytes(), now
        begun_s = max(now, self.resumes_s)
        self.bytes_per_s *= bandwidth_factor
        self._latency_factor *= latency_factor
        shorter_s = 0.0
        for hop in self.hops:
            shorter_s = max(shorter_s, hop.latency_s * (1.0 - latency_factor))
            hop.latency_s *= latency_factor
        self.resumes_s = begun_s + shorter_s
        leaves_s = self._resend(begun_s, bandwidth_factor, latency_factor)
        self.last_s = max(self.last_s, now)
        self.backlog_s = max(0.0, leaves_s - self.last_s)

    def _resend(self, begun_s: float, bandwidth_factor: float, latency_factor: float) -> float:
        """Plans records again that were not sent, none of which was sent before `begun_s`. Returns when the last of
        them leaves.

        Bytes of which the sending has begun are sent at the new rate, too.
        """
        queue: list[Any] = self.env._queue
        pending = [entry for entry in queue if entry[3].callbacks and self._arrive in entry[3].callbacks]
        before_s, leaves_s = begun_s, self.resumes_s
        again_s: dict[int, float] = {}
        latest_s: dict[Any, float] = {}
        for due_s, _, number, event in sorted(pending, key=itemgetter(2)):
            record = event._value
            planned_s, latest = due_s - record.latency_s, latest_s.get(record.inbox, 0.0)
            if planned_s > begun_s:
                rest_s = max(0.0, planned_s - max(before_s, record.sent_s))
                before_s = max(before_s, planned_s)
                leaves_s = max(leaves_s, record.sent_s) + rest_s / bandwidth_factor
                record.latency_s *= latency_factor
                again_s[number] = record.at_s = due_s = max(leaves_s + record.latency_s, latest)
            latest_s[record.inbox] = max(due_s, latest)
        leaves_s += max(0.0, self.last_s + self.backlog_s - before_s) / bandwidth_factor
        queue[:] = [(again_s.get(number, due_s), rank, number, event) for due_s, rank, number, event in queue]
        heapify(queue)
        for hop in self.hops:
            if isinstance(hop, Leg):
                hop.arrival_s = latest_s.get(hop.inbox, hop.arrival_s)
        return leaves_s

    def wait_s(self, at_s: float) -> float:
        """Time in seconds that a tuple handed over at `at_s` waits before it is sent."""
        return max(0.0, self.backlog_s - max(0.0, at_s - self.last_s))

    def unsent_bytes(self) -> float:
        """Bytes that wait to be sent now."""
        now = self.env.now
        return max(0.0, self.wait_s(now) - max(0.0, self.resumes_s - now)) * self.bytes_per_s

    def capacity_bytes(self) -> float:
        """Bytes that could have been sent so far."""
        return self._capacity_bytes + (self.env.now - self._since_s) * self.bytes_per_s


class Leg:
    """One hop of one stream's route, from one producer replica to one inbox.

    A card or link delivers a record to the task of its inbox. While a record is on its way, the leg stands in for both,
    and sends it on to the next leg; the last leg gives the record its inbox back. jitter: variation of its latency, if
    any. arrival_s: when the record that was sent last on the same route arrives; no record overtakes it.
    """

    def __init__(
        self,
        nic: Nic,
        bytes_each: float,
        latency_s: float,
        onward: Leg | None,
        inbox: Inbox,
        jitter: Jitter | None = None,
    ) -> None:
        self.nic = nic
        self.bytes_each = bytes_each
        self.latency_s = latency_s
        self.onward = onward
        self.inbox: Inbox | Leg = inbox if onward is None else self
        self.task = self
        self.tuples = 0
        self.jitter = jitter
        self.arrival_s = 0.0
        nic.carry(self)

    def transmit(self, record: Record, bytes_each: float, latency_s: float) -> None:
        """Sends a record over this hop and those after it, each of which has a latency of its own."""
        self.tuples += record.n
        record.inbox = self.inbox
        nic, own_s = self.nic, self.latency_s
        if self.jitter is not None:
            leaves_s = record.at_s + nic.wait_s(record.at_s)  # at the earliest
            own_s = max(own_s * self.jitter.factor(nic.env.now), self.arrival_s - leaves_s)
        nic.transmit(record, bytes_each, own_s)
        self.arrival_s = record.at_s

    def deliver(self, record: Record) -> None:
        """Sends a record that has crossed this hop to the next one."""
        assert self.onward is not None
        self.onward.transmit(record, self.bytes_each, 0.0)


def destination(record: Record) -> Inbox | None:
    """Inbox at the end of a record's way; None if it is not on its way to one."""
    stop: Inbox | Leg | None = record.inbox
    while isinstance(stop, Leg):
        stop = stop.inbox if stop.onward is None else stop.onward
    return stop


KNOT_S = 0.1
"""Seconds between two independent values of a factor; in between, the factor is linear."""
LINE_VARIANCE = 2.0 / 3.0
"""Mean variance on a line between two independent values, as a share of the variance of these."""


class Jitter:
    """Factor on the latency of one card or link, which varies in time: mean 1, squared coefficient of variation scv."""

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
        """Factor at `now_s`, which must not be before the time of the last call."""
        while now_s >= (self.knot + 1) * KNOT_S:
            self.move()
        share = max(0.0, now_s / KNOT_S - self.knot)
        return self.low + share * (self.high - self.low)


def route(hops: Sequence[tuple[Nic, float]], bytes_each: float, inbox: Inbox, jitters: Mapping[Nic, Jitter]) -> Leg:
    """Makes a route over these cards and links, each with its latency in seconds; at least one. Returns its first leg.

    jitters: variation of the latencies that vary.
    """
    leg: Leg | None = None
    for nic, latency_s in reversed(hops):
        jitter = jitters.get(nic) if latency_s > 0.0 else None
        leg = Leg(nic, bytes_each, latency_s, leg, inbox, jitter)
    assert leg is not None
    return leg
