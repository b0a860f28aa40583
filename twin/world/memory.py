"""Memory of one run: structures of fixed layout, on which compiled code works, views by which Python sees them, and
what a logic in Python uses of its subtask."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from ctypes import Structure, addressof, c_double, c_int64
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

import numpy as np

from twin.machine import layout as k
from twin.machine.advance import do
from twin.machine.checks import know
from twin.machine.layout import Arena
from twin.machine.native import PLAIN, address_of
from twin.operators.panes import Dated, Partial, SpanContent
from twin.operators.records import IDLE, WATERMARK, EvaluationResult, InputProgress, Mark, Record
from twin.operators.updates import BATCH
from twin.operators.watermark import MODIFICATION, RELEASE
from twin.randomness import random_stream
from twin.windows import US_PER_S, Span

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.world.parts import Item, Spent
    from twin.world.ports import Port


# the memory of a run -------------------------------------------------------------------------------------------------
# A field of a structure is an attribute of its view, to be read and written. Structures stay where they are. Arrays
# that must grow are replaced, and their one address is changed.


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
        know(made, functools.partial(_called, ref(self), owner, field))
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


# records of logics in Python -----------------------------------------------------------------------------------------
# What a logic in Python uses of its subtask, and how its records come out of the memory of a run and go back there.
#
# A record is an object of its own from the beginning of its service on, so that a logic may keep it. What a logic sends
# while compiled code calls it is listed, and leaves when it has returned.


KINDS = {
    WATERMARK: k.WATERMARK,
    MODIFICATION: k.MODIFICATION,
    RELEASE: k.RELEASE,
    IDLE: k.IDLE,
    BATCH: k.BATCH,
}
"""Kinds of marks in memory, by their names."""
NAMES = {number: name for name, number in KINDS.items()}


def cells(layout: np.dtype[Any]) -> list[tuple[str, Any]]:
    """Fields of a structure, for a class that reads and writes them fast."""
    return [(name, c_double if kind.kind == "f" else c_int64) for name, (kind, *_) in (layout.fields or {}).items()]


class FastView(Structure):
    """Structure in memory, whose fields are read and written fast; `from_address` finds it."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...


class ItemCells(FastView):
    """Record in memory."""

    _fields_ = cells(k.ITEM)


class TaskCells(FastView):
    """Subtask in memory."""

    _fields_ = cells(k.TASK)


class StateCells(FastView):
    """State of a run in memory."""

    _fields_ = cells(k.STATE)


def write(item: ItemCells, record: Record) -> None:
    """Writes a record into its item, to be sent."""
    item.key, item.lot, item.ready_s = record.key, record.lot, record.ready_s
    item.born_s, item.taken_s, item.at_s, item.left_s = record.born_s, record.taken_s, record.at_s, record.left_s
    if isinstance(record, Dated):
        item.at_us, item.digest = record.at_us, record.digest
    elif isinstance(record, Partial):
        ((item.key, (item.count, item.digest, _, _)),) = record.content.held.items()
        item.at_us, item.end_us = record.span
    else:
        item.at_us, item.digest = int(record.at_s * US_PER_S), 0


def plain(item: ItemCells) -> Record:
    """Makes the record of an item."""
    return _read(item, Record(item.born_s, item.taken_s, item.at_s))


def dated(item: ItemCells) -> Record:
    """Makes the record with an event time of an item."""
    found = Dated(item.born_s, item.taken_s, item.at_s, item.at_us)
    found.digest = item.digest
    return _read(item, found)


def _read(item: ItemCells, record: Record) -> Record:
    record.left_s, record.key, record.lot, record.ready_s = item.left_s, item.key, item.lot, item.ready_s
    return record


def partial(item: ItemCells, groups: KeyGroups) -> Record:
    """Makes the partial result of an item. groups: those of the keys."""
    content = SpanContent(groups)
    content.held[item.key] = item.count, item.digest, item.born_s, item.taken_s
    return Partial(item.at_s, Span(item.at_us, item.end_us), content)


def mark_of(item: Item, origin: str, inbox: object) -> Mark:
    """Makes the mark of an item, that came to an inbox."""
    found = Mark(NAMES[item.mark], item.born_s, origin, item.at_s)
    found.inbox = inbox
    return found


class Station:
    """Subtask as logics in Python see it, also as far as it sends.

    alignment: set if marks come. timers: of logics that are due. listing: whether compiled code waits for what a logic
    lists. evaluating_for: the outcome of work under way that is no service.
    """

    if TYPE_CHECKING:
        here: int
        name: str
        env: Any
        memory: RunMemory
        ports: list[Port]
        records_out: int
        lots: int
        spent: Spent

    alignment: InputProgress | None = None
    evaluating_for: EvaluationResult | None = None
    listing = False

    # what it sends ---------------------------------------------------------------------------------------------------

    def send(self, record: Record) -> None:
        """Sends a record on every stream, through the logics that follow."""
        self.leave(self.memory.item(record))

    def send_by(self, record: Record, ways: Sequence[bool]) -> None:
        """Sends a record on some of the streams."""
        self.records_out += 1
        if self.lots:
            draws: Draws = self.memory.at[self.lots]
            record.lot = draws.uniform()
        record.left_s = record.at_s - record.taken_s
        for port, goes in zip(self.ports, ways, strict=True):
            if goes:
                item = self.memory.item(record)
                item.step = port.here
                self.leave(item)
            else:
                port.passed_over += 1

    def mark(self, kind: str, value: float, at_s: float | None = None) -> None:
        """Sends a mark to all consumers, behind the records sent so far: now, or at `at_s`."""
        for port in self.ports:
            port.mark(Mark(kind, value, self.name, self.env.now if at_s is None else at_s))

    def leave(self, item: ItemCells) -> None:
        """Lists what leaves; between two events it leaves at once."""
        here, own = addressof(item), TaskCells.from_address(self.here)
        item.next = 0
        if own.leaving:
            ItemCells.from_address(own.last_leaving).next = here
        else:
            own.leaving = here
        own.last_leaving = here
        if not self.listing:
            self.memory.do(k.FOLLOW_UP, self.here)

    def spend(self, way: int, time_s: float) -> None:
        """Notes that a record has spent time here in one way (`twin.histograms`)."""
        self.spent.note(way, time_s)

    # other work ------------------------------------------------------------------------------------------------------

    def job(self, outcome: EvaluationResult, work_s: float) -> None:
        """Begins work of `work_s` core-seconds that is no service, and sends `outcome` when it is done."""
        own = TaskCells.from_address(self.here)
        self.evaluating_for = outcome
        own.outcome, own.job_due, own.job_s = 1, 1, work_s
        if not self.listing:
            self.memory.do(k.FOLLOW_UP, self.here)

    def done(self) -> None:
        """Lists the results of work that is done."""
        outcome, self.evaluating_for = self.evaluating_for, None
        assert outcome is not None
        self.listing = True
        outcome.leave(self.env.now)
        self.listing = False
