"""What evaluations of windows come to: results, which leave all at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.engine.record import Record
from twin.engine.windows.content import Leaves, State

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups
    from twin.engine.logics.sink import SinkLogic
    from twin.engine.record import Mark
    from twin.engine.station.task import Task


Result = tuple[int, float, float]
"""Its key, and when the oldest record that it is of was born and taken in, in seconds."""


class Outcome:
    """What evaluations come to in the end: results that leave by an outlet, and what has entered other windows then."""

    __slots__ = ("entered", "out", "results")

    def __init__(self, results: Sequence[Result], out: Outlet, entered: list[tuple[Logic, Record]]) -> None:
        self.results = results
        self.out = out
        self.entered = entered

    def leave(self, at_s: float) -> None:
        """All of it, at one moment."""
        for logic, record in self.entered:
            logic.emit(record, at_s)
        send_results(self.results, self.out, at_s)


def send_results(results: Sequence[Result], out: Outlet, at_s: float) -> None:
    """Sends results, one after the other."""
    for result in results:
        out.send(as_record(result, at_s))


def as_record(result: Result, at_s: float) -> Record:
    """A result that leaves at that time."""
    key, born_s, taken_s = result
    made = Record(born_s, taken_s, at_s)
    made.key = key
    return made


class Outlet:
    """A station's ports are one, the next logic at the same station is another.

    send_s: CPU seconds that it takes to hand a tuple over.
    """

    __slots__ = ("send_s",)

    def __init__(self) -> None:
        self.send_s = 0.0

    def send(self, record: Record) -> None:
        """Takes a record over."""
        raise NotImplementedError

    def know_send(self, send_s: float) -> None:
        """What it costs the station to send a tuple has changed."""

    def followers(self) -> list[Logic]:
        """Logics that tuples pass on the way to where they leave the station."""
        return []

    def came(self, number: int) -> int:
        """Tuples that have come to one of those."""
        return 0

    def offer(self, results: Sequence[Result]) -> tuple[Outcome, float]:
        """What results that leave all at once come to in the end, and the CPU seconds that this takes."""
        return Outcome(results, self, []), len(results) * self.send_s


class Logic:
    """The base of all: passes every record on.

    station: where it is at work. out: where its tuples go. follows: whether what it takes up is there only when the
    service ends, and then at once. heeds: whether it takes control items up itself. keeps: whether what is in service
    has left a trace in it already. fires: evaluations of its windows so far. dropped: records that were not passed on.
    inner_bytes: size of a record that comes from another logic. law: what guards check, in words: records that came
    have left, ended here, are in service or were stopped; empty where they need not.
    """

    __slots__ = (
        "dropped",
        "fires",
        "follows",
        "heeds",
        "inner_bytes",
        "keeps",
        "law",
        "out",
        "station",
    )

    station: Task
    out: Outlet

    def __init__(self) -> None:
        self.law = ""
        self.follows = False
        self.heeds = False
        self.keeps = False
        self.inner_bytes = 0.0
        self.fires = 0
        self.dropped = 0

    def start(self, station: Task, out: Outlet) -> None:
        """Goes to work at a station."""
        self.station = station
        self.out = out

    # what a record becomes -----------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Decides what the record becomes; returns the CPU seconds this takes beyond its service."""
        return self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends what the record became, at that time."""
        record.at_s = at_s
        self.out.send(record)

    def due(self, at_s: float, from_s: float) -> None:
        """Does what was due at a time, from another on."""

    def heed(self, mark: Mark) -> None:
        """Takes a control item up, if it heeds them; its station passes it on else."""

    def stopped(self) -> None:
        """The station drops what it was about to send."""

    # what it holds -------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        """What it would take to go on from here. again: what is in service will be served again."""
        return None

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """Goes back to what it was at `at_s`; how many tuples its station will read again."""
        return 0

    def complete(self, kept: object, now_s: float) -> None:
        """Nothing will go back to before the checkpoint that it was kept for."""

    def pending(self) -> list[Record]:
        """Copies of what it has taken up and will take up again after a restart, in the order in which it came."""
        return []

    def away(self) -> int:
        """Tuples that wait for something outside of the job."""
        return 0

    def held(self) -> float:
        """Tuples in its windows."""
        return 0.0

    def held_bytes(self) -> float:
        """Their size."""
        return 0.0

    def window_bytes(self) -> float:
        """As held_bytes, and of what waits to merge."""
        return self.held_bytes()

    def tuple_bytes(self) -> float:
        """Mean size of the tuples that come to it."""
        return self.inner_bytes or self.station.inputs.tuple_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of the operator's key groups that records in its windows have, and how large each is, by window."""
        return []

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes records out of the windows: those that leave, or else that share of them, evenly over their length."""
        return State()

    def give(self, state: State) -> None:
        """Merges windows' content into its own, by positions."""

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """Its part of the operator's key groups has changed."""

    def know_share(self, share: float, values: list[int]) -> None:
        """Its part of an operator without key groups, of whose key there are values[0] in all, has changed."""

    # what is counted -----------------------------------------------------------------------------------------------

    def stores(self) -> int:
        """How many histories it gives and takes."""
        return 0

    def in_service(self) -> int:
        """Of the tuples in service, those that have still to leave or to end."""
        return self.station.in_service

    def ended(self) -> int:
        """Tuples that went no further."""
        return self.dropped

    def sink(self) -> SinkLogic | None:
        """Where results arrive, if it is here."""
        return None

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        """Laws in words, tuples that came, and what became of them. aborted: tuples that were in service at a stop."""
        found = []
        if self.law:
            out = self.sent(0) + self.ended() + self.in_service() + aborted
            found.append((self.law, self.station.tuples_in, out))
        for number, logic in enumerate(self.out.followers(), 1):
            if logic.law:
                found.append((logic.law, self.taken(number), self.sent(number) + logic.ended()))
        return found

    # of each of several operators, by number -----------------------------------------------------------------------

    def operators(self) -> int:
        """How many there are."""
        return 1 + len(self.out.followers())

    def part(self, number: int) -> Logic:
        """That of one operator."""
        return self.out.followers()[number - 1] if number else self

    def taken(self, number: int) -> int:
        """Tuples that came to it."""
        return self.out.came(number - 1) if number else self.station.tuples_in

    def sent(self, number: int) -> int:
        """Tuples that it passed on."""
        return self.out.came(number) if number < len(self.out.followers()) else self.station.tuples_out
