"""The memory of one run: arrays of structures that stay where they are, and attributes of objects as their columns."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from struct import Struct
from typing import Any

import numpy as np

from twin.kernel.layout import ITEM

CHUNK, SHELF = 4096, 512
"""Items, and other structures, that come at once."""


class Arena:
    """Keeps what it has given out alive; an address is good for as long."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self.items = 0
        self.shelves: dict[np.dtype[Any], tuple[np.ndarray, int]] = {}

    def make(self, layout: np.dtype[Any], count: int) -> np.ndarray:
        """So many structures, all zero. [count]"""
        found = np.zeros(max(1, count), layout)
        self.kept.append(found)
        return found

    def add(self, layout: np.dtype[Any], **values: float) -> int:
        """The address of one structure with these values, the others being zero; `here` is its address.

        It comes off a shelf: where there are thousands, an array for each would cost more than all that is in it.
        """
        shelf, used = self.shelves.get(layout, (None, SHELF))
        if shelf is None or used == SHELF:
            shelf, used = self.make(layout, SHELF), 0
        self.shelves[layout] = shelf, used + 1
        here = int(shelf.ctypes.data) + layout.itemsize * used
        fields = [values.get(name, 0) for name in layout.names or ()]
        fields[0] = here
        packing(layout).pack_into(shelf.data, layout.itemsize * used, *fields)
        return here

    def floats(self, values: Any) -> int:
        """The address of these numbers."""
        return self._keep(np.array(values, np.float64))

    def wholes(self, values: Any) -> int:
        """The address of these whole numbers."""
        return self._keep(np.array(values, np.int64))

    def _keep(self, found: np.ndarray) -> int:
        self.kept.append(found)
        return int(found.ctypes.data)

    def chunk(self, following: int) -> int:
        """New items, the last of which is followed by that one; the address of the first."""
        count = max(CHUNK, self.items // 2)
        self.items += count
        items = self.make(ITEM, count)
        here = int(items.ctypes.data)
        items["next"][:-1] = here + ITEM.itemsize * np.arange(1, count)
        items["next"][-1] = following
        return here


@cache
def packing(layout: np.dtype[Any]) -> Struct:
    """How a structure's fields lie: whole numbers and floating ones, of 8 bytes each."""
    assert layout.fields is not None
    return Struct("=" + "".join("d" if field.kind == "f" else "q" for field, *_ in layout.fields.values()))


def addresses(found: np.ndarray) -> list[int]:
    """Of the structures of an array."""
    here = int(found.ctypes.data)
    return [here + found.itemsize * number for number in range(len(found))]


def view(layout: np.dtype[Any], here: int) -> Any:
    """The structure at an address, for Python to read and write."""
    memory: Any = (ctypes.c_char * layout.itemsize).from_address(here)
    return np.frombuffer(memory, layout)[0]


Names = Mapping[str, str]
"""Field of a structure, by attribute of an object: what is written there, and back when it is asked for."""


def same(names: str) -> dict[str, str]:
    """Fields that are called as the attributes are."""
    return {name: name for name in names.split()}


TASK = same("tuples_in service_s busy_s free_s in_service_work_s busy halted") | {"_since_s": "since_s"}
OUTPUT = same("blocked tuples_out send_s blocked_s blocked_since_s")
INBOX = same("credits capacity sent side beyond_s")
COUNTS = same("tuples took_s")
PORT = same("dropped passed_over send_s")
CARD = same("tuples_in bytes_per_s bytes_out backlog_s last_s")
PROCESSOR = same("capacity slowdown speed work_s level clock shared") | {"since_s": "since", "_sequence": "sequence"}
SINK = same("count counted processing_sum_s e2e_sum_s")
BROKER = same("place taken")
LEG = same("tuples")
CHANNEL = "written sent taken used there"
LOGIC = same("dropped")
STEP = same("came service_s")
WHETHER = ("busy", "halted", "shared", "watching")
"""Those that are true or false."""


def fill(structures: np.ndarray, objects: Sequence[Any], names: Names) -> None:
    """Writes attributes into the structures. [objects]"""
    for attribute, field in names.items():
        structures[field] = [getattr(each, attribute) for each in objects]


def write_back(structures: np.ndarray, objects: Sequence[Any], names: Names) -> None:
    """Writes what is in the structures to the attributes. [objects]"""
    for attribute, field in names.items():
        values = structures[field].tolist()
        if attribute in WHETHER:
            values = map(bool, values)
        for each, value in zip(objects, values, strict=True):
            setattr(each, attribute, value)
