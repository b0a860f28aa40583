"""Where results arrive: they are counted with their latencies, by period; or, exactly once, when they are committed."""

from __future__ import annotations

from collections import deque

from twin.engine.logic import SinkLogic
from twin.engine.record import Record


class CommittingSink(SinkLogic):
    """made: results so far; held: those that wait for a commit; undone: those that will be made again."""

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
        """Counts the committed results at this time."""
        assert isinstance(kept, int)
        while self.waiting and self.waiting[0][0] <= kept:
            _, record = self.waiting.popleft()
            self.held_results -= 1
            super().emit(record, now_s)

    def restore(self, kept: object, at_s: float) -> int:
        """What was not committed never was."""
        self.undone += self.held_results
        self.held_results = 0
        self.waiting.clear()
        return 0
