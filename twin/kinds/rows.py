"""Operators of Flink SQL that keep rows by key: their base, deduplication, the highest rows of each key, and OVER
aggregation.

Regular joins (`twin.kinds.table_joins`) and GROUP BY (`twin.kinds.group_aggregate`) have the same base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.kinds.flow import Columns, Flow, HeldRecords, Mixing
from twin.kinds.mechanism import Deduplicating, Preceding, Ranking
from twin.kinds.operator import REFUSED, Fraction, KeyedOperator, StateAccess
from twin.kinds.windowed import LateTo
from twin.windows import Holds, TimeOf

# the base ------------------------------------------------------------------------------------------------------------
# With it are the laws of keys that come for the first time.


LASTING_S = 3600.0
"""Length in seconds of a run whose length is not given."""

Changelog = Annotated[
    Literal["retract", "upsert"],
    Field(description="retract: a change sends the row before (UPDATE_BEFORE) and the row after it; upsert: only that"),
]
ByTime = Annotated[
    TimeOf, Field(exclude_if=lambda time: time == "processing", description="which time of a record counts")
]
Ttl = Annotated[float | None, Field(gt=0, le=10**8, description="time to live of a row (state TTL); absent: for ever")]


class ByKey(KeyedOperator):
    """Base of operators that keep rows by key, in the order in which records come, and send results at once. Records do
    not say whether they insert or retract a row: all count as inserted. Keys are equally frequent; where key groups are
    skewed (`workload.keys`), those of each group."""

    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream")]

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if not self.keeps_rows and self.key_groups is not None:
            raise ValueError(f"{self.name!r} keeps no rows, and has key_groups; leave them out")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keeps_rows(self) -> bool:
        """Whether it keeps rows by key."""
        return True

    @property
    def keyed(self) -> bool:
        """Whether it keeps rows by key."""
        return self.keeps_rows

    @property
    def hands_over(self) -> str:
        """Kind of output: changes of results, which have event times."""
        return "changes"

    @property
    def if_updated(self) -> str:
        """Changes count as rows of their own, where Flink refuses them."""
        return REFUSED

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """The row, or accumulators, of its key are read and written."""
        size: float | None = getattr(self, "state_bytes_per_key", None)
        return StateAccess(1.0, 1.0, bytes_each=size) if self.keeps_rows else StateAccess()

    # law -------------------------------------------------------------------------------------------------------------

    def passed_on(
        self,
        inputs: tuple[np.ndarray, ...],
        bursts: Sequence[np.ndarray],
        mixing: Mixing,
        out: np.ndarray,
        rows: np.ndarray | None = None,
    ) -> Flow:
        """Flow that emits `out` results a second, and holds `rows` rows of the size of a record. [N] each"""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        held = none if rows is None else rows
        return Flow(inputs, total, out, held, none, none, np.where(together < out, together, np.inf), burst_s)


class KeepsRecords(ByKey):
    """Base of operators that keep records as rows, of which each has their size, or `row_bytes`."""

    row_bytes: Annotated[
        float | None,
        Field(ge=0, le=10**9, description="size of a row in the state; absent: that of the records that come"),
    ] = None

    @property
    def entry_bytes(self) -> float | None:
        """Size of a row, if that is given."""
        return self.row_bytes

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """Rows of its key are read, and one is written."""
        return StateAccess(1.0, 1.0, bytes_each=self.row_bytes)


def lasting_s(mixing: Mixing) -> float:
    """Length of the run in seconds, as far as it is known."""
    return float(mixing.horizon_s) if np.isfinite(mixing.horizon_s) else LASTING_S


def first_share(in_per_s: np.ndarray, keys: int, run_s: float, ttl_s: float | None) -> np.ndarray:
    """Share of the records of a run that find no row of their key, if each record writes it: of random (Poisson)
    records, exp(-rate min(t, ttl) / keys) at time t. [N]"""
    grows_s = run_s if ttl_s is None else min(ttl_s, run_s)
    each = np.maximum(in_per_s, 1e-12) / keys
    return np.asarray((-np.expm1(-each * grows_s) / each + (run_s - grows_s) * np.exp(-each * grows_s)) / run_s)


def seen_keys(in_per_s: np.ndarray, keys: int, run_s: float, ttl_s: float | None) -> np.ndarray:
    """Expected keys of which a record has come within the time to live, at the end of a run. [N]"""
    span_s = run_s if ttl_s is None else min(ttl_s, run_s)
    return np.asarray(-keys * np.expm1(-np.minimum(in_per_s * min(span_s, 1e9) / keys, 700.0)))


def poisson_tail(least: int, mean: np.ndarray) -> np.ndarray:
    """Probability that a Poisson number of that mean is at least `least`. [N]"""
    number = np.arange(least)
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, max(least, 1))))])[:least]
    mean = np.maximum(np.asarray(mean, dtype=float), 1e-300)
    terms = np.exp(number[:, None] * np.log(mean) - mean - log_factorials[:, None])
    return np.asarray(np.clip(1.0 - terms.sum(axis=0), 0.0, 1.0))


MANY = 2000
"""Number above which a Poisson number counts as its mean."""


def most_of(most: int, mean: np.ndarray) -> np.ndarray:
    """Expected value of a Poisson number of that mean, or `most` if that is less. [N]"""
    mean = np.asarray(mean, dtype=float)
    if most > MANY:
        return np.minimum(mean, most)
    below = mean * (1.0 - poisson_tail(most - 1, mean)) if most > 1 else np.zeros_like(mean)
    return np.asarray(below + most * poisson_tail(most, mean))


# deduplication -------------------------------------------------------------------------------------------------------


MOST_LIVES = 200
"""Number of times to live in a run above which the beginning of the run does not matter."""


class Deduplicate(ByKey):
    """Passes on the first row of each key, or the last one: Flink's Deduplicate (ROW_NUMBER() ... = 1). A last row
    replaces the one before, which is retracted; over event time, so does an earlier row a first one. With `ttl_s` a key
    is forgotten that long after its row was written: after the first record, or after the last one."""

    does: ClassVar[str] = "keeps the first or the last row of each key"
    costs_like: ClassVar[str] = "map"

    kind: Literal["deduplicate"] = "deduplicate"
    keep: Annotated[Literal["first", "last"], Field(description="the row that stands for its key")] = "first"
    changelog: Changelog = "retract"
    ttl_s: Ttl = None
    time: ByTime = "processing"
    state_bytes_per_key: Annotated[float, Field(ge=0, le=10**9, description="of the row of one key")] = 100.0

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def last(self) -> bool:
        """Whether it keeps the last row."""
        return self.keep == "last"

    @property
    def retracts(self) -> bool:
        """Whether a change sends the row before."""
        return self.changelog == "retract"

    @property
    def needs_event_time(self) -> bool:
        """Whether event times say which row is the first, and the last."""
        return self.time == "event"

    @property
    def thins(self) -> bool:  # type: ignore[override]
        """Whether some records pass unchanged, and others do not."""
        return not self.last and not self.needs_event_time

    @property
    def hands_over(self) -> str:
        """Kind of output: the records themselves, changes, or results of event time."""
        if self.needs_event_time:
            return "results"
        return "changes" if self.last else "records"

    @property
    def updates(self) -> bool:
        """Whether a later record may replace the row."""
        return self.last or self.needs_event_time

    @property
    def unseen(self) -> str:
        """What the law misses of records out of order, in words."""
        return f"that records of {self.name} come out of order, and change its rows" if self.needs_event_time else ""

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that rare keys of {self.name} come late or not at all, so that other numbers of records are the first"

    # law -------------------------------------------------------------------------------------------------------------

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator, as a mean over the run."""
        total, run_s = np.sum(inputs, axis=0), lasting_s(mixing)
        if self.last:
            first = first_share(total, self.keys, run_s, self.ttl_s)
            return self.passed_on(inputs, bursts, mixing, total * (first + (1.0 - first) * (1.0 + self.retracts)))
        return self.passed_on(inputs, bursts, mixing, self._begun(total, run_s) / run_s)

    def _begun(self, in_per_s: np.ndarray, run_s: float) -> np.ndarray:
        """Expected first rows in a run. Of a key, one comes after a random (exponential) time, and the next one such a
        time after `ttl_s`: a renewal process. Its k-th row comes with a gamma distribution, k - 1 times `ttl_s` later.
        [N]"""
        each = np.asarray(in_per_s, dtype=float) / self.keys
        if self.ttl_s is None:
            return np.asarray(-self.keys * np.expm1(-each * run_s))
        lives = math.ceil(run_s / self.ttl_s)
        if lives > MOST_LIVES:
            return np.asarray(self.keys * each * run_s / (1.0 + each * self.ttl_s))
        tails = [poisson_tail(number + 1, each * (run_s - number * self.ttl_s)) for number in range(lives)]
        return np.asarray(self.keys * np.sum(tails, axis=0))

    def state_bytes(self, in_per_s: np.ndarray, horizon_s: float) -> np.ndarray:
        """Rows of all subtasks at the end of a run, in bytes: those written within the time to live. [N]"""
        if self.last or self.ttl_s is None or horizon_s <= self.ttl_s:
            return seen_keys(in_per_s, self.keys, horizon_s, self.ttl_s) * self.state_bytes_per_key
        written = self._begun(in_per_s, horizon_s) - self._begun(in_per_s, horizon_s - self.ttl_s)
        return np.asarray(written * self.state_bytes_per_key)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Deduplicating:
        """Deduplicating by the operator's time to live."""
        return Deduplicating(self.last, self.retracts, self.ttl_s, self.state_bytes_per_key, self.needs_event_time)


