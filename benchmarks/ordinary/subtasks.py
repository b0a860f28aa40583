"""A subtask by brute force: it takes what its channels bring in order of arrival, one at a time, each for its service.

No channel is ever full, and every subtask has a core. Barriers are as `docs/checkpoints.md` says, watermarks as
`docs/enorm.md` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.ordinary.contents import Content
from benchmarks.ordinary.items import BARRIER, RECORD, WATERMARK, Item, Pauses


@dataclass(slots=True)
class Kept:
    """A subtask's part of a checkpoint. first, turn: turns of its first barrier and of its last [s]; ready: when it
    begins to upload [s]; aside: records put aside meanwhile; flying_bytes: of records on their way that it uploads,
    too."""

    first: float
    turn: float
    ready: float
    state_bytes: float
    changed_bytes: float
    aside: int = 0
    flying_bytes: float = 0.0


@dataclass(slots=True)
class Subtask:
    """channels: what comes, each in order of time. services: of its records, in order of their turns [s].

    sync_s: CPU time of a checkpoint, given what it keeps. size: of a record that comes [bytes]. overtaking: whether a
    barrier overtakes what waits; that of a source, whose second channel brings barriers, always does. As in Flink, none
    passes before the record in service is done.
    """

    channels: Sequence[Sequence[Item]]
    services: Sequence[float]
    content: Content
    pauses: Pauses
    sync_s: Callable[[Kept], float]
    size: float
    overtaking: bool = False
    source: bool = False
    free: float = 0.0
    served: int = 0
    line: deque[tuple[Item, int]] = field(default_factory=deque)
    aside: list[tuple[Item, int]] = field(default_factory=list)
    passed: set[int] = field(default_factory=set)
    first: float = 0.0
    marks: dict[int, float] = field(default_factory=dict)
    mark: float = -np.inf
    out: list[Item] = field(default_factory=list)
    worked: list[tuple[float, float]] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)

    def run(self) -> None:
        """Fills out, worked (spans of time [s]) and kept (by number of checkpoint)."""
        self.marks = dict.fromkeys(range(len(self.channels)), -np.inf)
        coming = [(item, number) for number, items in enumerate(self.channels) for item in items]
        for item, number in sorted(coming, key=lambda pair: pair[0].t):
            self._work_until(item.t)
            if item.what == BARRIER and (self.overtaking or self.source):
                self._overtake(item, number)
                continue
            self.line.append((item, number))
            if self.overtaking and self.passed and number not in self.passed:
                self.kept[max(self.kept)].flying_bytes += self.size
        self._work_until(np.inf)

    def _work_until(self, t: float) -> None:
        while self.line and max(self.free, self.line[0][0].t) < t:
            item, number = self.line.popleft()
            self._take(item, number, max(self.free, item.t))

    def _take(self, item: Item, number: int, turn: float) -> None:
        turn = self.pauses.awake(turn)
        if number in self.passed and not self.overtaking:
            self.aside.append((item, number))
        elif item.what == BARRIER:
            self._align(item, number, turn)
        elif item.what == WATERMARK:
            self.marks[number] = item.number
            self._watermark(min(self.marks.values()), turn)
        else:
            done = self.pauses.after(turn, self.services[self.served] + self.content.extra_s(item, self.mark))
            self.served += 1
            self._occupied(turn, done)
            if self.source:
                item = item.at(done, taken=turn)
            elif self.content.by_turn:
                item = item.at(item.t, event=turn)
            found = self.content.record(item, done, self.mark)
            if self.source:  # the watermark goes ahead of the record that moves it
                self._watermark(self.content.newest, done)
            self.out += found

    def _watermark(self, mark: float, turn: float) -> None:
        """The subtask's watermark is there, and what it completes, if it is a later one."""
        if mark <= self.mark:
            return
        self.mark = mark
        results, work_s = self.content.watermark(mark)
        done = turn if not work_s else self.pauses.after(turn, work_s)
        self._occupied(turn, done)
        self.out += [each.at(done) for each in results]
        self.out.append(Item(done, WATERMARK, mark))

    def _align(self, barrier: Item, number: int, turn: float) -> None:
        if not self.passed:
            self.first = turn
        self.passed.add(number)
        if len(self.passed) == len(self.channels):
            self._keep(int(barrier.number), turn)
            self.kept[int(barrier.number)].aside = sum(item.what == RECORD for item, _ in self.aside)
            self.line.extendleft(reversed(self.aside))
            self.aside, self.passed = [], set()

    def _overtake(self, barrier: Item, number: int) -> None:
        if not self.passed:
            self.first = self.pauses.awake(max(self.free, barrier.t))
            self._keep(int(barrier.number), self.first)
            self.kept[int(barrier.number)].flying_bytes = 0.0 if self.source else self.size * len(self.line)
        kept = self.kept[int(barrier.number)]
        kept.turn, kept.ready = max(kept.turn, barrier.t), max(kept.ready, barrier.t)
        self.passed.add(number)
        if self.source or len(self.passed) == len(self.channels):
            self.passed = set()

    def _keep(self, number: int, turn: float) -> None:
        kept = Kept(self.first, turn, turn, *self.content.state_bytes(turn))
        self.free = kept.ready = self.pauses.after(turn, self.sync_s(kept))
        self.kept[number] = kept
        self.out.append(Item(turn, BARRIER, number))
        self._occupied(turn, self.free)

    def _occupied(self, start: float, end: float) -> None:
        if end > start:
            self.worked.append((start, end))
            self.free = end
