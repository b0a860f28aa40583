"""Logics: they decide what a record becomes, while a station serves it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from twin.engine.calendar import Calendar
from twin.engine.draws import Draws, Lot
from twin.engine.inputs import Inboxes
from twin.engine.keys.groups import KeyGroups
from twin.engine.output import EvaluationResult, Outlet, Output
from twin.engine.processor import Processor
from twin.engine.record import InputProgress, Mark, Record
from twin.engine.sketch import bucket
from twin.engine.state import Leaves, State


class Station(Protocol):
    """Interface that a logic uses of its task (`twin.engine.station.task.Task`)."""

    env: Calendar
    name: str
    processor: Processor
    draws: Draws
    inputs: Inboxes
    output: Output
    service_s: float
    queue: deque[Record]
    queued: int
    timers: deque[tuple[Logic, float]]
    alignment: InputProgress | None
    tuples_in: int
    busy: bool
    free_s: float
    halted: bool

    @property
    def in_service(self) -> int:
        """Records taken up and not yet emitted."""

    def deliver(self, record: Record) -> None:
        """Takes a record that has arrived."""

    def job(self, outcome: EvaluationResult, work_s: float) -> None:
        """Begins other work of `work_s` core-seconds, and sends `outcome` when it is done."""


class Logic:
    """Base of all logics; it passes every record on.

    station: where it is at work. out: where its records go. follows: whether a record becomes part of its state only
    when its service ends. heeds: whether it takes control items itself. keeps: whether a record in service has changed
    its state already. fires: evaluations of its windows so far. dropped: records that were not passed on. inner_bytes:
    size of a record that comes from another logic. kin: whether copies of a record meet here, and have one key. law:
    the balance of records that `twin.guards.conservation` checks, in words; empty if none. tail: the logics chained
    behind it at its station.
    """

    station: Station
    out: Outlet

    def __init__(self) -> None:
        self.kin = False
        self.law = ""
        self.tail: Sequence[ChainStep] = ()
        self.follows = False
        self.heeds = False
        self.keeps = False
        self.inner_bytes = 0.0
        self.fires = 0
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

    def heed(self, mark: Mark) -> None:
        """Takes a control item, if `heeds`; else its station passes the item on."""

    def stopped(self) -> None:
        """Forgets unsent results, as the station drops them."""

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

    def held(self) -> float:
        """Number of records in its windows."""
        return 0.0

    def held_bytes(self) -> float:
        """Size of the records in its windows, in bytes."""
        return 0.0

    def tuple_bytes(self) -> float:
        """Mean size of the records that come to it, in bytes."""
        return self.inner_bytes or self.station.inputs.tuple_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of the records in its windows, and the bytes of each record, by window; keys of key groups only."""
        return []

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes records out of its windows: those that leave, or else a share of them, evenly over their length."""
        return State()

    def give(self, state: State) -> None:
        """Merges the content of windows into its own, by positions."""

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
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

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        """Balances of records: the law in words, the number that came, and the number accounted for. aborted: records
        in service when the station stopped."""
        found = []
        if self.law:
            out = self.sent(0) + self.ended() + self.in_service() + aborted
            found.append((self.law, self.station.tuples_in, out))
        for number, step in enumerate(self.tail, 1):
            if step.logic.law:
                found.append((step.logic.law, step.came, self.sent(number) + step.logic.ended()))
        return found

    # each of the chained operators, by number ------------------------------------------------------------------------

    def operators(self) -> int:
        """Number of operators that are chained here, at least 1."""
        return 1 + len(self.tail)

    def part(self, number: int) -> Logic:
        """The logic of one of the chained operators, by number."""
        return self.tail[number - 1].logic if number else self

    def taken(self, number: int) -> int:
        """Number of records that came to a chained operator."""
        return self.tail[number - 1].came if number else self.station.tuples_in

    def sent(self, number: int) -> int:
        """Number of records that a chained operator passed on."""
        return self.tail[number].came if number < len(self.tail) else self.station.output.tuples_out


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

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        self.groups = keys

    def know_share(self, share: float, values: list[int]) -> None:
        if self.keyed:
            self.keys = max(1, round(values[0] * share))

    def drawn_key(self, record: Record | None = None) -> int:
        """Draws the key of a record that has none, or of one that is unknown."""
        draws = self.station.draws if record is None else self.chance(record)
        return int(draws.uniform() * self.keys) if self.keys > 1 else 0


class ChainStep:
    """One logic of a chain. service_s: mean CPU seconds of a record that comes to it. tuple_bytes: size of such a
    record. came: number of records that came; for the first step, the station knows all this itself."""

    def __init__(self, logic: Logic, draws: Draws, service_s: float, tuple_bytes: float) -> None:
        self.logic = logic
        self.draws = draws
        self.service_s = service_s
        self.came = 0
        logic.inner_bytes = tuple_bytes

    def work_s(self) -> float:
        """Counts a record that comes to it; returns the CPU seconds of the record."""
        self.came += 1
        return self.draws.service() * self.service_s if self.service_s > 0.0 else 0.0


class SinkLogic(Logic):
    """Logic of a sink, which counts results and their latencies.

    counted: results since the start. count and all others: of this period. processing, e2e: histograms of latencies
    (`twin.engine.sketch`). repeats: whether results that a replay makes again count again.
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
        self.processing: dict[int, int] = {}
        self.e2e: dict[int, int] = {}

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