# the highest rows of each key ----------------------------------------------------------------------------------------


MOMENTS, WEIGHTS = np.polynomial.legendre.leggauss(64)
"""Times at which the number of changes is looked at, on a run from -1 to 1, and their weights."""


class TopN(KeepsRecords):
    """Keeps the `n` highest rows of each key, and sends what changes among them: Flink's Rank with rows that are only
    inserted (ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) <= n). A record that enters sends an insertion, and a
    deletion of the row that leaves; with `row_number`, a change of its rank and each one below. The order of rows is
    random."""

    does: ClassVar[str] = "keeps the n highest rows of each key, and sends changes of them"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["top-n"] = "top-n"
    n: Annotated[int, Field(ge=1, le=10**5, description="rows of a key that are kept")]
    row_number: Annotated[bool, Field(description="whether results have the number of their rank")] = False
    changelog: Changelog = "retract"
    enters: Annotated[
        Fraction | None,
        Field(description="share of the records that enter a full list, at any rank; absent: those of higher values"),
    ] = None
    ttl_s: Ttl = None

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def retracts(self) -> bool:
        """Whether a change of a rank sends the row before."""
        return self.changelog == "retract"

    @property
    def updates(self) -> bool:
        """Always true: rows leave the list."""
        return True

    @property
    def if_updated(self) -> str:
        """Changes of listed rows are ranked as new ones, unless it is said how many change the list."""
        if self.enters is not None:
            return ""
        return (
            "its rows get random values as new ones do, so that far too few change the list; give enters, the share of "
            "the changes that are of a listed row (and changelog: upsert to what sends them)"
        )

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that lists of frequent keys of {self.name} change less often, and those of rare ones are not full"

    @property
    def unseen(self) -> str:
        """What the law misses of rows that expire, in words."""
        return "" if self.ttl_s is None else f"that rows of {self.name} expire one by one, so that others enter"

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the input, and the number of the rank if results have it."""
        return super().columns_out(inputs) + Columns(ints=int(self.row_number))

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator, as a mean over the run, and the rows at its end."""
        total, run_s = np.asarray(np.sum(inputs, axis=0), dtype=float), lasting_s(mixing)
        grows_s = run_s if self.ttl_s is None else min(self.ttl_s, run_s)
        each = total / self.keys
        nodes, weights = (1.0 + MOMENTS) / 2.0, WEIGHTS / 2.0
        means = np.multiply.outer(np.minimum(run_s * nodes**3, grows_s), each)  # more often early in the run
        changes = self._changes(means.reshape(-1)).reshape(means.shape)
        sent = np.zeros_like(total)
        for node, weight, changed in zip(nodes, weights, changes, strict=True):
            sent = sent + weight * 3.0 * node**2 * changed
        rows = self.keys * most_of(self.n, each * grows_s)
        return self.passed_on(inputs, bursts, mixing, total * sent, rows)

    def _changes(self, mean: np.ndarray) -> np.ndarray:
        """Expected results of a record before which a Poisson number of that mean have come. [N]

        With i before it, it enters if i < n, else with the probability n / (i + 1); its rank is any of those there are
        then.
        """
        n, mean = self.n, np.maximum(mean, 1e-12)
        full = poisson_tail(n, mean)
        enters = n / mean * poisson_tail(n + 1, mean) if self.enters is None else self.enters * full
        if not self.row_number:
            return np.asarray(1.0 - full + 2.0 * enters)
        below = mean * (1.0 - poisson_tail(n - 1, mean)) / 2.0 if n > 1 else 0.0
        return np.asarray(1.0 - full + (1.0 + self.retracts) * (below + (n + 1.0) / 2.0 * enters))

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Ranking:
        """Ranking by random values."""
        return Ranking(self.n, self.row_number, self.retracts, self.enters, self.ttl_s, self.row_bytes)


