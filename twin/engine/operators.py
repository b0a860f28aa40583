"""The operators without a window: source, filter, map, sink."""

from __future__ import annotations

from typing import Any

from twin.engine.segment import Segment
from twin.engine.sketch import add_linear
from twin.engine.task import Task, depart, narrow


class SourceTask(Task):
    """Polls the broker, which is its unbounded input queue: a tuple is taken when its service starts."""

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Stamps the tuples with the time at which they were taken."""
        _, start_s, end_s, time_s = self._current
        each_s = time_s / segment.n
        older_s = segment.taken0_s  # the varied part of a hidden wait, see shift()
        segment.taken0_s = start_s - older_s
        segment.taken1_s = max(start_s, end_s - each_s) - older_s
        super().emit(segment, first_s, last_s)

    def shift(self, segment: Segment, wait_s: float, varied_s: float) -> None:
        """A wait in front of the source is a wait in the broker: tuples are older, but not taken earlier."""
        segment.born0_s -= wait_s + varied_s
        segment.born1_s -= wait_s + varied_s
        segment.taken0_s = varied_s


class SelectTask(Task):
    """Filters and maps: `selectivity` tuples leave per tuple that came; at most one each if `thins`."""

    def __init__(self, *args: Any, selectivity: float, thins: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.selectivity = selectivity
        self.thins = thins
        self._n_out = 0

    @property
    def in_service_out(self) -> int:
        """Survivors among the tuples in service."""
        return self._n_out if self.busy else 0

    def plan(self, segment: Segment) -> float:
        """Draws how many tuples leave."""
        if self.thins:
            self._n_out = self.draws.binomial(segment.n, self.selectivity)
        else:
            self._n_out = self.draws.rounded(segment.n * self.selectivity)
        self.dropped += max(0, segment.n - self._n_out)
        return self._n_out * self.send_s

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Sends the survivors, spread like the segment."""
        n_out = self._n_out
        if not n_out:
            return
        if n_out == 1 and segment.n > 1:
            at = self.draws.uniform()
            out = segment.part(1, at, at)
            out.a_s = out.b_s = first_s + at * (last_s - first_s)
        else:
            out = depart(segment, n_out, first_s, last_s)
            if n_out < segment.n:
                narrow(out, (segment.n - n_out) / ((n_out + 1) * (segment.n - 1)))
        share = min(1.0, self.selectivity)
        out.gap_scv = share * segment.gap_scv + 1.0 - share
        self.send(out)


class SinkTask(Task):
    """Where results arrive: counts them and their latencies, by period."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.count = 0  # this period
        self.counted = 0  # since the start
        self.processing_sum_s = 0.0
        self.e2e_sum_s = 0.0
        self.processing: dict[int, int] = {}
        self.e2e: dict[int, int] = {}

    def plan(self, segment: Segment) -> float:
        """Nothing leaves a sink."""
        return 0.0

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Notes the latencies: linear from the first tuple to the last."""
        n = segment.n
        processing0, processing1 = max(0.0, first_s - segment.taken0_s), max(0.0, last_s - segment.taken1_s)
        e2e0, e2e1 = max(processing0, first_s - segment.born0_s), max(processing1, last_s - segment.born1_s)
        self.count += n
        self.counted += n
        self.processing_sum_s += n * (processing0 + processing1) / 2
        self.e2e_sum_s += n * (e2e0 + e2e1) / 2
        add_linear(self.processing, n, processing0, processing1)
        add_linear(self.e2e, n, e2e0, e2e1)
