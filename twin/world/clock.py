"""Where Python has its turn in a run: the clock, by whose events processes wake, and calls from compiled code."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_double
from math import inf
from time import thread_time
from traceback import print_exception
from typing import TYPE_CHECKING, Any

import simpy
from simpy.events import URGENT

from twin.machine import layout as k
from twin.machine.advance import chain
from twin.world.memory import BLOCK, NAMES, Numbers, State
from twin.world.parts import Item, Task
from twin.world.ports import UNBOUNDED, Port
from twin.world.python_logics import DatedSource, PythonLogic

if TYPE_CHECKING:
    from twin.world.world import World


# the clock -----------------------------------------------------------------------------------------------------------
# The clock of a run: SimPy's environment, whose time and numbers of events lie in the run's memory, and its watch.


HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
"""Signals whose handlers raise: interruptions, and limits of time."""


def nothing() -> None:
    """Does nothing."""


class Watch:
    """Watch of a run, which looks at it as it goes on: this one lets it take and hold what it wants. See
    `twin.guards.watch`.

    update: brings what is counted on request up to date. All raise BadInput if the run must not go on.
    """

    def built(self) -> None:
        """Notes that a subtask or a port of the run has been made."""

    def hold(self, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        """Looks at the memory of a run. array_bytes: of the arrays that hold its state."""

    def look(self, now_s: float, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        """Looks at the memory of a run at a simulated time, and at how long it will take."""


class Once(simpy.Event):
    """Event that calls a function once; it lacks what `simpy.Event` prepares for events that may fail or be yielded."""

    _ok = True

    def __init__(self, callback: Callable[[Any], None], value: Any) -> None:
        self.callbacks = [callback]
        self._value = value


class Clock(simpy.Environment):
    """SimPy's environment, which shares its time and its numbers of events with compiled code.

    now: simulated seconds. awaited: conditions that somebody waits for, and the events that tell when they hold. watch:
    looks at the run. compiled_s: CPU seconds for which compiled code moved records.
    """

    def __init__(self, state: State, watch: Watch) -> None:
        self._cell = c_double.from_address(state.here + k.NOW)
        super().__init__()
        self._eid: Any = Numbers(state)
        self.watch = watch
        self.compiled_s = 0.0
        self.awaited: list[tuple[Callable[[], bool], simpy.Event]] = []

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float(self._cell.value)

    @now.setter
    def now(self, now_s: float) -> None:
        self._cell.value = now_s

    _now = now

    def step(self) -> None:
        """Processes the next event; see SimPy."""
        super().step()
        if self.awaited:
            self.look_at_conditions()

    def first(self, delay_s: float) -> simpy.Event:
        """Returns a timeout that comes before all other events of its time, as the end of a run does."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        self.schedule(event, URGENT, delay_s)
        return event

    def until(self, condition: Callable[[], bool]) -> simpy.Event:
        """Returns an event that happens as soon as a condition holds, before anything else can change it.

        Conditions change by events alone, so they are looked at after each event while somebody waits for them.
        """
        event = simpy.Event(self)
        if condition():
            self._tell(event)
        else:
            self.awaited.append((condition, event))
        return event

    def _tell(self, event: simpy.Event) -> None:
        event._ok, event._value = True, None
        self.schedule(event, URGENT)

    def look_at_conditions(self) -> None:
        """Tells those who wait for a condition that holds now."""
        awaited, self.awaited = self.awaited, []
        for condition, event in awaited:
            if event.callbacks and condition():  # a failure may have interrupted the waiting process
                self._tell(event)
            elif event.callbacks:
                self.awaited.append((condition, event))


