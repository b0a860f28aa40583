"""Chains: several logics at one station, one behind the other, without a channel in between.

A `Chain` plans a record through all logics while the first one serves it. A `Tail` follows a logic that sends by itself
and announces event time: what that logic sends has passed all followers before the next punctuation leaves, and their
CPU time is charged to the head (`send_s`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.engine.logic import ChainStep, Logic, SinkLogic, Station
from twin.engine.output import EvaluationResult, Outlet, Result, as_record
from twin.engine.record import Record
from twin.engine.state import Leaves, State

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups


class ChainLink(Outlet):
    """Outlet from one logic to the next step; after the last, to the station's output."""

    def __init__(self, chain: Chain, number: int) -> None:
        super().__init__()
        self.chain = chain
        self.number = number

    def send(self, record: Record) -> None:
        """Hands a record to the next step at once."""
        self.chain.enter(self.number, record)

    def offer(self, results: Sequence[Result]) -> tuple[EvaluationResult, float]:
        """Outcome of results after the logics that follow, and the CPU seconds that this takes."""
        return self.chain.follow(self.number, results)


class Arrivals(Outlet):
    """Outlet at the end of a chain that ends in a sink."""

    def __init__(self, sink: SinkLogic) -> None:
        super().__init__()
        self.sink = sink

    def send(self, record: Record) -> None:
        """Counts a record that all steps have served."""
        self.sink.emit(record, record.at_s)


