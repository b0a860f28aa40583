"""Logics that keep what came of a key, and send a change of their result for each record, or for a batch of them:
Flink's deduplication, and its aggregation without windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from twin.operators.key_groups import KeyGroups, landed
from twin.operators.logic import Station
from twin.operators.panes import Dated
from twin.operators.records import EvaluationResult, Every, Leaves, Mark, Outlet, Record, State
from twin.operators.rows import Row, RowsLogic, made_of
from twin.operators.watermark import RELEASE

BATCH = "batch"
"""Kind of the marks by which the first phase says that a batch is over."""


class DeduplicateLogic(RowsLogic):
    """Logic of a deduplication in the order in which records come, as Flink's ProcTimeDeduplicateKeepFirstRowFunction
    and its counterpart for the last row.

    last: whether it keeps the last row; each row but the first of a key then replaces the one before. retracts: whether
    that one is retracted. known: whether the key of the record in service has a row.
    """

    def __init__(self, last: bool, retracts: bool, ttl_s: float | None, row_bytes: float) -> None:
        super().__init__(ttl_s, row_bytes)
        self.last, self.retracts = last, retracts
        self.known = False
        if not last:
            self.law = "in = out + dropped + in service + stopped"

    def plan(self, record: Record) -> float:
        """Looks whether there is a row of the key."""
        self.begin(record)
        self.known = bool(self.tables[0].of(record.key))
        sent = 1 + self.retracts if self.last and self.known else int(self.last or not self.known)
        return sent * self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends the row if it is the first one, or a change to it if it is the last one."""
        (rows,) = self.tables
        if self.known and not self.last:
            self.dropped += 1
            return
        rows.renew(Row(self.came_s, record.key))
        if self.known and self.retracts:
            self.out.send(made_of(record, at_s))
        record.at_s = at_s
        self.out.send(record)


class Changes(EvaluationResult):
    """Outcome of a batch: changes that leave together, and what follows them. after: marks, by kind."""

    def __init__(self, changes: list[Record], logic: GroupLogic, after: list[tuple[str, float]]) -> None:
        super().__init__([], logic.out, [])
        self.changes, self.logic, self.after = changes, logic, after

    def leave(self, at_s: float) -> None:
        """Sends the changes and the marks behind them; a restart may send them again."""
        for change in self.changes:
            again = change.copy()
            again.at_s = at_s
            self.out.send(again)
        for kind, value in self.after:
            self.logic.station.output.mark(kind, value)


class GroupLogic(RowsLogic):
    """Logic of an aggregation without windows, as Flink's GroupAggFunction: each record changes the result of its key,
    at once, or leaves it, and then sends nothing.

    retracts: whether a change sends the result before. changing: share of the records of a key with a result that
    change it. kept: whether the record in service is none of these.
    """

    def __init__(self, retracts: bool, ttl_s: float | None, row_bytes: float, changing: float = 1.0) -> None:
        super().__init__(ttl_s, row_bytes)
        self.retracts, self.changing, self.kept = retracts, changing, False

    def plan(self, record: Record) -> float:
        """Looks whether there is a result of the key, and whether it changes."""
        self.begin(record)
        known = bool(self.tables[0].of(record.key))
        self.kept = known and self.changing < 1.0 and self.station.draws.uniform() >= self.changing
        return self.changes(record.key) * self.out.send_s

    def changes(self, key: int) -> int:
        """Number of results that a change of a key sends."""
        if self.kept:
            return 0
        return 1 + self.retracts if self.tables[0].of(key) else 1

    def change(self, key: int, changed: Record, at_s: float) -> list[Record]:
        """Changes the result of a key; returns what is sent, as old as `changed`."""
        sent = [made_of(changed, at_s) for _ in range(self.changes(key))]
        self.tables[0].renew(Row(self.came_s, key))
        return sent

    def emit(self, record: Record, at_s: float) -> None:
        """Sends the change."""
        self.dropped += self.kept
        for result in self.change(record.key, record, at_s):
            self.out.send(result)


