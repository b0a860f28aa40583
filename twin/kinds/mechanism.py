"""Work of an operator's replica on tuples, as data: `twin.wiring.mechanisms` makes the logic that does it."""

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
    """Passes `selectivity` tuples on for each input tuple; at most one each if it `thins`."""

    selectivity: float
    thins: bool


@dataclass(frozen=True, slots=True)
class Grouping:
    """Emits one tuple per distinct group at each evaluation of its window. groups: number over all replicas."""

    window: Window
    groups: int


@dataclass(frozen=True, slots=True)
class Matching:
    """Emits one tuple per match of tuples of all inputs at each evaluation of its window.

    Either selectivity, the share of all combinations that match, or amplification, results per input tuple, is given.
    """

    window: Window
    selectivity: float | None
    amplification: float | None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Emits a tuple for each pair of tuples with the same key, where the one of the other producer comes lower_s to
    upper_s after the one of `left`. keys: distinct keys over all replicas. by_event: whether event times count.
    late_to: the consumer of late records."""

    left: str
    lower_s: float
    upper_s: float
    keys: int
    by_event: bool
    late_to: str | None


@dataclass(frozen=True, slots=True)
class Collecting:
    """Counts tuples that arrive, and measures their latencies."""


@dataclass(frozen=True, slots=True)
class Sessioning:
    """Emits one tuple for each session of a key, gap_s after the key's last tuple. keys: number over all replicas."""

    gap_s: float
    keys: int


@dataclass(frozen=True, slots=True)
class Remembering:
    """Passes `selectivity` tuples on for each input tuple, and keeps a key's state for ttl_s after its last tuple;
    None: for ever. bytes_each: size of a state."""

    selectivity: float
    ttl_s: float | None
    bytes_each: float


@dataclass(frozen=True, slots=True)
class Tabling:
    """Passes `selectivity` tuples on for each one that comes from another producer than `side`."""

    selectivity: float
    side: str


@dataclass(frozen=True, slots=True)
class Routing:
    """Passes shares of the tuples on, by consumer; if `exclusive`, each tuple to one consumer at most."""

    shares: Mapping[str, float]
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Asking:
    """Calls a system outside for each tuple, and passes `selectivity` tuples on for each answer."""

    calls: Calls
    selectivity: float


@dataclass(frozen=True, slots=True)
class Writing:
    """Counts tuples, and measures their latencies, once a system outside has acknowledged them."""

    calls: Calls


@dataclass(frozen=True, slots=True)
class Computing:
    """Builds state by key over event time, and hands over partial windows, complete ones, or every tuple at once.
    late_to: the consumer of late records."""

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
