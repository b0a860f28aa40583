"""Joins of streams by time: interval joins, and joins over event time that wait for the watermark."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import product
from operator import itemgetter

from twin.histograms import WINDOW_TIME
from twin.operators.key_groups import KeyGroups
from twin.operators.logic import KeyedLogic, SinkLogic
from twin.operators.panes import Dated, SpanStore, ready_s
from twin.operators.records import Every, Item, Leaves, Record, State, as_record, parted
from twin.operators.watermark import TimedLogic
from twin.windows import US_PER_S, EventWindow, Span, completed, covering, instances_with, last_end

# interval joins ------------------------------------------------------------------------------------------------------
# Interval joins: each record is joined with the stored records of the other side that are within bounds around it.


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
        for kept_s, key, born_s, taken_s in met:
            self.station.spend(WINDOW_TIME, self._came_s - kept_s if taken_s < record.taken_s else 0.0)
            oldest = key, min(born_s, record.born_s), min(taken_s, record.taken_s)
            self.out.send(as_record(oldest, at_s, record.ready_s))

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
        return self.held() * self.record_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        return [(list(by_key), self.record_bytes()) for by_key in self.sides.by_key]

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes records of leaving keys; expired records stay behind."""
        self.sides.expire(self.station.env.now)
        gone = self.sides.take(leaves or Every(share))
        return State(list(gone), sum(map(len, gone)) * self.record_bytes())

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
        self.notes.keep(record, self.watermark_us)
        self.taken_in.emit(record, at_s)
        self.sides.keep(record, record.at_us)
        for at_us, key, born_s, taken_s in met:
            oldest = min(born_s, record.born_s), min(taken_s, record.taken_s)
            result = Dated(*oldest, at_s, max(int(at_us), record.at_us))
            result.key, result.ready_s = key, record.ready_s
            self.station.spend(WINDOW_TIME, record.taken_s - oldest[1])
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
        return len(self.sides) * self.record_bytes()

    def bytes_of(self, wanted: Leaves) -> float:
        return sum(len(parted(side, wanted)[0]) for side in self.sides.copy()) * self.record_bytes()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        assert leaves is not None
        gone = self.sides.take(leaves)
        return State(list(gone), sum(map(len, gone)) * self.record_bytes())

    def give(self, state: State) -> None:
        self.sides.give(state.stores)


# joins that wait for the watermark -----------------------------------------------------------------------------------
# Joins over event time that wait for the watermark: of the records in a window, and with the rows of a table as they
# were at a record's own time.


BY_TIME = itemgetter(0)


class TimedRecords:
    """Records of several sides, by key and in the order of their event times."""

    def __init__(self, sides: int) -> None:
        self.by_key: list[dict[int, list[Item]]] = [{} for _ in range(sides)]

    def add(self, side: int, item: Item) -> None:
        """Adds a record behind those of the same time."""
        items = self.by_key[side].setdefault(item[1], [])
        place = len(items)
        while place and items[place - 1][0] > item[0]:
            place -= 1
        items.insert(place, item)

    def within(self, side: int, key: int, span: Span) -> list[Item]:
        """Records of a key on a side whose times are in a span."""
        items = self.by_key[side].get(key, [])
        return items[bisect_left(items, span.start, key=BY_TIME) : bisect_left(items, span.end, key=BY_TIME)]

    def forget(self, before_us: float) -> None:
        """Drops the records before an event time."""
        for side in self.by_key:
            for key in [key for key, items in side.items() if items[0][0] < before_us]:
                side[key] = side[key][bisect_left(side[key], before_us, key=BY_TIME) :]
                if not side[key]:
                    del side[key]

    def all(self) -> list[list[Item]]:
        """All records of each side, by their times."""
        return [sorted(item for items in side.values() for item in items) for side in self.by_key]

    def become(self, sides: list[list[Item]]) -> None:
        """Holds these records, and no others."""
        self.by_key = [{} for _ in sides]
        for side, items in enumerate(sides):
            for item in sorted(items, key=BY_TIME):
                self.by_key[side].setdefault(item[1], []).append(item)

    def __len__(self) -> int:
        return sum([len(items) for side in self.by_key for items in side.values()])


