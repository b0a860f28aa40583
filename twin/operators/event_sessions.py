"""Sessions over event time: the records of a key between two silences of their own times, after Flink's
`EventTimeSessionWindows`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any

from twin.operators.key_groups import KeyGroups
from twin.operators.logic import SinkLogic
from twin.operators.panes import Dated, SpanStore
from twin.operators.records import Leaves, Record, State
from twin.operators.watermark import TimedLogic


@dataclass(slots=True)
class Session:
    """Session of a key, over event times from start_us up to end_us, which is a gap after its last record. born_s,
    taken_s: when the oldest record was born and taken in. fired: whether its result has left."""

    start_us: int
    end_us: int
    born_s: float
    taken_s: float
    fired: bool = False


Kept = list[tuple[int, Session]]
"""Sessions with their keys, as they move and are kept by checkpoints."""


class TimedSessionLogic(TimedLogic):
    """Logic of sessions over event time. A record begins a session, or joins those that it touches to one. A session's
    result leaves when the watermark reaches its end; records that come within lateness_us after that let it leave once
    more. due: event times at which something is due, and their keys, the earliest first."""

    def __init__(self, *, gap_us: int, lateness_us: int, result_s: float, key_bytes: float, late: int | None) -> None:
        super().__init__(key_bytes, late)
        self.gap_us = gap_us
        self.lateness_us = lateness_us
        self.result_s = result_s
        self.by_key: defaultdict[int, list[Session]] = defaultdict(list)
        self.due_us: list[tuple[int, int]] = []

    def stores_of(self, groups: KeyGroups) -> list[SpanStore[int]]:
        """No stores by span, as sessions have ends of their own."""
        return []

    def sink(self) -> SinkLogic:
        """Sink that measures the age of records when they are taken in."""
        return self.taken_in

    # records ---------------------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of sending a late record aside, and of results that are still to be paid for."""
        assert isinstance(record, Dated)
        late = record.at_us < self.watermark_us and self._joined(record).end_us + self.lateness_us <= self.watermark_us
        return self.paid_s(self.aside_s if late else 0.0)

    def _touched(self, record: Dated) -> list[Session]:
        start_us, end_us = record.at_us, record.at_us + self.gap_us
        return [each for each in self.by_key.get(record.key, ()) if each.start_us <= end_us and start_us <= each.end_us]

    def _joined(self, record: Dated) -> Session:
        """The session that a record and all sessions that it touches are together."""
        touched = self._touched(record)
        oldest = min([(each.born_s, each.taken_s) for each in touched], default=(record.born_s, record.taken_s))
        return Session(
            min([record.at_us, *[each.start_us for each in touched]]),
            max([record.at_us + self.gap_us, *[each.end_us for each in touched]]),
            *min(oldest, (record.born_s, record.taken_s)),
        )

    def emit(self, record: Record, at_s: float) -> None:
        """Puts a record into its session, unless that was over long ago."""
        assert isinstance(record, Dated)
        joined = self._joined(record)
        if joined.end_us + self.lateness_us <= self.watermark_us:
            self.put_aside(record, at_s)
            return
        self.notes.keep(record, self.watermark_us)
        self.taken_in.emit(record, at_s)
        touched = self._touched(record)
        self.by_key[record.key] = [each for each in self.by_key[record.key] if each not in touched]
        self._hold(record.key, joined)
        if joined.end_us <= self.watermark_us:
            self._fire(record.key, joined)

    def _hold(self, key: int, session: Session) -> None:
        self.by_key[key].append(session)
        heappush(self.due_us, (session.end_us, key))
        if self.lateness_us:
            heappush(self.due_us, (session.end_us + self.lateness_us, key))

    def reach(self, before_us: float, now_us: int) -> None:
        """Sends the results of sessions that are over, and forgets those for which no late record counts any more."""
        while self.due_us and self.due_us[0][0] <= now_us:
            at_us, key = heappop(self.due_us)
            for session in self.by_key.get(key, ()):
                if session.end_us == at_us and not session.fired:
                    self._fire(key, session)
            open_now = [each for each in self.by_key.get(key, ()) if each.end_us + self.lateness_us > at_us]
            if open_now:
                self.by_key[key] = open_now
            else:
                self.by_key.pop(key, None)

    def _fire(self, key: int, session: Session) -> None:
        session.fired = True
        self.finished += 1
        result = Dated(session.born_s, session.taken_s, self.now_s, session.end_us - 1)
        result.key = key
        self.owed.work_s += self.result_s + self.out.send_s - self.aside_s
        self.send_ended(result, self.now_s)

    # what it holds ---------------------------------------------------------------------------------------------------

    def _all(self) -> Kept:
        return [(key, replace(each)) for key, sessions in self.by_key.items() for each in sessions]

    def _become(self, kept: Kept) -> None:
        self.by_key.clear()
        self.due_us = []
        for key, session in kept:
            self._hold(key, replace(session))
        heapify(self.due_us)

    def snapshot(self, again: bool) -> object:
        return super().snapshot(again), self._all(), self.finished

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        self._become(kept[1])
        self.finished = kept[2]
        return super().restore(kept[0], at_s)

    def unfinished(self) -> int:
        return sum([not session.fired for _, session in self._all()])

    def held_bytes(self) -> float:
        return self.key_bytes * sum([len(sessions) for sessions in self.by_key.values()])

    def bytes_of(self, wanted: Leaves) -> float:
        return self.key_bytes * sum([wanted(key) for key, _ in self._all()])

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        assert leaves is not None
        there, goes = self._all(), {key: leaves(key) for key in list(self.by_key)}
        gone: Any = [each for each in there if goes[each[0]]]
        self._become([each for each in there if not goes[each[0]]])
        return State([gone], self.key_bytes * len(gone))

    def give(self, state: State) -> None:
        for stores in state.stores:
            self._become([*self._all(), *stores])

    def stores(self) -> int:
        return 1