class BatchLogic(GroupLogic):
    """Logic of an aggregation in mini-batches, as Flink's MapBundleOperator: records are put together by key, until
    the time of the batch is over or so many have come; then each key changes once.

    every_s: length of a batch, which ends at its multiples. size: records that end it; None: any number. result_s: CPU
    seconds to make a result. batch: what has come, by key: a record with the oldest stamps and the latest event time.
    count: number of records in it.
    """

    def __init__(
        self, retracts: bool, ttl_s: float | None, row_bytes: float, every_s: float, size: int | None, result_s: float
    ) -> None:
        super().__init__(retracts, ttl_s, row_bytes)
        self.every_s, self.size, self.result_s = every_s, size or math.inf, result_s
        self.batch: dict[int, Record] = {}
        self.count = 0

    def start(self, station: Station, out: Outlet) -> None:
        """Goes to work at a station, and gives it a mark whenever the time of a batch is over."""
        super().start(station, out)
        station.env.process(self._ticking())

    def _ticking(self) -> Generator[simpy.Event, Any, None]:
        env, number = self.station.env, int(self.station.env.now / self.every_s)
        while not self.station.halted:
            number += 1
            yield env.timeout(max(number * self.every_s - env.now, 0.0))
            if not self.station.halted:
                self.station.deliver(Mark(RELEASE, float(number), self.station.name, env.now))

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Looks whether the record ends its batch."""
        self.begin(record)
        self.assign(record)
        if self.count + 1 < self.size:
            return 0.0
        return sum([self.work_s(key) for key in {**self.batch, record.key: record}])

    def assign(self, record: Record) -> None:
        """Gives a record a key, if it has none."""

    def work_s(self, key: int) -> float:
        """CPU seconds of the change of a key."""
        return self.changes(key) * (self.result_s + self.out.send_s)

    def emit(self, record: Record, at_s: float) -> None:
        """Puts a record into the batch, and ends the batch if it is full."""
        self.put(made_of(record, at_s), record.lot)
        self.count += 1
        if self.count >= self.size:
            for result in self.ended_batch(at_s)[0]:
                self.out.send(result)

    def put(self, record: Record, lot: float) -> None:
        """Puts a record together with those of its key."""
        before = self.batch.setdefault(record.key, record)
        if before is record:
            record.lot = lot
            return
        before.born_s, before.taken_s = min(before.born_s, record.born_s), min(before.taken_s, record.taken_s)
        if isinstance(before, Dated) and isinstance(record, Dated):
            before.at_us = max(before.at_us, record.at_us)

    def ended_batch(self, at_s: float) -> tuple[list[Record], float]:
        """Ends the batch: its changes, and the CPU seconds that these take."""
        self.came_s = self.station.env.now
        self.expire(self.came_s)
        work_s = sum([self.work_s(key) for key in self.batch])
        sent = [result for key, changed in self.batch.items() for result in self.change(key, changed, at_s)]
        self.batch, self.count = {}, 0
        return sent, work_s

    def heed(self, mark: Mark) -> None:
        """Ends the batch, as its time is over."""
        self.end(self.marks(mark.value))

    def follow(self, kind: str, value: float) -> bool:
        """Ends the batch as a mark of event time comes, which follows its changes."""
        self.end([(kind, value)])
        return True

    def marks(self, number: float) -> list[tuple[str, float]]:
        """Marks behind the batch of that number."""
        return []

    def end(self, after: list[tuple[str, float]]) -> None:
        """Begins the work of sending the changes of the batch."""
        changes, work_s = self.ended_batch(self.station.env.now)
        if changes or after:
            self.station.job(Changes(changes, self, after), work_s)

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return super().snapshot(again), [each.copy() for each in self.batch.values()], self.count

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        rows, batch, self.count = kept
        self.batch = {each.key: each.copy() for each in batch}
        return super().restore(rows, at_s)

    def held(self) -> float:
        """Number of rows, and of keys in the batch."""
        return super().held() + len(self.batch)

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes rows, and the part of the batch, of leaving keys."""
        state, chosen = super().take(share, leaves), leaves or Every(share)
        gone = [key for key in self.batch if chosen(key)]
        state.stores.append([self.batch.pop(key) for key in gone])
        state.bytes += len(gone) * self.each_bytes()
        return state

    def give(self, state: State) -> None:
        *rows, batch = state.stores
        super().give(State(rows))
        for record in batch:
            self.put(record, record.lot)
            self.count += 1

    def stores(self) -> int:
        return super().stores() + 1


class LocalLogic(BatchLogic):
    """Logic of the first of two phases, as Flink's MiniBatchLocalGroupAggFunction: it keeps no rows, and sends what has
    come of each key in a batch to the second one. next_keys: key groups of that, which say a record's key."""

    def __init__(self, next_keys: Callable[[], KeyGroups], every_s: float, size: int | None, result_s: float) -> None:
        super().__init__(False, None, 0.0, every_s, size, result_s)
        self.next_keys = next_keys

    def start(self, station: Station, out: Outlet) -> None:
        """Goes to work at a station, whose output has marks from now on."""
        super().start(station, out)
        station.heeds = True

    def each_bytes(self) -> float:
        """Size of what is kept of a key: that of a record."""
        return self.record_bytes()

    def assign(self, record: Record) -> None:
        """Draws a lot, if the record has none: the second phase reads the same key off it."""
        if record.lot < 0.0 or not self.kin:
            record.lot = self.station.draws.uniform()
        keys = self.next_keys()
        record.key = keys.key_in(*landed(keys.group_steps, record.lot))

    def change(self, key: int, changed: Record, at_s: float) -> list[Record]:
        return [changed]

    def marks(self, number: float) -> list[tuple[str, float]]:
        return [(BATCH, number)]


class GlobalLogic(BatchLogic):
    """Logic of the second of two phases, as Flink's MiniBatchGlobalGroupAggFunction: a batch ends when all subtasks of
    the first phase have ended theirs. first: names of these. far: the last batch that each has ended."""

    def __init__(self, first: Callable[[], Sequence[str]], *args: Any) -> None:
        super().__init__(*args)
        self.first = first
        self.far: dict[str, float] = {}
        self.done = 0.0

    def _ticking(self) -> Generator[simpy.Event, Any, None]:
        yield from ()

    def heed(self, mark: Mark) -> None:
        """Notes the end of a batch of the first phase."""
        self.far[mark.origin] = max(mark.value, self.far.get(mark.origin, 0.0))
        least = min([self.far.get(name, 0.0) for name in self.first()], default=0.0)
        if least > self.done:
            self.done = least
            self.end([])

    def snapshot(self, again: bool) -> object:
        return super().snapshot(again), self.far.copy(), self.done

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        inner, far, self.done = kept
        self.far = far.copy()
        return super().restore(inner, at_s)
