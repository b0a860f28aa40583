"""Calls from the kernel to Python, for more random numbers, for more room, and for rare work."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf
from traceback import print_exception
from typing import Any

import numpy as np

from twin.engine.draws import BLOCK
from twin.kernel import layout as k
from twin.kernel.advance import chain
from twin.kernel.arena import view
from twin.kernel.handover.channels import nowhere, path, read_jitter
from twin.kernel.handover.state import make_entries, make_results, make_room
from twin.kernel.handover.stations import more_arrivals
from twin.kernel.lower import Lowered

LOOK = 100_000
"""Number of events, of records that they make and of those that evaluations look at, between two looks: some 20 ms."""
GROWING = {
    k.LOG: (k.BROKER, "log", "log_room", None, "logged"),
    k.ROWS: (k.CONTENT, "rows", "room", "first", "count"),
    k.ERRANDS: (k.TASK, "errands", "errands_room", "errands_first", "errands_count"),
    k.CALLS: (k.CALLING, "heap", "room", None, "flying"),
}
"""Arrays that get twice the room: layout of the owner, and its fields for the array, its room, start and count."""
GROWN = {k.ENTRIES: "entries", k.RESULTS: "found", k.MEMOS: "memos", **{each: GROWING[each][1] for each in GROWING}}
"""Fields of all arrays that grow."""
LARGE = 2**20
"""Bytes of new room from which on somebody is asked before it is made: less than what looks can overlook."""
IN_PYTHON = 1000
"""Events of the kernel that take as long as one of SimPy, with what is read for it."""
NEVER = 2**40
"""Number of a knot that no run reaches."""


class Callbacks:
    """Callbacks of one world. An error stops the kernel after the present event, and is raised by the kernel's
    caller. update: see `twin.engine.calendar.Watch`."""

    def __init__(self, low: Lowered, update: Callable[[], None]) -> None:
        self.low = low
        self.update = update
        self._by_number = {
            k.ITEMS: self._items,
            k.UNIFORMS: self._uniforms,
            k.SERVICES: self._services,
            k.ARRIVALS: self._arrivals,
            k.ENTRIES: self._entries,
            k.RESULTS: self._results,
            k.PATHS: self._path,
            k.MEMOS: self._memos,
            k.KNOT: self._knot,
            k.LOOK: lambda _: self.look(),
        }

    def __call__(self, what: int, here: int) -> int:
        """Does the work `what` for the structure at an address."""
        try:
            self._ask(what, here)
            if what in GROWING:
                self._grow(here, *GROWING[what])
            else:
                self._by_number[what](here)
        except BaseException as error:  # ctypes would print it and go on
            self.low.error = self.low.error or error
            self.low.state[0]["stopped"] = 1
            self._make_do(what, here)
        return 0

    def look(self) -> None:
        """Lets the watch look at the run. Raises what it raises."""
        state = self.low.state[0]
        state["left"] = LOOK
        self.low.world.env.watch.look(float(state["now"]), self.low.arena.bytes, self.update)

    def _ask(self, what: int, here: int) -> None:
        """Lets the watch look before something large grows: an array to twice its size, or the number of items."""
        more = self.low.arena.next_chunk * k.ITEM.itemsize if what == k.ITEMS else 0
        if what in GROWN:
            more = self.low.blocks[here, GROWN[what]].nbytes
        if more > LARGE:
            self.low.world.env.watch.hold(self.low.arena.bytes + more, self.update)

    def _make_do(self, what: int, here: int) -> None:
        """Gives the kernel something with which it can finish the event, after a callback has failed. Of what cannot
        grow, the last one is lost: the run is over."""
        if what in GROWING:
            layout, *_, count = GROWING[what]
            view(layout, here)[count] -= 1
        elif what == k.RESULTS:
            row = view(k.WINDOW, here)
            row["found_count"] = min(row["found_count"], row["found_room"] - 1)
        elif what == k.UNIFORMS:
            view(k.STREAM, here)["uniforms_left"] = BLOCK
        elif what == k.SERVICES:
            view(k.STREAM, here)["services_left"] = BLOCK
        elif what == k.ARRIVALS:
            row = view(k.BROKER, here)
            row["times"], row["place"], row["count"] = self.low.arena.floats([inf]), 0, 1
        elif what == k.PATHS:
            row = view(k.PORT, here)
            self.low.blocks[here, "paths"][int(row["replica"])] = nowhere(self.low)
        elif what == k.KNOT:
            view(k.JITTER, here)["knot"] = NEVER
        elif what == k.ITEMS:
            try:
                self.low.state[0]["free"] = self.low.arena.chunk(0)
            except MemoryError:  # not even this is left, and the kernel would write beyond its items
                print_exception(self.low.error)
                os._exit(1)

    def _items(self, _: int) -> None:
        arena = self.low.arena
        self.low.state[0]["free"] = arena.chunk(0, arena.next_chunk)

    def _uniforms(self, here: int) -> None:
        self.low.object_at[here].rng.random(out=self.low.blocks[here, "uniforms"])
        view(k.STREAM, here)["uniforms_left"] = BLOCK

    def _services(self, here: int) -> None:
        draws, services = self.low.object_at[here], self.low.blocks[here, "services"]
        draws.rng.standard_gamma(1.0 / draws._scv, out=services)
        services *= draws._scv
        view(k.STREAM, here)["services_left"] = BLOCK

    def _arrivals(self, here: int) -> None:
        self.low.state[0]["left"] -= LOOK // 10  # there may be any number of phases between two arrivals
        more_arrivals(self.low, view(k.BROKER, here))

    def _grow(self, here: int, layout: np.dtype[Any], field: str, room: str, first: str | None, count: str) -> None:
        """Doubles the room of an array; its content keeps its order, and starts at the beginning."""
        row, before = view(layout, here), self.low.blocks[here, field]
        made = np.zeros(2 * len(before), before.dtype)
        made[: int(row[count])] = self.low.ring(here, field, row[first] if first else 0, row[count])
        self.low.put(here, field, made)
        row[field], row[room] = made.ctypes.data, len(made)
        if first:
            row[first] = 0

    def _entries(self, here: int) -> None:
        row = view(k.TABLE, here)
        make_entries(self.low, row, 2 * int(row["room"]))

    def _results(self, here: int) -> None:
        row = view(k.WINDOW, here)
        make_results(self.low, row, 2 * int(row["found_room"]))

    def _path(self, here: int) -> None:
        row, port = view(k.PORT, here), self.low.object_at[here]
        replica = int(row["replica"])
        self.low.blocks[here, "paths"][replica] = path(self.low, port.path_to(replica))

    def _memos(self, here: int) -> None:
        row = view(k.STORE, here)
        make_room(self.low, row, 2 * int(row["room"]))
        chain(0, here)

    def _knot(self, here: int) -> None:
        row, jitter = view(k.JITTER, here), self.low.object_at[here]
        jitter.move()
        read_jitter(jitter, row)
