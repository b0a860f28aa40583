"""A host's network card, or one direction of a link: bandwidth shared by all streams, then a latency."""

from __future__ import annotations

from typing import Protocol

import simpy

from twin.engine.alarm import once
from twin.engine.compute.waiting import residual_wait_s
from twin.engine.segment import Segment

RENEW_S = 1.0
"""Simulated seconds between two looks at how much a card or link is used."""
FORGET = 0.98
"""Per segment, of the longest one."""
CONTROL_S = 1e-9
"""After the last tuple of its stream a control item arrives: rounding must not let it overtake, or be overtaken."""
SMOOTHING = 0.2
"""Weight of a look in the average."""


class Hop(Protocol):
    """One stream's use of a card or link."""

    latency_s: float
    bytes_each: float


class Nic:
    """First in, first out at `bytes_per_s`. Overlapping segments of several streams interleave as fluids."""

    __slots__ = (
        "_backlog_s",
        "_capacity_bytes",
        "_hidden_s",
        "_idle_s",
        "_idle_span_s",
        "_last_s",
        "_latency_factor",
        "_longest_s",
        "_since_s",
        "_used",
        "_window_bytes",
        "_window_since_s",
        "bytes_out",
        "bytes_per_s",
        "env",
        "hops",
        "tuples_in",
        "tuples_out",
    )

    def __init__(self, env: simpy.Environment, bandwidth_mbps: float) -> None:
        self.env = env
        self.bytes_per_s = bandwidth_mbps * 1e6 / 8
        self.bytes_out = 0.0
        self.tuples_in = 0
        self.tuples_out = 0
        self.hops: list[Hop] = []  # who crosses it
        self._backlog_s = 0.0
        self._last_s = 0.0
        self._idle_s = 0.0  # of the `_idle_span_s` up to `_last_s`: time in which nothing was sent
        self._idle_span_s = 0.0
        self._longest_s = 0.0  # what a segment lately spanned
        self._used = -1.0  # utilisation, a slow average; not yet known
        self._hidden_s = 0.0
        self._window_bytes = 0.0
        self._window_since_s = 0.0
        self._latency_factor = 1.0
        self._capacity_bytes = 0.0
        self._since_s = 0.0

    def transmit(self, segment: Segment, path: Hop) -> None:
        """Sends a segment; it is delivered to the path's inbox when its last tuple has arrived."""
        n, span = segment.n, segment.b_s - segment.a_s
        size = n * path.bytes_each
        if n:
            time_s = size / self.bytes_per_s
            each = time_s / n
        else:
            time_s = CONTROL_S
            each = path.bytes_each / self.bytes_per_s + CONTROL_S
        elapsed = segment.b_s - self._last_s
        if elapsed > 0.0:
            self._last_s = segment.b_s
        else:
            elapsed = 0.0
        # unsent work when the first tuple came, then what is left of it and of this segment when the last one came
        before = self._backlog_s - (elapsed - span) if elapsed > span else self._backlog_s
        idle = -before if before < 0.0 else 0.0
        before = before if before > 0.0 else 0.0
        after = before + time_s - (elapsed if elapsed < span else span)
        if n > 1:
            after = self._among(after, idle, span, elapsed)
            self._age(segment, size, span)
        self._backlog_s = after = after if after > 0.0 else 0.0
        segment.b_s += (after if after > each else each) + path.latency_s
        first_s = segment.a_s + before + each + path.latency_s
        # a single tuple has no span, or its consumer would serve it while it arrives
        segment.a_s = first_s if n > 1 and first_s < segment.b_s else segment.b_s
        self.bytes_out += size
        self.tuples_in += n
        once(self.env, segment.b_s, self._arrive, segment)

    def _among(self, after: float, idle: float, span: float, elapsed: float) -> float:
        """What is left of a segment that began before another stream's ended: its first tuples fill the gaps there."""
        if elapsed < span and after > 0.0 and self._idle_s > 0.0:
            filled = min(after, self._idle_s, span - elapsed)
            self._idle_s -= filled
            after -= filled
        self._idle_s += idle - after if after < 0.0 else idle
        self._idle_span_s += elapsed
        longest = self._longest_s * FORGET
        if span > longest:
            longest = span
        self._longest_s = longest
        if self._idle_span_s > longest:  # what lies further back than a segment reaches is forgotten
            self._idle_s *= longest / self._idle_span_s
            self._idle_span_s = longest
        return after

    def _age(self, segment: Segment, size: float, span: float) -> None:
        """Makes tuples older by the mean wait for each other that segments hide (see twin.engine.compute.waiting)."""
        self._window_bytes += size
        now, since_s = self.env.now, self._window_since_s
        if now >= since_s + RENEW_S:
            used = self._window_bytes / self.bytes_per_s / (now - since_s)
            self._used = used if self._used < 0.0 else self._used + SMOOTHING * (used - self._used)
            self._window_bytes, self._window_since_s = 0.0, now
            each_s = size / segment.n / self.bytes_per_s
            among = max(segment.n, round(self._used * span / each_s))  # tuples of all streams while these came
            self._hidden_s = residual_wait_s(among, self._used, segment.gap_scv, 0.0, each_s)
        wait_s = self._hidden_s
        if wait_s > 0.0:
            segment.born0_s -= wait_s
            segment.born1_s -= wait_s
            segment.taken0_s -= wait_s
            segment.taken1_s -= wait_s

    def _arrive(self, event: simpy.Event) -> None:
        segment = event._value
        self.tuples_out += segment.n
        segment.inbox.task.deliver(segment)

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
        self._backlog_s = waiting_s + shorter_s
        self._last_s = max(self._last_s, now)

    def wait_s(self, at_s: float) -> float:
        """Time that a tuple handed over at `at_s` waits before it is sent."""
        return max(0.0, self._backlog_s - max(0.0, at_s - self._last_s))

    def unsent_bytes(self) -> float:
        """Bytes that wait to be sent, now."""
        return self.wait_s(self.env.now) * self.bytes_per_s

    def capacity_bytes(self) -> float:
        """Bytes that could have been sent so far."""
        return self._capacity_bytes + (self.env.now - self._since_s) * self.bytes_per_s
