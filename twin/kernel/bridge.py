"""Bridge between engine and kernel: runs a world in the kernel where that knows all kinds in it, else in the engine.

The results are the same. Python runs signal handlers whenever it runs, also in the kernel's callbacks, where an
exception would be lost and would leave the callback's work undone. So handlers wait until the kernel returns.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from math import inf
from time import thread_time
from typing import Any

from simpy.core import StopSimulation

from twin.engine.calendar import EVENTS, Look
from twin.engine.windows.window import WindowLogic
from twin.kernel import layout as k
from twin.kernel.advance import advance, refill, wake_up, work_on
from twin.kernel.arena import view
from twin.kernel.callbacks import IN_PYTHON, LOOK, Callbacks
from twin.kernel.handover.lift import close, counters, heaps, heed, heed_counters, lift
from twin.kernel.lower import Lowered
from twin.kernel.native import CALLBACK, PLAIN, address_of
from twin.kernel.traits import must_stay_in_engine, unsupported_part
from twin.wiring.world import World

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
"""Signals whose handlers raise: interruptions, and limits of time."""


@contextmanager
def held() -> Iterator[list[int]]:
    """Delays the handlers of HEARD to the end of the block; the list gets the signals.

    Only the main thread has handlers.
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


NEVER: tuple[float, int, int, Any] = inf, 1, 0, None
"""Stands for the next event where there is none."""

NONE_LEFT = 2**60
"""Number of events after which the engine would look at a run."""
WORTH = 1000
"""Least number of events between two changes for which handing a world over pays."""


def run(world: World, until_s: float) -> None:
    """Runs a world up to a time, in stretches between events of SimPy's calendar."""
    env = world.env
    if unsupported_part(world) is not None:
        env.run(until_s)
        return
    while env.now < until_s:
        while env._queue and env._queue[0][0] <= env.now < until_s:
            env.step()
        events = 0
        if not must_stay_in_engine(world):
            stretch = Stretch(world)
            events = stretch.run(until_s)
        env.steps(1 if events >= WORTH else WORTH, until_s)


class Stretch:
    """Stretch of a run in the kernel. events: number of events so far. over: whether the engine has the world again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.low = Lowered(world)
        calls = Callbacks(self.low, self._update)
        self.calls = calls
        self.callback = calls if PLAIN else CALLBACK(calls)
        state = self.state = self.low.state[0]
        state["call_python"], state["work_on"], state["wake_up"], state["refill"] = (
            address_of(each) for each in (self.callback, work_on, wake_up, refill)
        )
        state["left"] = LOOK
        world.env.left = NONE_LEFT  # the kernel counts
        self.events = 0
        self.over = False

    def run(self, until_s: float) -> int:
        """Runs until a time, or an event that may change anything, which the engine takes. Returns the number of
        events."""
        self.state["sequence"] = next(self.world.env._eid)
        while not self.over:
            with held() as signals:
                while not self.over and not signals:
                    self._advance(until_s)
        return self.events

    def _advance(self, until_s: float) -> None:
        """Runs until the next event of SimPy's calendar, and through it if its process only looks."""
        env, state = self.world.env, self.state
        at_s, priority, order, event = env._queue[0] if env._queue else NEVER
        last = at_s >= until_s
        state["until"] = until_s if last else at_s
        began_s = thread_time()
        self.events += advance(int(state["here"]), order if priority and not last else -1)
        env.compiled_s += thread_time() - began_s
        if self.low.error is not None:
            raise self.low.error
        if state["left"] <= 0:
            self.calls.look()
            return
        state["now"] = env.now = env._now = until_s if last else at_s
        state["event_sequence"] = -1 if last else order
        state["left"] -= IN_PYTHON
        self.over = last or (bool(event.callbacks) and not isinstance(event, Look))
        if self.over:
            env.left = EVENTS
        if last:
            close(self.low)
        elif self.over:
            lift(self.low)
        else:
            self._look(event)

    def _update(self) -> None:
        """Brings the counters of objects up to date, and those of records that wait to be sent and of results."""
        counters(self.low)
        for logic, _ in self.low.logics:
            if isinstance(logic, WindowLogic):
                row = view(k.WINDOW, self.low.here[id(logic)])
                logic.fires, logic.found = int(row["fires"]), int(row["found_count"])
        for port, held in zip(self.low.ports, self.low.port_rows["held"].tolist(), strict=True):
            port.elsewhere = held

    def _look(self, event: Any) -> None:
        env, state = self.world.env, self.state
        heaps_alone = not event.callbacks or event.heaps
        (heaps if heaps_alone else counters)(self.low)
        env._eid = count(int(state["sequence"]))
        try:
            env.step()
        except StopSimulation:
            state["sequence"] = next(env._eid)
            lift(self.low)
            raise
        state["sequence"] = next(env._eid)
        heed(self.low)
        if not heaps_alone:
            heed_counters(self.low)
