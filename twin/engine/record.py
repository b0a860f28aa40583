"""Records, and control items, which travel in channels in order with records and cost nothing.

Watermarks, punctuations and checkpoint barriers are values that rise. A producer marks all its streams: each replica
that gets records gets the mark, after all that was sent before and before all that is sent later. A station takes a
mark when its turn in the queue has come. Its progress is that of the input that is least far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar


class Record:
    """One record. Stamps belong to the oldest input record involved in it: `born_s` at the broker, `taken_s` by the
    source.

    at_s: when it arrived where it is now, or left there. fetch_s: CPU seconds that the consumer pays to fetch it
    (deserialisation, a remote socket's memory). inbox: its destination, or on the way the hop that stands for it.
    sent_s: when the present card or link got it; latency_s: that hop's latency. channel: the channel whose buffers it
    takes up, if any (`twin.engine.streams.buffers`). sender: the task that sent it. left_s: its age (since `taken_s`)
    when its producer was done with it. key: number of its key among the operator's, -1 where it has none. lot: number
    in [0, 1) that decides on its key where it meets copies of itself, -1 where it has none. n: the number that it
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
        """Copy for another replica."""
        again = Mark(self.kind, self.value, self.origin, self.at_s)
        again.inbox = self.inbox
        return again


Input = tuple[int, str]
"""One input: side of the stream and name of the producer's task."""


class InputProgress:
    """Progress of a station's inputs, by kind of mark: the station is as far as the input that is least far."""

    def __init__(self, inputs: Iterable[Input]) -> None:
        self.inputs = list(inputs)
        self._values: dict[str, dict[Input, float]] = {}

    def copy(self) -> InputProgress:
        """A copy with the same progress."""
        other = InputProgress(self.inputs)
        other._values = {kind: values.copy() for kind, values in self._values.items()}
        return other

    def join(self, each: Input, values: dict[str, float]) -> None:
        """Adds an input that has announced these values."""
        self.inputs.append(each)
        for kind, value in values.items():
            self._values.setdefault(kind, {})[each] = value

    def least(self, kind: str) -> float:
        """Progress of the station: -inf as long as any input has announced nothing."""
        values = self._values.get(kind, {})
        return min([values.get(each, -math.inf) for each in self.inputs], default=-math.inf)

    def take(self, side: int, mark: Mark) -> bool:
        """Notes a mark of one input; returns whether the station is further than before. Values never fall."""
        before = self.least(mark.kind)
        values = self._values.setdefault(mark.kind, {})
        values[side, mark.origin] = max(mark.value, values.get((side, mark.origin), -math.inf))
        return self.least(mark.kind) > before
