"""Rows that operators of SQL keep by key, over event time and over processing time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any

from twin.operators.key_groups import KeyGroups
from twin.operators.logic import KeyedLogic, SinkLogic
from twin.operators.panes import Dated, SpanStore, ready_s
from twin.operators.records import Every, Item, Leaves, Record, State, parted
from twin.operators.watermark import TimedLogic

# rows ----------------------------------------------------------------------------------------------------------------
# Rows that operators of SQL keep by key, for as long as they live; and the base of the logics that do.


@dataclass(slots=True, eq=False)
class Row:
    """Row of a key. at: when it was written, in the unit of its time to live. value: what it is ranked by, or whether
    it has met a row of the other side. at_us: its event time. life: number of the life of its key that has ended; 0
    while it is in use."""

    at: float
    key: int
    value: float = 0.0
    at_us: int = 0
    life: int = 0

    def copy(self) -> Row:
        """Independent copy."""
        return Row(self.at, self.key, self.value, self.at_us, self.life)


class Rows:
    """Rows by key, in the order in which they were written. ttl: how long each lives; inf: for ever. count: of all.

    past: rows of keys whose life has ended, by its number; subtasks number lives apart, so that lives of different keys
    may share one after a migration. Nothing finds these rows, and they stay until they expire."""

    def __init__(self, ttl: float) -> None:
        self.ttl = ttl
        self.hold(())

    def of(self, key: int) -> list[Row]:
        """Rows of a key, in its present life."""
        return self.by_key.get(key, [])

    def add(self, row: Row) -> None:
        """Writes a row, which is the latest one."""
        (self.past.setdefault(row.life, []) if row.life else self.by_key.setdefault(row.key, [])).append(row)
        self.count += 1
        if self.ttl < float("inf"):
            self._due.append(row)

    def drop(self, row: Row) -> None:
        """Deletes a row."""
        rows = self._beside(row)
        rows.remove(row)
        self.count -= 1
        if not rows:
            del (self.past if row.life else self.by_key)[row.life or row.key]

    def renew(self, row: Row) -> None:
        """Writes a row in place of all rows of its key."""
        self.count -= len(self.by_key.pop(row.key, ()))
        self.add(row)

    def end_life(self, key: int) -> None:
        """Ends the life of a key, which begins another one without rows."""
        if rows := self.by_key.pop(key, None):
            self._lives += 1
            self.past[self._lives] = rows
            for row in rows:
                row.life = self._lives

    def _beside(self, row: Row) -> list[Row]:
        """Rows of the key of a row, in the same life."""
        return self.past.get(row.life, []) if row.life else self.of(row.key)

    def expire(self, now: float) -> None:
        """Deletes the rows whose time to live is over."""
        while self._due and self._due[0].at + self.ttl <= now:
            row = self._due.popleft()
            rows = self._beside(row)
            if rows and rows[0] is row:
                self.drop(row)

    def hold(self, rows: Iterable[Row]) -> None:
        """Holds these rows, and no others."""
        self.by_key: dict[int, list[Row]] = {}
        self.past: dict[int, list[Row]] = {}
        self._due = deque[Row]()
        self._lives = self.count = 0
        for row in sorted(rows, key=attrgetter("at")):
            self._lives = max(self._lives, row.life)
            self.add(row)

    def all(self) -> list[Row]:
        """All rows."""
        return [row for each in (self.by_key, self.past) for rows in each.values() for row in rows]

    def copy(self) -> list[Row]:
        """Copies of all rows."""
        return [row.copy() for row in self.all()]

    def take(self, leaves: Leaves) -> list[Row]:
        """Takes the rows of keys that leave, and returns them."""
        gone = [row for row in sorted(self.copy(), key=attrgetter("at")) if leaves(row.key)]
        keys = {row.key for row in gone}
        self.hold([row for row in self.copy() if row.key not in keys])
        return gone


def made_of(record: Record, at_s: float, at_us: int | None = None) -> Record:
    """Makes a result that leaves at `at_s`, with the age, the key, and the event time of a record, or a later one."""
    made: Record
    if isinstance(record, Dated):
        made = Dated(record.born_s, record.taken_s, at_s, record.at_us if at_us is None else max(record.at_us, at_us))
    else:
        made = Record(record.born_s, record.taken_s, at_s)
    made.key, made.ready_s = record.key, record.ready_s
    return made


class RowsLogic(KeyedLogic):
    """Base of logics that keep rows by key, in the order in which records come. The time of a record is when its
    service begins.

    tables: rows, by what they are for. row_bytes: size of a row; None: that of the records that come. came_s: time of
    the record in service.
    """

    def __init__(self, ttl_s: float | None, row_bytes: float | None, tables: int = 1) -> None:
        super().__init__(1, True)
        self.tables = [Rows(float("inf") if ttl_s is None else ttl_s) for _ in range(tables)]
        self.row_bytes = row_bytes
        self.came_s = 0.0

    def begin(self, record: Record) -> None:
        """Notes that the service of a record begins."""
        self.came_s = self.station.env.now
        self.expire(self.came_s)

    def expire(self, now_s: float) -> None:
        """Deletes the rows whose time to live is over."""
        for table in self.tables:
            table.expire(now_s)

    def expire_now(self) -> None:
        """Deletes the rows that have expired, but those that the record in service has found."""
        self.expire(self.came_s if self.station.in_service else self.station.env.now)

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return [table.copy() for table in self.tables]

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, list)
        self.stopped()
        for table, rows in zip(self.tables, kept, strict=True):
            table.hold([row.copy() for row in rows])  # another failure may go back to them
        return 0

    def held(self) -> float:
        """Number of rows, with the expired ones that were not deleted yet."""
        return float(sum([table.count for table in self.tables]))

    def each_bytes(self) -> float:
        """Size of a row, in bytes."""
        return self.record_bytes() if self.row_bytes is None else self.row_bytes

    def held_bytes(self) -> float:
        """Bytes of the rows that have not expired."""
        self.expire_now()
        return self.held() * self.each_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        size = self.each_bytes()
        return [([row.key for row in table.all()], size) for table in self.tables]

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes rows of leaving keys; expired rows stay behind."""
        self.expire_now()
        gone = [table.take(leaves or Every(share)) for table in self.tables]
        return State(list(gone), sum(map(len, gone)) * self.each_bytes())

    def give(self, state: State) -> None:
        for table, rows in zip(self.tables, state.stores, strict=True):
            table.hold([*table.copy(), *rows])

    def stores(self) -> int:
        return len(self.tables)


