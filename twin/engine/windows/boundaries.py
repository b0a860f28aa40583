"""When a window is evaluated: one that follows the clock, at its boundaries, by a job of its own."""

from __future__ import annotations

from dataclasses import dataclass

from twin.engine.alarm import Alarm
from twin.engine.outcome import Outcome
from twin.engine.record import Record
from twin.engine.windows.extent import Extent
from twin.engine.windows.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Clock:
    """How far a trigger was. due: boundaries that waited for the station."""

    boundary_s: float
    due: tuple[float, ...]


class TimeTrigger(Trigger):
    """Evaluates every `slide` seconds; records are where their services ended."""

    __slots__ = ("alarm", "boundary_s")

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.boundary_s = 0.0

    def start(self) -> None:
        """From now on."""
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
        if station.blocked or station.busy:
            station.errands.append((self.window, boundary_s))
        else:
            self.due(boundary_s)

    def due(self, at_s: float) -> None:
        """Evaluates the window that ended at a boundary."""
        window = self.window
        results, work_s = window.evaluate(at_s)
        window.forget(at_s + self.extent.slide - self.extent.size)
        outcome = Outcome([], window.out, [])
        if results:
            outcome, more_s = window.out.offer(results)
            work_s += more_s
        window.station.job(outcome, work_s)

    def origin(self) -> float:
        """Positions are times, the same everywhere."""
        return 0.0

    def snapshot(self) -> object:
        """Its next boundary, and those that are due."""
        errands = self.window.station.errands
        return Clock(self.boundary_s, tuple([at_s for logic, at_s in errands if logic is self.window]))

    def restore(self, kept: object, at_s: float, now_s: float) -> None:
        """Windows that the content belongs to end now, if their time is over; the clock goes on."""
        assert isinstance(kept, Clock)
        errands, window = self.window.station.errands, self.window
        others = [each for each in errands if each[0] is not window]
        errands.clear()
        errands.extend(others)
        errands.extend([(window, due_s) for due_s in kept.due])
        boundary_s = kept.boundary_s
        while boundary_s < min(self.boundary_s, at_s + self.extent.size):
            errands.append((window, boundary_s))
            boundary_s += self.extent.slide
