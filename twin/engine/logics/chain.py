"""Logics of several operators at one station: a tuple goes through all of them within one service.

What a segment becomes is found out as its service begins, from the first logic to the last, and with it the work of
each of them for what reaches it. It leaves as the service ends, like the results of a window: nothing is sent,
serialised or queued in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.logic import Logic
from twin.engine.logics.sink import SinkLogic
from twin.engine.logics.steps import Step, Steps
from twin.engine.outcome import Outcome, Results
from twin.engine.segment import Segment
from twin.engine.streams.outlet import Outlet
from twin.engine.streams.sender import singles

if TYPE_CHECKING:
    from twin.engine.station.task import Task


class Link(Outlet):
    """From one logic to the step of that number; after the last, to where the station's tuples leave."""

    __slots__ = ("chain", "number")

    def __init__(self, chain: Chain, number: int) -> None:
        super().__init__()
        self.chain = chain
        self.number = number

    def send(self, segment: Segment) -> None:
        """Nothing lies in between."""
        self.chain.enter(self.number, segment)

    def offer(self, results: Results) -> tuple[Outcome, float]:
        """What the logics that follow make of it."""
        return self.chain.follow(self.number, results)


class Arrivals(Outlet):
    """The end of a chain that ends the job."""

    __slots__ = ("sink",)

    def __init__(self, sink: SinkLogic) -> None:
        super().__init__()
        self.sink = sink

    def send(self, segment: Segment) -> None:
        """Tuples have been served by all: they count."""
        self.sink.emit(segment, segment.a_s, segment.b_s)


class ChainKept:
    """What the service under way comes to, over which times; what each logic kept."""

    __slots__ = ("before", "entered", "first_s", "last_s", "parts", "planned")

    def __init__(self, chain: Chain, again: bool) -> None:
        self.before = chain.before.copy()
        self.planned = [segment.copy() for segment in chain.planned]
        self.entered = chain.entered.copy()
        self.first_s, self.last_s = chain.first_s, chain.last_s
        self.parts = [step.logic.snapshot(again) for step in chain.steps]


