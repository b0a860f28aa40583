"""Where results arrive: counts them and their latencies, by period."""

from __future__ import annotations

from twin.engine.logic import Logic
from twin.engine.measure.sketch import add_linear
from twin.engine.segment import Segment


class SinkLogic(Logic):
    """`count` and what follows are of this period; `counted`: results since the start; `repeats`: a replay's, too."""

    __slots__ = ("count", "counted", "e2e", "e2e_sum_s", "processing", "processing_sum_s", "repeats")

    def __init__(self) -> None:
        super().__init__()
        self.law = "in = counted + in service + stopped"
        self.counted = 0
        self.repeats = True
        self.clear()

    def clear(self) -> None:
        """A new period begins."""
        self.count = 0
        self.processing_sum_s = 0.0
        self.e2e_sum_s = 0.0
        self.processing: dict[int, int] = {}
        self.e2e: dict[int, int] = {}

    def ended(self) -> int:
        """All that it counted."""
        return self.counted

    def sink(self) -> SinkLogic:
        """This one."""
        return self

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
