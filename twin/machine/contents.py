"""Contents of windows: records with their keys, the oldest first."""

from __future__ import annotations

from typing import Any

from twin.machine import layout as k
from twin.machine.draws import chance
from twin.machine.native import call, compiled

MIX = 2654435761
"""Knuth's multiplicative hash."""

ELSEWHERE = -1
"""Key of a record that matches nothing here, as its key belongs to another subtask."""


@compiled
def content_of(window: Any, side: int) -> Any:
    """Content of one side of a window."""
    return k.content_at(window.contents + k.CONTENT_BYTES * side)


@compiled
def row_of(content: Any, number: int) -> Any:
    """Record of a content by number, the oldest first."""
    place = content.first + number
    if place >= content.room:
        place -= content.room
    return k.row_at(content.rows + k.ROW_BYTES * place)


@compiled
def side_of(window: Any, item: Any) -> int:
    """Side of a window to which a record comes."""
    return k.inbox_at(k.path_at(item.path).inbox).side if window.sides > 1 else 0


@compiled
def put_in(s: Any, window: Any, item: Any, position: float) -> None:
    """Puts a record into a window, at `position`."""
    content = content_of(window, side_of(window, item))
    if content.count == content.room:
        call(s.call_python, k.ROWS, content.here)
    row = row_of(content, content.count)
    row.position, row.key, row.born_s, row.taken_s = position, item.key, item.born_s, item.taken_s
    content.count += 1


@compiled
def until(content: Any, position: float, low: int) -> int:
    """Number of records up to a position, which is known to be at least `low`."""
    high = content.count
    while low < high:
        middle = (low + high) >> 1
        if position < row_of(content, middle).position:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def forget(window: Any, position: float) -> None:
    """Drops records up to `position`, which no later window holds."""
    for side in range(window.sides):
        content = content_of(window, side)
        gone = until(content, position, 0)
        content.count -= gone
        content.first += gone
        if content.first >= content.room:
            content.first -= content.room


@compiled
def entry_of(table: Any, key: int, stamp: int) -> Any:
    """Entry of a key in a table, whose entries are valid for one stamp: the entry is new if it has another one."""
    mask = table.room - 1
    place = ((key ^ (key >> 15)) * MIX) & mask
    while True:
        entry = k.entry_at(table.entries + k.ENTRY_BYTES * place)
        if entry.stamp != stamp or entry.key == key:
            return entry
        place = (place + 1) & mask


@compiled
def clear(s: Any, window: Any, side: int, records: int) -> Any:
    """Table of a side, with room for the keys of `records` records, unless Python has stopped the run."""
    table = k.table_at(window.tables + k.TABLE_BYTES * side)
    while table.room < 2 * records and s.stopped == 0:
        call(s.call_python, k.ENTRIES, table.here)
    return table


@compiled
def draw_key(s: Any, window: Any, side: int, stream: int, kin: int, item: Any) -> int:
    """Draws the key of a record that came without one: one of the keys that are here, or elsewhere."""
    content = content_of(window, side)
    if content.keys <= 1 and content.here_share == 1.0:
        return 0
    at = chance(s, stream, kin, item)
    if content.here_share != 1.0:
        at = at / content.here_share
        if at >= 1.0:
            return ELSEWHERE
    key = int(at * content.scale)
    return key if key < content.keys else content.keys - 1
