"""A host's network card: outgoing bandwidth shared by all streams, then a latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from twin.engine.alarm import once
from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.channel import Path


class Nic:
    """First in, first out at `bytes_per_s`. Overlapping segments of several streams interleave as fluids."""

    __slots__ = (
        "_backlog_s",
        "_last_s",
        "bytes_out",
        "bytes_per_s",
        "env",
        "latency_factor",
        "tuples_in",
        "tuples_out",
    )

    def __init__(self, env: simpy.Environment, bandwidth_mbps: float) -> None:
        self.env = env
        self.bytes_per_s = bandwidth_mbps * 1e6 / 8
        self.bytes_out = 0.0
        self.tuples_in = 0
        self.tuples_out = 0
        self.latency_factor = 1.0
        self._backlog_s = 0.0
        self._last_s = 0.0

    def degrade(self, bandwidth_factor: float, latency_factor: float) -> None:
        """Multiplies bandwidth and latency, from now on; the inverse factors restore them."""
        self.bytes_per_s *= bandwidth_factor
        self.latency_factor *= latency_factor

    def transmit(self, segment: Segment, path: Path) -> None:
        """Sends a segment; it is delivered to the path's inbox when its last tuple has arrived."""
        n, span = segment.n, segment.b_s - segment.a_s
        size = n * path.bytes_each
        time_s = size / self.bytes_per_s
        elapsed = segment.b_s - self._last_s
        if elapsed > 0.0:
            self._last_s = segment.b_s
        else:
            elapsed = 0.0
        # unsent work when the first tuple came, then what is left of it and of this segment when the last one came
        before = self._backlog_s - (elapsed - span) if elapsed > span else self._backlog_s
        before = before if before > 0.0 else 0.0
        after = before + time_s - (elapsed if elapsed < span else span)
        self._backlog_s = after = after if after > 0.0 else 0.0
        each = time_s / n
        latency_s = path.latency_s * self.latency_factor
        segment.b_s += (after if after > each else each) + latency_s
        first_s = segment.a_s + before + each + latency_s
        # a single tuple has no span, or its consumer would serve it while it arrives
        segment.a_s = first_s if n > 1 and first_s < segment.b_s else segment.b_s
        self.bytes_out += size
        self.tuples_in += n
        once(self.env, segment.b_s, self._arrive, segment)

    def _arrive(self, event: simpy.Event) -> None:
        segment = event._value
        self.tuples_out += segment.n
        segment.inbox.task.deliver(segment)
