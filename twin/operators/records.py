"""What travels between subtasks: records, control items and results of logics; and state that changes its owner."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

# random numbers ------------------------------------------------------------------------------------------------------
# Random numbers that logics draw, and lots that stand for them.


class Draws(Protocol):
    """Interface of the random numbers of one component (`twin.world.memory.Draws`). rng: the generator behind them."""

    rng: np.random.Generator

    def uniform(self) -> float:
        """Random number, uniform on [0, 1)."""

    def rounded(self, value: float) -> int:
        """Whole number with mean `value`: its floor, or one more."""


class Lot:
    """Number of a record that stands for `Draws`: it decides wherever a number would be drawn."""

    def __init__(self, number: float) -> None:
        self.number = number

    def uniform(self) -> float:
        """The number, in [0, 1)."""
        return self.number


# records -------------------------------------------------------------------------------------------------------------
# Records, and control items, which travel in channels in order with records and cost nothing.
#
# Watermarks, punctuations and checkpoint barriers are values that rise. A producer marks all its streams: each subtask
# that gets records gets the mark, after all that was sent before and before all that is sent later. A station takes a
# mark when its turn in the queue has come. Its progress is that of the input that is least far.


class Record:
    """One record. Stamps belong to the oldest input record involved in it: `born_s` at the broker, `taken_s` by the
    source.

    at_s: when it arrived where it is now, or left there. fetch_s: CPU seconds that the consumer pays to fetch it
    (deserialisation, a remote socket's memory). inbox: its destination, or on the way the hop that stands for it.
    sent_s: when the present card or link got it; latency_s: that hop's latency. channel: the channel whose buffers it
    takes up, if any. sender: the task that sent it. left_s: its age (since `taken_s`)
    when its producer was done with it. key: number of its key among the operator's, -1 where it has none. lot: number
    in [0, 1) that decides on its key where it meets copies of itself, -1 where it has none. ready_s: when the last
    thing that it waited for was there: the end of its window, or the taking of its last record. n: the number that it
    counts as; 0 for control items.
    """

    __slots__ = (
        "at_s",
        "born_s",
        "channel",
        "fetch_s",
        "inbox",
        "key",
        "latency_s",
        "left_s",
        "lot",
        "ready_s",
        "sender",
        "sent_s",
        "taken_s",
    )

    n: ClassVar[int] = 1
    latency_s: float
    sent_s: float

    def __init__(self, born_s: float, taken_s: float, at_s: float) -> None:
        self.born_s = born_s
        self.taken_s = taken_s
        self.at_s = at_s
        self.fetch_s = 0.0
        self.left_s = 0.0
        self.ready_s = taken_s
        self.key = -1
        self.lot = -1.0
        self.inbox: Any = None
        self.channel: Any = None
        self.sender: Any = None

    def copy(self) -> Record:
        """Copy that goes the same way."""
        again = Record(self.born_s, self.taken_s, self.at_s)
        again.fetch_s, again.left_s, again.key, again.lot = self.fetch_s, self.left_s, self.key, self.lot
        again.inbox, again.channel, again.sender = self.inbox, self.channel, self.sender
        again.ready_s = self.ready_s
        return again


class Mark(Record):
    """Control item (watermark, punctuation, barrier) that travels in order with records. origin: task that sent it."""

    __slots__ = ("kind", "origin", "value")

    n: ClassVar[int] = 0

    def __init__(self, kind: str, value: float, origin: str, at_s: float) -> None:
        super().__init__(at_s, at_s, at_s)
        self.kind = kind
        self.value = value
        self.origin = origin

    def copy(self) -> Record:
        """Copy for another subtask."""
        again = Mark(self.kind, self.value, self.origin, self.at_s)
        again.inbox = self.inbox
        return again


Input = tuple[int, str]
"""One input: side of the stream and name of the producer's task."""


WATERMARK, IDLE = "watermark", "idle"
"""Marks that say how far event time is, and that nothing is to be waited for until the next watermark."""


class InputProgress:
    """Progress of a station's inputs, by kind of mark: the station is as far as the input that is least far. An idle
    input is not waited for; if all are idle, the station is as far as the furthest, as in Flink's
    `StatusWatermarkValve`."""

    def __init__(self, inputs: Iterable[Input]) -> None:
        self.inputs = list(inputs)
        self._values: dict[str, dict[Input, float]] = {}
        self._idle: set[Input] = set()

    def copy(self) -> InputProgress:
        """A copy with the same progress."""
        other = InputProgress(self.inputs)
        other._values = {kind: values.copy() for kind, values in self._values.items()}
        other._idle = self._idle.copy()
        return other

    def join(self, each: Input, values: dict[str, float]) -> None:
        """Adds an input that has announced these values."""
        self.inputs.append(each)
        for kind, value in values.items():
            self._values.setdefault(kind, {})[each] = value

    def leave(self, side: int) -> None:
        """Leaves all inputs of a side."""
        self.inputs = [each for each in self.inputs if each[0] != side]

    def begin(self, each: Input, values: dict[str, float], idle: bool) -> None:
        """Begins again at what an input has announced, which may be less than was known of it."""
        for known in self._values.values():
            known.pop(each, None)
        for kind, value in values.items():
            self._values.setdefault(kind, {})[each] = value
        (self._idle.add if idle else self._idle.discard)(each)

    def least(self, kind: str) -> float:
        """Progress of the station: -inf as long as any input has announced nothing."""
        values = self._values.get(kind, {})
        if self._idle and kind == WATERMARK:
            awaited = [each for each in self.inputs if each not in self._idle]
            if not awaited:
                return max([values.get(each, -math.inf) for each in self.inputs])
            return min([values.get(each, -math.inf) for each in awaited])
        return min([values.get(each, -math.inf) for each in self.inputs], default=-math.inf)

    def take(self, side: int, mark: Mark) -> list[tuple[str, float]]:
        """Notes a mark of one input. Returns the marks, as kind and value, that the station passes on: of progress, if
        it is further than before or awake again, and that it is idle, if all inputs are. Values never fall."""
        each, kind = (side, mark.origin), WATERMARK if mark.kind == IDLE else mark.kind
        before, asleep = self.least(kind), self.idle
        if mark.kind == IDLE:
            self._idle.add(each)
        else:
            values = self._values.setdefault(kind, {})
            values[each] = max(mark.value, values.get(each, -math.inf))
            if kind == WATERMARK:
                self._idle.discard(each)
        now = self.least(kind)
        found = [(kind, now)] if now > before or (asleep and not self.idle) else []
        return [*found, (IDLE, 0.0)] if self.idle and not asleep else found

    @property
    def idle(self) -> bool:
        """Whether all inputs are idle."""
        return bool(self._idle) and self._idle.issuperset(self.inputs)

    def sleeps(self, each: Input) -> bool:
        """Whether an input is idle."""
        return each in self._idle


# results -------------------------------------------------------------------------------------------------------------
# Results of logics, and the outlets by which they leave.


Result = tuple[int, float, float]
"""Key of a result, and the seconds at which its oldest record was born and taken in."""


class EvaluationResult:
    """Outcome of evaluations: results that leave by an outlet, and records that logics take when they leave."""

    def __init__(self, results: Sequence[Result], out: Outlet, entered: list[tuple[Any, Record]]) -> None:
        self.results = results
        self.out = out
        self.entered = entered

    def leave(self, at_s: float) -> None:
        """Sends all results at `at_s`."""
        for logic, record in self.entered:
            logic.emit(record, at_s)
        send_results(self.results, self.out, at_s)


def send_results(results: Sequence[Result], out: Outlet, at_s: float) -> None:
    """Sends results, one after the other, at `at_s`."""
    for result in results:
        out.send(as_record(result, at_s))


def as_record(result: Result, at_s: float, ready_s: float | None = None) -> Record:
    """Record of a result that leaves at `at_s`. ready_s: when all that it waited for was there, if not at once."""
    key, born_s, taken_s = result
    made = Record(born_s, taken_s, at_s)
    made.key = key
    if ready_s is not None:
        made.ready_s = ready_s
    return made


class Outlet:
    """Base of the places to which a logic sends records: a task's output, or the next logic at the same task.

    send_s: CPU seconds that it takes to hand a record over.
    """

    def __init__(self) -> None:
        self.send_s = 0.0

    def send(self, record: Record) -> None:
        """Takes a record over."""
        raise NotImplementedError

    def know_send(self, send_s: float) -> None:
        """Notes that the task's cost of sending a record has changed."""

    def offer(self, results: Sequence[Result]) -> tuple[EvaluationResult, float]:
        """Outcome of results that leave all at once, and the CPU seconds that this takes."""
        return EvaluationResult(results, self, []), len(results) * self.send_s


# state ---------------------------------------------------------------------------------------------------------------
# State on its way from one subtask to another: records of windows, states of keys, or spans of event time.


Item = tuple[float, int, float, float]
"""Stored record: its position, its key, and the seconds at which it was born and taken in."""
Leaves = Callable[[int], bool]
"""Function of a key that decides whether its record moves; called for one record after another."""


@dataclass(slots=True)
class State:
    """State of a subtask on its way to another.

    stores: lists of records (Item); a window's are pairs of the number of its first window that is not yet evaluated,
    and its records. Positions that count records are relative to those that the subtask has seen. Logics over event
    time keep contents by place. bytes: size of the state.
    """

    stores: list[Any] = field(default_factory=list)
    bytes: float = 0.0


class Every:
    """Choice of a share of the records, evenly spaced, where it is not known whose keys move."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._asked = self._gone = 0

    def __call__(self, key: int) -> bool:
        """Whether this record moves; see `Leaves`."""
        self._asked += 1
        goes = round(self.share * self._asked) > self._gone
        self._gone += goes
        return goes


def parted(items: list[Item], leaves: Leaves) -> tuple[list[Item], list[Item]]:
    """Splits records into those that leave and those that stay."""
    gone: list[Item] = []
    kept: list[Item] = []
    for item in items:
        (gone if leaves(item[1]) else kept).append(item)
    return gone, kept