# over event time -----------------------------------------------------------------------------------------------------
# Logics that keep rows by key over event time: Flink's deduplication and OVER aggregation by row time.


class TimedRowsLogic(TimedLogic):
    """Base of logics over event time that keep rows. table: rows by key. waiting: records that wait for the watermark,
    as a heap by event time. row_bytes: size of a row; None: that of the records that come."""

    def __init__(self, ttl: float, row_bytes: float | None, late: int | None) -> None:
        super().__init__(0.0, late)
        self.table = Rows(ttl)
        self.waiting: list[Item] = []
        self.row_bytes = row_bytes

    def stores_of(self, groups: KeyGroups) -> list[SpanStore[int]]:
        """No stores by span, as it keeps single rows."""
        return []

    def sink(self) -> SinkLogic:
        """Sink that measures the age of records when they are taken in."""
        return self.taken_in

    def expire_now(self) -> None:
        """Deletes the rows that have expired."""

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return super().snapshot(again), self.table.copy(), self.waiting.copy()

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        timed, rows, waiting = kept
        self.table.hold([row.copy() for row in rows])
        self.waiting = waiting.copy()
        return super().restore(timed, at_s)

    def each_bytes(self) -> float:
        """Size of a row, in bytes."""
        return self.record_bytes() if self.row_bytes is None else self.row_bytes

    def held_bytes(self) -> float:
        self.expire_now()
        return (self.table.count + len(self.waiting)) * self.each_bytes()

    def bytes_of(self, wanted: Leaves) -> float:
        rows = sum([len(rows) for key, rows in self.table.by_key.items() if wanted(key)])
        return (rows + sum([wanted(item[1]) for item in self.waiting])) * self.each_bytes()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        assert leaves is not None
        self.expire_now()
        rows = self.table.take(leaves)
        waiting, self.waiting = parted(sorted(self.waiting), leaves)
        return State([rows, waiting], (len(rows) + len(waiting)) * self.each_bytes())

    def give(self, state: State) -> None:
        rows, waiting = state.stores
        self.table.hold([*self.table.copy(), *rows])
        self.waiting += waiting
        heapify(self.waiting)

    def stores(self) -> int:
        return 2


