"""Interval joins: each record is joined with the stored records of the other side that are within bounds around it."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from operator import itemgetter

from twin.engine.keys.groups import KeyGroups
from twin.engine.logic import KeyedLogic, SinkLogic
from twin.engine.output import as_record
from twin.engine.record import Record
from twin.engine.state import Every, Item, Leaves, State, parted
from twin.engine.windows.panes import Dated, SpanStore
from twin.engine.windows.watermark import TimedLogic
from twin.windows import US_PER_S

LEFT, RIGHT = 0, 1


class Sides:
    """Stored records of both sides of an interval join, by key and in the order of their times (in the unit of the
    bounds).

    left: number of the input of the left side. held: for how long records of the left and the right side are stored.
    due: times and keys of each side's records, the earliest first.
    """

    def __init__(self, left: int, lower: float, upper: float) -> None:
        self.left = left
        self.bounds = (lower, upper), (-upper, -lower)  # limits of right - left time, and of left - right
        self.held = max(upper, 0.0), max(-lower, 0.0)
        self.hold([], [])

    def side(self, record: Record) -> int:
        """Side of a record, LEFT or RIGHT."""
        return LEFT if record.inbox is not None and record.inbox.side == self.left else RIGHT

    def partners(self, record: Record, at: float) -> list[Item]:
        """Stored records of the other side that are within the bounds around a record of time `at`."""
        side = self.side(record)
        least, most = self.bounds[1 - side]  # limits of the record's time minus its partner's
        return [item for item in self.by_key[1 - side].get(record.key, ()) if least <= at - item[0] <= most]

    def keep(self, record: Record, at: float) -> None:
        """Stores a record."""
        side = self.side(record)
        heappush(self.due[side], (at, record.key))
        insort(self.by_key[side][record.key], (at, record.key, record.born_s, record.taken_s), key=itemgetter(0))

    def expire(self, now: float) -> None:
        """Removes records that no record from now on can match."""
        for due, by_key, held in zip(self.due, self.by_key, self.held, strict=True):
            while due and due[0][0] < now - held:
                key = heappop(due)[1]
                by_key[key].pop(0)
                if not by_key[key]:
                    del by_key[key]

    def hold(self, *sides: Iterable[Item]) -> None:
        """Stores these records, and no others."""
        self.by_key: list[dict[int, list[Item]]] = [defaultdict(list) for _ in sides]
        self.due: list[list[tuple[float, int]]] = [[] for _ in sides]
        for items, due, by_key in zip(sides, self.due, self.by_key, strict=True):
            for item in sorted(items):
                due.append(item[:2])
                by_key[item[1]].append(item)
            heapify(due)

    def copy(self) -> list[list[Item]]:
        """All records of each side."""
        return [[item for items in by_key.values() for item in items] for by_key in self.by_key]

    def take(self, leaves: Leaves) -> list[list[Item]]:
        """Takes the records of leaving keys out of each side, and returns them."""
        gone, kept = zip(*(parted(sorted(side), leaves) for side in self.copy()), strict=True)
        self.hold(*kept)
        return list(gone)

    def give(self, stores: Iterable[list[Item]]) -> None:
        """Adds records to each side."""
        self.hold(*([*mine, *came] for mine, came in zip(self.copy(), stores, strict=True)))

    def __len__(self) -> int:
        return sum(map(len, self.due))


class IntervalLogic(KeyedLogic):
    """Logic of an interval join by processing time. met: partners of the record in service."""

    def __init__(self, left: int, lower_s: float, upper_s: float, keys: int, keyed: bool) -> None:
        super().__init__(keys, keyed)
        self.sides = Sides(left, lower_s, upper_s)
        self.met: list[Item] = []

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Finds the partners of a record: those within the bounds when its service begins."""
        if self.groups is None:
            record.key = self.drawn_key(record)
        self._came_s = self.station.env.now
        self.sides.expire(self._came_s)
        self.met = self.sides.partners(record, self._came_s)
        self.dropped += not self.met
        return len(self.met) * self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends a result for each partner, as old as the older of the two, and stores the record."""
        met, self.met = self.met, []
        if self.sides.held[self.sides.side(record)] > 0.0:
            self.sides.keep(record, self._came_s)
        for _, key, born_s, taken_s in met:
            self.out.send(as_record((key, min(born_s, record.born_s), min(taken_s, record.taken_s)), at_s))

    def stopped(self) -> None:
        """Forgets the partners of the record that was in service."""
        self.met = []

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return self.sides.copy()

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, list)
        self.stopped()
        self.sides.hold(*kept)
        return 0

    def held(self) -> float:
        """Number of stored records on both sides, with the expired ones that were not removed yet."""
        return float(len(self.sides))

    def held_bytes(self) -> float:
        """Bytes of the records that have not expired."""
        self.sides.expire(self.station.env.now)
        return self.held() * self.tuple_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        return [(list(by_key), self.tuple_bytes()) for by_key in self.sides.by_key]

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes records of leaving keys; expired records stay behind."""
        self.sides.expire(self.station.env.now)
        gone = self.sides.take(leaves or Every(share))
        return State(list(gone), sum(map(len, gone)) * self.tuple_bytes())

    def give(self, state: State) -> None:
        self.sides.give(state.stores)

    def stores(self) -> int:
        return 2