# OVER aggregation ----------------------------------------------------------------------------------------------------


WATERMARKS_S = 0.2
"""Seconds of event time of which watermarks are multiples, where no windows need others (docs/event-time.md)."""


class OverAggregate(LateTo, KeepsRecords):
    """Sends each record on with a result of the rows of its key before it: the last `rows`, or those of the last
    `range_s` seconds. Flink's OverAggregate (OVER (PARTITION BY ... ORDER BY ... ROWS or RANGE ... PRECEDING))."""

    does: ClassVar[str] = "adds to each record a result of the rows of its key before it"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["over-aggregate"] = "over-aggregate"
    rows: Annotated[
        int | None, Field(ge=1, le=10**6, description="rows before a record that count (ROWS ... PRECEDING)")
    ] = None
    range_s: Annotated[
        float | None,
        Field(gt=0, le=10**8, description="seconds before a record of which rows count (RANGE ... PRECEDING)"),
    ] = None

    time: ByTime = "processing"

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if (self.rows is None) == (self.range_s is None):
            given = "neither rows nor range_s" if self.rows is None else "both rows and range_s"
            raise ValueError(f"{self.name!r} has {given}; give one of them")
        if self.time == "processing" and self.late_to is not None:
            raise ValueError(f"{self.name!r} has late_to, and no record is late in processing time; add time: event")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def needs_event_time(self) -> bool:
        """Whether event times say which rows are before a record."""
        return self.time == "event"

    @property
    def one_to_one(self) -> bool:
        """Whether each record leaves at once: if it does not wait for a watermark."""
        return not self.needs_event_time

    @property
    def awaits(self) -> str:
        """Over event time, the turn of each record."""
        return "turn" if self.needs_event_time else ""

    @property
    def hands_over(self) -> str:
        """Kind of output: the records themselves, or results of event time."""
        return "results" if self.needs_event_time else "records"

    @property
    def memory_s(self) -> float:
        """Seconds for which a row counts; 0 for a number of rows."""
        return self.range_s or 0.0

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """All attributes of the input."""
        return attributes

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the input, and the result."""
        return super().columns_out(inputs) + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator, and the rows at the end of the run: of random (Poisson) records, with the last one
        of each key."""
        total, run_s = np.asarray(np.sum(inputs, axis=0), dtype=float), lasting_s(mixing)
        if self.rows is None:
            rows = total * min(self.range_s or 0.0, run_s)
        else:
            rows = self.keys * most_of(self.rows + 1, total * run_s / self.keys)
        flow = self.passed_on(inputs, bursts, mixing, total, rows)
        return flow._replace(bursts_per_s=mixing.arriving(inputs, bursts)[1])

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: over event time, a record waits until the watermark has passed its time. Watermarks that
        are not sent in time are multiples of a time. [3, N]"""
        if not self.needs_event_time:
            return mixed
        rounded_s = 0.0 if held.disorder.every_s else WATERMARKS_S / 2.0
        return np.asarray(mixed + np.maximum(held.disorder.slack_s + rounded_s - held.disorder.disorder_s / 2.0, 0.0))

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Preceding:
        """Preceding by the operator's rows or range."""
        return Preceding(self.rows, self.range_s, self.needs_event_time, self.late_to, self.row_bytes)
