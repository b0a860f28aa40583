"""Where results arrive: counts them and their latencies, by period."""

from __future__ import annotations

from twin.engine.logic import Logic
from twin.engine.measure.sketch import bucket
from twin.engine.record import Record


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

    def plan(self, record: Record) -> float:
        """Nothing leaves a sink."""
        return 0.0

    def emit(self, record: Record, at_s: float) -> None:
        """Notes the latencies. Windows' stamps may be rounded: none is negative."""
        processing_s, e2e_s = at_s - record.taken_s, at_s - record.born_s
        if processing_s < 0.0:
            processing_s = 0.0
        if e2e_s < processing_s:
            e2e_s = processing_s
        self.count += 1
        self.counted += 1
        self.processing_sum_s += processing_s
        self.e2e_sum_s += e2e_s
        place = bucket(processing_s)
        self.processing[place] = self.processing.get(place, 0) + 1
        place = bucket(e2e_s)
        self.e2e[place] = self.e2e.get(place, 0) + 1
