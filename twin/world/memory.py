"""Memory of one run: structures of fixed layout, on which compiled code works, and views by which Python sees them.

A field of a structure is an attribute of its view, to be read and written. Structures stay where they are. Arrays that
must grow are replaced, and their one address is changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import c_double, c_int64
from functools import partial
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

import numpy as np

from twin.machine import layout as k
from twin.machine.advance import do
from twin.machine.arena import Arena
from twin.machine.checks import know
from twin.machine.native import PLAIN, address_of
from twin.randomness import random_stream
from twin.world.stations import ItemCells, StateCells, write

if TYPE_CHECKING:
    from twin.operators.records import Record

BLOCK = 1024
"""Random numbers that are drawn together."""


class Field:
    """Attribute of a view that is a field of its structure."""

    def __init__(self, cell: Any, offset: int) -> None:
        self.cell = cell
        self.offset = offset

    def __get__(self, view: StructView, owner: type) -> Any:
        return self.cell.from_address(view.here + self.offset).value

    def __set__(self, view: StructView, value: Any) -> None:
        self.cell.from_address(view.here + self.offset).value = value


class StructView:
    """Structure at an address. here: the address.

    What a class declares itself is no field: the field of that name is then `raw_...`, such as the address of a view.
    """

    layout: ClassVar[np.dtype[Any]]
    here: int

    def __init__(self, here: int) -> None:
        self.here = here

    def __init_subclass__(cls, layout: np.dtype[Any] | None = None) -> None:
        cls.layout = cls.layout if layout is None else layout
        own = {*cls.__dict__, *get_annotations(cls)}
        for name, (kind, offset, *_) in (cls.layout.fields or {}).items():
            field = Field(c_double if kind.kind == "f" else c_int64, offset)
            if name == "here" or name in own:
                setattr(cls, f"raw_{name}", field)
                if name not in cls.__dict__ and name != "here":
                    setattr(cls, name, None)  # hides the field of a class above
            elif layout is not None:
                setattr(cls, name, field)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def set(self, **fields: float) -> None:
        """Writes fields."""
        for name, value in fields.items():
            setattr(self, name, value)


class State(StructView, layout=k.STATE):
    """What compiled code knows of the run as a whole."""


class Numbers:
    """Numbers of events, which Python and compiled code take from one counter."""

    __slots__ = ("_cell",)

    def __init__(self, state: State) -> None:
        self._cell = c_int64.from_address(state.here + k.SEQUENCE)

    def __next__(self) -> int:
        number = self._cell.value
        self._cell.value = number + 1
        return number


class Slots:
    """Places in the calendar of compiled code, one an entity; a tournament finds the one that is due first."""

    ROOM = 64

    def __init__(self, state: State) -> None:
        self.state = state
        self.used = 0
        self._become(np.full(self.ROOM, math.inf), *np.zeros((3, self.ROOM), np.int64))

    def add(self, kind: int, owner: int) -> int:
        """Makes a place for the events of an entity; returns its number."""
        if self.used == len(self.times):
            more = np.zeros(self.used, np.int64)
            columns = [np.concatenate([each, more]) for each in (self.orders, self.kinds, self.owners)]
            self._become(np.concatenate([self.times, np.full(self.used, math.inf)]), *columns)
        number = self.used
        self.kinds[number], self.owners[number] = kind, owner
        self.used += 1
        return number

    def set(self, slot: int, at_s: float, order: int) -> None:
        """Sets the event of an entity; `inf` removes it. `twin.machine.calendar.schedule` does the same."""
        times, orders, tree = self.times, self.orders, self.tree
        times[slot], orders[slot] = at_s, order
        node = (slot + len(times)) >> 1
        while node:
            one, other = tree[2 * node], tree[2 * node + 1]
            tree[node] = one if (times[one], orders[one]) < (times[other], orders[other]) else other
            node >>= 1

    def first(self) -> tuple[float, int]:
        """Time and number of the event that is due first; infinite if there is none."""
        slot = self.tree[1]
        return float(self.times[slot]), int(self.orders[slot])

    def _become(self, times: np.ndarray, orders: np.ndarray, kinds: np.ndarray, owners: np.ndarray) -> None:
        self.times, self.orders, self.kinds, self.owners = times, orders, kinds, owners
        room = len(times)
        tree = self.tree = np.zeros(2 * room, np.int64)
        winners: np.ndarray = np.arange(room)
        tree[room:] = winners
        while len(winners) > 1:
            left, right = winners[::2], winners[1::2]
            later = (times[right] < times[left]) | ((times[right] == times[left]) & (orders[right] < orders[left]))
            winners = np.where(later, right, left)
            tree[len(winners) : 2 * len(winners)] = winners
        state = self.state
        for each in (tree, times, orders, kinds, owners):
            know(each)
        arrays = {"tree": tree, "times": times, "orders": orders, "kinds": kinds, "owners": owners}
        state.set(slots=room, **{name: each.ctypes.data for name, each in arrays.items()})


class Draws(StructView, layout=k.STREAM):
    """Random numbers of one component, from its own generator, in blocks from which compiled code takes as well.

    service_scv: squared coefficient of variation of service times, which are of a Gamma distribution with mean 1.
    """

    def __init__(self, memory: RunMemory, rng: np.random.Generator, service_scv: float = 1.0) -> None:
        super().__init__(memory.arena.add(k.STREAM, scv=service_scv))
        self.memory = memory  # an address is valid only as long as the memory exists
        self.rng = rng
        self.blocks = np.zeros((2, BLOCK))
        self.uniforms, self.services = (each.ctypes.data for each in self.blocks)
        know(self.blocks)
        memory.at[self.here] = self

    def more_uniforms(self) -> None:
        """Draws the next block of numbers on [0, 1)."""
        self.rng.random(out=self.blocks[0])
        self.uniforms_left = BLOCK

    def show_generator(self) -> None:
        """Lets compiled code draw bits of the generator itself."""
        bits = self.rng.bit_generator.ctypes
        self.drawing = (lambda state, _: int(bits.next_uint64(state))) if PLAIN else bits.next_uint64
        self.generator, self.next_bits = bits.state_address, address_of(self.drawing)

    def more_services(self) -> None:
        """Draws the next block of service times."""
        services = self.blocks[1]
        self.rng.standard_gamma(1.0 / self.scv, out=services)
        services *= self.scv
        self.services_left = BLOCK

    def uniform(self) -> float:
        """Random number, uniform on [0, 1)."""
        if not self.uniforms_left:
            self.more_uniforms()
        self.uniforms_left = left = self.uniforms_left - 1
        return float(self.blocks[0, left])

    def service(self) -> float:
        """Service time of mean 1."""
        if self.scv == 0.0:
            return 1.0
        if not self.services_left:
            self.more_services()
        self.services_left = left = self.services_left - 1
        return float(self.blocks[1, left])

    def rounded(self, value: float) -> int:
        """Whole number with mean `value`: its floor, or one more."""
        floor = math.floor(value)
        return floor + (1 if self.uniform() < value - floor else 0)


class RunMemory:
    """Structures of a run. at: views by address. blocks: arrays that may be replaced, by owner and field."""

    def __init__(self, seed: int) -> None:
        self.arena = Arena()
        self.seed = seed
        self.at: dict[int, Any] = {}
        self.blocks: dict[tuple[int, str], np.ndarray] = {}
        self.state = State(self.arena.add(k.STATE))
        self.cells = StateCells.from_address(self.state.here)
        self.slots = Slots(self.state)

    def add(self, layout: np.dtype[Any], **fields: float) -> int:
        """Makes a structure with these values, the others being zero; returns its address."""
        return self.arena.add(layout, **fields)

    def block(self, owner: int, field: str, values: Sequence[float], kind: type = np.float64, room: int = 0) -> int:
        """Makes an array of numbers, with room for more; returns its address."""
        made: np.ndarray = np.zeros(max(room, len(values)), kind)
        made[: len(values)] = values
        return self.put(owner, field, made)

    def array(self, layout: np.dtype[Any], owner: int, field: str, room: int) -> int:
        """Makes an array of structures; returns its address."""
        return self.put(owner, field, np.zeros(room, layout))

    def put(self, owner: int, field: str, made: np.ndarray) -> int:
        """Puts an array in the place of the one before, if there is one; returns its address."""
        before = self.blocks.get((owner, field))
        self.arena.bytes += made.nbytes - (0 if before is None else before.nbytes)
        self.blocks[owner, field] = made
        know(made, partial(_called, ref(self), owner, field))
        return int(made.ctypes.data)

    def grow(self, view: StructView, field: str, room: str, count: str, first: str | None = None) -> None:
        """Doubles the room of an array; its content keeps its order, and starts at the beginning. first: field of a
        ring's start."""
        before, held = self.blocks[view.here, field], getattr(view, count)
        made = np.zeros(2 * len(before), before.dtype)
        made[:held] = np.roll(before, -getattr(view, first) if first else 0)[:held]
        setattr(view, field, self.put(view.here, field, made))
        setattr(view, room, len(made))
        if first:
            setattr(view, first, 0)

    def do(self, what: int, here: int, subject: int = 0, asked: float = 0.0) -> None:
        """Lets compiled code do rare work on the structure at an address: `what`, such as `layout.BLOCK`."""
        state = self.state
        state.what, state.subject, state.asked = what, subject, asked
        do(state.here, here)

    def item(self, record: Record) -> ItemCells:
        """Makes an item of a record that Python has made, to be sent."""
        state = self.cells
        if not state.free:
            state.free = self.arena.chunk(0)
        item = ItemCells.from_address(state.free)
        state.free = item.next
        item.path = item.step = item.mark = 0
        write(item, record)
        return item

    def random(self, name: str) -> np.random.Generator:
        """Generator of one component, by its name."""
        return random_stream(self.seed, name)

    def draws(self, name: str, service_scv: float = 1.0) -> Draws:
        """Random numbers of one component, by its name."""
        return Draws(self, self.random(name), service_scv)


def _called(memory: ref[RunMemory], owner: int, field: str) -> str:
    """What an array is, in words: its field, and its subtask if that is known."""
    there = memory()
    view = there.at.get(owner) if there is not None else None
    task = view if hasattr(view, "name") else getattr(view, "task", 0)
    if there is not None and isinstance(task, int):
        task = there.at.get(task)
    return f"{field!r} of {getattr(task, 'name', type(view).__name__)}"
