"""Calls: a tuple that has been served waits for its answer outside of the station, which takes the next one up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twin.calls import Calls
from twin.engine.alarm import once
from twin.engine.calling.gate import Gate
from twin.engine.calling.places import Places
from twin.engine.draws import Draws
from twin.engine.logic import Logic
from twin.engine.logics.select import thinned
from twin.engine.logics.sink import SinkLogic
from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.station.task import Task
    from twin.engine.streams.outlet import Outlet


class CallLogic(Logic):
    """`flying`: what waits for an answer, by number. `stuck`: what has been served and may not ask yet; its station
    stands still for it, as for a full channel. An exact run follows each call; a fast one the mean of a segment's.
    """

    __slots__ = (
        "_last_s",
        "_life",
        "_number",
        "_queued_at_gate",
        "answered",
        "answers",
        "calls",
        "end",
        "flying",
        "gate",
        "places",
        "selectivity",
        "stuck",
        "waiting",
    )

    def __init__(
        self, calls: Calls, selectivity: float, gate: Gate | None, answers: Draws, end: SinkLogic | None
    ) -> None:
        """answers: random numbers of the times to an answer. end: where tuples end that are answered, if they do."""
        super().__init__()
        self.calls = calls
        self.selectivity = selectivity
        self.gate = gate
        self.answers = answers
        self.end = end
        self.places = Places(calls)
        self.flying: dict[int, Segment] = {}
        self.stuck: Segment | None = None
        self.waiting = 0  # tuples in `flying`
        self.answered = 0
        self._queued_at_gate = False
        self._last_s = 0.0  # when the last answer leaves, where they leave in order
        self._number = 0
        self._life = 0  # stops so far: what was asked before has no answer

    def start(self, station: Task, out: Outlet) -> None:
        """See Logic."""
        super().start(station, out)
        if self.gate is not None:
            self.gate.members += 1

    def plan(self, segment: Segment) -> float:
        """What leaves, leaves later, and is paid for now."""
        return segment.n * self.selectivity * self.out.send_s if self.end is None else 0.0

    def turn_s(self, n: float) -> float:
        """For a place, as each becomes free in turn, or for the gate."""
        more, places = n - self.places.capacity, self.places
        place_s = more * more / (2.0 * n * places.capacity) * places.kept_s if more > 0.0 else 0.0
        return place_s if self.gate is None else max(place_s, (n - 1.0) / 2.0 * self.gate.each_s)

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Has been served: asks."""
        segment.a_s, segment.b_s = first_s, last_s
        if self.station.exact:
            self._ask(segment)
        else:
            self._ask_all(segment)

    # one by one ------------------------------------------------------------------------------------------------------

    def _ask(self, segment: Segment) -> None:
        now: float = self.station.env.now
        at_s = now
        if self.waiting >= self.places.capacity:
            self._hold(segment)
            return
        if self.gate is not None:
            at_s, _ = self.gate.admit(1, now, now)
        if at_s > now:
            self._hold(segment)
            self._queued_at_gate = True
            once(self.station.env, at_s, self._through_gate, self._life)
        else:
            self._fly(segment, now)

    def _hold(self, segment: Segment) -> None:
        self.stuck = segment
        self.station.block()

    def _through_gate(self, event: Any) -> None:
        stuck = self.stuck
        if event.value == self._life and stuck is not None:
            self.stuck, self._queued_at_gate = None, False
            self._fly(stuck, self.station.env.now)
            self.station.unblock()

    def _fly(self, segment: Segment, now: float) -> None:
        back_s = now + self._answer_s()
        if self.calls.ordered:
            back_s = self._last_s = max(self._last_s, back_s)
        segment.a_s = segment.b_s = back_s
        self._launch(segment)

    def _answer_s(self) -> float:
        calls, answers = self.calls, self.answers
        if calls.hit_ratio > 0.0 and answers.uniform() < calls.hit_ratio:
            return calls.hit_s
        return calls.latency_s * answers.service()

    def _launch(self, segment: Segment) -> None:
        self._number += 1
        self.flying[self._number] = segment
        self.waiting += segment.n
        once(self.station.env, segment.b_s, self._answer, (self._life, self._number))

    def _answer(self, event: Any) -> None:
        life, number = event.value
        if life != self._life:
            return
        segment = self.flying.pop(number)
        self.waiting -= segment.n
        self._leave(segment)
        stuck = self.stuck
        if stuck is not None and not self._queued_at_gate and self.waiting < self.places.capacity:
            self.stuck = None
            self._ask(stuck)
            self.station.unblock()

    # a segment at a time ---------------------------------------------------------------------------------------------

    def _ask_all(self, segment: Segment) -> None:
        station, places, n = self.station, self.places, segment.n
        now, last_s = station.env.now, segment.b_s
        places.renew(station.load, now)
        older_s = self._older_s()
        segment.a_s, segment.b_s = places.admit(n, segment.a_s, last_s)
        if self.gate is not None:
            segment.a_s, segment.b_s = self.gate.pour(n, segment.gap_scv, segment.a_s, segment.b_s)
        if segment.b_s > last_s:  # nothing is taken up before
            station.free_s = max(station.free_s, segment.b_s)
            if segment.b_s > now:
                station.block()
                once(station.env, segment.b_s, self._go_on, self._life)
        segment.a_s += places.kept_s
        segment.b_s += places.kept_s
        station.shift(segment, older_s, 0.0)
        mixed = min(1.0, places.per_s * places.kept_s * self.calls.scv)  # answers overtake each other
        segment.gap_scv += (1.0 - segment.gap_scv) * mixed
        self._launch(segment)

    def _older_s(self) -> float:
        """What segments do not show: waits, and by how much an answer takes longer than on average."""
        places, answers = self.places, self.answers
        older_s = self._answer_s()
        if self.calls.ordered:
            older_s = max(older_s, self.calls.before_s(places.per_s, answers.uniform()))
        older_s += places.wait_s * answers.exponential() - places.kept_s
        if self.gate is not None:
            older_s += self.gate.wait_s * answers.exponential()
        return older_s

    def _go_on(self, event: Any) -> None:
        if event.value == self._life:
            self.station.unblock()

    # what it comes to ------------------------------------------------------------------------------------------------

    def _leave(self, segment: Segment) -> None:
        n, station = segment.n, self.station
        self.answered += n
        if self.end is not None:
            self.end.emit(segment, segment.a_s, segment.b_s)
            return
        if self.selectivity < 1.0:
            n_out = station.draws.binomial(n, self.selectivity)
        else:
            n_out = station.draws.rounded(n * self.selectivity) if self.selectivity > 1.0 else n
        self.dropped += max(0, n - n_out)
        if n_out:
            station.send(thinned(segment, n_out, self.selectivity, station.draws))

    def stopped(self) -> None:
        """What was asked has no answer."""
        self._life += 1
        self.flying.clear()
        self.stuck = None
        self._queued_at_gate = False
        self.waiting = 0
        self._last_s = 0.0

    # what it holds, and what is counted ------------------------------------------------------------------------------

    def pending(self) -> list[Segment]:
        """It will be asked again."""
        waiting = [self.flying[number].copy() for number in sorted(self.flying)]
        return waiting if self.stuck is None else [*waiting, self.stuck.copy()]

    def away(self) -> int:
        """See Logic."""
        return self.waiting + (self.stuck.n if self.stuck is not None else 0)

    def in_service(self) -> int:
        """In service, or waiting for an answer."""
        return self.station.in_service + self.away()

    def ended(self) -> int:
        """Tuples without a result, or results."""
        return self.dropped if self.end is None else self.end.counted

    def sink(self) -> SinkLogic | None:
        """See Logic."""
        return self.end

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        """See Logic."""
        came, open_now = self.station.tuples_in, self.in_service() + aborted
        laws = [("in = answered + waiting + in service + stopped", came, self.answered + open_now)]
        if self.selectivity <= 1.0:
            left = self.station.tuples_out + self.ended() + open_now
            laws.append(("in = out + ended + waiting + in service + stopped", came, left))
        return laws
