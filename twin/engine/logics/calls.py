"""Calls to external systems: a served record waits for its answer; a gate limits the rate of all replicas' calls."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from twin.calls import Calls
from twin.engine.calendar import Alarm, once
from twin.engine.draws import Draws
from twin.engine.logic import Logic, SinkLogic
from twin.engine.logics.select import send_times
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.logic import Station
    from twin.engine.output import Outlet


class Gate:
    """Rate limit of an external system.

    each_s: shortest time from one call to the next. free_s: when the next call may be made.
    """

    def __init__(self, per_s: float) -> None:
        self.each_s = 1.0 / per_s
        self.free_s = 0.0

    def admit(self, at_s: float) -> float:
        """Admits a call that is ready at `at_s`; returns when it may be made."""
        begun_s = max(self.free_s, at_s)
        self.free_s = begun_s + self.each_s
        return begun_s


class CallLogic(Logic):
    """Logic of calls to an external system: a record that was served asks, and leaves when its answer comes.

    flying: records that wait for an answer, by number of the call, oldest first. stuck: a served record that may not
    ask yet; its station is blocked meanwhile, as by a full channel. saved: records that were in `flying` when a restart
    began. turn: alarm for the time when `stuck` may pass the gate. last_s: when the last answer leaves, if answers
    leave in order. number: number of the last call.
    """

    def __init__(
        self, calls: Calls, selectivity: float, gate: Gate | None, answers: Draws, end: SinkLogic | None
    ) -> None:
        """answers: random numbers of the times to an answer. end: sink that takes answered records, if any."""
        super().__init__()
        self.calls = calls
        self.capacity = math.inf if calls.capacity is None else calls.capacity
        self.selectivity = selectivity
        self.gate = gate
        self.answers = answers
        self.end = end
        self.flying: dict[int, Record] = {}
        self.stuck: Record | None = None
        self.saved: list[Record] = []
        self.answered = 0
        self.last_s = 0.0
        self.number = 0

    def start(self, station: Station, out: Outlet) -> None:
        super().start(station, out)
        self.turn = Alarm(station.env, self._through_gate)

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of sending what the answer becomes: it leaves later, and is paid for now."""
        return self.selectivity * self.out.send_s if self.end is None else 0.0

    def emit(self, record: Record, at_s: float) -> None:
        """Makes the call of a record that has been served."""
        record.at_s = at_s
        self._ask(record)

    def _ask(self, record: Record) -> None:
        now: float = self.station.env.now
        at_s = now
        if len(self.flying) >= self.capacity:
            self._hold(record)
            return
        if self.gate is not None:
            at_s = self.gate.admit(now)
        if at_s > now:
            self._hold(record)
            self.turn.set(at_s)
        else:
            self._fly(record, now)

    def _hold(self, record: Record) -> None:
        self.stuck = record
        self.station.output.block()

    def _through_gate(self, _: object) -> None:
        stuck, self.stuck = self.stuck, None
        assert stuck is not None
        self._fly(stuck, self.station.env.now)
        self.station.output.unblock()

    def _fly(self, record: Record, now: float) -> None:
        back_s = now + self._answer_s()
        if self.calls.ordered:
            back_s = self.last_s = max(self.last_s, back_s)
        record.at_s = back_s
        self.number += 1
        self.flying[self.number] = record
        once(self.station.env, back_s, self.answer, self.number)

    def _answer_s(self) -> float:
        calls, answers = self.calls, self.answers
        if calls.hit_ratio > 0.0 and answers.uniform() < calls.hit_ratio:
            return calls.hit_s
        return calls.latency_s * answers.service()

    def answer(self, event: Any) -> None:
        """Takes the answer to the call whose number the event holds, unless the call was given up."""
        record = self.flying.pop(event.value, None)
        if record is None:
            return
        self._leave(record)
        stuck = self.stuck
        if stuck is not None and not self.turn.pending and len(self.flying) < self.capacity:
            self.stuck = None
            self._ask(stuck)
            self.station.output.unblock()

    # what an answer becomes ------------------------------------------------------------------------------------------

    def _leave(self, record: Record) -> None:
        self.answered += 1
        if self.end is not None:
            self.end.emit(record, record.at_s)
            return
        n_out, draws = 1, self.station.draws
        if self.selectivity < 1.0:
            n_out = 1 if draws.uniform() < self.selectivity else 0
        elif self.selectivity > 1.0:
            n_out = draws.rounded(self.selectivity)
        self.dropped += 0 if n_out else 1
        send_times(record, n_out, self.station.output, self.station.env)

    def stopped(self) -> None:
        """Gives all calls up."""
        self.flying.clear()
        self.saved.clear()
        self.stuck = None
        self.turn.silence()
        self.turn = Alarm(self.station.env, self._through_gate)
        self.last_s = 0.0

    # what it holds, and what is counted ------------------------------------------------------------------------------

    def pending(self) -> list[Record]:
        """Copies of the records whose calls will be made again."""
        waiting = [record.copy() for record in (*self.saved, *self.flying.values())]
        return waiting if self.stuck is None else [*waiting, self.stuck.copy()]

    def save(self) -> None:
        """Moves calls without an answer into its state. They are made again when the job goes on."""
        self.saved += self.flying.values()
        self.flying.clear()
        self.last_s = 0.0

    def resume(self) -> None:
        saved, self.saved = self.saved, []
        now: float = self.station.env.now
        for record in saved:
            self._fly(record, now if self.gate is None else self.gate.admit(now))

    def away(self) -> int:
        return len(self.saved) + len(self.flying) + (self.stuck is not None)

    def in_service(self) -> int:
        """Number of records in service or waiting for an answer."""
        return self.station.in_service + self.away()

    def ended(self) -> int:
        """Number of records without a result; before a sink, number of results."""
        return self.dropped if self.end is None else self.end.counted

    def sink(self) -> SinkLogic | None:
        return self.end

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        came, open_now = self.station.tuples_in, self.in_service() + aborted
        laws = [("in = answered + waiting + in service + stopped", came, self.answered + open_now)]
        if self.selectivity <= 1.0:
            left = self.station.output.tuples_out + self.ended() + open_now
            laws.append(("in = out + ended + waiting + in service + stopped", came, left))
        return laws
