"""Logics: they decide what a record becomes, while a station serves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import simpy

from twin.histograms import bucket
from twin.operators.key_groups import KeyGroups
from twin.operators.records import Draws, EvaluationResult, InputProgress, Leaves, Lot, Mark, Outlet, Record, State


class Output(Protocol):
    """Interface that a logic uses of its subtask's output."""

    ports: Sequence[Any]
    records_out: int

    def mark(self, kind: str, value: float) -> None:
        """Sends a mark to all consumers, behind the records sent so far."""

    def send_by(self, record: Record, ways: Sequence[bool]) -> None:
        """Sends a record on some of the streams."""


class Station(Protocol):
    """Interface that a logic uses of its subtask (`twin.world.memory.Station`)."""

    env: simpy.Environment
    name: str
    draws: Draws
    service_s: float
    alignment: InputProgress | None
    records_in: int
    halted: bool
    heeds: bool

    @property
    def output(self) -> Output:
        """The subtask, as far as it sends."""

    @property
    def in_service(self) -> int:
        """Records taken up and not yet emitted."""

    def record_bytes(self) -> float:
        """Mean size of the records that come to it, in bytes."""

    def deliver(self, mark: Mark) -> None:
        """Takes a mark that a logic gives itself, behind all that waits."""

    def spend(self, way: int, time_s: float) -> None:
        """Notes that a record has spent time here in one way (`twin.histograms`)."""

    def job(self, outcome: EvaluationResult, work_s: float) -> None:
        """Begins other work of `work_s` core-seconds, and sends `outcome` when it is done."""