class Chain(Logic):
    """Logic of a chain. steps: its logics, from the first to the last.

    planned: records that leave by `end` when the service ends. entered: records that windows over time will have taken
    by then, each with its logic.
    """

    def __init__(self, steps: list[ChainStep]) -> None:
        super().__init__()
        self.steps = steps
        self.tail = steps[1:]
        self.keeps = any(step.logic.keeps for step in steps)
        self._inner = len(steps)  # number of logics before the sink
        self._work_s = 0.0
        self.planned: list[Record] = []
        self.entered: list[tuple[Logic, Record]] = []

    def start(self, station: Station, out: Outlet) -> None:
        super().start(station, out)
        self.end = out
        sink = self.steps[-1].logic.sink()
        if sink is not None:
            self.end = Arrivals(sink)
            self._inner -= 1
        for number, step in enumerate(self.steps):
            step.logic.start(station, ChainLink(self, number + 1))

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Plans a record through all logics. Returns the CPU seconds beyond the service of the first one."""
        head = self.steps[0].logic
        self._work_s, self.planned, self.entered = 0.0, [], []
        passing = record.copy()
        work_s = head.plan(passing)
        self._pass_on(head, passing, self.station.env.now)
        return work_s + self._work_s

    def enter(self, number: int, record: Record) -> None:
        """Hands a record to a step; behind the last, the record waits for the end of the service."""
        if number == self._inner:
            self.planned.append(record)
            sinks = self._inner < len(self.steps)
            self._work_s += self.steps[number].work_s() if sinks else self.out.send_s
            return
        step = self.steps[number]
        self._work_s += step.work_s() + step.logic.plan(record)
        self._pass_on(step.logic, record, record.at_s)

    def _pass_on(self, logic: Logic, record: Record, at_s: float) -> None:
        if logic.follows:
            self.entered.append((logic, record))
        else:
            logic.emit(record, at_s)

    def emit(self, record: Record, at_s: float) -> None:
        """Sends what the record became, as its service ends."""
        planned, self.planned = self.planned, []
        entered, self.entered = self.entered, []
        for logic, each in entered:
            logic.emit(each, at_s)
        for each in planned:
            each.at_s = at_s
            self.end.send(each)

    def follow(self, number: int, results: Sequence[Result]) -> tuple[EvaluationResult, float]:
        """Outcome of results that no record is in service for, from a step on, and its CPU seconds."""
        under_way = self.planned, self.entered, self._work_s
        self.planned, self.entered, self._work_s = [], [], 0.0
        now: float = self.station.env.now
        for result in results:
            self.enter(number, as_record(result, now))
        found = [(each.key, each.born_s, each.taken_s) for each in self.planned]
        outcome, work_s = EvaluationResult(found, self.end, self.entered), self._work_s
        self.planned, self.entered, self._work_s = under_way
        return outcome, work_s

    def stopped(self) -> None:
        self.planned, self.entered = [], []
        for step in self.steps:
            step.logic.stopped()

    # what it holds, the sum over its logics --------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        planned = [record.copy() for record in self.planned]
        return planned, self.entered.copy(), [step.logic.snapshot(again) for step in self.steps]

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        planned, entered, parts = kept
        if self.keeps:  # else it is served again
            self.planned = [record.copy() for record in planned]
            self.entered = entered.copy()
        return sum([step.logic.restore(part, at_s) for step, part in zip(self.steps, parts, strict=True)])

    def complete(self, kept: object, now_s: float) -> None:
        assert isinstance(kept, tuple)
        for step, part in zip(self.steps, kept[2], strict=True):
            step.logic.complete(part, now_s)

    def held(self) -> float:
        return sum([step.logic.held() for step in self.steps])

    def held_bytes(self) -> float:
        return sum([step.logic.held_bytes() for step in self.steps])

    def held_keys(self) -> list[tuple[list[int], float]]:
        return self.steps[0].logic.held_keys()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes the stores of all windows, one after the other. Only those of the first logic go by key (`leaves`)."""
        state = State()
        for number, step in enumerate(self.steps):
            taken = step.logic.take(share, None if number else leaves)
            state.stores += taken.stores
            state.bytes += taken.bytes
        return state

    def give(self, state: State) -> None:
        stores = state.stores
        for step in self.steps:
            count = step.logic.stores()
            if count:
                step.logic.give(State(stores[:count]))
                stores = stores[count:]

    def stores(self) -> int:
        return sum([step.logic.stores() for step in self.steps])

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """Tells the first logic, as keys are dealt on the way to it."""
        self.steps[0].logic.know_keys(keys, replica)

    def know_share(self, share: float, values: list[int]) -> None:
        for number, step in enumerate(self.steps):
            step.logic.know_share(share, values[number:])

    # what is counted -------------------------------------------------------------------------------------------------

    def sink(self) -> SinkLogic | None:
        return self.steps[-1].logic.sink()

    def part(self, number: int) -> Logic:
        return self.steps[number].logic

    def in_service(self) -> int:
        """Number of records that will leave when the service ends."""
        return len(self.planned)

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        """Balances of the logics of the chain. All but the last hand records over at once. There is none for the last
        one if windows keep records, as these are sent again after a restart."""
        found, last = [], len(self.steps) - 1
        for number, step in enumerate(self.steps):
            out = self.sent(number) + step.logic.ended()
            if number == last:
                out += self.in_service() + aborted
            if step.logic.law and not (number == last and self.keeps):
                found.append((step.logic.law, self.taken(number), out))
        return found


class Onwards(Outlet):
    """Outlet from one follower to the next; after the last, to the station's output."""

    def __init__(self, tail: Tail, number: int) -> None:
        super().__init__()
        self.tail = tail
        self.number = number

    def send(self, record: Record) -> None:
        """Hands a record to the next follower."""
        self.tail.enter(self.number, record)


class Tail(Outlet):
    """Outlet of a head logic: the followers behind it. each_s: CPU seconds of all followers together for a record that
    comes to the first. gain: records that leave the last, for each of these."""

    def __init__(self, station: Station, steps: Sequence[ChainStep], each_s: float, gain: float) -> None:
        super().__init__()
        self._station = station
        self._steps = steps
        self.each_s = each_s
        self.gain = gain
        self.know_send(station.output.send_s)
        for number, step in enumerate(steps, 1):
            step.logic.start(station, Onwards(self, number))

    def know_send(self, send_s: float) -> None:
        self.send_s = self.each_s + self.gain * send_s

    def send(self, record: Record) -> None:
        """Hands a record to the first follower."""
        self.enter(0, record)

    def enter(self, number: int, record: Record) -> None:
        """Hands a record to a follower, by number; after the last, to the station's output."""
        if number == len(self._steps):
            self._station.output.send(record)
            return
        step = self._steps[number]
        step.came += 1
        step.logic.plan(record)
        step.logic.emit(record, record.at_s)
