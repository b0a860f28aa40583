"""Session windows: a key has a result when none of its records has come for a gap."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twin.engine.calendar import Alarm
from twin.engine.logic import KeyedLogic
from twin.engine.output import as_record
from twin.engine.record import Record
from twin.engine.state import Every, Leaves, State, parted

if TYPE_CHECKING:
    from twin.engine.logic import Station
    from twin.engine.output import Outlet

SOON = 1e-9
"""Seconds by which rounding may miss the end of a session."""
TRIES = 8
"""Number of keys that are drawn for a session of unknown key, before it gets a number that is no key's."""


@dataclass(slots=True)
class OpenSession:
    """Open session: when it ends unless a record comes, and when its oldest record was born and taken in (seconds)."""

    ends_s: float
    born_s: float
    taken_s: float


class SessionLogic(KeyedLogic):
    """Logic of session windows. open: sessions by key, in the order in which they end. begun, finished: sessions so
    far.

    alarm: set for the end of the first session. watching: whether the alarm is set, or about to be. elsewhere: number
    of open sessions that something else holds.
    """

    def __init__(self, gap_s: float, keys: int, keyed: bool = True) -> None:
        super().__init__(keys, keyed)
        self.keeps = True
        self.gap_s = gap_s
        self.open: OrderedDict[int, OpenSession] = OrderedDict()
        self.begun = 0
        self.finished = 0
        self.elsewhere = 0
        self.watching = False

    def start(self, station: Station, out: Outlet) -> None:
        super().start(station, out)
        self.alarm = Alarm(station.env, self._end)

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of sending a session's result later, if the record begins the session."""
        if self.groups is None:
            record.key = self.drawn_key(record)
        return 0.0 if record.key in self.open else self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Adds the record to its key's session, which now lasts for another gap."""
        session = self.open.pop(record.key, None)
        if session is None:
            self.begun += 1
            session = OpenSession(0.0, record.born_s, record.taken_s)
        session.ends_s = self.station.env.now + self.gap_s
        session.born_s = min(session.born_s, record.born_s)
        session.taken_s = min(session.taken_s, record.taken_s)
        self.open[record.key] = session
        if not self.watching:
            self._watch()

    def _watch(self) -> None:
        self.watching = bool(self.open)
        if self.open:
            self.alarm.set(next(iter(self.open.values())).ends_s)

    def _end(self, _: object) -> None:
        now_s = self.station.env.now
        while self.open:
            key, session = next(iter(self.open.items()))
            if session.ends_s > now_s + SOON:
                break
            del self.open[key]
            self.finished += 1
            self.station.output.send(as_record((key, session.born_s, session.taken_s), now_s))
        self._watch()

    def stopped(self) -> None:
        """Loses all open sessions."""
        self.alarm.silence()
        self.alarm = Alarm(self.station.env, self._end)
        self.watching = False
        self.begun -= len(self.open)
        self.open.clear()

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return {key: replace(session) for key, session in self.open.items()}

    def restore(self, kept: object, at_s: float) -> int:
        """Goes back to the sessions of a checkpoint; those whose gap is over meanwhile end now."""
        assert isinstance(kept, Mapping)
        self._become({key: replace(session) for key, session in kept.items()})
        return 0

    def _become(self, sessions: Mapping[int, OpenSession]) -> None:
        """Replaces the open sessions by these."""
        self.stopped()
        self.open.update(sorted(sessions.items(), key=lambda each: each[1].ends_s))
        self.begun += len(self.open)
        self._watch()

    def held(self) -> float:
        return float(len(self.open))

    def held_bytes(self) -> float:
        """Size of the open sessions, in bytes: each is as large as a record."""
        return (len(self.open) + self.elsewhere) * self.tuple_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        return [(list(self.open), self.tuple_bytes())]

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        items = [(each.ends_s, key, each.born_s, each.taken_s) for key, each in self.open.items()]
        gone, kept = parted(items, leaves or Every(share))
        self._become({key: OpenSession(ends_s, born_s, taken_s) for ends_s, key, born_s, taken_s in kept})
        return State([gone], len(gone) * self.tuple_bytes())

    def give(self, state: State) -> None:
        sessions = dict(self.open)
        for ends_s, key, born_s, taken_s in state.stores[0]:
            mine = key if self.groups is not None else self._free_key(sessions)
            sessions[mine] = OpenSession(ends_s, born_s, taken_s)
        self._become(sessions)

    def _free_key(self, sessions: dict[int, OpenSession]) -> int:
        """Key for a session whose own is unknown: one without a session, if a few draws find one; else a negative
        one."""
        for _ in range(TRIES):
            key = self.drawn_key()
            if key not in sessions:
                return key
        return min(-1, *sessions) - 1

    # what is counted -------------------------------------------------------------------------------------------------

    def stores(self) -> int:
        return 1

    def in_service(self) -> int:
        """Number of records in service that leave: 0, as a record ends here."""
        return 0

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        return [
            ("sessions begun = ended + open", self.begun, self.finished + len(self.open)),
            ("sessions ended = results", self.finished, self.station.output.tuples_out),
        ]
