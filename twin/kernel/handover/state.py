"""Handover of state: windows with their contents, keyed state and open sessions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.engine.logics.remember import RememberLogic
from twin.engine.output import Result
from twin.engine.state import Item
from twin.engine.windows.combiner import MatchCombiner
from twin.engine.windows.session import OpenSession, SessionLogic
from twin.engine.windows.trigger import CountTrigger, TimeTrigger
from twin.engine.windows.window import WindowLogic
from twin.kernel import layout as k
from twin.kernel.advance import chain
from twin.kernel.arena import addresses, view

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_store(low: Lowered, logic: RememberLogic | SessionLogic, owner: Any) -> int:
    """Makes the store of a logic's states by key, from the oldest on; returns its address."""
    held = "" if isinstance(logic, RememberLogic) else "watching begun finished"
    row = low.make(k.STORE, [logic], held=held)[0]
    here = int(row["here"])
    low.stores.append((logic, row))
    row["task"], row["slot"] = owner["here"], k.NONE
    if isinstance(logic, RememberLogic):
        row["keep_s"] = logic.ttl_s
        found = [(key, at_s, 0.0, 0.0) for key, at_s in logic.seen_s.items()]
        logic.seen_s.clear()
    else:
        row["slot"], row["keep_s"], row["keys"] = low.slot(k.SESSIONS, here), logic.gap_s, logic.keys
        row["drawn"] = logic.groups is None
        low.pending[id(logic.alarm)] = int(row["slot"])
        found = [(key, each.ends_s, each.born_s, each.taken_s) for key, each in logic.open.items()]
        logic.open.clear()
    count = len(found)
    room = 1 << max(k.LEAST_ROOM.bit_length() - 1, (2 * count).bit_length())
    memos = make_room(low, row, room)
    row["count"] = row["used"] = row["last"] = count
    row["first"] = min(1, count)
    if count:
        for field, values in zip(("key", "at_s", "born_s", "taken_s"), zip(*found, strict=True), strict=True):
            memos[field][:count] = values
        memos["before"][:count] = np.arange(count)
        memos["after"][: count - 1] = np.arange(2, count + 1)
        chain(0, here)
    logic.elsewhere = count
    return here


def make_room(low: Lowered, row: Any, room: int) -> np.ndarray:
    """Makes room in a store for so many keys, a power of two. Memos keep their places, but leave the hash chains."""
    here = int(row["here"])
    before = low.blocks.get((here, "memos"), np.zeros(0, k.MEMO))
    memos = low.array(k.MEMO, here, "memos", room)
    memos[: len(before)] = before
    row["entries"], row["room"] = memos.ctypes.data, room
    row["heads"] = low.block(here, "heads", (), room, np.int64)
    return memos


def lift_store(low: Lowered, logic: RememberLogic | SessionLogic) -> None:
    """Gives back the states of a store."""
    row = view(k.STORE, low.here[id(logic)])
    here, number, order = int(row["here"]), int(row["first"]), []
    memos = low.blocks[here, "memos"]
    after = memos["after"].tolist()
    while number:
        order.append(number - 1)
        number = after[number - 1]
    found = memos[order]
    keys, at_s = found["key"].tolist(), found["at_s"].tolist()
    logic.elsewhere = 0
    if isinstance(logic, RememberLogic):
        logic.seen_s = OrderedDict(zip(keys, at_s, strict=True))
        return
    sessions = map(OpenSession, at_s, found["born_s"].tolist(), found["taken_s"].tolist())
    logic.open = OrderedDict(zip(keys, sessions, strict=True))
    low.resume(logic.alarm, int(row["slot"]))


COLUMNS = ("position", "key", "born_s", "taken_s")


