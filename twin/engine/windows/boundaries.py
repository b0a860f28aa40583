"""When a window is evaluated: one that follows the clock, at its boundaries.

In an exact run the evaluation is a job of its own, right at the boundary; in a fast run it looks at the boundary a
little later, when the segments that cover it have come, and its results carry the boundary's time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from twin.engine.alarm import Alarm
from twin.engine.outcome import Outcome
from twin.engine.segment import Segment
from twin.engine.windows.extent import Extent
from twin.engine.windows.store import Store
from twin.engine.windows.trigger import Trigger

LATE_MARGIN = 1.5
"""A fast run looks at a time boundary this many times as late as tuples lately came to be known after their service."""
LATE_FORGET = 0.01
"""Per segment, when the lateness falls; it rises at once."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How far a trigger was. due: boundaries that waited for the station."""

    boundary_s: float
    late_s: float
    due: tuple[float, ...]


class TimeTrigger(Trigger):
    """Evaluates every `slide` seconds."""

    __slots__ = ("_alarm", "_boundary_s", "_late_s", "_stood_s")

    def __init__(self, extent: Extent, store: Store) -> None:
        super().__init__(extent, store)
        self._late_s = 0.0  # how long after a tuple's service it is remembered here
        self._boundary_s = 0.0
        self._stood_s = math.inf  # since when its station is blocked again and again and has served nothing

    def start(self) -> None:
        """From now on."""
        env = self.window.station.env
        self._boundary_s = (env.now // self.slide + 1.0) * self.slide
        self._alarm = Alarm(env, self._ring)
        self._alarm.set(self._boundary_s)

    def plan(self, segment: Segment) -> float:
        """No tuple completes a window."""
        return 0.0

    def served(self, segment: Segment, start_s: float, end_s: float) -> None:
        """Remembers when the tuples were processed."""
        self._stood_s = math.inf
        self.store.side(segment).came(segment.n, segment.b_s, start_s - segment.a_s < segment.b_s - segment.a_s)
        self._note_late(segment, start_s, end_s)
        self.store.remember(segment, start_s if segment.n > 1 else end_s, end_s)

    def corrected(self, segment: Segment, start_s: float, end_s: float) -> None:
        """Moves them to where they were."""
        self._note_late(segment, start_s, end_s)
        self.store.correct(segment, start_s, end_s)

    def _note_late(self, segment: Segment, start_s: float, end_s: float) -> None:
        station = self.window.station
        known_s = end_s if station.blocked_s > 0.0 and segment.b_s > segment.a_s else start_s
        late_s = max(0.0, station.env.now - known_s)
        self._late_s = late_s if late_s > self._late_s else self._late_s + LATE_FORGET * (late_s - self._late_s)

    def _ring(self, _: object) -> None:
        station = self.window.station
        if station.halted:
            return
        boundary_s = self._boundary_s
        late_s = 0.0 if station.exact else LATE_MARGIN * self._late_s
        if boundary_s > station.env.now:  # this one was settled before
            self._alarm.set(boundary_s + late_s)
            return
        self._boundary_s = boundary_s + self.slide
        self._alarm.set(max(self._boundary_s + late_s, station.env.now + 1e-9))
        if station.blocked or (station.exact and station.busy):
            self._wait(boundary_s)
        else:
            self.due(boundary_s, boundary_s)

    def settle(self, now_s: float) -> None:
        """Boundaries that are over; in an exact run they were looked at on time."""
        station = self.window.station
        while not station.exact and self._boundary_s <= now_s:
            boundary_s = self._boundary_s
            self._boundary_s = boundary_s + self.slide
            if station.blocked:
                self._wait(boundary_s)
            else:
                self.due(boundary_s, boundary_s)

    def _wait(self, boundary_s: float) -> None:
        station = self.window.station
        station.errands.append((self.window, boundary_s))
        if station.blocked_from_s < self._stood_s:
            self._stood_s = station.blocked_from_s

    def due(self, at_s: float, from_s: float) -> None:
        """Evaluates the window that ended at a boundary; the work begins at `from_s` at the earliest."""
        window, store = self.window, self.store
        station = window.station
        window.fires += 1
        histories = store.histories if station.blocked_s > 0.0 and not station.exact else ()
        under_way = False  # tuples are being served meanwhile that will come to be known only with their segment
        for history in histories:
            under_way |= history.foresee(at_s if at_s < self._stood_s else self._stood_s)
        results, work_s = window.combiner.evaluate(at_s, 1, 0.0, 1.0)
        for history in histories:
            history.recall()
        store.forget(at_s + self.slide - self.size)
        outcome = Outcome([], window.out, [])
        if results is not None and results.n > 0:
            outcome, more_s = window.out.offer(results)
            work_s += more_s
        station.evaluate(outcome, work_s, from_s, under_way)

    def origin(self) -> float:
        """Positions are times, the same everywhere."""
        return 0.0

    def snapshot(self) -> object:
        """Its next boundary, and those that are due."""
        errands = self.window.station.errands
        return Clock(self._boundary_s, self._late_s, tuple([at_s for logic, at_s in errands if logic is self.window]))

    def restore(self, kept: object, at_s: float, now_s: float) -> None:
        """Windows that the content belongs to end now, if their time is over; the clock goes on."""
        assert isinstance(kept, Clock)
        errands, window = self.window.station.errands, self.window
        self._late_s = kept.late_s
        others = [each for each in errands if each[0] is not window]
        errands.clear()
        errands.extend(others)
        errands.extend([(window, due_s) for due_s in kept.due])
        boundary_s = kept.boundary_s
        while boundary_s < min(self._boundary_s, at_s + self.size):
            errands.append((window, boundary_s))
            boundary_s += self.slide