class Logic:
    """Base of all logics; it passes every record on.

    station: where it is at work. out: where its records go. keeps: whether a record in service has changed its state
    already. fires: evaluations of its windows so far. finished: sessions that have ended. dropped: records that were
    not passed on. inner_bytes: size of a record that comes from another logic. kin: whether copies of a record meet
    here, and have one key. law: the balance of records that `twin.guards.conservation` checks, in words; empty if none.
    """

    station: Station
    out: Outlet

    def __init__(self) -> None:
        self.kin = False
        self.law = ""
        self.keeps = False
        self.inner_bytes = 0.0
        self.fires = 0
        self.finished = 0
        self.dropped = 0

    def start(self, station: Station, out: Outlet) -> None:
        """Goes to work at a station."""
        self.station = station
        self.out = out

    def chance(self, record: Record) -> Draws | Lot:
        """Random numbers that decide on a record's key: its lot, if it has one and copies of it have the same key."""
        return Lot(record.lot) if self.kin and record.lot >= 0.0 else self.station.draws

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Decides what the record becomes; returns the CPU seconds this takes beyond its service."""
        return self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends what the record became, at `at_s`."""
        record.at_s = at_s
        self.out.send(record)

    def due(self, at_s: float) -> None:
        """Does now what was due at `at_s`."""

    def stopped(self) -> None:
        """Forgets unsent results, as the station drops them."""

    def heed(self, mark: Mark) -> None:
        """Takes a mark that it has given itself, or one of a logic before it."""

    def follow(self, kind: str, value: float) -> bool:
        """Lets a mark of event time wait until what it holds has left; returns whether it has to wait."""
        return False

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        """State from which it can go on. again: whether the record in service will be served again."""
        return None

    def restore(self, kept: object, at_s: float) -> int:
        """Goes back to its state at `at_s`. Returns the number of records that its station will read again."""
        return 0

    def complete(self, kept: object, now_s: float) -> None:
        """Notes that the checkpoint of this snapshot is complete: no failure goes back to an earlier one."""

    def pending(self) -> list[Record]:
        """Copies of the records that it holds and will serve again after a restart, in the order in which they came."""
        return []

    def save(self) -> None:
        """Moves calls without an answer into its state, as the barrier of a savepoint passes."""

    def resume(self) -> None:
        """Goes on after a restart, with what it saved."""

    def away(self) -> int:
        """Number of records that wait for something outside of the job."""
        return 0

    def unfinished(self) -> int:
        """Number of sessions that have begun and not ended."""
        return 0

    def held(self) -> float:
        """Number of records in its windows."""
        return 0.0

    def held_bytes(self) -> float:
        """Size of the records in its windows, in bytes."""
        return 0.0

    def record_bytes(self) -> float:
        """Mean size of the records that come to it, in bytes."""
        return self.inner_bytes or self.station.record_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of the records in its windows, and the bytes of each record, by window; keys of key groups only."""
        return []

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes records out of its windows: those that leave, or else a share of them, evenly over their length."""
        return State()

    def give(self, state: State) -> None:
        """Merges the content of windows into its own, by positions."""

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        """Notes a change of the key groups that it owns."""

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share of an operator without key groups. values: distinct keys, its own first."""

    # what is counted -------------------------------------------------------------------------------------------------

    def stores(self) -> int:
        """Number of stores that it gives and takes."""
        return 0

    def in_service(self) -> int:
        """Number of records in service that have still to leave or to end."""
        return self.station.in_service

    def ended(self) -> int:
        """Number of records that went no further."""
        return self.dropped

    def sink(self) -> SinkLogic | None:
        """The sink among the chained logics; None if there is none."""
        return None


class KeyedLogic(Logic):
    """Base of logics that hold state by key, of keys that are equally frequent.

    keys: number of distinct keys whose records come to this subtask, if the operator has no key groups. keyed: whether
    subtasks share the keys. groups: the operator's key groups, which then say the key of a record; None if it has none.
    """

    def __init__(self, keys: int, keyed: bool) -> None:
        super().__init__()
        self.keys = keys
        self.keyed = keyed
        self.groups: KeyGroups | None = None

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        self.groups = keys

    def know_share(self, share: float, values: list[int]) -> None:
        if self.keyed:
            self.keys = max(1, round(values[0] * share))

    def drawn_key(self, record: Record | None = None) -> int:
        """Draws the key of a record that has none, or of one that is unknown."""
        draws = self.station.draws if record is None else self.chance(record)
        return int(draws.uniform() * self.keys) if self.keys > 1 else 0


class SinkLogic(Logic):
    """Logic of a sink, which counts results and their latencies.

    counted: results since the start. count and all others: of this period. processing, e2e, delay: histograms of
    latencies (`twin.histograms`), the last since all that a result waited for was there. repeats: whether results that
    a replay makes again count again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.law = "in = counted + in service + stopped"
        self.counted = 0
        self.repeats = True
        self.clear()

    def clear(self) -> None:
        """Begins a new period."""
        self.count = 0
        self.processing_sum_s = 0.0
        self.e2e_sum_s = 0.0
        self.delay_sum_s = 0.0
        self.processing: dict[int, int] = {}
        self.e2e: dict[int, int] = {}
        self.delay: dict[int, int] = {}

    def ended(self) -> int:
        return self.counted

    def sink(self) -> SinkLogic:
        return self

    def plan(self, record: Record) -> float:
        """Returns no CPU seconds, as nothing leaves a sink."""
        return 0.0

    def emit(self, record: Record, at_s: float) -> None:
        """Notes the latencies of a result. Stamps of windows may be rounded: negative latencies are set to 0."""
        processing_s, e2e_s = at_s - record.taken_s, at_s - record.born_s
        if processing_s < 0.0:
            processing_s = 0.0
        if e2e_s < processing_s:
            e2e_s = processing_s
        self.count += 1
        self.counted += 1
        self.processing_sum_s += processing_s
        self.e2e_sum_s += e2e_s
        place = bucket(processing_s)
        self.processing[place] = self.processing.get(place, 0) + 1
        place = bucket(e2e_s)
        self.e2e[place] = self.e2e.get(place, 0) + 1
        delay_s = max(0.0, at_s - record.ready_s)
        self.delay_sum_s += delay_s
        place = bucket(delay_s)
        self.delay[place] = self.delay.get(place, 0) + 1
