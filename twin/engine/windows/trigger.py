"""When a window is evaluated: within the service of every so many records, or as time goes by, in a job of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twin.engine.calendar import Alarm
from twin.engine.output import EvaluationResult
from twin.engine.record import Record
from twin.windows import TimeWindow, Window

if TYPE_CHECKING:
    from twin.engine.windows.window import WindowLogic


@dataclass(frozen=True, slots=True)
class Extent:
    """Positions are times in seconds if `by_time`, else they count tuples."""

    size: float
    slide: float
    by_time: bool


def extent_of(window: Window) -> Extent:
    """The extent of a window."""
    return Extent(float(window.size), float(window.slide), isinstance(window, TimeWindow))


class Trigger:
    """The base of all. Says at which position of its window each record is, and where windows end."""

    window: WindowLogic

    def __init__(self, extent: Extent) -> None:
        self.extent = extent

    def start(self) -> None:
        """Its window goes to work."""

    def plan(self, record: Record) -> float:
        """A record is being taken up; CPU seconds of the evaluations within its service."""
        return 0.0

    def served(self, record: Record, at_s: float) -> None:
        """The record's service has ended."""

    def due(self, at_s: float) -> None:
        """See Logic."""

    def origin(self) -> float:
        """The origin of positions that mean the same on another replica."""
        raise NotImplementedError

    def snapshot(self) -> object:
        """How far it is."""
        raise NotImplementedError

    def restore(self, kept: object, at_s: float) -> None:
        """Is as far as that again."""
        raise NotImplementedError


class CountTrigger(Trigger):
    """Evaluates every `slide` records. `seen`: records so far."""

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.seen = 0

    def plan(self, record: Record) -> float:
        """The record is in the window from now on."""
        window, extent = self.window, self.extent
        self.seen += 1
        window.put(record, self.seen)
        if self.seen % extent.slide:
            return 0.0
        work_s = window.fire(self.seen)
        window.forget(self.seen + extent.slide - extent.size)
        return work_s

    def origin(self) -> float:
        """What this replica has seen."""
        return float(self.seen)

    def snapshot(self) -> object:
        """What it has seen."""
        return self.seen

    def restore(self, kept: object, at_s: float) -> None:
        """Has seen that."""
        assert isinstance(kept, int)
        self.seen = kept


class TimeTrigger(Trigger):
    """Evaluates every `slide` seconds; records are where their services ended."""

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.boundary_s = 0.0

    def start(self) -> None:
        """Starts the trigger now."""
        env, slide_s = self.window.station.env, self.extent.slide
        self.boundary_s = (env.now // slide_s + 1.0) * slide_s
        self.alarm = Alarm(env, self._ring)
        self.alarm.set(self.boundary_s)

    def served(self, record: Record, at_s: float) -> None:
        """The record is in the window from now on."""
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
        results, work_s = window.evaluate(at_s)
        window.forget(at_s + self.extent.slide - self.extent.size)
        outcome = EvaluationResult([], window.out, [])
        if results:
            outcome, more_s = window.out.offer(results)
            work_s += more_s
        window.station.job(outcome, work_s)

    def origin(self) -> float:
        """Positions are times, the same everywhere."""
        return 0.0

    def snapshot(self) -> object:
        """Its next boundary, and those that are due."""
        errands = self.window.station.timers
        return self.boundary_s, [at_s for logic, at_s in errands if logic is self.window]

    def restore(self, kept: object, at_s: float) -> None:
        """Windows that the content belongs to end now, if their time is over; the clock goes on."""
        assert isinstance(kept, tuple)
        boundary_s, due = kept
        errands, window = self.window.station.timers, self.window
        others = [each for each in errands if each[0] is not window]
        errands.clear()
        errands.extend(others)
        errands.extend([(window, due_s) for due_s in due])
        while boundary_s < min(self.boundary_s, at_s + self.extent.size):
            errands.append((window, boundary_s))
            boundary_s += self.extent.slide
