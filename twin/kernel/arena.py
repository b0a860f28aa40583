"""The memory of one run: arrays of structures that stay where they are."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from twin.kernel.layout import ITEM

CHUNK = 4096
"""Items that come at once."""


class Arena:
    """Keeps what it has given out alive; an address is good for as long."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self.items = 0

    def make(self, layout: np.dtype[Any], count: int) -> np.ndarray:
        """So many structures, all zero. [count]"""
        found = np.zeros(max(1, count), layout)
        self.kept.append(found)
        return found

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


def addresses(found: np.ndarray) -> list[int]:
    """Of the structures of an array."""
    here = int(found.ctypes.data)
    return [here + found.itemsize * number for number in range(len(found))]


def view(layout: np.dtype[Any], here: int) -> Any:
    """The structure at an address, for Python to read and write."""
    memory: Any = (ctypes.c_char * layout.itemsize).from_address(here)
    return np.frombuffer(memory, layout)[0]
