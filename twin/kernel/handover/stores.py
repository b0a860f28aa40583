"""Keyed state and open sessions."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.engine.logics.remember import RememberLogic
from twin.engine.windows.session import Session, SessionLogic
from twin.kernel import layout as k
from twin.kernel.advance import chain
from twin.kernel.arena import view

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_store(low: Lowered, logic: RememberLogic | SessionLogic, owner: Any) -> int:
    """The structure of what a logic knows of keys, from the oldest on."""
    row = low.make(k.STORE, [logic])[0]
    here = int(row["here"])
    low.stores.append((logic, row))
    row["task"], row["slot"] = owner["here"], k.NONE
    if isinstance(logic, RememberLogic):
        row["keep_s"] = logic.ttl_s
        found = [(key, at_s, 0.0, 0.0) for key, at_s in logic.seen_s.items()]
        logic.seen_s.clear()
    else:
        row["slot"], row["keep_s"], row["keys"] = low.slot(k.SESSIONS, here), logic.gap_s, logic.keys
        row["drawn"], row["watching"] = logic.groups is None, logic.watching
        row["begun"], row["finished"] = logic.begun, logic.finished
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
    """Room for so many keys, a power of two; what was there keeps its place, but is found by its key no longer."""
    here = int(row["here"])
    before = low.blocks.get((here, "memos"), np.zeros(0, k.MEMO))
    memos = low.array(k.MEMO, here, "memos", room)
    memos[: len(before)] = before
    row["entries"], row["room"] = memos.ctypes.data, room
    row["heads"] = low.block(here, "heads", (), room, np.int64)
    return memos


def lift_store(low: Lowered, logic: RememberLogic | SessionLogic) -> None:
    """The same, back."""
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
    sessions = map(Session, at_s, found["born_s"].tolist(), found["taken_s"].tolist())
    logic.open = OrderedDict(zip(keys, sessions, strict=True))
    logic.begun, logic.finished, logic.watching = int(row["begun"]), int(row["finished"]), bool(row["watching"])
    low.resume(logic.alarm, int(row["slot"]))