class TimedDeduplicateLogic(TimedRowsLogic):
    """Logic of a deduplication by row time, as Flink's RowTimeDeduplicateFunction: a record replaces the row of its
    key, at once, if its event time is earlier (of first rows), or not earlier (of last rows). retracts: whether the row
    before is retracted. came_s: when the service of the record in it began. sent: number of results of this record."""

    def __init__(self, last: bool, retracts: bool, ttl_s: float | None, row_bytes: float) -> None:
        super().__init__(math.inf if ttl_s is None else ttl_s, row_bytes, None)
        self.last, self.retracts = last, retracts
        self.came_s, self.sent = 0.0, 0

    def plan(self, record: Record) -> float:
        """Compares the record with the row of its key."""
        assert isinstance(record, Dated)
        self.came_s = self.now_s
        self.table.expire(self.came_s)
        rows = self.table.of(record.key)
        self.sent = 1
        if rows:
            earlier = record.at_us < rows[0].at_us
            self.sent = 1 + self.retracts if earlier != self.last else 0
        return self.sent * self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends the change."""
        assert isinstance(record, Dated)
        self.notes.keep(record, self.watermark_us)
        self.taken_in.emit(record, at_s)
        if not self.sent:
            self.dropped += 1
            return
        self.table.renew(Row(self.came_s, record.key, at_us=record.at_us))
        for _ in range(self.sent):
            self.send(made_of(record, at_s))

    def reach(self, before_us: float, now_us: int) -> None:
        """Does nothing, as results leave at once."""

    def expire_now(self) -> None:
        """Deletes the rows that have expired, but one that the record in service has found."""
        self.table.expire(self.came_s if self.station.in_service else self.now_s)


class TimedOverLogic(TimedRowsLogic):
    """Logic of an aggregation over the rows before each record by row time, as Flink's
    RowTimeRowsBoundedPrecedingFunction and RowTimeRangeBoundedPrecedingFunction: records leave in the order of their
    event times, as the watermark passes them. rows: number of rows before; None: those of the last range_us."""

    def __init__(self, rows: int | None, range_us: int | None, row_bytes: float | None, late: int | None) -> None:
        super().__init__(math.inf if range_us is None else range_us, row_bytes, late)
        self.rows = rows

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of sending a late record aside, and of results that are still to be paid for."""
        assert isinstance(record, Dated)
        return self.paid_s(self.aside_s if record.at_us < self.watermark_us else 0.0)

    def emit(self, record: Record, at_s: float) -> None:
        """Lets a record wait for the watermark."""
        assert isinstance(record, Dated)
        if record.at_us < self.watermark_us:
            self.put_aside(record, at_s)
            return
        self.notes.keep(record, self.watermark_us)
        self.taken_in.emit(record, at_s)
        heappush(self.waiting, (record.at_us, record.key, record.born_s, record.taken_s))

    def reach(self, before_us: float, now_us: int) -> None:
        """Sends the records that the watermark has passed."""
        while self.waiting and self.waiting[0][0] < now_us:
            at_us, key, born_s, taken_s = heappop(self.waiting)
            self.table.expire(at_us)
            self.table.add(Row(at_us, key))
            rows = self.table.of(key)
            if self.rows is not None and len(rows) > self.rows + 1:
                self.table.drop(rows[0])
            result: Any = Dated(born_s, taken_s, self.now_s, int(at_us))
            result.key, result.ready_s = key, ready_s(taken_s, int(at_us))
            self.owed.work_s += self.out.send_s - self.aside_s
            self.send(result)
        self.table.expire(now_us)


# over processing time ------------------------------------------------------------------------------------------------
# Logics that keep several rows by key: Flink's regular join, its OVER aggregation, and its Rank.


BARE, MET = 1.0, 0.0
"""Values of rows of a join: whether the row has met none of the other side so far."""


def time_of(record: Record) -> int:
    """Event time of a record in microseconds; 0 if it has none."""
    return record.at_us if isinstance(record, Dated) else 0