def lower_window(low: Lowered, logic: WindowLogic, place: Any, owner: Any) -> int:
    """Makes the structure of a window; returns its address."""
    trigger, combiner = logic.trigger, logic.combiner
    row = low.make(k.WINDOW, [logic])[0]
    here, sides = int(row["here"]), len(logic.contents)
    row["task"], row["logic"], row["fires"] = owner["here"], place["here"], logic.fires
    row["sides"], row["by_time"], row["keyed"] = sides, trigger.extent.by_time, combiner.groups is not None
    row["length"], row["slide"] = trigger.extent.size, trigger.extent.slide
    row["scan_s"], row["result_s"] = combiner.scan_s, combiner.result_s
    row["amplification"], row["repeats"] = -1.0, 1.0
    contents, tables = low.make(k.CONTENT, logic.contents), low.arena.make(k.TABLE, sides)
    low.contents.append((contents, logic.contents))
    row["contents"], row["tables"] = contents.ctypes.data, tables.ctypes.data
    tables["here"] = addresses(tables)
    for content, each, table in zip(contents, logic.contents, tables, strict=True):
        _content(low, content, each.items())
        each.become([])
        make_entries(low, table, k.LEAST_ROOM)
    _keys_of(combiner, row, contents)
    make_results(low, row, k.LEAST_ROOM)
    row["slot"] = k.NONE
    if isinstance(trigger, TimeTrigger):
        row["slot"], row["boundary_s"] = low.slot(k.WINDOWS, here), trigger.boundary_s
        low.pending[id(trigger.alarm)] = int(row["slot"])
    elif isinstance(trigger, CountTrigger):
        row["seen"] = trigger.seen
    lower_found(low, logic, logic.planned)
    return here


def _content(low: Lowered, row: Any, items: Sequence[Item]) -> None:
    room = max(k.LEAST_ROOM, 2 * len(items))
    rows = low.array(k.ROW, int(row["here"]), "rows", room)
    row["rows"], row["room"], row["count"] = rows.ctypes.data, room, len(items)
    if items:
        for field, values in zip(COLUMNS, zip(*items, strict=True), strict=True):
            rows[field][: len(items)] = values


def _keys_of(combiner: Any, row: Any, contents: np.ndarray) -> None:
    contents["here_share"] = 1.0
    if not isinstance(combiner, MatchCombiner):
        contents["keys"], contents["scale"] = combiner.keys, combiner.keys
        return
    row["matches"] = 1
    if combiner.amplification is not None:
        row["amplification"] = combiner.amplification
    likeness = combiner.likeness if combiner.groups is None else combiner.groups.likeness
    if likeness is not None:
        row["repeats"] = likeness.repeats
    contents["keys"], contents["scale"] = 1, 1.0
    if combiner.likeness is not None:
        contents["keys"], contents["scale"] = combiner.likeness.keys, combiner.likeness.scale
        contents["here_share"] = [combiner.here if whole else 1.0 for whole in combiner.whole]


def make_entries(low: Lowered, table: Any, room: int) -> None:
    """Makes room for so many keys in a table."""
    table["entries"], table["room"] = low.array(k.ENTRY, int(table["here"]), "entries", room).ctypes.data, room


def make_results(low: Lowered, row: Any, room: int) -> np.ndarray:
    """Makes room for so many results of a window, which keeps the present ones."""
    here, count = int(row["here"]), int(row["found_count"])
    before = low.blocks.get((here, "found"))
    made = low.array(k.RESULT, here, "found", room)
    if before is not None:
        made[:count] = before[:count]
    row["found"], row["found_room"] = made.ctypes.data, room
    return made


def lower_found(low: Lowered, logic: WindowLogic, results: Sequence[Result]) -> None:
    """Fills in the results that leave when the service or evaluation under way ends."""
    row = view(k.WINDOW, low.here[id(logic)])
    made = make_results(low, row, max(k.LEAST_ROOM, 2 * len(results)))
    made[: len(results)] = results
    row["found_count"] = len(results)


def lift_window(low: Lowered, logic: WindowLogic) -> None:
    """Gives back the content and trigger of a window."""
    row = view(k.WINDOW, low.here[id(logic)])
    logic.fires = int(row["fires"])
    for content in logic.contents:
        content.elsewhere = 0
        each = view(k.CONTENT, low.here[id(content)])
        rows = low.ring(int(each["here"]), "rows", each["first"], each["count"])
        content.become(list(zip(*(rows[field].tolist() for field in COLUMNS), strict=True)))
    if isinstance(logic.trigger, TimeTrigger):
        logic.trigger.boundary_s = float(row["boundary_s"])
        low.resume(logic.trigger.alarm, int(row["slot"]))
    elif isinstance(logic.trigger, CountTrigger):
        logic.trigger.seen = int(row["seen"])


def results_of(low: Lowered, logic: WindowLogic) -> list[Result]:
    """Results of a window that have not left."""
    row = view(k.WINDOW, low.here[id(logic)])
    found = low.blocks[int(row["here"]), "found"][: int(row["found_count"])]
    return list(zip(*(found[field].tolist() for field in ("key", "born_s", "taken_s")), strict=True))
