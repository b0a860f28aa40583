"""The operators without a window: source, filter, map, sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import simpy

from twin.engine.measure.sketch import add_linear
from twin.engine.segment import Segment
from twin.engine.task import Task

if TYPE_CHECKING:
    from twin.engine.compute.processor import Processor
    from twin.engine.draws import Draws


def _nothing() -> None:
    """What a source without a broker gets."""


class SourceTask(Task):
    """Polls the broker, which is its unbounded input queue: a tuple is taken when its service starts.

    A source that is far `behind` has only the next few segments in its queue, and gets more by `refill`.
    """

    __slots__ = ("behind", "refill")

    def __init__(
        self,
        env: simpy.Environment,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        service_scv: float,
        exact: bool,
    ) -> None:
        super().__init__(env, name, processor, draws, service_s, service_scv, exact)
        self.behind = False
        self.refill: Callable[[], None] = _nothing

    def work(self) -> None:
        """Serves what is there, and what the broker keeps besides."""
        Task.work(self)
        while self.behind and not (self.queue or self.busy or self.blocked or self.halted):
            self.refill()
            Task.work(self)

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Stamps the tuples with the time at which they were taken."""
        _, start_s, end_s, time_s = self._current
        each_s = time_s / segment.n
        older_s = segment.taken0_s  # the varied part of a hidden wait, see shift()
        segment.taken0_s = start_s - older_s
        segment.taken1_s = max(start_s, end_s - each_s) - older_s
        super().emit(segment, first_s, last_s)

    def held_back(self, segment: Segment, since_s: float) -> None:
        """A tuple is taken when the one before it has left: those that are held back are taken later."""
        a_s, b_s = segment.a_s, segment.b_s
        super().held_back(segment, since_s)
        segment.taken0_s += segment.a_s - a_s
        segment.taken1_s += segment.b_s - b_s

    def shift(self, segment: Segment, wait_s: float, varied_s: float) -> None:
        """A wait in front of the source is a wait in the broker: tuples are older, but not taken earlier."""
        segment.born0_s -= wait_s + varied_s
        segment.born1_s -= wait_s + varied_s
        segment.taken0_s = varied_s


class SelectTask(Task):
    """Filters and maps: `selectivity` tuples leave per tuple that came; at most one each if `thins`."""

    __slots__ = (
        "_n_out",
        "selectivity",
        "thins",
    )

    def __init__(
        self,
        env: simpy.Environment,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        service_scv: float,
        exact: bool,
        selectivity: float,
        thins: bool,
    ) -> None:
        super().__init__(env, name, processor, draws, service_s, service_scv, exact)
        self.selectivity = selectivity
        self.thins = thins
        self._n_out = 0

    @property
    def in_service_out(self) -> int:
        """Survivors among the tuples in service."""
        return self._n_out if self.busy else 0

    def plan(self, segment: Segment) -> float:
        """Draws how many tuples leave."""
        n, selectivity = segment.n, self.selectivity
        if selectivity == 1.0:
            n_out = n
        elif self.thins:
            n_out = self.draws.binomial(n, selectivity)
        else:
            n_out = self.draws.rounded(n * selectivity)
        self._n_out = n_out
        if n_out < n:
            self.dropped += n - n_out
        return n_out * self.send_s

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Sends the survivors, spread like the segment."""
        n_out, n = self._n_out, segment.n
        if not n_out:
            return
        segment.n, segment.a_s, segment.b_s = n_out, first_s, last_s
        if n_out == 1 and n > 1:
            segment.collapse(self.draws.uniform())
        elif n_out < n:  # where the first and last of a random few lie on average
            segment.narrow((n - n_out) / ((n_out + 1) * (n - 1)))
        selectivity = self.selectivity
        if selectivity < 1.0:
            segment.gap_scv = selectivity * segment.gap_scv + 1.0 - selectivity
        self.send(segment)


class SinkTask(Task):
    """Where results arrive: counts them and their latencies, by period."""

    __slots__ = (
        "count",
        "counted",
        "e2e",
        "e2e_sum_s",
        "processing",
        "processing_sum_s",
    )

    def __init__(
        self,
        env: simpy.Environment,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        service_scv: float,
        exact: bool,
    ) -> None:
        super().__init__(env, name, processor, draws, service_s, service_scv, exact)
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
        # a sampled deviation of a service may exceed the rest of a tiny latency; none is negative
        processing0, e2e0 = first_s - segment.taken0_s, first_s - segment.born0_s
        if processing0 < 0.0:
            processing0 = 0.0
        if e2e0 < processing0:
            e2e0 = processing0
        processing1, e2e1 = processing0, e2e0
        if n > 1:
            processing1, e2e1 = last_s - segment.taken1_s, last_s - segment.born1_s
            if processing1 < 0.0:
                processing1 = 0.0
            if e2e1 < processing1:
                e2e1 = processing1
        self.count += n
        self.counted += n
        self.processing_sum_s += n * (processing0 + processing1) / 2
        self.e2e_sum_s += n * (e2e0 + e2e1) / 2
        add_linear(self.processing, n, processing0, processing1)
        add_linear(self.e2e, n, e2e0, e2e1)
