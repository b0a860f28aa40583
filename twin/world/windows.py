"""Operators with windows over the time at which records come, or over numbers of records: contents and evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.machine import layout as k
from twin.machine.layout import addresses
from twin.machine.windows import ELSEWHERE, NEAR
from twin.operators.records import Every, Item, Leaves, State, parted
from twin.world.logic import Logic, Store
from twin.world.memory import Draws, RunMemory, StructView

if TYPE_CHECKING:
    from twin.operators.key_groups import Likeness
    from twin.world.parts import Task


class Content(StructView, layout=k.CONTENT):
    """Records of one side of a window. task: the subtask of the window."""

    task: Task

    def copy(self, memory: RunMemory) -> np.ndarray:
        """Copy of all records, the oldest first."""
        rows = memory.blocks[self.here, "rows"]
        return np.roll(rows, -self.first)[: self.count].copy() if self.first else rows[: self.count].copy()

    def items(self, memory: RunMemory) -> list[Item]:
        """All records, the oldest first."""
        return [(at, key, born_s, taken_s) for key, _, at, born_s, taken_s in self.copy(memory).tolist()]

    def hold(self, memory: RunMemory, items: Sequence[Item]) -> None:
        """Holds these records, and no others."""
        rows = [(key, 0, at, born_s, taken_s) for at, key, born_s, taken_s in items]
        self.become(memory, np.array(rows, k.ROW))

    def draw_key(self, draws: Draws) -> int:
        """Draws the key of a record that has none: one of the keys that are here, or elsewhere
        (`twin.machine.windows`)."""
        if self.keys <= 1 and self.here_share == 1.0:
            return 0
        at = draws.uniform()
        if self.here_share != 1.0:
            at /= self.here_share
            if at >= 1.0:
                return ELSEWHERE
        return min(int(at * self.scale), self.keys - 1)

    def become(self, memory: RunMemory, rows: np.ndarray) -> None:
        """Holds these records, and no others."""
        room = max(k.LEAST_ROOM, 2 * len(rows))
        self.rows, self.room = memory.array(k.ROW, self.here, "rows", room), room
        memory.blocks[self.here, "rows"][: len(rows)] = rows
        self.first, self.count = 0, len(rows)


class WindowState(StructView, layout=k.WINDOW):
    """Windows of a logic, and their contents, one a side."""

    contents: list[Content]


class WindowLogic(Logic):
    """Logic of windows by processing time or count. window: their structure. likeness_for: returns the distribution of
    keys on each side, and the share of keys that are here, at a share of the input; None if that changes nothing. keys:
    those that have accumulators (`twin.machine.windows`), of bytes_each; None if it holds records. copies: whether
    each open window has its own copy of a record; simulated are they once."""

    code = k.WINDOW_OF
    planned: Sequence[object] = ()
    keeps = True
    window: WindowState
    keys: Store | None = None
    bytes_each = 0.0
    copies = False
    likeness_for: Callable[[float, list[int]], tuple[Sequence[Likeness], Sequence[float]] | None]

    def keep_accumulators(self, keys: Store, bytes_each: float, slice_s: float) -> None:
        """Holds accumulators of so many bytes from now on, no records. keys: for those that have any. slice_s: length
        of the slices that windows share, in the window's own unit; 0 for none."""
        window = self.window
        self.keys, self.bytes_each = keys, bytes_each
        window.states, window.slice = keys.here, slice_s
        window.closed = round(window.boundary_s / window.slide) - 1 if window.by_time else 0

    def in_service(self) -> int:
        return 0

    def stopped(self) -> None:
        """Drops the results under way."""
        self.window.found_count = 0

    def snapshot(self, again: bool) -> Any:
        """Results that have not left, contents, and the trigger's progress with the evaluations that are due."""
        window, blocks = self.window, self.memory.blocks
        found = blocks[window.here, "found"][: window.found_count].copy()
        contents = [each.copy(self.memory) for each in window.contents]
        due = [(owner, at_s) for owner, at_s in self.task.timers_due() if self._is_mine(owner)]
        return found, contents, window.boundary_s if window.by_time else window.seen, due

    def restore(self, kept: Any, at_s: float) -> int:
        """Goes back to a checkpoint. Windows of the content that have ended meanwhile are due, too."""
        found, contents, progress, due = kept
        window, memory = self.window, self.memory
        room = max(k.LEAST_ROOM, 2 * len(found))
        window.found, window.found_room = memory.array(k.RESULT, window.here, "found", room), room
        memory.blocks[window.here, "found"][: len(found)] = found
        window.found_count = len(found)
        for content, rows in zip(window.contents, contents, strict=True):
            content.become(memory, rows)
        if not window.by_time:
            window.seen = progress
            self._count_anew()
            return 0
        timers = [(owner, when_s) for owner, when_s in self.task.timers_due() if not self._is_mine(owner)]
        timers += due
        while progress < min(window.boundary_s, at_s + window.length):
            timers.append((window.here, progress))
            progress += window.slide
        self.task.timers_become(timers)
        self._count_anew()
        return 0

    def _is_mine(self, owner: int) -> bool:
        """Whether an evaluation is of this window, or of a part of it."""
        return owner == self.window.here or (owner != 0 and self.memory.at[owner].whole == self.window.here)

    # changes of the plan ---------------------------------------------------------------------------------------------

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        state, origin, goes, memory = State(), self._origin(), leaves or Every(share), self.memory
        for content, size in zip(self.window.contents, self._sizes(), strict=True):
            gone, kept = parted(content.items(memory), goes)
            content.hold(memory, kept)
            state.stores.append((self._first(), _shifted(gone, -origin)))
            state.bytes += len(self._entries(gone)) * size
        self._count_anew()
        return state

    def give(self, state: State) -> None:
        """Merges the content of windows into its own. Without key groups, records get new keys, as keys of other
        subtasks are unknown here."""
        window, memory = self.window, self.memory
        origin, first = self._origin(), min([first for first, _ in state.stores])
        stores = [_shifted(items, origin) for _, items in state.stores]
        if not window.keyed:
            stores = [self._drawn_anew(side, items) for side, items in enumerate(stores)]
        if window.by_time:
            self._take_over(first, stores)
        for content, items in zip(window.contents, stores, strict=True):
            content.hold(memory, sorted([*content.items(memory), *items], key=itemgetter(0)))
        self._count_anew()

    def stores(self) -> int:
        return len(self.window.contents)

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share. Its records get new keys, among those that are here now."""
        window, memory = self.window, self.memory
        known = self.likeness_for(share, values)
        if known is not None:
            for content, like, here in zip(window.contents, *known, strict=True):
                content.keys, content.scale, content.here_share = like.keys, like.scale, here
            if not window.keyed:
                window.repeats = known[0][0].repeats
        for side, content in enumerate(window.contents):
            content.hold(memory, self._drawn_anew(side, content.items(memory)))
        self._count_anew()

    def _drawn_anew(self, side: int, items: Sequence[Item]) -> list[Item]:
        """Records with new keys."""
        content, draws = self.window.contents[side], self.task.draws
        return [(at, content.draw_key(draws), born_s, taken_s) for at, _, born_s, taken_s in items]

    def _origin(self) -> float:
        """Origin of positions, so that positions relative to it mean the same at another subtask."""
        return 0.0 if self.window.by_time else float(self.window.seen)

    def _first(self) -> int:
        """Number of the first window over time that was not evaluated; windows are counted by their ends."""
        window = self.window
        if not window.by_time:
            return 0
        due = (at_s for owner, at_s in self.task.timers_due() if owner == window.here)
        return round(next(due, window.boundary_s) / window.slide)

    def _take_over(self, first: int, stores: list[list[Item]]) -> None:
        """Prepares evaluations for records that come from another subtask, which has evaluated the windows before
        number `first`.

        Windows that ended here but not there are evaluated now, with these records alone. Those that ended there but
        are still due here are evaluated without them. An empty window gets all of the former ends, as more records may
        come from other subtasks.
        """
        window, timers = self.window, self.task.timers_due()
        last_s = max([items[-1][0] for items in stores if items], default=-math.inf)
        ends_s = [number * window.slide for number in range(first, self._first())]
        own = came = window.here
        if self.held():
            own = self._part([content.items(self.memory) for content in window.contents])
            came = self._part(stores)
        for place, (owner, at_s) in enumerate(timers):
            if owner == window.here and round(at_s / window.slide) < first:
                timers[place] = own, at_s
        ends_s = [at_s for at_s in ends_s if came == window.here or at_s < last_s + window.length]
        self.task.timers_become([*[(came, at_s) for at_s in ends_s], *timers])

    def _part(self, stores: Sequence[Sequence[Item]]) -> int:
        """Makes a part of its content that is evaluated by itself; returns its address."""
        memory = self.memory
        rows = memory.arena.make(k.CONTENT, len(stores))
        part = WindowState(memory.add(k.WINDOW, whole=self.window.here, contents=rows.ctypes.data))
        memory.at[part.here] = part
        part.contents = [Content(each) for each in addresses(rows)]
        for content, items in zip(part.contents, stores, strict=True):
            content.raw_here = content.here
            content.hold(memory, items)
        return part.here

    # accumulators ----------------------------------------------------------------------------------------------------

    def _closed(self) -> int:
        """Number of the last window that was evaluated; windows are counted by their ends."""
        window = self.window
        return self._first() - 1 if window.by_time else int(window.seen // window.slide)

    def _count_anew(self) -> None:
        """Counts accumulators after a change of the records in its window."""
        if self.keys is None:
            return
        window, (content,) = self.window, self.window.contents
        rows = self.memory.blocks[content.here, "rows"][: content.count]
        window.closed = self._closed()
        numbers = self._numbers(rows["position"])
        latest = dict(
            zip(rows["key"].tolist(), zip(numbers.tolist(), rows["position"].tolist(), strict=True), strict=True)
        )
        keys = sorted([(number, key, at) for key, (number, at) in latest.items() if not self._is_over(number)])
        self.keys.hold({key: (float(number), key, at, 0.0) for number, key, at in keys})
        window.lasts = sum([number for number, _, _ in keys])
        rows["following"] = _firsts(rows["key"], numbers)
        window.begun = int(rows["following"].sum())

    def _numbers(self, positions: np.ndarray) -> np.ndarray:
        """Numbers of the last windows, or of the slices, that records at these positions are in."""
        window = self.window
        if window.slice:
            return np.ceil(positions / window.slice - NEAR).astype(np.int64)
        return np.ceil((positions + window.length) / window.slide - NEAR).astype(np.int64) - 1

    def _is_over(self, number: int) -> bool:
        """Whether the last window of a key has been evaluated."""
        return not self.window.slice and number <= self.window.closed

    def _begun(self, items: Sequence[Item]) -> list[int]:
        """Keys of the accumulators to which these records were added; each key as often as it has one."""
        window, closed = self.window, self._closed()
        keys = np.array([key for _, key, _, _ in items], np.int64)
        numbers = self._numbers(np.array([at for at, _, _, _ in items]))
        if window.slice:
            return list(keys[_firsts(keys, numbers)])
        last = dict(zip(keys.tolist(), numbers.tolist(), strict=True))
        return [key for key, number in last.items() for _ in range(number - closed)]

    @property
    def found(self) -> int:
        """Results that have not left."""
        return int(self.window.found_count)

    @property
    def fires(self) -> int:
        """Evaluations so far."""
        return int(self.window.fires)

    def held(self) -> float:
        return float(sum([each.count for each in self.window.contents]))

    def accumulators(self) -> int:
        """Number of accumulators that it holds."""
        window = self.window
        if self.keys is None:
            return 0
        return int(window.begun if window.slice else window.lasts - self.keys.count * window.closed)

    def _entries(self, items: Sequence[Item]) -> list[int]:
        """Keys of the accumulators to which these records were added, or of the copies of them that are held."""
        if self.keys is not None:
            return self._begun(items)
        keys = [key for _, key, _, _ in items]
        if not self.copies:
            return keys
        return np.repeat(keys, self._copies(np.array([at for at, _, _, _ in items]))).tolist()

    def _stored(self) -> list[tuple[np.ndarray, float]]:
        """Positions of the records of each side, and the bytes of each record."""
        positions = [each.copy(self.memory)["position"] for each in self.window.contents]
        return list(zip(positions, self._sizes(), strict=True))

    def _copies(self, positions: np.ndarray) -> np.ndarray:
        """Number of open windows that records at these positions are in."""
        before = np.ceil(positions / self.window.slide - NEAR).astype(np.int64) - 1
        return np.maximum(self._numbers(positions) - np.maximum(before, self._closed()), 0)

    def changed_bytes(self, came: int) -> float:
        if self.copies:
            at_s, sizes = np.hstack([[at_s, size * self._copies(at_s)] for at_s, size in self._stored()])
            return float(sizes[np.argsort(at_s)[max(0, len(at_s) - came) :]].sum())
        if self.keys is None:
            return super().changed_bytes(came)
        (content,) = self.window.contents
        changed = len(self._begun(content.items(self.memory)[-came:])) if came else 0
        return min(changed, self.accumulators()) * self.bytes_each

    def held_bytes(self) -> float:
        if self.keys is not None:
            return self.accumulators() * self.bytes_each
        if self.copies:
            return float(sum([self._copies(at_s).sum() * size for at_s, size in self._stored()]))
        counts = [each.count for each in self.window.contents]
        return float(sum([count * size for count, size in zip(counts, self._sizes(), strict=True)]))

    def held_keys(self) -> list[tuple[list[int], float]]:
        contents = zip(self.window.contents, self._sizes(), strict=True)
        return [(self._entries(content.items(self.memory)), size) for content, size in contents]

    def _sizes(self) -> list[float]:
        """Bytes of a record, or accumulator, in each of the contents."""
        if self.keys is not None:
            return [self.bytes_each]
        if len(self.window.contents) == 1:
            return [self.record_bytes()]
        by_side = {inbox.side: inbox.record_bytes for inbox in self.task.inboxes}
        return [by_side[side] for side in range(len(self.window.contents))]


def _firsts(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Whether a record is the first with its key and number, by record."""
    first = np.zeros(len(keys), bool)
    first[np.unique(np.stack([keys, numbers]), axis=1, return_index=True)[1]] = True
    return first


def _shifted(items: Sequence[Item], by: float) -> list[Item]:
    return [(position + by, key, born_s, taken_s) for position, key, born_s, taken_s in items]
