"""Session windows: of each key, a result when nothing has come for a while.

An exact run draws the key of each tuple and follows its session. A fast one decides when the gap after a segment is
over: the last of their sessions were those tuples of whose key none came in the gap. How long a session was it finds by
going back from tuple to tuple of the key.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from twin.engine.alarm import once
from twin.engine.logic import Logic
from twin.engine.logics.select import thinned
from twin.engine.segment import Segment
from twin.engine.windows.ends import Ends
from twin.engine.windows.state import State
from twin.engine.windows.store import divided

if TYPE_CHECKING:
    from twin.engine.streams.keys import KeyGroups

SOON = 1e-9


class SessionKept:
    """Open sessions, with their keys where those are known, and tuples of which it is open what they are."""

    __slots__ = ("awaited", "open")

    def __init__(self, sessions: list[tuple[int, Segment]], awaited: list[Segment]) -> None:
        self.open = sessions
        self.awaited = awaited


class SessionLogic(Logic):
    """`open`: sessions by number, as they will leave; in a fast run, those that were given, or decided on early.

    awaited: segments, by number, after which the gap is not over. ends: share of the tuples that lately were the last
    of their session.
    """

    __slots__ = (
        "_by_key",
        "_expected_per_s",
        "_keys",
        "_life",
        "_number",
        "_share",
        "_sizes",
        "_steps",
        "awaited",
        "begun",
        "endings",
        "ends",
        "finished",
        "gap_s",
        "open",
    )

    def __init__(self, gap_s: float, keys: int, expected_per_s: float, share: float) -> None:
        """keys: of this replica. expected_per_s: tuples of all replicas, of which this one gets a share."""
        super().__init__()
        self.keeps = True
        self.gap_s = gap_s
        self.open: dict[int, Segment] = {}
        self.begun = 0
        self.finished = 0
        self.ends = 1.0
        self.awaited: dict[int, Segment] = {}
        self.endings = Ends(gap_s, ())
        self._keys: dict[int, int] = {}
        self._by_key: dict[int, int] = {}
        self._number = 0
        self._life = 0
        self._expected_per_s = expected_per_s
        self._share = share
        self._know(((1.0, float(keys)),), share)

    def _know(self, strata: tuple[tuple[float, float], ...], share: float) -> None:
        strata = tuple([each for each in strata if each[1] > 0.0]) or ((1.0, 1.0),)
        self.endings.strata = strata
        if share > 0.0 and self._share > 0.0 and share != self._share:
            self.endings.came.scale(share / self._share)
        self._share = share
        self.ends = self.endings.among(self._expected_per_s * share * self.gap_s)
        self._sizes = [max(1, round(keys)) for _, keys in strata]
        self._steps = []
        total = sum([share for share, _ in strata])
        reached = 0.0
        for share, _ in strata:
            reached += share / total
            self._steps.append(reached)
        self._steps[-1] = 1.0

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        self._know(keys.strata(replica) or ((1.0, keys.distinct_of(replica)),), keys.shares()[replica])

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
        self._know(((1.0, values[0] * share),), share)

    # what a segment becomes ------------------------------------------------------------------------------------------

    def plan(self, segment: Segment) -> float:
        """Results leave later, and are paid for now."""
        return segment.n * self.ends * self.out.send_s

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """The tuples belong to sessions now."""
        segment.a_s, segment.b_s = first_s, last_s
        if self.station.exact:
            self._touch(segment)
        else:
            self._await(segment)

    def _touch(self, segment: Segment) -> None:
        key, now = self._drawn(), self.station.env.now
        number = self._by_key.get(key)
        segment.a_s = segment.b_s = now + self.gap_s
        if number is None:
            self._keep(segment, key)
        else:
            session = self.open[number]
            session.a_s = session.b_s = segment.b_s
            self._renew_ends()

    def _drawn(self) -> int:
        draws, stratum, before = self.station.draws, 0, 0
        if len(self._steps) > 1:
            stratum = bisect_right(self._steps, draws.uniform())
            before = sum(self._sizes[:stratum])
        return before + int(draws.uniform() * self._sizes[stratum])

    def _renew_ends(self) -> None:
        self.ends = self.begun / max(1, self.station.tuples_in)

    def _await(self, segment: Segment) -> None:
        self.endings.came.add(segment.n, segment.a_s, segment.b_s)
        self._number += 1
        self.awaited[self._number] = segment
        once(self.station.env, segment.b_s + self.gap_s, self._know_ends, (self._life, self._number))

    def _know_ends(self, event: Any) -> None:
        life, number = event.value
        if life != self._life or number not in self.awaited:
            return
        ended = self._ended(self.awaited.pop(number))
        if ended is not None:
            self.begun += ended.n
            self.finished += ended.n
            self.station.send(ended)

    def _ended(self, segment: Segment) -> Segment | None:
        """The last tuples of sessions, as results, when those leave."""
        draws = self.station.draws
        self.ends = self.endings.of(segment)
        n = draws.binomial(segment.n, self.ends)
        if not n:
            return None
        last = thinned(segment, n, self.ends, draws)
        self.station.shift(last, self.endings.lasted_s((last.a_s + last.b_s) / 2.0, draws), 0.0)
        last.a_s += self.gap_s
        last.b_s += self.gap_s
        return last

    # until they leave ------------------------------------------------------------------------------------------------

    def _keep(self, segment: Segment, key: int) -> None:
        self.begun += segment.n
        self._number += 1
        self.open[self._number] = segment
        if key >= 0:
            self._keys[self._number] = key
            self._by_key[key] = self._number
        once(self.station.env, segment.b_s, self._ring, (self._life, self._number))

    def _ring(self, event: Any) -> None:
        life, number = event.value
        segment = self.open.get(number)
        if life != self._life or segment is None:
            return
        if segment.b_s > self.station.env.now + SOON:  # something has been added
            once(self.station.env, segment.b_s, self._ring, (life, number))
            return
        self._drop(number)
        self.finished += segment.n
        self.station.send(segment)

    def _drop(self, number: int) -> None:
        del self.open[number]
        key = self._keys.pop(number, -1)
        if key >= 0 and self._by_key.get(key) == number:
            del self._by_key[key]

    def stopped(self) -> None:
        """Sessions are lost."""
        self._life += 1
        self.begun -= sum([segment.n for segment in self.open.values()])
        self.open.clear()
        self.awaited.clear()
        self._keys.clear()
        self._by_key.clear()

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        """See Logic."""
        sessions = [(self._keys.get(number, -1), each.copy()) for number, each in self.open.items()]
        return SessionKept(sessions, [each.copy() for each in self.awaited.values()])

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """What was silent for long enough meanwhile ends now."""
        assert isinstance(kept, SessionKept)
        for key, segment in kept.open:
            self._keep(segment.copy(), key)
        for segment in kept.awaited:
            self._await(segment.copy())
        return 0

    def held(self) -> float:
        """See Logic."""
        return float(sum([segment.n for segment in self.open.values()]))

    def held_bytes(self) -> float:
        """Of the sessions that are open; of a key of which something came within the gap."""
        return self.sessions() * self.tuple_bytes()

    def window_bytes(self) -> float:
        """See Logic."""
        return self.held_bytes()

    def sessions(self) -> float:
        """Open ones."""
        if self.station.exact:
            return float(len(self.open))
        return self.endings.open(self.station.env.now)

    def take(self, share: float) -> State:
        """See Logic. What is awaited is decided now, by what is known."""
        for segment in self.awaited.values():
            ended = self._ended(segment)
            if ended is not None:
                self._keep(ended, -1)
        self.awaited.clear()
        pieces = [
            (each.a_s, each.b_s, float(each.n), (each.born0_s, each.born1_s, each.taken0_s, each.taken1_s))
            for each in self.open.values()
        ]
        taken, kept = divided(pieces, share)
        self.stopped()
        self._give(kept)
        return State([taken])

    def give(self, state: State) -> None:
        """See Logic."""
        for pieces in state.pieces:
            self._give(pieces)

    def _give(self, pieces: list[Any]) -> None:
        for a_s, b_s, n, stamps in pieces:
            born0_s, born1_s, taken0_s, taken1_s = stamps
            segment = Segment(round(n), a_s, b_s, born0_s, born1_s, taken0_s, taken1_s)
            self._keep(segment, self._free_key() if self.station.exact else -1)

    def _free_key(self) -> int:
        """Whose session it is nobody knows any more: a key's that has none, if one is found."""
        for _ in range(8):
            key = self._drawn()
            if key not in self._by_key:
                return key
        return -1

    # what is counted -------------------------------------------------------------------------------------------------

    def stores(self) -> int:
        """See Logic."""
        return 1

    def in_service(self) -> int:
        """None: what it took up is in a session."""
        return 0

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        """See Logic."""
        sent, left = self.station.tuples_out, sum([segment.n for segment in self.open.values()])
        return [
            ("sessions begun = ended + open", self.begun, self.finished + left),
            ("sessions ended = results", self.finished, sent),
        ]
