"""A host's network card, or one direction of a link: bandwidth shared by all streams, then a latency."""

from __future__ import annotations

from typing import Protocol

import simpy

from twin.engine.calendar import once
from twin.engine.record import Record

CONTROL_S = 1e-9
"""After the last record of its stream a control item arrives: rounding must not let it overtake, or be overtaken."""


class Hop(Protocol):
    """One stream's use of a card or link."""

    latency_s: float
    bytes_each: float


class Nic:
    """First in, first out at `bytes_per_s`. backlog_s: what it took at `last_s` to send all that waited then."""

    def __init__(self, env: simpy.Environment, bandwidth_mbps: float) -> None:
        self.env = env
        self.bytes_per_s = bandwidth_mbps * 1e6 / 8
        self.bytes_out = 0.0
        self.tuples_in = 0
        self.tuples_out = 0
        self.hops: list[Hop] = []  # who crosses it
        self.backlog_s = 0.0
        self.last_s = 0.0
        self._latency_factor = 1.0
        self._capacity_bytes = 0.0
        self._since_s = 0.0

    def transmit(self, record: Record, path: Hop) -> None:
        """Sends a record; it is delivered to the path's inbox when it has arrived."""
        size, at_s = record.n * path.bytes_each, record.at_s
        if record.n:
            time_s = least_s = size / self.bytes_per_s
        else:
            time_s, least_s = CONTROL_S, path.bytes_each / self.bytes_per_s + CONTROL_S
        elapsed_s, backlog_s = at_s - self.last_s, self.backlog_s
        if elapsed_s > 0.0:
            self.last_s = at_s
            backlog_s -= elapsed_s
            if backlog_s < 0.0:
                backlog_s = 0.0
        self.backlog_s = backlog_s = backlog_s + time_s
        record.at_s = at_s + ((backlog_s if backlog_s > least_s else least_s) + path.latency_s)
        self.bytes_out += size
        self.tuples_in += record.n
        once(self.env, record.at_s, self._arrive, record)

    def _arrive(self, event: simpy.Event) -> None:
        record = event._value
        self.tuples_out += record.n
        record.inbox.task.deliver(record)

    # what is asked or changed rarely ----------------------------------------------------------------------------

    def carry(self, hop: Hop) -> None:
        """Makes a stream's use of it known."""
        hop.latency_s *= self._latency_factor
        self.hops.append(hop)

    def degrade(self, bandwidth_factor: float = 1.0, latency_factor: float = 1.0) -> None:
        """Multiplies bandwidth and latency, from now on; the inverse factors restore them.

        What waits here already leaves as was planned; what comes after it stays behind it, also where the latency
        falls: it then waits for what is still under way.
        Raises ValueError for factors that are not positive.
        """
        if bandwidth_factor <= 0.0 or latency_factor <= 0.0:
            raise ValueError(
                f"a link needs factors > 0 of its bandwidth and latency, got {bandwidth_factor} and {latency_factor}; "
                "for a broken link use a very small bandwidth factor"
            )
        now: float = self.env.now
        self._capacity_bytes, self._since_s = self.capacity_bytes(), now
        waiting_s = self.wait_s(now)
        self.bytes_per_s *= bandwidth_factor
        self._latency_factor *= latency_factor
        shorter_s = 0.0
        for hop in self.hops:
            shorter_s = max(shorter_s, hop.latency_s * (1.0 - latency_factor))
            hop.latency_s *= latency_factor
        self.backlog_s = waiting_s + shorter_s
        self.last_s = max(self.last_s, now)

    def wait_s(self, at_s: float) -> float:
        """Time that a tuple handed over at `at_s` waits before it is sent."""
        return max(0.0, self.backlog_s - max(0.0, at_s - self.last_s))

    def unsent_bytes(self) -> float:
        """Bytes that wait to be sent, now."""
        return self.wait_s(self.env.now) * self.bytes_per_s

    def capacity_bytes(self) -> float:
        """Bytes that could have been sent so far."""
        return self._capacity_bytes + (self.env.now - self._since_s) * self.bytes_per_s
