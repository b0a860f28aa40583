"""Where results arrive: they are counted with their latencies, by period; or, exactly once, when they are committed."""

from __future__ import annotations

from collections import deque

from twin.engine.logic import Logic
from twin.engine.record import Record
from twin.engine.sketch import bucket


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


class CommittingSink(SinkLogic):
    """made: results so far; held: those that wait for a commit; undone: those that will be made again."""

    __slots__ = ("held_results", "made", "undone", "waiting")

    def __init__(self) -> None:
        super().__init__()
        self.repeats = False
        self.made = 0
        self.held_results = 0
        self.undone = 0
        self.waiting: deque[tuple[int, Record]] = deque()

    def ended(self) -> int:
        """Also what is not seen yet, or never will be."""
        return self.counted + self.held_results + self.undone

    def emit(self, record: Record, at_s: float) -> None:
        """They wait."""
        self.made += 1
        self.held_results += 1
        self.waiting.append((self.made, record))

    def snapshot(self, again: bool) -> object:
        """How many results belong to the checkpoint."""
        return self.made

    def complete(self, kept: object, now_s: float) -> None:
        """Those are seen, now."""
        assert isinstance(kept, int)
        while self.waiting and self.waiting[0][0] <= kept:
            _, record = self.waiting.popleft()
            self.held_results -= 1
            super().emit(record, now_s)

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """What was not committed never was."""
        self.undone += self.held_results
        self.held_results = 0
        self.waiting.clear()
        return 0