class RecordsLogic(TimedLogic):
    """Base of logics that hold records until the watermark has passed them. records: what is held, by side."""

    def __init__(self, sides: int, late: int | None) -> None:
        super().__init__(0.0, late)
        self.records = TimedRecords(sides)

    def stores_of(self, groups: KeyGroups) -> list[SpanStore[int]]:
        """No stores by span, as it holds single records."""
        return []

    def sink(self) -> SinkLogic:
        """Sink that measures the age of records when they are taken in."""
        return self.taken_in

    def hold(self, side: int, record: Dated, at_s: float) -> None:
        """Takes a record in."""
        self.notes.keep(record, self.watermark_us)
        self.taken_in.emit(record, at_s)
        self.records.add(side, (record.at_us, record.key, record.born_s, record.taken_s))

    def snapshot(self, again: bool) -> object:
        return super().snapshot(again), self.records.all()

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        self.records.become(kept[1])
        return super().restore(kept[0], at_s)

    def held(self) -> float:
        return float(len(self.records))

    def copies(self, items: Collection[Item]) -> int:
        """Number of records, each as often as it is held."""
        return len(items)

    def held_bytes(self) -> float:
        by_key = [items for side in self.records.by_key for items in side.values()]
        return sum(map(self.copies, by_key)) * self.record_bytes()

    def bytes_of(self, wanted: Leaves) -> float:
        return sum([self.copies(parted(side, wanted)[0]) for side in self.records.all()]) * self.record_bytes()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        assert leaves is not None
        gone, kept = zip(*(parted(side, leaves) for side in self.records.all()), strict=True)
        self.records.become(list(kept))
        return State(list(gone), sum(map(self.copies, gone)) * self.record_bytes())

    def give(self, state: State) -> None:
        mine = self.records.all()
        self.records.become([[*own, *came] for own, came in zip(mine, state.stores, strict=True)])

    def stores(self) -> int:
        return len(self.records.by_key)


