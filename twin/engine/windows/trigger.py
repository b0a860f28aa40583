"""Triggers: they decide when a window is evaluated. By count, this is within the service of every n-th record; by time,
it is work of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twin.engine.calendar import Alarm
from twin.engine.logic import Logic
from twin.engine.output import EvaluationResult
from twin.engine.record import Record
from twin.engine.state import Item
from twin.engine.windows.content import Content
from twin.windows import TimeWindow, Window

if TYPE_CHECKING:
    from twin.engine.windows.window import WindowLogic


@dataclass(frozen=True, slots=True)
class Extent:
    """Size and slide of a window. Positions are times in seconds if `by_time`, else they count tuples."""

    size: float
    slide: float
    by_time: bool


def extent_of(window: Window) -> Extent:
    """Extent of a window."""
    return Extent(float(window.size), float(window.slide), isinstance(window, TimeWindow))


class Trigger:
    """Base of the triggers, which say at which position of its window each record is, and where windows end."""

    window: WindowLogic

    def __init__(self, extent: Extent) -> None:
        self.extent = extent

    def start(self) -> None:
        """Starts work, as its window does."""

    def plan(self, record: Record) -> float:
        """Plans a record that is taken up; returns the CPU seconds of the evaluations within its service."""
        return 0.0

    def served(self, record: Record, at_s: float) -> None:
        """Notes that the record's service has ended."""

    def due(self, at_s: float) -> None:
        """Does now what was due at `at_s`."""

    def origin(self) -> float:
        """Origin of positions, so that positions relative to it mean the same on another replica."""
        raise NotImplementedError

    def first(self) -> int:
        """Number of the first window that it has not evaluated; 0 if no other replica needs to know."""
        return 0

    def take_over(self, first: int, stores: list[list[Item]]) -> None:
        """Prepares for records from another replica, which has evaluated the windows before number `first`."""

    def snapshot(self) -> object:
        """Progress of the trigger."""
        raise NotImplementedError

    def restore(self, kept: object, at_s: float) -> None:
        """Goes back to the progress in `kept`."""
        raise NotImplementedError


class CountTrigger(Trigger):
    """Evaluates the window every `slide` records. seen: number of records so far."""

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.seen = 0

    def plan(self, record: Record) -> float:
        """Puts the record into the window, and evaluates that if it is due."""
        window, extent = self.window, self.extent
        self.seen += 1
        window.put(record, self.seen)
        if self.seen % extent.slide:
            return 0.0
        work_s = window.fire(self.seen)
        window.forget(self.seen + extent.slide - extent.size)
        return work_s

    def origin(self) -> float:
        """Number of records that this replica has seen."""
        return float(self.seen)

    def snapshot(self) -> object:
        return self.seen

    def restore(self, kept: object, at_s: float) -> None:
        assert isinstance(kept, int)
        self.seen = kept


class WindowPart(Logic):
    """Part of a window's content that is evaluated by itself: the rest was, or will be, evaluated at another time."""

    def __init__(self, window: WindowLogic, stores: list[list[Item]]) -> None:
        super().__init__()
        self.window = window
        self.contents = tuple([Content() for _ in stores])
        for content, items in zip(self.contents, stores, strict=True):
            content.become(items)

    def due(self, at_s: float) -> None:
        send_evaluated(self.window, self.contents, at_s)


def send_evaluated(window: WindowLogic, contents: tuple[Content, ...], at_s: float) -> None:
    """Evaluates contents at a boundary, as other work of the station; then the results leave."""
    results, work_s = window.evaluate(at_s, contents)
    outcome = EvaluationResult([], window.out, [])
    if results:
        outcome, more_s = window.out.offer(results)
        work_s += more_s
    window.station.job(outcome, work_s)


class TimeTrigger(Trigger):
    """Evaluates the window every `slide` seconds. The position of a record is the end of its service."""

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.boundary_s = 0.0

    def start(self) -> None:
        env, slide_s = self.window.station.env, self.extent.slide
        self.boundary_s = (env.now // slide_s + 1.0) * slide_s
        self.alarm = Alarm(env, self._ring)
        self.alarm.set(self.boundary_s)

    def served(self, record: Record, at_s: float) -> None:
        """Puts the record into the window."""
        self.window.put(record, at_s)

    def _ring(self, _: object) -> None:
        station = self.window.station
        if station.halted:
            return
        boundary_s = self.boundary_s
        self.boundary_s = boundary_s + self.extent.slide
        self.alarm.set(max(self.boundary_s, station.env.now + 1e-9))
        if station.output.blocked or station.busy:
            station.timers.append((self.window, boundary_s))
        else:
            self.due(boundary_s)

    def due(self, at_s: float) -> None:
        """Evaluates the window that ended at a boundary."""
        window = self.window
        send_evaluated(window, window.contents, at_s)
        window.forget(at_s + self.extent.slide - self.extent.size)

    def origin(self) -> float:
        """Origin 0: positions are times, the same on all replicas."""
        return 0.0

    def first(self) -> int:
        """Number of the first window that it has not evaluated; windows are counted by their ends."""
        due = (at_s for logic, at_s in self.window.station.timers if logic is self.window)
        return self._number(next(due, self.boundary_s))

    def _number(self, boundary_s: float) -> int:
        return round(boundary_s / self.extent.slide)

    def take_over(self, first: int, stores: list[list[Item]]) -> None:
        """Prepares evaluations for records that come from another replica.

        Windows that ended here but not at the other replica are evaluated now, with these records alone. Those that
        ended there but are still due here are evaluated without them. An empty window gets all of the former ends, as
        more records may come from other subtasks.
        """
        window, extent, errands = self.window, self.extent, self.window.station.timers
        last_s = max([items[-1][0] for items in stores if items], default=-math.inf)
        ends_s = [number * extent.slide for number in range(first, self.first())]
        own: Logic = window
        came: Logic = window
        if window.held():
            own = WindowPart(window, [content.items() for content in window.contents])
            came = WindowPart(window, stores)
        for place, (logic, at_s) in enumerate(errands):
            if logic is window and self._number(at_s) < first:
                errands[place] = own, at_s
        ends_s = [at_s for at_s in ends_s if came is window or at_s < last_s + extent.size]
        errands.extendleft([(came, at_s) for at_s in reversed(ends_s)])

    def _errands(self) -> list[tuple[Logic, float]]:
        mine = self.window
        return [
            (logic, at_s)
            for logic, at_s in mine.station.timers
            if logic is mine or (isinstance(logic, WindowPart) and logic.window is mine)
        ]

    def snapshot(self) -> object:
        """Next boundary, and evaluations that are due."""
        return self.boundary_s, self._errands()

    def restore(self, kept: object, at_s: float) -> None:
        """Goes back to the evaluations that were due. Windows of the content that have ended meanwhile are due, too."""
        assert isinstance(kept, tuple)
        boundary_s, due = kept
        errands, mine = self.window.station.timers, self._errands()
        others = [each for each in errands if each not in mine]
        errands.clear()
        errands.extend([*others, *due])
        while boundary_s < min(self.boundary_s, at_s + self.extent.size):
            errands.append((self.window, boundary_s))
            boundary_s += self.extent.slide
