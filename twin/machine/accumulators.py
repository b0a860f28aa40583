"""Accumulators of windows: how many an engine holds that adds each record to them at once, instead of the record.

Results are made of the records, as their ages must be exact, so a run knows each record. What counts as state is one
accumulator for each key and open window, or for each key and slice where windows share their slices. Of a key, only the
last window that its latest record is in matters: all open windows up to this one have an accumulator of it.
"""

from __future__ import annotations

import math
from typing import Any

from twin.machine import contents
from twin.machine import layout as k
from twin.machine.native import compiled
from twin.machine.stores import find, forget_oldest, memo_of, touch

NEAR = 1e-9
"""Part of a window by which rounding may miss its end."""


@compiled
def slice_at(window: Any, position: float) -> int:
    """Number of the slice that a record at a position is in; slices are counted by their ends."""
    return math.ceil(position / window.slice - NEAR)


@compiled
def last_at(window: Any, position: float) -> int:
    """Number of the last window that a record at a position is in; windows are counted by their ends."""
    return math.ceil((position + window.length) / window.slide - NEAR) - 1


@compiled
def put_in(s: Any, window: Any, item: Any, position: float) -> None:
    """Puts a record into a window, at `position`, and counts the accumulators that it begins."""
    contents.put_in(s, window, item, position)
    if window.states == 0:
        return
    store, key = k.store_at(window.states), item.key
    content = contents.content_of(window, 0)
    row = contents.row_of(content, content.count - 1)
    row.following = 0
    number = slice_at(window, position) if window.slice > 0.0 else last_at(window, position)
    place, before = find(store, key), 0
    if place != 0:
        memo = memo_of(store, place)
        memo.born_s = position
        before = int(memo.at_s)
        if before == number:
            return
    memo = touch(s, store, key)
    memo.at_s, memo.born_s = float(number), position
    row.following = 1  # it begins a slice of its key
    window.begun += 1
    window.lasts += number - before


@compiled
def forget(window: Any, position: float, number: int) -> None:
    """Drops records up to `position`, which no later window holds, once window `number` has been evaluated."""
    if window.states == 0:
        contents.forget(window, position)
        return
    closed = number
    if window.slice > 0.0:
        closed = math.floor(position / window.slice + NEAR)
        content = contents.content_of(window, 0)
        for each in range(contents.until(content, position, 0)):
            window.begun -= contents.row_of(content, each).following
    contents.forget(window, position)
    window.closed = number
    store = k.store_at(window.states)
    while store.first != 0 and memo_of(store, store.first).at_s <= closed:
        window.lasts -= int(memo_of(store, store.first).at_s)
        forget_oldest(store)
