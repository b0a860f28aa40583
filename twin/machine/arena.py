"""Memory of one run: arrays of structures that stay in place."""

from __future__ import annotations

from functools import cache, partial
from struct import Struct
from typing import Any

import numpy as np

from twin.machine.checks import know
from twin.machine.layout import ITEM

CHUNK, BLOCK = 4096, 512
"""Number of items (at least), and of other structures, that are allocated together."""


class Arena:
    """Allocates arrays and structures, and keeps them alive: addresses are valid as long as the arena exists.

    bytes: of all of them, and of the arrays beside it that are counted here, too.
    """

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self.bytes = 0
        self.items = 0
        self.blocks: dict[np.dtype[Any], tuple[np.ndarray, int]] = {}

    def make(self, layout: np.dtype[Any], count: int) -> np.ndarray:
        """Makes an array of `count` structures, all zero. [count]"""
        found = np.zeros(max(1, count), layout)
        self._keep(found)
        return found

    def add(self, layout: np.dtype[Any], **values: float) -> int:
        """Makes one structure with these values, the others being zero; returns its address, which is also in its field
        `here`.

        Structures come from blocks, as thousands of small arrays would cost more than their content.
        """
        block, used = self.blocks.get(layout, (None, BLOCK))
        if block is None or used == BLOCK:
            block, used = self.make(layout, BLOCK), 0
        self.blocks[layout] = block, used + 1
        here = int(block.ctypes.data) + layout.itemsize * used
        fields = [values.get(name, 0) for name in layout.names or ()]
        fields[0] = here
        packing(layout).pack_into(block.data, layout.itemsize * used, *fields)
        return here

    def floats(self, values: Any) -> int:
        """Makes an array of floating-point numbers; returns its address."""
        return self._keep(np.array(values, np.float64))

    def wholes(self, values: Any) -> int:
        """Makes an array of whole numbers; returns its address."""
        return self._keep(np.array(values, np.int64))

    def _keep(self, found: np.ndarray) -> int:
        self.kept.append(found)
        self.bytes += found.nbytes
        know(found, partial(_called, found.dtype))
        return int(found.ctypes.data)

    @property
    def next_chunk(self) -> int:
        """Number of items that are made together next."""
        return max(CHUNK, self.items // 2)

    def chunk(self, following: int, count: int = CHUNK) -> int:
        """Makes new items, linked into a list that ends with the item `following`; returns the address of the first."""
        self.items += count
        items = self.make(ITEM, count)
        here = int(items.ctypes.data)
        items["next"][:-1] = here + ITEM.itemsize * np.arange(1, count)
        items["next"][-1] = following
        return here


def _called(layout: np.dtype[Any]) -> str:
    return f"structures {' '.join(layout.names)[:40]} ..." if layout.names else "numbers"


@cache
def packing(layout: np.dtype[Any]) -> Struct:
    """Packing of a structure's fields: whole numbers and floating-point numbers, of 8 bytes each."""
    assert layout.fields is not None
    return Struct("=" + "".join("d" if field.kind == "f" else "q" for field, *_ in layout.fields.values()))


def addresses(found: np.ndarray) -> list[int]:
    """Addresses of the structures of an array."""
    here = int(found.ctypes.data)
    return [here + found.itemsize * number for number in range(len(found))]
