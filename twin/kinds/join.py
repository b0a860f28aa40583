"""Joins of records by time: of those in a window, and of those within bounds around each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.key_skew import zipf_shares
from twin.kinds.flow import (
    MIXED,
    Columns,
    DataType,
    Flow,
    HeldRecords,
    Mixing,
    OperatorRates,
    joined_columns,
    length_s,
    oldest_s,
    start_s,
)
from twin.kinds.mechanism import Matching, Meeting
from twin.kinds.operator import REFUSED, Fraction, KeyedOperator, Name, StateAccess
from twin.kinds.windowed import LateTo, Windowed, content_and_fires
from twin.windows import Holds, TimeOf, Window

# windowed joins ------------------------------------------------------------------------------------------------------


class Join(Windowed):
    """Joins its two or more inputs at each evaluation of their common window: a match has one record of each.

    Either `selectivity`, matches / (|W1| |W2| ...) (Costream, Definition 7), or `amplification`, output records per
    input record as measured on a running engine, where the window contents are unknown.
    """

    joins: ClassVar[bool] = True
    does: ClassVar[str] = "matches records of two streams within a window"
    costs_like: ClassVar[str] = ""

    kind: Literal["join"] = "join"
    key_type: DataType = "int"
    selectivity: Fraction | None = None
    amplification: Annotated[float | None, Field(ge=0, le=10**6)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.selectivity is None) == (self.amplification is None):
            raise ValueError(f"join {self.name!r}: give either selectivity or amplification")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Always true: matches have the same key."""
        return True

    @property
    def hands_over(self) -> str:
        """Kind of output: results of event time, or of processing time."""
        return "results" if self.needs_event_time else "untimed"

    @property
    def bunches(self) -> bool:
        """Whether evaluations are by time, so that matches grow with the product of the waiting records of the
        sides."""
        return self.window.policy == "time" and self.amplification is None

    @property
    def grows_faster(self) -> bool:
        """Whether a window with twice the records has more than twice the matches."""
        return self.bunches

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of all inputs, with one copy of the key."""
        return joined_columns(inputs, self.key_type)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join: the matches of each evaluation. Copies of one record match whenever both are in the
        window; they count as coming at once."""
        if (
            self.window.policy == "count"
            and self.amplification is None
            and np.any(np.asarray(mixing.parallelism) > 1.0)
        ):
            return self._of_subtasks(inputs, bursts, mixing)
        total, _, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        content, fires = content_and_fires(self.window, total, np.full_like(total, np.inf), none)
        if self.amplification is not None:
            return Flow(inputs, total, self.amplification * total, content, fires, none, fires, none)
        selectivity = self.selectivity or 0.0
        matches = selectivity * combinations(self.window, inputs, bursts, content, mixing)
        lasts_s = np.divide(content, total, out=np.zeros_like(total), where=total > 0)
        matches = matches + (1.0 - selectivity) * mixing.copies_per_s * lasts_s
        if mixing.stalls_s is not None:
            content, fires, matches = stalling(self.window, inputs, mixing, content, fires, matches)
        seldom = np.min(bursts, axis=0)
        longest_s = np.where(fires > seldom, burst_s, 0.0)
        return Flow(inputs, total, fires * matches, content, fires, none, np.minimum(fires, seldom), longest_s)

    def _of_subtasks(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through a join whose subtasks each have a count window of their own, of the records that they get. Keys
        are dealt evenly to the subtasks.

        A pair of records of dealt sides that meet on one of R subtasks is R times as likely to match.
        """
        parallelism, whole = mixing.parallelism, mixing.whole or (False,) * len(inputs)
        own = tuple(rate if all_ else rate / parallelism for rate, all_ in zip(inputs, whole, strict=True))
        likelier = parallelism ** max(0, len(whole) - sum(whole) - 1)
        copies = mixing.copies_per_s / (parallelism * likelier)  # copies meet anyway
        found = self.through(own, bursts, mixing._replace(parallelism=1.0, copies_per_s=copies))
        total = np.asarray(np.sum(inputs, axis=0))
        often = found.bursts_per_s * parallelism
        return found._replace(
            inputs_per_s=inputs,
            in_per_s=total,
            out_per_s=found.out_per_s * likelier * parallelism,
            fires_per_s=found.fires_per_s * parallelism,
            bursts_per_s=often,
        )

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Age of the oldest of records drawn at random from the window, one a side, plus the older side's age. [3,
        N]"""
        size_s, slide_s = length_s(self.window, np.maximum(held.in_per_s, 1e-12))
        sides = arriving.shape[1]
        ages = oldest_s(list(arriving.swapaxes(0, 1)), size_s)
        filling_s = sides / (sides + 1.0) * (size_s - slide_s)  # matches grow with content ^ sides
        ages[2] = arriving[2].max(axis=0) + start_s(self.window, slide_s) + filling_s
        return np.asarray(ages + held.disorder.slack_s)

    def selectivity_at(self, rates: OperatorRates) -> float:
        """Selectivity as given (Costream, Definition 7), or output per input record."""
        return super().selectivity_at(rates) if self.selectivity is None else self.selectivity

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Matching:
        """Matching within the operator's window."""
        if self.selectivity == 0.0:  # no number of keys gives this selectivity
            return Matching(self.window, None, 0.0, self.late_to)
        return Matching(self.window, self.selectivity, self.amplification, self.late_to)

    # measured, and varied --------------------------------------------------------------------------------------------

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """Amplification that makes the join emit that many records per input record."""
        return {"selectivity": None, "amplification": results_per_input}

    def lowered(self, factor: float) -> Self:
        """Copy whose selectivity is multiplied by `factor`; the join itself if it has an amplification."""
        if self.selectivity is None:
            return self
        return self.model_copy(update={"selectivity": self.selectivity * factor})

    # advice ----------------------------------------------------------------------------------------------------------

    def crowded(self, sides: int, zipf: float) -> str:
        """Warns of a selectivity above the share of pairs in one key group. sides: number of inputs; zipf: key groups'
        skew."""
        if self.key_groups is None or self.selectivity is None:
            return ""
        most = float(np.sum(zipf_shares(self.key_groups, zipf) ** sides))
        if self.selectivity <= most * 1.001:
            return ""
        return (
            f"{self.name}: only records of one key group match, with {self.key_groups} key groups {most:.3g} of all, "
            f"which is less than its selectivity of {self.selectivity:g}; lower it or give fewer key_groups"
        )

    def why_silent(self, taken: int, came: int) -> str:
        """Says that nothing matched, or that one side got nothing."""
        return (
            f"{self.name!r} took in {taken} records and nothing came out; see that all of its inputs get records, "
            "raise its selectivity, or, if it cannot keep up, give it more CPU"
        )


# the law of windowed joins -------------------------------------------------------------------------------------------
# Expected matches of the records of several sides in a window. All arrays are [N].


def stalling(
    window: Window,
    inputs: tuple[np.ndarray, ...],
    mixing: Mixing,
    content: np.ndarray,
    fires: np.ndarray,
    matches: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Content, evaluations a second, and matches per evaluation of a join with a time window whose own results block
    it. [N] each

    Blocked for longer than a slide s, the join takes records only from its release to the next evaluation: for a time t
    that is uniform from 0 to s, s / 2 on average, and the share b of all time. Records come in bunches then, one every
    s / 2b, of which a run sees at least two. Matches grow with the product of the sides' records in a bunch: where both
    sides fill their channels, with E[t^2] / E[t] = 2 s / 3; of a side that brings next to nothing, a bunch takes all
    that has come, which leaves s / 2. If records came evenly, matches would grow with b times the window's size
    instead.
    """
    assert mixing.stalls_s is not None
    stalled = mixing.stalls_s > 0
    busy = np.maximum(np.sum(inputs, axis=0) * mixing.stalls_s, window.slide / mixing.horizon_s)
    alike = np.min(inputs, axis=0) / np.maximum(np.max(inputs, axis=0), 1e-12)
    bunched = (1.0 / 2.0 + np.minimum(1.0, 4.0 * alike) / 6.0) * window.slide / window.size / np.maximum(busy, 1e-9)
    rarer = np.where(stalled, np.minimum(1.0, 2.0 * busy), 1.0)
    return content / rarer, fires * rarer, matches * np.where(stalled, np.maximum(1.0, bunched), 1.0) / rarer


def combinations(
    window: Window, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], content: np.ndarray, mixing: Mixing
) -> np.ndarray:
    """Expected product of the numbers of records of all sides in a window. [N]

    With three and more sides, streams count as well mixed: the sides of a count window of w records are multinomial, so
    the product falls short of that of the means by (1 - 1/w) (1 - 2/w) ...; those of a time window are independent.
    """
    if len(inputs) == 2:
        return pairs(window, inputs, bursts, content, mixing)
    total = np.sum(inputs, axis=0)
    product = np.ones_like(total)
    for number, rate in enumerate(inputs):
        share = np.divide(rate, total, out=np.zeros_like(total), where=total > 0)
        fewer = number if window.policy == "count" else 0
        product *= np.maximum(content - fewer, 0.0) * share
    return product


def pairs(
    window: Window,
    inputs: tuple[np.ndarray, ...],
    bursts: Sequence[np.ndarray],
    content: np.ndarray,
    mixing: Mixing = MIXED,
) -> np.ndarray:
    """Expected product of the numbers of records of both sides in a window. [N]

    A count window under bursts slides over runs of b records of one side and m of the other, in turn; a pair k apart is
    of both sides with probability 2 min(k, b, m, b + m - k) / (b + m), k modulo b + m. The part of a burst above the
    credits of its channel comes at the pace of the join, mixed with records of the other side that come meanwhile.
    """
    total = inputs[0] + inputs[1]
    left = content * np.divide(inputs[0], total, out=np.zeros_like(total), where=total > 0)
    mixed = left * (content - left)
    if window.policy == "time":
        return mixed
    mixed *= 1.0 - (1.0 / window.size if mixing.by_chance else 0.0)
    often = np.minimum(*bursts)
    if not np.isfinite(often).any():
        return mixed
    bursting = bursts[0] <= bursts[1]
    runs = [np.divide(rate, often, out=np.ones_like(rate), where=often > 0) for rate in inputs]
    burst, other = np.where(bursting, runs[0], runs[1]), np.where(bursting, runs[1], runs[0])
    used = [rate * each_s for rate, each_s in zip(inputs, mixing.services_s or (0.0, 0.0), strict=True)]
    among = np.minimum(np.where(bursting, used[1], used[0]), 0.9)  # utilisation by the other side
    spread = np.maximum(burst - mixing.credits, 0.0)
    meanwhile = np.minimum(spread * among / (1.0 - among), other)
    whole, rest = np.maximum(burst - spread, 1e-9), np.maximum(other - meanwhile, 1e-9)
    share = np.divide(meanwhile, spread + meanwhile, out=np.zeros_like(spread), where=spread > 0)
    within = window.size * (window.size - 1.0) * share * (1.0 - share)
    apart = _alternating(window.size, whole + rest, np.minimum(whole, rest))
    both = (apart * (whole + rest) + within * (spread + meanwhile)) / np.maximum(burst + other, 1e-9)
    return np.where(np.isfinite(often) & (burst + other > 2.0), both, mixed)


def _alternating(size: float, period: np.ndarray, shorter: np.ndarray) -> np.ndarray:
    """Sum over k < size of (size - k) 2 min(k, m, P - k) / P, k modulo the period P, with the shorter run m. [N]

    It is the trapezoidal rule for the integral of the same, which is a cubic in the rest of size / P, less a sixth of
    the last term; this is exact for whole runs, and nearly so for others.
    """
    periods, rest = np.divmod(size, period)
    in_one = shorter * (period - shorter)  # integral of min(k, m, P - k) over a period; it is symmetrical
    rising, falling = np.maximum(rest - shorter, 0.0), np.maximum(rest - period + shorter, 0.0)
    twice = periods * in_one * (period * periods / 2.0 + rest) + (rest**3 - rising**3 - falling**3) / 6.0
    return np.asarray(2.0 * (twice - np.minimum(np.minimum(rest, shorter), period - rest) / 6.0) / period)


# joins of two named sides --------------------------------------------------------------------------------------------


class TwoSided:
    """Base of joins of the inputs `left` and `right`, which are told apart by their names; a result has one copy of the
    key."""

    if TYPE_CHECKING:  # fields of the kinds, which describe them
        name: str
        left: str
        right: str
        keys: int
        key_type: DataType

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that frequent keys of {self.name} have more matches"

    def why_not_from(self, sides: Sequence[str]) -> str:
        """Says that the inputs are not `left` and `right`; empty if they are."""
        if sorted(sides) == sorted((self.left, self.right)):
            return ""
        return f"joins {self.left!r} with {self.right!r}, but its inputs are {', '.join(sides)}; make them agree"

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of both inputs, with one copy of the key."""
        return joined_columns(inputs, self.key_type)

    def of_copies(self, mixing: Mixing) -> np.ndarray | float:
        """Results a second of copies of one record, beyond those that match by chance. [N]"""
        return mixing.copies_per_s * (1.0 - 1.0 / self.keys)

    def sides(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Left and right input, from inputs that are in the order of their names."""
        first, second = inputs[0], inputs[-1]
        return (first, second) if self.left < self.right else (second, first)


# interval joins ------------------------------------------------------------------------------------------------------


Bound = Annotated[float, Field(ge=-(10**6), le=10**6)]

POINTS = 16
"""Number of delays between records out of order that stand for their distribution, on each side of 0."""


class IntervalJoin(TwoSided, LateTo, KeyedOperator):
    """Emits a record for each pair of records a of `left` and b of `right` that have the same key and a.time + lower_s
    <= b.time <= a.time + upper_s, as soon as both are there: Flink's interval join. Over processing time, the time of a
    record is the beginning of its service. Over event time, a result has the later of the two times, and a record that
    the watermark has passed is late. Records are stored while a partner can still come. All keys are equally
    frequent."""

    joins: ClassVar[bool] = True
    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "matches records of two streams that come within bounds of each other"
    costs_like: ClassVar[str] = "join"

    kind: Literal["interval-join"] = "interval-join"
    left: Annotated[Name, Field(description="the input, or its producer, from whose records the bounds are counted")]
    right: Annotated[Name, Field(description="the other input, or its producer")]
    lower_s: Annotated[Bound, Field(description="the shortest time from a record of the left to one of the right")]
    upper_s: Annotated[Bound, Field(description="the longest time from a record of the left to one of the right")]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in both streams")]
    key_type: DataType = "int"
    time: Annotated[
        TimeOf,
        Field(exclude_if=lambda time: time == "processing", description="by which time records meet"),
    ] = "processing"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lower_s >= self.upper_s:
            bounds = f"lower_s {self.lower_s:g} and upper_s {self.upper_s:g}"
            raise ValueError(f"{self.name!r} has {bounds}; give a lower bound below the upper one")
        if self.time == "processing" and self.late_to is not None:
            raise ValueError(f"{self.name!r} has late_to, and no record is late in processing time; add time: event")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def grows_faster(self) -> bool:
        """Always true: a record finds more records within its bounds where more come."""
        return True

    @property
    def keyed(self) -> bool:
        """Always true: matches have the same key."""
        return True

    @property
    def needs_event_time(self) -> bool:
        """Whether records meet by event time."""
        return self.time == "event"

    @property
    def if_updated(self) -> str:
        """Changes count as rows of their own, where Flink refuses them."""
        return REFUSED

    @property
    def hands_over(self) -> str:
        """Kind of output: results of event time, or of processing time."""
        return "results" if self.time == "event" else "untimed"

    @property
    def memory_s(self) -> float:
        """Longest time for which a record is stored, in seconds."""
        return max(self.upper_s, -self.lower_s)

    # law -------------------------------------------------------------------------------------------------------------

    @property
    def held_s(self) -> tuple[float, float]:
        """Seconds for which records of the left and of the right are stored."""
        return max(self.upper_s, 0.0), max(-self.lower_s, 0.0)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join: rate_a rate_b (upper - lower) / keys pairs a second, of Poisson streams, and all
        copies of one record, which count as coming at once. A side that all subtasks get counts once."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        whole = mixing.whole or (False,) * len(inputs)
        once = tuple(rate / (mixing.parallelism if all_ else 1.0) for rate, all_ in zip(inputs, whole, strict=True))
        left, right = self.sides(once)
        out = left * right * (self.upper_s - self.lower_s) / self.keys
        if self.lower_s <= 0.0 <= self.upper_s:
            out = out + self.of_copies(mixing)
        held = sum(rate * held_s for rate, held_s in zip(self.sides(inputs), self.held_s, strict=True))
        none = np.zeros_like(total)
        return Flow(inputs, total, out, held + none, none, none, np.where(together < out, together, np.inf), burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Age of the older of the two records of a result. [3, N]

        The right record comes D after the left one, with D uniform between the bounds, and the earlier record has aged
        by |D| meanwhile. Over event time, the earlier record's event time is |D| before the other's, whichever comes
        last; arrivals of records out of order are apart by D and the difference of two uniform delays.
        """
        left, right = self.sides((arriving[:, 0], arriving[:, -1]))
        if self.time == "processing":
            return self._oldest_s(left, right, 0.0)
        later_s = held.disorder.disorder_s * (1.0 - np.sqrt(1.0 - (np.arange(POINTS) + 0.5) / POINTS))  # triangular
        return np.asarray(np.mean([self._oldest_s(right, left, sign * s) for s in later_s for sign in (-1, 1)], axis=0))

    def _oldest_s(self, left: np.ndarray, right: np.ndarray, later_s: float) -> np.ndarray:
        """Mean age of the older record, if the right one comes D + later_s after the left one. [3, N]"""
        lower_s, upper_s = self.lower_s + later_s, self.upper_s + later_s
        later, sooner = (
            _older_s(left, right, max(lower_s, 0.0), max(upper_s, 0.0)),
            _older_s(right, left, max(-upper_s, 0.0), max(-lower_s, 0.0)),
        )
        return np.asarray((later + sooner) / (self.upper_s - self.lower_s))

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """The records of a key and time on its side are read and written, and those on the other side read."""
        return StateAccess(reads=2.0, writes=1.0)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Meeting:
        """Meeting by the operator's bounds and keys."""
        return Meeting(self.left, self.lower_s, self.upper_s, self.keys, self.time == "event", self.late_to)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no two records matched."""
        return (
            f"{self.name!r} took in {taken} records of {self.keys} keys, but no two of them matched within its bounds; "
            "see that both inputs get records, widen the bounds or run longer"
        )


def _older_s(early: np.ndarray, late: np.ndarray, least_s: float, most_s: float) -> np.ndarray:
    """Integral of max(early + d, late) over d from least_s to most_s. [3, N]"""
    from_s = np.clip(late - early, least_s, most_s)
    return np.asarray(late * (from_s - least_s) + early * (most_s - from_s) + (most_s**2 - from_s**2) / 2.0)