class TimedJoinLogic(RecordsLogic):
    """Logic of a join of the records in a window over event time, one of each side. As a window ends, each key's
    combinations leave; with `amplification`, instead that number of results for each record since the evaluation
    before. A record that comes within lateness_us after a window's end lets its key's combinations leave once more.

    scan_s, result_s: CPU seconds of a record that an evaluation looks at, and of a result. copied: whether each open
    window has its own copy of a record.
    """

    def __init__(
        self,
        *,
        window: EventWindow,
        lateness_us: int,
        sides: int,
        amplification: float | None,
        scan_s: float,
        result_s: float,
        late: int | None,
        copied: bool,
    ) -> None:
        super().__init__(sides, late)
        self.window = window
        self.copied = copied
        self.lateness_us = lateness_us
        self.amplification = amplification
        self.scan_s = scan_s
        self.result_s = result_s

    # records ---------------------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of sending a late record aside, and of evaluations that are still to be paid for."""
        assert isinstance(record, Dated)
        return self.paid_s(self.aside_s if self._is_late(record) else 0.0)

    def _is_late(self, record: Dated) -> bool:
        if record.at_us >= self.watermark_us:
            return False
        return last_end((self.window,), record.at_us) + self.lateness_us <= self.watermark_us

    def emit(self, record: Record, at_s: float) -> None:
        """Takes a record in, unless its last window was over long ago."""
        assert isinstance(record, Dated)
        if self._is_late(record):
            self.put_aside(record, at_s)
            return
        self.hold(record.inbox.side, record, at_s)
        if self.lateness_us and record.at_us < self.watermark_us:
            for span in covering(self.window, record.at_us):
                if self.watermark_us - self.lateness_us < span.end <= self.watermark_us:
                    self._evaluate(span, [record.key])

    def reach(self, before_us: float, now_us: int) -> None:
        """Evaluates the windows that are over, and forgets the records that are in no window any more."""
        since_us = self._open_since(before_us)
        first_open = instances_with(self.window, now_us).start
        if before_us == -math.inf or first_open > instances_with(self.window, int(before_us)).start:
            held_us = [int(item[0]) for side in self.records.by_key for items in side.values() for item in items]
            first_us = max(before_us, covering(self.window, min(held_us))[0].end - 1) if held_us else now_us
            for span in completed(self.window, int(min(first_us, now_us)), now_us, held_us):
                self._evaluate(span, sorted(self.records.by_key[0]))
        if (now_since_us := self._open_since(now_us)) > since_us:  # else no record is in fewer windows than before
            self.records.forget(now_since_us)

    def copies(self, items: Collection[Item]) -> int:
        if not self.copied:
            return len(items)
        open_us = self.watermark_us - self.lateness_us
        return sum([len(instances_with(self.window, int(item[0]), open_us)) for item in items])

    def _open_since(self, watermark_us: float) -> float:
        """Beginning of the first window for which a record still counts at that watermark."""
        if watermark_us == -math.inf:
            return -math.inf
        return covering(self.window, int(watermark_us) - self.lateness_us)[0].start

    def _evaluate(self, span: Span, keys: list[int]) -> None:
        """Sends the results of a window, of these keys. The work is done beside that on the records to come."""
        refused, looked_at, made = self.refused(span), 0, 0
        found = self._combinations(span, keys, refused) if self.amplification is None else self._measured(span)
        for key, born_s, taken_s in found:
            result = Dated(born_s, taken_s, self.now_s, span.end - 1)
            result.key = key
            self.send_ended(result, self.now_s)
            made += 1
        if self.scan_s:
            looked_at = sum([len(self.records.within(side, key, span)) for side in self._sides for key in keys])
        self.fires += 1
        self.owed.work_s += self.scan_s * looked_at + made * (self.result_s + self.out.send_s - self.aside_s)

    @property
    def _sides(self) -> range:
        return range(len(self.records.by_key))

    def _combinations(self, span: Span, keys: list[int], refused: set[int]) -> Iterator[tuple[int, float, float]]:
        likeness = self.groups.likeness
        repeats = 1.0 if likeness is None else likeness.repeats
        for key in keys:
            sides = [self.records.within(side, key, span) for side in self._sides]
            if not all(sides) or self.groups.group_of(key) in refused:
                continue
            for each in product(*sides):
                oldest = min([item[2] for item in each]), min([item[3] for item in each])
                for _ in range(1 if repeats == 1.0 else self.station.draws.rounded(repeats)):
                    yield key, *oldest

    def _measured(self, span: Span) -> Iterator[tuple[int, float, float]]:
        fresh = Span(max(span.start, span.end - self.window.every_us), span.end)
        there = [
            [item for key in self.records.by_key[side] for item in self.records.within(side, key, span)]
            for side in self._sides
        ]
        count = sum([fresh.start <= item[0] for items in there for item in items])
        some = [items for items in there if items]
        draws = self.station.draws
        for _ in range(draws.rounded((self.amplification or 0.0) * count)):
            each = [items[int(draws.uniform() * len(items))] for items in some]
            yield each[0][1], min([item[2] for item in each]), min([item[3] for item in each])


class TimedTableLogic(RecordsLogic):
    """Logic of a join with a table as it was at a record's own time (Flink's event-time temporal join). Records of
    `side` change the table; the others wait until the watermark has passed them, so that all changes before them are
    known. `selectivity` rows leave for each."""

    def __init__(self, *, side: int, selectivity: float) -> None:
        super().__init__(1, None)
        self.side = side
        self.selectivity = selectivity

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of results that are still to be paid for."""
        return self.paid_s(0.0)

    def emit(self, record: Record, at_s: float) -> None:
        """Changes the table, or takes the record in. One behind the watermark leaves with the next one."""
        assert isinstance(record, Dated)
        if record.inbox.side == self.side:
            self.notes.keep(record, self.watermark_us)
            self.dropped += 1
            return
        self.hold(0, record, at_s)

    def reach(self, before_us: float, now_us: int) -> None:
        """Sends the rows that records before the watermark found, in the order of their times."""
        made = 0
        for at_us, key, born_s, taken_s in self.records.all()[0]:
            if at_us >= now_us:
                break
            for _ in range(self.station.draws.rounded(self.selectivity)):
                result = Dated(born_s, taken_s, self.now_s, int(at_us))
                result.key, result.ready_s = key, ready_s(taken_s, int(at_us))
                self.note_result(result.ready_s, taken_s, self.now_s)
                self.send(result)
                made += 1
        self.records.forget(now_us)
        self.owed.work_s += made * self.out.send_s
