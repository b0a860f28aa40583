"""Operators of a subtask, behind each other, as one; and those that call external systems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from ctypes import addressof
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.machine import layout as k
from twin.operators.records import Leaves, Mark, State
from twin.world.logic import Logic, SessionLogic
from twin.world.memory import KINDS, ItemCells, RunMemory, StructView
from twin.world.parts import Item, SinkCounts, chain

if TYPE_CHECKING:
    from twin.job import Component
    from twin.operators.key_groups import KeyGroups
    from twin.world.parts import Task
    from twin.world.ports import Port


# calls ---------------------------------------------------------------------------------------------------------------
# Operators that call external systems, and gates at which subtasks wait for the turn of their calls.


class FlyingCalls(StructView, layout=k.CALLING):
    """Calls of a subtask."""


class Gate(StructView, layout=k.GATE):
    """Rate limit of an external system."""

    def admit(self, at_s: float) -> float:
        """Admits a call that is ready at `at_s`; returns when it may be made."""
        begun_s = max(self.free_s, at_s)
        self.set(free_s=begun_s + self.each_s)
        return float(begun_s)


class CallLogic(Logic):
    """Logic of calls to an external system. end: counts of results, if it is a sink. gate: the rate limit, if there is
    one. saved: records without an answer when a restart began. sends: mean number of results of a record."""

    code = k.CALL
    end: SinkCounts | None = None
    gate: Gate | None = None
    calling: FlyingCalls
    sends: float

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self.saved: list[int] = []

    def know_send(self, send_s: float) -> None:
        self.send_s = self.sends * send_s if self.end is None else 0.0

    def stopped(self) -> None:
        """Gives all calls up."""
        calling, slots = self.calling, self.memory.slots
        self.saved.clear()
        calling.flying = calling.marks = calling.stuck = calling.waits = 0
        calling.last_s = 0.0
        for slot in (calling.slot, calling.turn):
            slots.set(slot, math.inf, 0)

    def away(self) -> int:
        calling = self.calling
        return int(len(_records(self.saved)) + calling.flying - calling.marks + (calling.stuck != 0))

    def asking(self) -> list[int]:
        waiting = _records([*self.saved, *self._flying()])
        return [*waiting, self.calling.stuck] if self.calling.stuck else waiting

    def _flying(self) -> list[int]:
        """Addresses of the records that wait for an answer, and of marks behind them, in the order in which they
        leave."""
        heap = self.memory.blocks[self.calling.here, "heap"][: self.calling.flying]
        return [here for _, here, _ in sorted(heap.tolist())]

    def save(self) -> None:
        self.saved += self._flying()
        self.calling.flying = self.calling.marks = 0
        self.calling.last_s = 0.0
        self.memory.slots.set(self.calling.slot, math.inf, 0)

    def resume(self) -> None:
        saved, self.saved = self.saved, []
        now: float = self.task.env.now
        for here in saved:
            at_s = now if self.gate is None else self.gate.admit(now)
            self.memory.do(k.FLY, self.calling.here, subject=here, asked=at_s)

    def follow(self, kind: str, value: float) -> bool:
        """Lets a mark follow the calls under way; returns whether there are any."""
        if not self.calling.flying:
            return False
        item = self.memory.item(Mark(kind, value, self.task.name, self.task.env.now))
        item.mark, item.born_s, item.sender = KINDS[kind], value, self.task.here
        self.memory.do(k.FLY, self.calling.here, subject=addressof(item))
        return True

    def in_service(self) -> int:
        return self.task.in_service + self.away()

    def ended(self) -> int:
        return int(self.dropped + (0 if self.end is None else self.end.counted))

    def sink(self) -> SinkCounts | None:
        return self.end


def _records(items: Iterable[int]) -> list[int]:
    """Those of these items that are no marks."""
    return [here for here in items if not ItemCells.from_address(here).mark]


# chains --------------------------------------------------------------------------------------------------------------
# Operators of a subtask, behind each other, as one.


class Tail(NamedTuple):
    """Followers of a logic that sends by itself, which take at once what it sends. each_s: CPU seconds of all of them
    together for a record that comes to them. gains: records that leave each operator, for each of these."""

    each_s: float
    gains: Sequence[float]


class Exit(StructView, layout=k.LOGIC):
    """Streams of one of several operators that leave the subtask. number: of the operator."""

    def __init__(self, memory: RunMemory, number: int, ports: range) -> None:
        super().__init__(memory.add(k.LOGIC, kind=k.EXIT, port=ports.start, ports=len(ports)))
        self.number = number


class Logics:
    """Operators of a subtask, in data-flow order; each but the first follows another one of them. tail: of those after
    the first, where event times pass the subtask."""

    def __init__(self, task: Task, component: Component) -> None:
        self.task = task
        self.component = component
        self.steps: Sequence[Logic] = ()
        self.exits: Mapping[int, Exit] = {}
        self.keeps = False
        self.tail: Tail | None = None

    def become(self, steps: Sequence[Logic], makers: Collection[str] = ()) -> None:
        """Takes these operators, of which the first gets the records that come. makers: operators whose records have
        copies that meet."""
        self.steps, self.keeps, task = steps, any(each.keeps for each in steps), self.task
        task.raw_logic, task.steps = steps[0].here, len(steps)
        if len(steps) == 1:
            return
        memory, exits = steps[0].memory, enumerate(self.component.exits)
        self.exits = {number: Exit(memory, number, ports) for number, ports in exits if ports}
        owed = [False] * len(steps)
        for number, step in enumerate(steps):
            ways = [self.exits[number]] if number in self.exits else []
            followers: list[Any] = [*ways, *(steps[n] for n in self.behind(number))]
            for each in followers:
                each.beside, step.next = step.next, each.here
            before = self.component.before[number]
            makes = self.component.operators[number].name in makers
            owed[number] = makes or (before >= 0 and owed[before])
            if owed[number] and (number in self.exits or len(followers) > 1):
                drawn_by: Any = followers[0] if len(followers) == 1 else step
                drawn_by.lots, owed[number] = task.lots, False
        if self.tail is not None:
            task.tail, task.steps = 1, 1

    def behind(self, number: int) -> list[int]:
        """Numbers of the operators that follow one."""
        return [n for n, before in enumerate(self.component.before) if before == number]

    def know_send(self) -> None:
        """Notes the subtask's cost of sending a record; within a chain, sending costs nothing."""
        if len(self.steps) == 1:
            self.steps[0].know_send(self.task.send_s)
            return
        alone = len(self.exits) == 1
        for number, each in self.exits.items():
            each.send_s = self.task.send_s if alone else sum([port.send_s for port in self.ports(number)])
        if self.tail is not None:
            gains = self.tail.gains
            sent_s = sum([gains[number] * float(each.send_s) for number, each in self.exits.items()])
            self.steps[0].know_send(self.tail.each_s + sent_s)

    def operators(self) -> int:
        """Number of operators."""
        return len(self.steps)

    def part(self, number: int) -> Logic:
        """Operator, by number."""
        return self.steps[number]

    def ports(self, number: int) -> list[Port]:
        """Ports of an operator."""
        own = self.component.exits[number]
        return self.task.ports[own.start : own.stop]

    def taken(self, number: int) -> int:
        """Number of records that came to an operator."""
        return int(self.steps[number].came if number else self.task.records_in)

    def sent(self, number: int) -> int:
        """Number of records that an operator passed on, to those that follow it if there are any."""
        behind = self.behind(number)
        return int(self.steps[behind[0]].came) if behind else self.left(number)

    def left(self, number: int) -> int:
        """Number of records of an operator that left the subtask."""
        if len(self.steps) == 1:
            return int(self.task.records_out)
        return int(self.exits[number].came) if number in self.exits else 0

    def sinks(self) -> list[Any]:
        """Counts of results of the sinks among its operators."""
        return [sink for each in self.steps if (sink := each.sink()) is not None]

    def held(self) -> float:
        """Number of records that all operators hold."""
        return sum([each.held() for each in self.steps])

    def held_bytes(self) -> float:
        """Size of what all operators hold, in bytes."""
        return sum([each.held_bytes() for each in self.steps])

    def changed_bytes(self, came: int) -> float:
        """Size of what the last `came` records changed of what all operators hold, in bytes."""
        return sum([each.changed_bytes(came) for each in self.steps])

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of what the first operator holds; see `Logic.held_keys`."""
        return self.steps[0].held_keys()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes the stores of all operators, one after the other. Only those of the first go by key (`leaves`)."""
        state = State()
        for number, each in enumerate(self.steps):
            taken = each.take(share, None if number else leaves)
            state.stores += taken.stores
            state.bytes += taken.bytes
        return state

    def give(self, state: State) -> None:
        """Gives each operator the stores that are its own. Behind an operator that event times pass, none has any."""
        if len(self.steps) == 1 or self.tail is not None:
            self.steps[0].give(state)
            return
        stores = state.stores
        for each in self.steps:
            count = each.stores()
            if count:
                each.give(State(stores[:count]))
                stores = stores[count:]

    def know_share(self, share: float, values: list[int]) -> None:
        """Tells all operators of a change of their share; see `Logic.know_share`."""
        for number, each in enumerate(self.steps):
            each.know_share(share, values[number:])

    def save(self) -> None:
        """Tells all operators that the barrier of a savepoint passes."""
        for each in self.steps:
            each.save()

    def resume(self) -> None:
        """Tells all operators that they go on after a restart."""
        for each in self.steps:
            each.resume()

    def complete(self, kept: Sequence[Any], now_s: float) -> None:
        """Tells all operators that a checkpoint is complete."""
        for logic, each in zip(self.steps, kept, strict=True):
            logic.complete(each, now_s)

    def open(self) -> Counter[int]:
        """Records in service that have still to leave or to end, by the number of the operator."""
        if len(self.steps) == 1 or self.tail is not None:
            return Counter({0: self.steps[0].in_service()})
        homes = {each.here: each.number for each in (*self.steps, *self.exits.values())}
        planned = () if self.task.evaluating else chain(self.task.planned)
        return Counter(homes[Item(here).step] for here in planned)

    def away(self) -> int:
        """Number of records that wait for something outside of the job."""
        return sum([each.away() for each in self.steps])

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        """Notes a change of its key groups, which belong to its first operator."""
        if self.steps:
            self.steps[0].know_keys(keys, subtask)

    @property
    def begun(self) -> int:
        """Sessions that have begun."""
        return sum([each.begun for each in self.steps])

    @property
    def finished(self) -> int:
        """Sessions that have ended."""
        return sum([each.finished for each in self.steps])

    def balances(self, aborted: Mapping[int, int]) -> list[tuple[str, int, int]]:
        """Balances of records: the law in words, the number that came, and the number accounted for. aborted: records
        in service when the subtask stopped, by the number of their operator."""
        if len(self.steps) == 1:
            return self._alone(self.steps[0], aborted.get(0, 0))
        found, now, timed = list[tuple[str, int, int]](), self.open(), self.tail is not None
        for number, logic in enumerate(self.steps):
            handed_on, waits = bool(self.behind(number)), now[number] + aborted.get(number, 0)
            out = self.sent(number) + logic.ended()
            if not handed_on or timed:
                out += waits
            kept = not timed and self.keeps
            if logic.law and not (kept and not handed_on):
                found.append((logic.law, self.taken(number), out))
            if handed_on and number in self.exits and not kept:
                left = self.left(number) + (0 if timed else waits)
                found.append(("handed on = left + in service + stopped", self.sent(number), left))
        return found

    def _alone(self, logic: Logic, aborted: int) -> list[tuple[str, int, int]]:
        came, sent = int(self.task.records_in), int(self.task.records_out)
        if isinstance(logic, SessionLogic):
            held = int(logic.held())
            return [
                ("sessions begun = ended + open", logic.begun, logic.finished + held),
                ("sessions ended = results", logic.finished, sent),
            ]
        out = logic.ended() + logic.in_service() + aborted
        if isinstance(logic, CallLogic):
            open_now = logic.in_service() + aborted
            laws = [("in = answered + waiting + in service + stopped", came, logic.calling.answered + open_now)]
            if logic.calling.selectivity <= 1.0:
                laws.append(
                    ("in = out + ended + waiting + in service + stopped", came, sent + logic.ended() + open_now)
                )
            return laws
        return [(logic.law, came, sent + out)] if logic.law else []