class TimedIntervalLogic(TimedLogic):
    """Logic of an interval join by event time, as Flink's IntervalJoinOperator: watermarks end the storage of
    records."""

    def __init__(self, left: int, lower_s: float, upper_s: float, late: int | None) -> None:
        super().__init__(0.0, late)
        self.sides = Sides(left, round(lower_s * US_PER_S), round(upper_s * US_PER_S))
        self.met: list[Item] = []

    def stores_of(self, groups: KeyGroups) -> list[SpanStore[int]]:
        """No stores by span, as it keeps single records."""
        return []

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Finds the partners of a record."""
        assert isinstance(record, Dated)
        if record.at_us < self.watermark_us:
            return self.aside_s
        self.met = self.sides.partners(record, record.at_us)
        return len(self.met) * (self.out.send_s - self.aside_s)

    def emit(self, record: Record, at_s: float) -> None:
        """Sends a result for each partner, with the later event time of the two, and stores the record."""
        assert isinstance(record, Dated)
        if record.at_us < self.watermark_us:
            self.put_aside(record, at_s)
            return
        met, self.met = self.met, []
        self.audit.keep(record, self.watermark_us)
        self.taken_in.emit(record, at_s)
        self.sides.keep(record, record.at_us)
        for at_us, key, born_s, taken_s in met:
            oldest = min(born_s, record.born_s), min(taken_s, record.taken_s)
            result = Dated(*oldest, at_s, max(int(at_us), record.at_us))
            result.key = key
            self.send(result)

    def sink(self) -> SinkLogic:
        """Sink that measures the age of records when they are stored."""
        return self.taken_in

    def reach(self, before_us: float, now_us: int) -> None:
        self.sides.expire(now_us)

    def stopped(self) -> None:
        """Forgets the partners of the record that was in service."""
        self.met = []

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return super().snapshot(again), self.sides.copy()

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        self.sides.hold(*kept[1])
        return super().restore(kept[0], at_s)

    def held_bytes(self) -> float:
        return len(self.sides) * self.tuple_bytes()

    def bytes_of(self, wanted: Leaves) -> float:
        return sum(len(parted(side, wanted)[0]) for side in self.sides.copy()) * self.tuple_bytes()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        assert leaves is not None
        gone = self.sides.take(leaves)
        return State(list(gone), sum(map(len, gone)) * self.tuple_bytes())

    def give(self, state: State) -> None:
        self.sides.give(state.stores)
