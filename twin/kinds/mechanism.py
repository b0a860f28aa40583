"""Work of an operator's subtask on records, as data: `twin.world.mechanisms` makes the logic that does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twin.calls import Calls
from twin.windows import EventWindow, Window


@dataclass(frozen=True, slots=True)
class Reading:
    """Takes records from a broker and passes them on. Their event times lie up to disorder_s before they come.

    Watermarks are slack_s behind the newest, and leave every watermark_interval_s, or as the engine says. idle_s:
    without a record, after which nobody waits for the next watermark; None: never.
    """

    disorder_s: float = 0.0
    slack_s: float = 0.0
    watermark_interval_s: float | None = None
    idle_s: float | None = None


@dataclass(frozen=True, slots=True)
class Selecting:
    """Passes `selectivity` records on for each input record; at most one each if it `thins`."""

    selectivity: float
    thins: bool


@dataclass(frozen=True, slots=True)
class Grouping:
    """Emits one record per distinct group at each evaluation of its window. groups: number over all subtasks."""

    window: Window
    groups: int


@dataclass(frozen=True, slots=True)
class Matching:
    """Emits one record per match of records of all inputs at each evaluation of its window.

    Either selectivity, the share of all combinations that match, or amplification, results per input record, is given.
    late_to: the consumer of late records.
    """

    window: Window
    selectivity: float | None
    amplification: float | None
    late_to: str | None = None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Emits a record for each pair of records with the same key, where the one of the other producer comes lower_s to
    upper_s after the one of `left`. keys: distinct keys over all subtasks. by_event: whether event times count.
    late_to: the consumer of late records."""

    left: str
    lower_s: float
    upper_s: float
    keys: int
    by_event: bool
    late_to: str | None


@dataclass(frozen=True, slots=True)
class Collecting:
    """Counts records that arrive, and measures their latencies."""


@dataclass(frozen=True, slots=True)
class Sessioning:
    """Emits one record for each session of a key, gap_s after the key's last record. keys: number over all subtasks.
    by_event: whether event times count; then a late record counts for lateness_s more, or goes to `late_to`."""

    gap_s: float
    keys: int
    by_event: bool = False
    lateness_s: float = 0.0
    late_to: str | None = None


@dataclass(frozen=True, slots=True)
class Remembering:
    """Passes `selectivity` records on for each input record, and keeps a key's state for ttl_s after its last record;
    None: for ever. bytes_each: size of a state."""

    selectivity: float
    ttl_s: float | None
    bytes_each: float


@dataclass(frozen=True, slots=True)
class Tabling:
    """Passes `selectivity` records on for each one that comes from another producer than `side`; by_event: when the
    watermark has passed it."""

    selectivity: float
    side: str
    by_event: bool = False


@dataclass(frozen=True, slots=True)
class Deduplicating:
    """Passes on the first record of a key, or each one as a change of the last, which `retracts` the one before. ttl_s:
    after which a key is forgotten; None: never. bytes_each: size of a key's row. by_event: whether event times say
    which is first and last."""

    last: bool
    retracts: bool
    ttl_s: float | None
    bytes_each: float
    by_event: bool


@dataclass(frozen=True, slots=True)
class Aggregating:
    """Changes the result of a key with each record, or once for those of a batch of batch_s seconds, or of batch_size
    records of a subtask. phase: of two, the first (`local`) or the second (`global`). changing: share of the records of
    a key with a result that change it; 1 for batches. The other fields are those of `Deduplicating`."""

    phase: str | None
    batch_s: float | None
    batch_size: int | None
    changing: float
    retracts: bool
    ttl_s: float | None
    bytes_each: float

    @property
    def first_phase(self) -> bool:
        """Whether it is the first of two phases."""
        return self.phase == "local"

    @property
    def second_phase(self) -> bool:
        """Whether it is the second of two phases."""
        return self.phase == "global"


@dataclass(frozen=True, slots=True)
class Pairing:
    """Emits a record for each pair of records of both sides with the same key, which are kept for ttl_s seconds; None:
    for ever. outer: whether records of the left and of the right side leave alone until there is a pair. last: share of
    the records that are the last of their key. row_bytes: size of a row; None: of a record."""

    left: str
    outer: tuple[bool, bool]
    ttl_s: float | None
    last: float
    row_bytes: float | None


@dataclass(frozen=True, slots=True)
class Preceding:
    """Passes each record on with a result of the `rows` before it of its key, or those of range_s seconds. by_event:
    whether event times count. late_to: the consumer of late records. row_bytes: size of a row; None: of a record."""

    rows: int | None
    range_s: float | None
    by_event: bool
    late_to: str | None
    row_bytes: float | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Keeps the n highest records of each key for ttl_s seconds, and emits changes of them; numbered: with their ranks,
    whose changes `retracts` the record before. enters: share of records that enter a full list; None: by random
    values. row_bytes: size of a row; None: of a record."""

    n: int
    numbered: bool
    retracts: bool
    enters: float | None
    ttl_s: float | None
    row_bytes: float | None


@dataclass(frozen=True, slots=True)
class Routing:
    """Passes shares of the records on, by consumer; if `exclusive`, each record to one consumer at most."""

    shares: Mapping[str, float]
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Asking:
    """Calls a system outside for each record, and passes `selectivity` records on for each answer."""

    calls: Calls
    selectivity: float


@dataclass(frozen=True, slots=True)
class Writing:
    """Counts records, and measures their latencies, once a system outside has acknowledged them."""

    calls: Calls


@dataclass(frozen=True, slots=True)
class Computing:
    """Builds state by key over event time, and hands over partial windows, complete ones, or every record at once.
    key_bytes: size of a key's state; None: that of a result. lateness_s: for how long late records count. late_to: the
    consumer of later ones."""

    partial_s: float | None
    windows: tuple[EventWindow, ...]
    sharing: str
    execute_s: float
    key_bytes: float | None
    late_to: str | None = None
    lateness_s: float = 0.0


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
    | Deduplicating
    | Aggregating
    | Pairing
    | Preceding
    | Ranking
    | Routing
    | Asking
    | Writing
    | Computing
    | Consolidating
)
