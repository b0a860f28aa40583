"""Interval joins: each record is joined with the stored records of the other side that are within bounds around it."""

from __future__ import annotations

from collections import defaultdict, deque

from twin.engine.logic import KeyedLogic
from twin.engine.output import as_record
from twin.engine.record import Record
from twin.engine.state import Every, Item, Leaves, State, parted

LEFT, RIGHT = 0, 1


class IntervalLogic(KeyedLogic):
    """left: number of the input of the left side. held_s: seconds for which records of the left and the right side are
    stored. items: stored records of both sides, the oldest first; by_key: the same by key. met: partners of the record
    in service.
    """

    def __init__(self, left: int, lower_s: float, upper_s: float, keys: int, keyed: bool) -> None:
        super().__init__(keys, keyed)
        self.left = left
        self.bounds_s = (lower_s, upper_s), (-upper_s, -lower_s)  # of the right after the left, and of the left after
        self.held_s = max(upper_s, 0.0), max(-lower_s, 0.0)
        self.met: list[Item] = []
        self._hold([], [])

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Finds the partners of a record: those within the bounds when its service begins."""
        if self.groups is None:
            record.key = self.drawn_key()
        now_s = self.station.env.now
        self._expire(now_s)
        side = self._side(record)
        least_s, most_s = self.bounds_s[1 - side]  # from its partner to the record
        partners = self.by_key[1 - side].get(record.key, ())
        self.met = [item for item in partners if least_s <= now_s - item[0] <= most_s]
        self.dropped += not self.met
        self._came_s = now_s
        return len(self.met) * self.out.send_s

    def _side(self, record: Record) -> int:
        return LEFT if record.inbox is not None and record.inbox.side == self.left else RIGHT

    def emit(self, record: Record, at_s: float) -> None:
        """Sends a result for each partner, as old as the older of the two, and stores the record."""
        side, mine = self._side(record), (self._came_s, record.key, record.born_s, record.taken_s)
        met, self.met = self.met, []
        if self.held_s[side] > 0.0:
            self.items[side].append(mine)
            self.by_key[side][record.key].append(mine)
        for _, key, born_s, taken_s in met:
            self.out.send(as_record((key, min(born_s, mine[2]), min(taken_s, mine[3])), at_s))

    def _expire(self, now_s: float) -> None:
        for items, by_key, held_s in zip(self.items, self.by_key, self.held_s, strict=True):
            while items and items[0][0] < now_s - held_s:
                key = items.popleft()[1]
                by_key[key].popleft()
                if not by_key[key]:
                    del by_key[key]

    def stopped(self) -> None:
        """The record that was in service has no partners."""
        self.met = []

    # what it holds ---------------------------------------------------------------------------------------------------

    def _hold(self, *sides: list[Item]) -> None:
        """Stores these records, and no others."""
        self.items = [deque(sorted(side)) for side in sides]
        self.by_key: list[dict[int, deque[Item]]] = [defaultdict(deque) for _ in sides]
        for items, by_key in zip(self.items, self.by_key, strict=True):
            for item in items:
                by_key[item[1]].append(item)

    def snapshot(self, again: bool) -> object:
        """See Logic."""
        return [list(side) for side in self.items]

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """See Logic."""
        assert isinstance(kept, list)
        self.stopped()
        self._hold(*kept)
        return 0

    def held(self) -> float:
        """The number of stored records on both sides, with the expired ones that were not removed yet."""
        return float(sum(map(len, self.items)))

    def held_bytes(self) -> float:
        """Bytes of the records that have not expired."""
        self._expire(self.station.env.now)
        return self.held() * self.tuple_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        """See Logic."""
        return [(list(by_key), self.tuple_bytes()) for by_key in self.by_key]

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """See Logic. Expired records are not taken."""
        self._expire(self.station.env.now)
        leaves = leaves or Every(share)
        gone, kept = zip(*(parted(list(side), leaves) for side in self.items), strict=True)
        self._hold(*kept)
        return State(list(gone), sum(map(len, gone)) * self.tuple_bytes())

    def give(self, state: State) -> None:
        """See Logic."""
        self._hold(*([*mine, *came] for mine, came in zip(self.items, state.stores, strict=True)))

    def stores(self) -> int:
        """See Logic."""
        return 2
