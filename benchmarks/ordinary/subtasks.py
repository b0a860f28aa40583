"""A subtask by brute force, one record after the other: what its operator holds and emits, and when."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor, gcd
from typing import Any

import numpy as np

from benchmarks.ordinary.streams import BARRIER, RECORD, WATERMARK, Item, Pauses

# contents ------------------------------------------------------------------------------------------------------------
# What operators hold and emit, by brute force, one record after the other. Event time is as `docs/enorm.md` says.


Held = dict[float, dict[int, tuple[float, float]]]
"""By beginning of a piece of event time [s], and by key: when the oldest record was born and taken [s]."""
EVERY_S = 0.2
"""Event time between watermarks where no window needs them more often."""


class Content:
    """What passes on each record, or as many copies as its selectivity says; of a source, also its watermark.

    by_turn: whether the time of a record is when its service begins.
    """

    def __init__(self, each: Mapping[str, Any], rng: Any) -> None:
        self.each, self.rng, self.newest, self.by_turn = each, rng, -np.inf, False

    def extra_s(self, item: Item, mark: float) -> float:
        """CPU time of a record beside its service."""
        return 0.0

    def record(self, item: Item, done: float, mark: float) -> list[Item]:
        """What leaves when a record has been served."""
        share = self.each.get("selectivity", 1)
        copies = int(share) + (share > int(share) and self.rng.random() < share - int(share))
        return [item.at(done)] * copies

    def watermark(self, mark: float) -> tuple[list[Item], float]:
        """What leaves when the watermark has come, and the CPU time that it takes."""
        return [], 0.0

    def state_bytes(self, now: float) -> tuple[float, float]:
        """Bytes of state, and of what changed since this was last asked."""
        return 0.0, 0.0


class Timed(Content):
    """Source of records with event times."""

    def record(self, item: Item, done: float, mark: float) -> list[Item]:
        self.newest = max(self.newest, item.event - self.each.get("slack_s", 0.0))
        return [item.at(done)]


class Keyed(Content):
    """State by key: `group_bytes` for each of `groups` key groups, of which changed keys count if their number is
    known, and the records that a window over processing time holds, of `size` bytes each."""

    def __init__(self, each: Mapping[str, Any], rng: Any, groups: int, size: float) -> None:
        super().__init__(each, rng)
        self.groups, self.size, self.touched, self.since = groups, size, set[int](), 0
        self.held: list[tuple[float, Item]] = []

    def record(self, item: Item, done: float, mark: float) -> list[Item]:
        self.touched.add(item.key if "groups" in self.each else item.key % self.each.get("key_groups", 1))
        if "window" not in self.each and "gap_s" not in self.each:
            return super().record(item, done, mark)
        self.held.append((done, item))
        self.since += 1
        return []

    def state_bytes(self, now: float) -> tuple[float, float]:
        of_group = self.each.get("state_bytes_per_group", 0.0)
        of_key = of_group * self.each.get("key_groups", 1) / self.each.get("groups", self.each.get("key_groups", 1))
        window = self.each.get("window", {"size_s": 0.0})
        slide_s = window.get("slide_s", window["size_s"])
        since_s = (now // slide_s + 1) * slide_s - window["size_s"] if slide_s else now
        inside = [done for done, _ in self.held if done >= since_s]
        if "gap_s" in self.each:  # a summary of each open session
            inside = list({item.key: done for done, item in self.held if done >= now - self.each["gap_s"]}.values())
        changed = of_key * len(self.touched), self.size * min(self.since, len(inside))
        self.touched, self.since = set(), 0
        return of_group * self.groups + self.size * len(inside), sum(changed)

    def results(self, ends: Mapping[float, float], until: Mapping[float, float]) -> list[Item]:
        """Results of its windows: one for each key. ends: of windows, and when they are evaluated [s]; until: when
        records must have been served, for windows that an outage was in [s]."""
        found, size_s = list[Item](), self.each["window"]["size_s"]
        for end, now in ends.items():
            held = [item for done, item in self.held if end - size_s <= done < min(end, until.get(end, np.inf))]
            if self.each["kind"] == "join":
                found += self._pairs(held, now)
                continue
            oldest: dict[int, tuple[float, float]] = {}
            for item in held:
                _put(oldest, item)
            found += [Item(now, born=oldest[key][0], taken=oldest[key][1], key=key) for key in sorted(oldest)]
        return found

    def _pairs(self, held: Sequence[Item], now: float) -> list[Item]:
        left, right = ([item for item in held if item.side == side] for side in self.each["from"])
        pairs = [(a, b) for a in left for b in right if a.key == b.key]
        found = [Item(now, born=min(a.born, b.born), taken=min(a.taken, b.taken), key=a.key) for a, b in pairs]
        return sorted(found, key=lambda item: item.key)

    def sessions(self, horizon_s: float) -> list[Item]:
        """Results of a session window: one for each run of a key's records without a gap."""
        found, gap_s = list[Item](), self.each["gap_s"]
        for key in {item.key for _, item in self.held}:
            mine = [(done, item) for done, item in self.held if item.key == key]
            first = mine[0][1]
            for (done, _), (following, item) in zip(mine, [*mine[1:], (np.inf, first)], strict=True):
                if following - done >= gap_s:
                    found.append(Item(done + gap_s, born=first.born, taken=first.taken, key=key))
                    first = item
        return [item for item in found if item.t < horizon_s]