class Chain(Steps):
    """`planned`: what leaves when the service ends, as if that ran from `first_s` to `last_s`; `entered`: what has come
    to windows over time by then; `before`: what it has in service, as it came.
    """

    __slots__ = ("_end", "_inner", "_work_s", "before", "entered", "first_s", "last_s", "planned")

    def __init__(self, steps: list[Step], more_s: float) -> None:
        """more_s: what the steps after the first take on average, in CPU seconds a tuple that comes to the station."""
        super().__init__(steps)
        self.more_s = more_s
        self._inner = len(steps)  # of which tuples are handed over at once
        self._work_s = 0.0
        self.before = Segment(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        self.planned: list[Segment] = []
        self.entered: list[tuple[Logic, Segment]] = []
        self.first_s = self.last_s = 0.0

    def start(self, station: Task, out: Outlet) -> None:
        """See Logic."""
        super().start(station, out)
        self._end = out
        sink = self.steps[-1].logic.sink()
        if sink is not None:
            self._end = Arrivals(sink)
            self._inner -= 1
        for number, step in enumerate(self.steps):
            step.logic.start(station, Link(self, number + 1))

    # what a segment becomes ----------------------------------------------------------------------------------------

    def plan(self, segment: Segment) -> float:
        """Takes the segment through all logics; CPU seconds beyond the first one's service."""
        station, head = self.station, self.steps[0].logic
        self._foresee(segment)
        self._work_s, self.planned, self.entered = 0.0, [], []
        self.before = segment.copy()
        head.stamp(self.before)
        passing = segment.copy()
        work_s = head.plan(passing)
        passing.gap_scv = station.hidden.gap_scv_after
        head.emit(passing, self.first_s, self.last_s)
        return work_s + self._work_s

    def _foresee(self, segment: Segment) -> None:
        """When the service will begin and end, as far as it is known before its work is."""
        station, n = self.station, segment.n
        start_s = station.env.now if station.exact else segment.a_s
        if station.free_s > start_s:
            start_s = station.free_s
        each_s = (station.service_s + self.more_s) * station.processor.slowdown / station.processor.speed
        end_s = start_s + n * each_s
        if segment.b_s > segment.a_s:
            end_s = max(end_s, segment.b_s + each_s)
        self.first_s, self.last_s = min(start_s + each_s, end_s), end_s
        station.current = (segment, start_s, end_s, n * each_s)

    def enter(self, number: int, segment: Segment) -> None:
        """A step takes what the one before it has made; behind the last, it waits for the service's end."""
        if segment.n > 1 and self.station.exact:
            for piece in singles(segment, self.station.draws):
                self._enter(number, piece)
        else:
            self._enter(number, segment)

    def _enter(self, number: int, segment: Segment) -> None:
        if number == self._inner:
            self.planned.append(segment)
            sinks = self._inner < len(self.steps)
            self._work_s += self.steps[number].work_s(segment.n) if sinks else segment.n * self.out.send_s
            return
        step = self.steps[number]
        self._work_s += step.work_s(segment.n) + step.logic.plan(segment)
        if step.logic.follows:
            self.entered.append((step.logic, segment.copy()))
        step.logic.emit(segment, segment.a_s, segment.b_s)

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """The service ends: what it has come to leaves."""
        planned, self.planned = self.planned, []
        entered, self.entered = self.entered, []
        for logic, each in entered:
            self._place(each, first_s, last_s)
            logic.served(each, each.a_s, each.b_s)
        self.steps[0].logic.stamp(segment)
        for each in planned:
            self._restamp(each, segment)
            self._place(each, first_s, last_s)
            self._end.send(each)

    def _place(self, segment: Segment, first_s: float, last_s: float) -> None:
        """To where in the service it really leaves."""
        foreseen_s = self.last_s - self.first_s
        scale = (last_s - first_s) / foreseen_s if foreseen_s > 0.0 else 1.0
        segment.a_s = last_s - (self.last_s - segment.a_s) * scale
        segment.b_s = last_s - (self.last_s - segment.b_s) * scale

    def _restamp(self, segment: Segment, head: Segment) -> None:
        """Where the stamps of what the chain took have moved, so have those of what it has made.

        They lie on the same line, or, behind a window, are as much older: its results wait with what completes it.
        """
        before = self.before
        older_s = before.born0_s - head.born0_s
        segment.born0_s -= older_s
        segment.born1_s -= older_s
        span_s = before.taken1_s - before.taken0_s
        scale = 1.0
        if span_s > 0.0 and not self.keeps:
            scale = (head.taken1_s - head.taken0_s) / span_s
        segment.taken0_s = head.taken0_s + (segment.taken0_s - before.taken0_s) * scale
        segment.taken1_s = head.taken0_s + (segment.taken1_s - before.taken0_s) * scale

    def follow(self, number: int, results: Results) -> tuple[Outcome, float]:
        """What becomes of results that no segment is in service for, from a step on; its CPU seconds."""
        under_way = self.planned, self.entered, self._work_s
        self.planned, self.entered, self._work_s = [], [], 0.0
        now: float = self.station.env.now
        segment = results.leave(now, now)
        if segment.n == 1:
            segment.collapse(self.station.draws.uniform())
        self.enter(number, segment)
        outcome, work_s = Outcome([_results(each) for each in self.planned], self._end, self.entered), self._work_s
        self.planned, self.entered, self._work_s = under_way
        return outcome, work_s

    def served(self, segment: Segment, start_s: float, end_s: float) -> None:
        """Only the first hears before the end: nobody else's tuples are there yet."""
        self.steps[0].logic.served(segment, start_s, end_s)

    def corrected(self, segment: Segment, start_s: float, end_s: float) -> None:
        """See `served`."""
        self.steps[0].logic.corrected(segment, start_s, end_s)

    def stopped(self) -> None:
        """See Logic."""
        self.planned, self.entered = [], []
        for step in self.steps:
            step.logic.stopped()

    # what it holds: all that its logics do ---------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        """See Logic."""
        return ChainKept(self, again)

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """See Logic."""
        assert isinstance(kept, ChainKept)
        if self.keeps:  # else it is served again
            self.planned = [segment.copy() for segment in kept.planned]
            self.entered, self.before = kept.entered.copy(), kept.before.copy()
            self.first_s, self.last_s = kept.first_s, kept.last_s
        pairs = zip(self.steps, kept.parts, strict=True)
        return sum([step.logic.restore(part, at_s, now_s) for step, part in pairs])

    def complete(self, kept: object, now_s: float) -> None:
        """See Logic."""
        assert isinstance(kept, ChainKept)
        for step, part in zip(self.steps, kept.parts, strict=True):
            step.logic.complete(part, now_s)

    # what is counted -----------------------------------------------------------------------------------------------

    def in_service(self) -> int:
        """Tuples that will leave when the service ends."""
        return sum([segment.n for segment in self.planned])

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        """See Logic. Whoever comes first hands over at once; what windows held is sent again after a restart."""
        found, last = [], len(self.steps) - 1
        for number, step in enumerate(self.steps):
            out = self.sent(number) + step.logic.ended()
            if number == last:
                out += self.in_service() + aborted
            if step.logic.law and not (number == last and self.keeps):
                found.append((step.logic.law, self.taken(number), out))
        return found


def _results(segment: Segment) -> Results:
    """A segment as what an evaluation comes to."""
    stamps = segment.born0_s, segment.born1_s, segment.taken0_s, segment.taken1_s
    return Results(segment.n, 0.0, 1.0, *stamps)
