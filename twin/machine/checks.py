"""Checks of every access of compiled code to memory, with STREAMTWIN_CHECK=1: it must lead into an array that is in
use, to a structure of the layout that is meant.

All arrays are known here from the moment when compiled code may use them until they are gone. An access that leads
elsewhere ends the run with a line that says where. The text asks before each access, compiled or as plain Python.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

CHECK = os.environ.get("STREAMTWIN_CHECK", "0") not in ("", "0")
"""Whether accesses are checked."""
SYMBOL = "streamtwin_check"
"""Name by which compiled code calls `allowed`."""
NEAR = 1 << 16
"""Bytes behind an array within which an access is said to be behind it."""
MOST = 100_000
"""Number of wrong accesses after which it is clear that an event does not end."""


class AccessError(Exception):
    """Compiled code left its memory: a fault of the simulator."""


class KnownArray(NamedTuple):
    """Array in use. layout: number of its layout; -1 of plain numbers. name: says what it is, for a message."""

    start: int
    end: int
    layout: int
    step: int
    real: bool
    name: Callable[[], str]
    kept: Any


ONES = (("value",), ("head", "tail"))
"""Fields of layouts that may lie at any field: numbers, and both ends of a list."""
LAYOUTS: list[np.dtype[Any]] = []
"""Layouts of structures, by their numbers."""
_starts: list[int] = []
_known: dict[int, KnownArray] = {}
_wrong: list[str] = []
_nowhere = np.zeros(256, np.int64)


def number_of(layout: np.dtype[Any]) -> int:
    """Number of a layout."""
    if layout not in LAYOUTS:
        LAYOUTS.append(layout)
    return LAYOUTS.index(layout)


def know(found: Any, name: Callable[[], str] = lambda: "an array") -> None:
    """Notes an array that compiled code may use from now on, until it is gone. It is of NumPy, or of Python."""
    if not CHECK:
        return
    array: np.ndarray = np.frombuffer(found) if not isinstance(found, np.ndarray) else found
    start = int(array.ctypes.data)
    layout = number_of(array.dtype) if array.dtype.names else -1
    step, real = array.dtype.itemsize, array.dtype.kind == "f"
    kept = ref(found, lambda _: _forget(start))
    if start not in _known:
        insort(_starts, start)
    _known[start] = KnownArray(start, start + array.nbytes, layout, step, real, name, kept)


def _forget(start: int) -> None:
    if start in _known and _known[start].kept() is None:
        del _known[start], _starts[bisect_left(_starts, start)]


def nearest(address: int) -> KnownArray | None:
    """Array at an address, or the last one before it."""
    place = bisect_right(_starts, address)
    return _known[_starts[place - 1]] if place else None


def why_not(address: int, number: int) -> str:
    """Says why no structure of a layout may lie at an address; empty if one may."""
    layout, found = LAYOUTS[number], nearest(address)
    if found is None or address + layout.itemsize > found.end:
        return f"{_called(layout)} at {address:#x}, {_where(address, found)}"
    offset = address - found.start
    if found.layout == number:
        return "" if offset % found.step == 0 else f"{_called(layout)} at {address:#x}, amid one of {found.name()}"
    if layout.names in ONES and offset % 8 == 0 and (found.layout >= 0 or found.real or layout[0].kind == "i"):
        return ""
    return f"{_called(layout)} at {address:#x}, where {found.name()} is"


def _where(address: int, found: KnownArray | None) -> str:
    if found is None or address > found.end + NEAR:
        return "outside of all arrays in use"
    behind = address - found.end
    return f"over the end of {found.name()}" if behind < 0 else f"{behind} bytes behind the end of {found.name()}"


def _called(layout: np.dtype[Any]) -> str:
    from twin.machine import layout as k

    return next((name for name, each in vars(k).items() if isinstance(each, np.dtype) and each == layout), "a number")


def require(address: int, number: int) -> None:
    """Raises AccessError unless a structure of a layout may lie at an address."""
    why = why_not(address, number)
    if why:
        raise AccessError(f"compiled code asks for {why}")


def allowed(address: int, number: int) -> int:
    """Address at which compiled code reads and writes, as it cannot raise errors: nowhere in particular if its own is
    wrong. All runs stop after the present event, and who runs them calls `report`."""
    why = why_not(address, number)
    if not why:
        return address
    _wrong.append(why)
    _stop()
    if len(_wrong) > MOST:
        print(f"STREAMTWIN_CHECK: compiled code asks for {_wrong[0]}", flush=True)
        os._exit(1)
    _nowhere[:] = 0
    return int(_nowhere.ctypes.data)


def _stop() -> None:
    from twin.machine.layout import STATE

    for each in [*_known.values()]:
        if each.layout >= 0 and LAYOUTS[each.layout] == STATE:
            each.kept()["stopped"] = 1


def report() -> None:
    """Raises AccessError if compiled code has left its memory."""
    if _wrong:
        why, count = _wrong[0], len(_wrong)
        _wrong.clear()
        raise AccessError(f"compiled code asks for {why}" + (f", and {count - 1} others" if count > 1 else ""))