class Windows(Content):
    """Windows over event time of one operator: a compute, or a consolidate that merges pieces of them.

    held: a piece of event time at a time, by its beginning: whole windows, or panes.
    """

    def __init__(self, each: Mapping[str, Any], behind: Mapping[str, Any], lateness: str, rng: Any) -> None:
        super().__init__(each, rng)
        windows = each.get("windows") or behind["windows"]
        self.windows = [(window["length_s"], window.get("every_s", window["length_s"])) for window in windows]
        self.pane_s = gcd(*(round(1e3 * s) for window in self.windows for s in window)) / 1e3
        self.lateness, self.partial, self.late = lateness, not each.get("windows"), 0
        self.panes: Held = {}
        self.open: dict[tuple[float, float], dict[int, tuple[float, float]]] = {}
        self.pieces: dict[tuple[float, float], set[int]] = {}

    def _windows_of(self, event: float) -> list[tuple[float, float]]:
        """Windows that a time is in: their ends and beginnings."""
        found = []
        for length_s, every_s in self.windows:
            last = floor(event / every_s + 1e-9)
            found += [
                (number * every_s + length_s, number * every_s)
                for number in range(last, last - ceil(length_s / every_s) - 1, -1)
                if event < number * every_s + length_s
            ]
        return found

    def _open_for(self, item: Item, mark: float) -> list[tuple[float, float]]:
        pane_end = (floor(item.event / self.pane_s + 1e-9) + 1) * self.pane_s
        if self.lateness == "pane" and mark >= pane_end:
            return []
        return [window for window in self._windows_of(item.event) if window[0] > mark]

    def extra_s(self, item: Item, mark: float) -> float:
        times = len(self._open_for(item, mark)) if self.each.get("sharing") == "windows" else 1
        return float(self.each.get("execute_time_s", 0.0)) * times

    def record(self, item: Item, done: float, mark: float) -> list[Item]:
        if self.each["kind"] == "compute" and not self._open_for(item, mark):
            self.late += 1
            return [item.at(done, late=True)]
        if self.partial:
            begin = floor(item.event / self.pane_s + 1e-9) * self.pane_s
            _put(self.panes.setdefault(begin, {}), item)
            return []
        for window in self._open_for(item, mark):
            _put(self.open.setdefault(window, {}), item)
        self.pieces.setdefault((item.event, item.number), set()).add(item.key)
        return []

    def watermark(self, mark: float) -> tuple[list[Item], float]:
        found, work_s = list[Item](), 0.0
        for begin in sorted(begin for begin in self.panes if begin + self.pane_s <= mark + 1e-9):
            found += _results(self.panes.pop(begin), begin, begin + self.pane_s)
        for end, begin in sorted((w for w in self.open if w[0] <= mark + 1e-9), key=lambda w: (w[0], -w[1])):
            held = self.open.pop((end, begin))
            found += _results(held, begin, end)
            if merge_s := self.each.get("merge_time_s", 0.0):
                work_s += merge_s * self._merged(begin, end)
            self.pieces[begin, end] = set(held)
        return found, work_s

    def _merged(self, begin: float, end: float) -> int:
        """Keys of the pieces of which a window is formed the cheapest way; nothing is merged if it is one piece."""
        pieces = {place: len(keys) for place, keys in self.pieces.items() if begin <= place[0] and place[1] <= end}
        times = sorted({begin, end, *(time for place in pieces for time in place)})
        least = {begin: (0, 0)}
        for time, following in pairwise(times):
            if time not in least:
                continue
            keys, number = least[time]
            ways = [(b, (keys + count, number + 1)) for (a, b), count in pieces.items() if a == time]
            for b, way in ways or [(following, (keys, number))]:  # where there is no piece, there was no record
                least[b] = min(least.get(b, way), way)
        keys, number = least[end]
        return keys if number > 1 else 0


class AtOnce(Content):
    """Compute that hands over every record at once, after its user's logic."""

    def extra_s(self, item: Item, mark: float) -> float:
        return float(self.each.get("execute_time_s", 0.0))


class Intervals(Content):
    """Interval join, over event time or over processing time."""

    def __init__(self, each: Mapping[str, Any], rng: Any) -> None:
        super().__init__(each, rng)
        self.by_turn = each.get("time") != "event"
        self.late, self.sides = 0, dict[str, dict[int, list[Item]]](left={}, right={})

    def record(self, item: Item, done: float, mark: float) -> list[Item]:
        if not self.by_turn and np.isfinite(mark) and item.event < floor(mark / EVERY_S + 1e-9) * EVERY_S:
            self.late += 1
            return [item.at(done, late=True)]
        mine, other = ("left", "right") if item.side == self.each["left"] else ("right", "left")
        self.sides[mine].setdefault(item.key, []).append(item)
        found = []
        for partner in self.sides[other].get(item.key, []):
            apart = (partner.event - item.event) * (1 if mine == "left" else -1)
            if self.each["lower_s"] <= apart <= self.each["upper_s"]:
                oldest = min(item.born, partner.born), min(item.taken, partner.taken)
                event = max(item.event, partner.event)
                found.append(Item(done, born=oldest[0], taken=oldest[1], event=event, key=item.key))
        return found


def _put(held: dict[int, tuple[float, float]], item: Item) -> None:
    born, taken = held.get(item.key, (np.inf, np.inf))
    held[item.key] = min(born, item.born), min(taken, item.taken)


def _results(held: Mapping[int, tuple[float, float]], begin: float, end: float) -> list[Item]:
    """Results over a piece of event time, in the order of their keys."""
    return [Item(0.0, RECORD, end, *held[key], event=begin, key=key) for key in sorted(held)]


# subtasks ------------------------------------------------------------------------------------------------------------
# A subtask by brute force: it takes what its channels bring in order of arrival, one at a time, each for its service.
#
# No channel is ever full, and every subtask has a core. Barriers are as `docs/checkpoints.md` says, watermarks as
# `docs/enorm.md` does.


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
