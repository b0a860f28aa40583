"""Windowed joins, and their law: expected matches of the records of several sides in a window. All arrays are [N]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType, joined_columns
from twin.key_skew import zipf_shares
from twin.kinds.ages import HeldRecords, length_s, oldest_s, start_s
from twin.kinds.flow import MIXED, Flow, Mixing, OperatorRates
from twin.kinds.mechanism import Matching
from twin.kinds.operator import Fraction
from twin.kinds.windowed import Windowed, content_and_fires
from twin.windows import Window


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
        """Flow through the join: the matches of each evaluation."""
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
        matches = (self.selectivity or 0.0) * combinations(self.window, inputs, bursts, content, mixing)
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
        found = self.through(own, bursts, mixing._replace(parallelism=1.0))
        likelier = parallelism ** max(0, len(whole) - sum(whole) - 1)
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
