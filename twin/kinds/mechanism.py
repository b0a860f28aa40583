"""What a replica of an operator does with tuples, as data: `twin.wiring.mechanisms` makes the logic that does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twin.calls import Calls
from twin.windows import EventWindow, Window


@dataclass(frozen=True, slots=True)
class Reading:
    """Takes tuples from a broker and passes them on."""


@dataclass(frozen=True, slots=True)
class Selecting:
    """Passes `selectivity` tuples on for each that comes; at most one each if it `thins`."""

    selectivity: float
    thins: bool


@dataclass(frozen=True, slots=True)
class Grouping:
    """At each evaluation of its window, one tuple per distinct group in it. groups: over all replicas."""

    window: Window
    groups: int


@dataclass(frozen=True, slots=True)
class Matching:
    """At each evaluation of its window, one tuple per match of tuples of all inputs.

    Either the share of all combinations that match, or results per input tuple.
    """

    window: Window
    selectivity: float | None
    amplification: float | None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Emits a tuple for each pair of tuples with the same key, where the one of the other producer comes lower_s to
    upper_s after the one of `left`. keys: distinct keys over all replicas. by_event: whether by event times."""

    left: str
    lower_s: float
    upper_s: float
    keys: int
    by_event: bool
    late_to: str | None


@dataclass(frozen=True, slots=True)
class Collecting:
    """Counts what comes, and its latencies."""


@dataclass(frozen=True, slots=True)
class Sessioning:
    """For each session of a key, one tuple when nothing of it has come for gap_s. keys: over all replicas."""

    gap_s: float
    keys: int


@dataclass(frozen=True, slots=True)
class Remembering:
    """Passes `selectivity` tuples on for each, and keeps a state of a key for ttl_s after its last; None: for ever."""

    selectivity: float
    ttl_s: float | None
    bytes_each: float


@dataclass(frozen=True, slots=True)
class Tabling:
    """Passes `selectivity` tuples on for each that comes from another producer than `side`."""

    selectivity: float
    side: str


@dataclass(frozen=True, slots=True)
class Routing:
    """Passes shares of the tuples on, by consumer; if `exclusive`, each to one at most."""

    shares: Mapping[str, float]
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks outside for each tuple, and passes `selectivity` tuples on for each answer."""

    calls: Calls
    selectivity: float


@dataclass(frozen=True, slots=True)
class Writing:
    """Counts what comes, and its latencies, once it is acknowledged outside."""

    calls: Calls


@dataclass(frozen=True, slots=True)
class Computing:
    """Builds state by key over event time, and hands over partial windows, complete ones, or every tuple at once.
    late_to: the consumer of records that are late."""

    partial_s: float | None
    windows: tuple[EventWindow, ...]
    sharing: str
    execute_s: float
    key_bytes: float
    late_to: str | None = None


@dataclass(frozen=True, slots=True)
class Consolidating:
    """Merges partial results into complete windows over event time."""

    windows: tuple[EventWindow, ...]
    merge_s: float
    results_per_key: float
    key_bytes: float
    combined: bool


Mechanism = (
    Reading
    | Selecting
    | Grouping
    | Matching
    | Meeting
    | Collecting
    | Sessioning
    | Remembering
    | Tabling
    | Routing
    | Asking
    | Writing
    | Computing
    | Consolidating
)
