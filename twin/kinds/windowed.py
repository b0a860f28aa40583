"""Bases of operators with state over time: by key over event time, and with a window, and its rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from twin.kinds.flow import NODES, WEIGHTS, Columns, KeySpread, Mixing
from twin.kinds.operator import REFUSED, KeyedOperator, OperatorBase, StateAccess
from twin.windows import EventWindow, Holds, Window

# event time ----------------------------------------------------------------------------------------------------------
# Base classes of operators with state by key over event time: key groups, distinct keys, size of a state, late
# records.


NEXT_TO_NONE = 1e-9


class LateTo(OperatorBase):
    """Base of operators whose late records may go to a consumer of their own."""

    late_to: Annotated[
        str | None,
        Field(
            exclude_if=lambda late_to: late_to is None,
            description="the consumer that gets late records, as Flink's sideOutputLateData; absent: they are dropped",
        ),
    ] = None

    def share_to(self, consumer: str) -> float:
        """Share of the output that goes to a consumer. The share of late records is unknown beforehand: almost none."""
        return NEXT_TO_NONE if consumer == self.late_to else 1.0

    def why_not_to(self, consumers: Sequence[str]) -> str:
        """Says what is wrong with the consumers where late records have one of their own; empty if nothing is."""
        if self.late_to is None:
            return ""
        if self.late_to not in consumers:
            return f"sends late records to {self.late_to!r}, to which no stream leads; add one, or leave late_to out"
        return "" if len(consumers) > 1 else "sends late records to its only consumer; add a consumer for the results"


class EventTimed(KeyedOperator):
    """Base of operators with state by key over event time. Key groups are the partitions of the key, so that many
    subtasks can share the work; an operator with one key group cannot be split."""

    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream, all alike in a key group")]
    state_bytes_per_key: Annotated[float, Field(ge=0, le=10**9, description="of the state of one key")] = 100.0

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if self.key_groups is None:
            raise ValueError(
                f"{self.name!r} has no key_groups, so its state can be in one place only; give their number, "
                "1 for an operator that cannot be split"
            )
        return self

    @property
    def needs_event_time(self) -> bool:
        """Always true."""
        return True

    @property
    def memory_s(self) -> float:
        """Length of the longest window, in seconds; 0 without windows."""
        return max((window.length_s for window in self.event_windows), default=0.0)

    @property
    def keyed(self) -> bool:
        """Always true: state is kept by key."""
        return True

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of a key and its value."""
        return Columns(ints=1, doubles=1)

    @property
    def spreads(self) -> bool:
        """Always true: keys are counted by how frequent they are."""
        return True

    def spread(self, mixing: Mixing) -> KeySpread:
        """Frequencies of keys, each on one subtask."""
        return KeySpread(np.ones(1), np.array([float(self.keys)])) if mixing.spread is None else mixing.spread


# windows -------------------------------------------------------------------------------------------------------------
# Base of operators with a window, and the rates of its evaluations.


NEAR = 1e-9
"""Part of a window by which rounding may miss its end."""
MANY = 64
"""Number of open windows above which an integral stands for their sum."""


def mean_to(end: np.ndarray | float, of: Callable[[np.ndarray | float], np.ndarray]) -> np.ndarray:
    """Mean of a smooth function over numbers from 0 to `end`."""
    parts = [weight / 2.0 * of(end * (1.0 + node) / 2.0) for node, weight in zip(NODES, WEIGHTS, strict=True)]
    return np.asarray(sum(parts))


class Windowed(LateTo, KeyedOperator):
    """Base of operators that look at the records of a window together, and emit results only when it is evaluated."""

    window: Window

    @property
    def event_windows(self) -> tuple[EventWindow, ...]:
        """The window, if it is over event time."""
        window = self.window.event if self.window.policy == "time" else None
        return () if window is None else (window,)

    @property
    def needs_event_time(self) -> bool:
        """Whether the window is over event time."""
        return bool(self.event_windows)

    @property
    def if_updated(self) -> str:
        """Changes count as rows of their own, where Flink refuses them."""
        return REFUSED

    @property
    def hands_over(self) -> str:
        """Kind of output: complete windows over event time, or results of processing time."""
        return "windows" if self.needs_event_time else "untimed"

    @property
    def awaits(self) -> str:
        """The end of a window over time."""
        if self.needs_event_time:
            return "watermark"
        return "end" if self.window.policy == "time" else ""

    @property
    def spreads(self) -> bool:
        """Whether it is no join: results are counted by how frequent keys are."""
        return not self.joins

    @property
    def memory_s(self) -> float:
        """Size of a time window, in seconds; 0 for a count window."""
        return self.window.size if self.window.policy == "time" else 0.0

    @property
    def stays_s(self) -> float:
        """For how long what a window holds stays when it has ended, as late records still count."""
        return self.window.allowed_lateness_s if self.window.policy == "time" else 0.0

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """A record is written once, or into each of its windows."""
        return StateAccess(writes=self.window.size / self.window.slide if holds == "copies" else 1.0)

    def entries(
        self, content: np.ndarray, groups: np.ndarray, mixing: Mixing, holds: Holds, since: np.ndarray | None
    ) -> np.ndarray:
        """Expected copies of records, if a full window has `content` records of so many distinct groups. [N]

        since: if None, just before an evaluation, when there are most; else on average over time, those that came in
        the last `since` (of the window's own unit [N]).
        """
        return self.in_open_windows(lambda filled: content * (filled / float(self.window.size)), since)

    def in_open_windows(self, of: Callable[[np.ndarray | float], np.ndarray], since: np.ndarray | None) -> np.ndarray:
        """Expected entries of all open windows, if one that is filled up to x of its size has `of(x)`. It stays full
        within the allowed lateness. [N]"""
        size, slide, late = float(self.window.size), float(self.window.slide), self.stays_s
        if since is None:
            number = math.ceil((size + late) / slide - NEAR)
            if number <= MANY:
                return np.asarray(sum(of(min(size, size + late - each * slide)) for each in range(number)))
            return np.asarray(size / slide * mean_to(size, of) + of(size) / 2.0 + late / slide * of(size))
        filling = size / slide * mean_to(size, lambda filled: of(np.minimum(filled, since)))
        full = mean_to(late, lambda ago: of(np.clip(since - ago, 0.0, size)))
        return np.asarray(filling + late / slide * full)

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Attributes by which the operator is keyed."""
        return attributes & frozenset(self.partition_by or ())


def content_and_fires(
    window: Window, in_per_s: np.ndarray, bursts_per_s: np.ndarray, burst_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Expected content (records) of a window, and evaluations a second that find any; 0 where nothing flows. [N]
    each"""
    if window.policy == "count":
        return np.where(in_per_s > 0, window.size, 0.0), in_per_s / window.slide
    share = np.minimum(1.0, bursts_per_s * (window.size + burst_s))  # share of evaluations that see a burst
    fires = np.where(in_per_s > 0, share / window.slide, 0.0)
    return np.divide(in_per_s * window.size, share, out=np.zeros_like(in_per_s), where=share > 0), fires