@contextmanager
def held() -> Iterator[list[int]]:
    """Delays the handlers of HEARD to the end of the block; the list gets the signals.

    Python runs signal handlers whenever it runs, also when compiled code calls it, where an exception would be lost and
    would leave work undone. Only the main thread has handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    came: list[int] = []

    def note(number: int, _frame: Any) -> None:
        came.append(number)

    before = {each: signal.signal(each, note) for each in HEARD if callable(signal.getsignal(each))}
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


# calls from compiled code --------------------------------------------------------------------------------------------
# Calls from compiled code to Python, for more random numbers, for more room, and for rare work.


GROWING = {
    k.LOG: ("log", "log_room", "logged", None),
    k.ROWS: ("rows", "room", "count", "first"),
    k.TIMERS: ("timers", "timers_room", "timers_count", "timers_first"),
    k.CALLS: ("heap", "room", "flying", None),
    k.RESULTS: ("found", "found_room", "found_count", None),
    k.NOTED: ("came", "room", "count", None),
    k.ADDING: ("added", "room", "count", None),
}
"""Arrays that get twice the room: fields of their owner for the array, its room, count and start."""
GROWN = {k.ENTRIES: "entries", k.MEMOS: "memos", **{each: GROWING[each][0] for each in GROWING}}
"""Fields of all arrays that grow."""
LOOK = 100_000
"""Number of events, of records that they make and of those that evaluations look at, between two looks: some 20 ms."""
LOOKS_PER_S = 50
"""Looks in a second of work whose amount is known only by the time that it takes."""
LARGE = 2**20
"""Bytes of new room from which on the watch is asked before it is made: less than what looks can overlook."""
NEVER = 2**40
"""Number of a knot that no run reaches."""


class Callbacks:
    """Calls of one run. An error stops compiled code after the present event, and is raised by who runs it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memory = world.memory
        self.at = world.memory.at
        self._by_number: dict[int, Callable[[int], None]] = {
            k.ITEMS: self._items,
            k.UNIFORMS: self._uniforms,
            k.SERVICES: self._services,
            k.ARRIVALS: self._arrivals,
            k.ENTRIES: self._entries,
            k.PATHS: self._path,
            k.MEMOS: self._memos,
            k.KNOT: self._knot,
            k.LOOK: lambda _: self.look(),
            k.MARKED: self._mark,
            k.HOLDS: self._held,
            k.WORKED: self._worked,
            k.PASS_ON: self._pass_on,
            k.GIVEN_UP: self._given_up,
            k.FREE: self._free,
        }
        self._of_logics: dict[int, Callable[[Any], None]] = {
            k.PLAN: PythonLogic.plan,
            k.EMIT: PythonLogic.emit,
            k.DUE: PythonLogic.due,
            k.LEAVE: Task.done,
            k.DEAL: Port.deal,
            k.LOST: Port.lose,
            k.TELL: DatedSource.tell,
            k.DIGEST: DatedSource.draw,
        }

    def __call__(self, what: int, here: int) -> int:
        """Does the work `what` for the structure at an address."""
        try:
            work = self._of_logics.get(what)
            if work is not None:
                work(self.at[here])
                return 0
            self._ask(what, here)
            if what in GROWING:
                self._grow(what, here)
            else:
                self._by_number[what](here)
        except BaseException as error:  # ctypes would print it and go on
            self.world.error = self.world.error or error
            self.memory.state.stopped = 1
            self._make_do(what, here)
        return 0

    def look(self) -> None:
        """Lets the watch look at the run. Raises what it raises."""
        state = self.memory.state
        state.left = LOOK
        self.world.env.watch.look(float(state.now), self.memory.arena.bytes, self.world.update)

    def _ask(self, what: int, here: int) -> None:
        """Lets the watch look before something large grows: an array to twice its size, or the number of items."""
        arena = self.memory.arena
        more = arena.next_chunk * k.ITEM.itemsize if what == k.ITEMS else 0
        if what in GROWN:
            owner = self.at[here]
            more = self.memory.blocks[(owner.row if what == k.LOG else owner).here, GROWN[what]].nbytes
        if more > LARGE:
            self.world.env.watch.hold(arena.bytes + more, self.world.update)

    def _items(self, _: int) -> None:
        arena = self.memory.arena
        self.memory.state.free = arena.chunk(0, arena.next_chunk)

    def _uniforms(self, here: int) -> None:
        self.at[here].more_uniforms()

    def _services(self, here: int) -> None:
        self.at[here].more_services()

    def _arrivals(self, here: int) -> None:
        self.memory.state.left -= LOOK // 10  # there may be any number of phases between two arrivals
        self.at[here].show()

    def _grow(self, what: int, here: int) -> None:
        owner = self.at[here]
        self.memory.grow(owner.row if what == k.LOG else owner, *GROWING[what])
        if what == k.LOG:
            owner.grow_notes()

    def _entries(self, here: int) -> None:
        table = self.at[here]
        table.room = room = 2 * table.room
        table.entries = self.memory.array(k.ENTRY, here, "entries", room)

    def _path(self, here: int) -> None:
        port = self.at[here]
        port.path(int(port.subtask))

    def _memos(self, here: int) -> None:
        store = self.at[here]
        store.make_room(2 * store.room)
        chain(0, here)

    def _knot(self, here: int) -> None:
        self.at[here].move()

    def _mark(self, here: int) -> None:
        began_s = thread_time()
        self.world.meet(here, held=False)
        # a watermark may end any number of windows
        self.memory.state.left -= int(LOOK * LOOKS_PER_S * (thread_time() - began_s))

    def _held(self, here: int) -> None:
        self.world.meet(here, held=True)

    def _worked(self, here: int) -> None:
        self.at[here].worked()
        self.world.look_ahead()

    def _given_up(self, here: int) -> None:
        """Fails the job by a call that was lost; of several ones, the first counts."""
        failed = self.world.failed
        if not failed.triggered:
            calling = self.at[here]
            how = "timed out" if calling.late and not calling.late_lost else "failed"
            failed.succeed(f"a call of {self.memory.at[calling.task].name} {how}")
        self.world.look_ahead()

    def _pass_on(self, here: int) -> None:
        item = Item(here)
        task = self.at[item.sender]
        task.listing = True
        task.mark(NAMES[item.mark], float(item.born_s))
        task.listing = False

    def _free(self, here: int) -> None:
        self.at[here].barriers.between()
        self.world.look_ahead()

    def _make_do(self, what: int, here: int) -> None:
        """Gives compiled code something with which it can finish the event, after a call has failed. Of what cannot
        grow, the last one is lost: the run is over."""
        memory = self.memory
        if what == k.RESULTS:
            window = self.at[here]
            window.found_count = min(window.found_count, window.found_room - 1)
        elif what in GROWING:
            owner, count = self.at[here], GROWING[what][2]
            owner = owner.row if what == k.LOG else owner
            setattr(owner, count, getattr(owner, count) - 1)
        elif what == k.UNIFORMS:
            self.at[here].uniforms_left = BLOCK
        elif what == k.SERVICES:
            self.at[here].services_left = BLOCK
        elif what == k.ARRIVALS:
            row = self.at[here].row
            row.times, row.place, row.count = memory.arena.floats([inf]), 0, 1
        elif what == k.PATHS:
            pool = memory.add(k.POOL, count=1, members=memory.arena.wholes([0]))
            nowhere = memory.add(k.PATH, inbox=memory.add(k.INBOX, pool=pool, credits=UNBOUNDED))
            memory.blocks[here, "paths"][self.at[here].subtask] = nowhere
        elif what == k.KNOT:
            self.at[here].knot = NEVER
        elif what == k.DEAL:
            self.at[here].dealt = 0
        elif what == k.ITEMS:
            try:
                memory.state.free = memory.arena.chunk(0)
            except MemoryError:  # not even this is left, and compiled code would write beyond its items
                print_exception(self.world.error)
                os._exit(1)