class RegularJoinLogic(RowsLogic):
    """Logic of a join of all rows of both sides, as Flink's StreamingJoinOperator.

    left: number of the input of the left side. outer: whether the left and the right side are outer ones, whose rows
    are sent without a partner until one comes. last: share of the records that are the last of their key, after which
    it begins another life. met: rows of the other side that the record in service finds.
    """

    def __init__(
        self, left: int, outer: tuple[bool, bool], ttl_s: float | None, last: float, row_bytes: float | None
    ) -> None:
        super().__init__(ttl_s, row_bytes, tables=2)
        self.left, self.outer, self.last = left, outer, last
        self.met: list[Row] = []

    def side(self, record: Record) -> int:
        """Side of a record: 0 is the left one."""
        return 0 if record.inbox is not None and record.inbox.side == self.left else 1

    def plan(self, record: Record) -> float:
        """Finds the rows of the other side."""
        self.begin(record)
        side = self.side(record)
        self.met = list(self.tables[1 - side].of(record.key))
        sent = len(self.met) if self.met else int(self.outer[side])
        if self.outer[1 - side]:
            sent += sum([row.value == BARE for row in self.met])
        return sent * self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends a result for each row of the other side, of which those without a partner are retracted; or the record
        alone, if its side is outer and there is none. Keeps the record."""
        side, (met, self.met) = self.side(record), (self.met, [])
        at_us = time_of(record)
        self.tables[side].add(Row(self.came_s, record.key, MET if met else BARE, at_us))
        if not met:
            if self.outer[side]:
                self.out.send(made_of(record, at_s))
            else:
                self.dropped += 1
        for row in met:
            if row.value == BARE and self.outer[1 - side]:
                self.out.send(made_of(record, at_s, row.at_us))
            row.value = MET
            self.out.send(made_of(record, at_s, row.at_us))
        if self.last and self.station.draws.uniform() < self.last:
            for table in self.tables:
                table.end_life(record.key)

    def stopped(self) -> None:
        """Forgets the partners of the record that was in service."""
        self.met = []


class OverLogic(RowsLogic):
    """Logic of an aggregation over the rows before each record, as Flink's ProcTimeRowsBoundedPrecedingFunction and
    ProcTimeRangeBoundedPrecedingFunction. rows: number of rows before; None: those of the last `range_s` seconds."""

    def __init__(self, rows: int | None, range_s: float | None, row_bytes: float | None) -> None:
        super().__init__(range_s, row_bytes)
        self.rows = rows
        self.law = "in = out + in service + stopped"

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of sending the record on."""
        self.begin(record)
        return self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Keeps the record's row, and sends the record on with its result."""
        (table,) = self.tables
        table.add(Row(self.came_s, record.key))
        rows = table.of(record.key)
        if self.rows is not None and len(rows) > self.rows + 1:
            table.drop(rows[0])
        record.at_s = at_s
        self.out.send(record)


class TopLogic(RowsLogic):
    """Logic of the n highest rows of a key, as Flink's AppendOnlyTopNFunction. Rows are ranked by random values.

    numbered: whether results have the number of their rank. retracts: whether a change of a rank sends the row before.
    enters: share of the records that enter a full list, at any rank; None: those of higher values. rank: of the record
    in service, from 1 on; 0 if it does not enter. value: by which it is ranked.
    """

    def __init__(
        self,
        n: int,
        numbered: bool,
        retracts: bool,
        enters: float | None,
        ttl_s: float | None,
        row_bytes: float | None,
    ) -> None:
        super().__init__(ttl_s, row_bytes)
        self.n, self.numbered, self.retracts, self.enters = n, numbered, retracts, enters
        self.rank, self.value = 0, 0.0

    def ranked(self, key: int) -> list[Row]:
        """Rows of a key, the highest first."""
        return sorted(self.tables[0].of(key), key=lambda row: -row.value)

    def plan(self, record: Record) -> float:
        """Finds the rank of the record."""
        self.begin(record)
        rows, draws = self.ranked(record.key), self.station.draws
        if self.enters is None:
            self.value = draws.uniform()
            self.rank = 1 + sum([row.value >= self.value for row in rows])
        else:
            full = len(rows) == self.n
            self.rank = 1 + int(draws.uniform() * (self.n if full else len(rows) + 1))
            if full and draws.uniform() >= self.enters:
                self.rank = self.n + 1
            above = rows[self.rank - 2].value if self.rank > 1 else None
            below = rows[self.rank - 1].value if self.rank <= len(rows) else None
            self.value = between(above, below)
        if self.rank > self.n:
            self.rank = 0
        return self.sent(len(rows)) * self.out.send_s

    def sent(self, before: int) -> int:
        """Number of results, if there were so many rows before."""
        if not self.rank:
            return 0
        if not self.numbered:
            return 1 if before < self.n else 2
        return (before - self.rank + 1) * (1 + self.retracts) + (before < self.n)

    def emit(self, record: Record, at_s: float) -> None:
        """Sends the changes, and keeps the row in place of the lowest one."""
        if not self.rank:
            self.dropped += 1
            return
        (table,) = self.tables
        rows = self.ranked(record.key)
        for _ in range(self.sent(len(rows))):
            self.out.send(made_of(record, at_s))
        if len(rows) == self.n:
            table.drop(rows[-1])
        table.add(Row(self.came_s, record.key, self.value))


def between(above: float | None, below: float | None) -> float:
    """Number between two; None: there is none on that side."""
    if above is None:
        return 0.0 if below is None else below + 1.0
    return above - 1.0 if below is None else (above + below) / 2.0
