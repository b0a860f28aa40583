"""Exactly-once sink: results are counted when their checkpoint commits them."""

from __future__ import annotations

from collections import deque

from twin.engine.logic import SinkLogic
from twin.engine.record import Record


class CommittingSink(SinkLogic):
    """Logic of an exactly-once sink. made: results so far. held_results: results that wait for a commit. undone:
    results that a failure dropped before their commit, and that will be made again."""

    def __init__(self) -> None:
        super().__init__()
        self.repeats = False
        self.made = 0
        self.held_results = 0
        self.undone = 0
        self.waiting: deque[tuple[int, Record]] = deque()

    def ended(self) -> int:
        """Number of results, with those that are not committed yet or were dropped."""
        return self.counted + self.held_results + self.undone

    def emit(self, record: Record, at_s: float) -> None:
        """Holds a result back until its commit."""
        self.made += 1
        self.held_results += 1
        self.waiting.append((self.made, record))

    def snapshot(self, again: bool) -> object:
        """Number of results that belong to the checkpoint."""
        return self.made

    def complete(self, kept: object, now_s: float) -> None:
        """Counts the results that the checkpoint commits, at `now_s`."""
        assert isinstance(kept, int)
        while self.waiting and self.waiting[0][0] <= kept:
            _, record = self.waiting.popleft()
            self.held_results -= 1
            super().emit(record, now_s)

    def restore(self, kept: object, at_s: float) -> int:
        """Drops the results that were not committed."""
        self.undone += self.held_results
        self.held_results = 0
        self.waiting.clear()
        return 0
