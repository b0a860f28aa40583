"""Joins of tables by key: of all rows that have come, and of records with a table that changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from twin.kinds.flow import Columns, DataType, Flow, HeldRecords, Mixing
from twin.kinds.join import TwoSided
from twin.kinds.mechanism import Pairing, Tabling
from twin.kinds.operator import KeyedOperator, Name, StateAccess
from twin.kinds.rows import KeepsRecords, Ttl, lasting_s
from twin.windows import Holds, TimeOf

# regular joins -------------------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """Results a second of a regular join. pairs: of two rows; alone: rows of an outer side without a partner;
    withdrawn: those of them that are retracted as a partner comes. [N] each"""

    pairs: np.ndarray
    alone: np.ndarray
    withdrawn: np.ndarray


class RegularJoin(TwoSided, KeepsRecords):
    """Joins each record with all rows of the other side that have its key, and keeps it as a row, for ever or for
    `ttl_s`: Flink's regular join (StreamingJoinOperator). A record of an outer side that finds no row leaves alone, and
    is retracted when a row for it comes.

    Keys are the same for ever, such as products, or new ones take their place, such as orders: then `keys` of them are
    in use at a time, and each record is the last of its key with the probability 1 / `key_records`."""

    joins: ClassVar[bool] = True
    does: ClassVar[str] = "joins each record with all rows of the other side, and keeps both sides"
    costs_like: ClassVar[str] = "join"

    kind: Literal["regular-join"] = "regular-join"
    left: Annotated[Name, Field(description="the input of the left side, or its producer")]
    right: Annotated[Name, Field(description="the input of the right side, or its producer")]
    type: Annotated[
        Literal["inner", "left", "right", "full"], Field(description="the sides whose records leave without a partner")
    ] = "inner"
    ttl_s: Ttl = None
    key_records: Annotated[
        float | None,
        Field(ge=1, description="mean records of both sides in the life of a key; absent: keys stay for ever"),
    ] = None
    key_type: DataType = "int"

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether the left and the right side are outer ones."""
        return self.type in ("left", "full"), self.type in ("right", "full")

    @property
    def memory_s(self) -> float:
        """Seconds for which a row is kept; 0 if for ever."""
        return self.ttl_s or 0.0

    @property
    def last(self) -> float:
        """Share of the records that are the last of their key."""
        return 0.0 if self.key_records is None else 1.0 / self.key_records

    @property
    def grows_faster(self) -> bool:
        """Whether a record finds more rows where more came: where keys stay."""
        return self.key_records is None

    @property
    def goes_on(self) -> float:
        """Share of the records that are not the last of their key."""
        return 1.0 - self.last

    @property
    def updates(self) -> bool:
        """Whether rows that left alone are retracted as partners come."""
        return self.type != "inner"

    @property
    def if_updated(self) -> str:
        """Changes are kept beside the rows before."""
        return (
            "it keeps the row before, too, so that pairs grow too many; give it a ttl_s in which a row changes about "
            "once, and changelog: upsert to what sends changes"
        )

    # law -------------------------------------------------------------------------------------------------------------

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join of random (Poisson) records, as a mean over the run. Copies of one record match, too. A
        copy of an outer side that leaves alone before the other comes is not counted."""
        run_s = lasting_s(mixing)
        sent, total = self.sent(self.sides(inputs), run_s), np.sum(inputs, axis=0)
        rows = total * (run_s if self.ttl_s is None else min(self.ttl_s, run_s))
        out = sent.pairs + self.of_copies(mixing) + sent.alone + sent.withdrawn
        return self.passed_on(inputs, bursts, mixing, out, rows)

    def sent(self, sides: tuple[np.ndarray, np.ndarray], run_s: float) -> Sent:
        """Results a second, as means over a run that begins without rows.

        Each of the `keys` in use gets c = left / keys and d = right / keys records a second, each of which is its last
        with probability q. Of the records that came within w seconds before a record, (1 - q) (c + d) g(q (c + d), w)
        are of the same life of its key, where g(h, w) = (1 - exp(-h w)) / h. Of the left side, the next thing that
        counts is a partner, or the end of the life, with c q + d a second, before and after: it finds no row with
        probability 1 - (1 - q) d g(c q + d, w), and a row comes for it likewise.
        """
        ttl_s = run_s if self.ttl_s is None else min(self.ttl_s, run_s)
        c, d = (side / self.keys for side in sides)
        pairs = 2.0 * self.goes_on * sides[0] * d * _mean(self.last * (c + d), ttl_s, run_s)
        alone, withdrawn = np.zeros_like(pairs), np.zeros_like(pairs)
        for is_outer, mine, own, other in ((self.outer[0], sides[0], c, d), (self.outer[1], sides[1], d, c)):
            if is_outer:
                finds, ends = self.goes_on * other, own * self.last + other
                once = finds * _mean(ends, ttl_s, run_s)
                alone = alone + mine * (1.0 - once)
                withdrawn = withdrawn + mine * (once - finds**2 * _mean_before_and_after(ends, ttl_s, run_s))
        return Sent(pairs, alone, withdrawn)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results, as old as the records that caused them: pairs come with either side. [3, N]"""
        return np.asarray((arriving[:, 0] + arriving[:, -1]) / 2.0)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Pairing:
        """Pairing of both sides."""
        return Pairing(self.left, self.outer, self.ttl_s, self.last, self.row_bytes)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no two rows matched."""
        return (
            f"{self.name!r} took in {taken} records of {self.keys} keys, and no two of them matched; see that both "
            "inputs get records, or run longer"
        )


# integrals of the law of regular joins -------------------------------------------------------------------------------


SMALL = 1e-3
"""Number below which exponential functions are taken by their first terms."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
"""Nodes and weights of Gauss and Legendre, on -1 to 1."""


def _within(h: np.ndarray, w_s: np.ndarray | float) -> np.ndarray:
    """g(h, w) = (1 - exp(-h w)) / h: the mean time until an event of rate h, at most w. [...]"""
    x = np.asarray(h * w_s)
    each = np.where(x < SMALL, 1.0 - x / 2.0, -np.expm1(-x) / np.maximum(x, SMALL))
    return np.asarray(w_s * each)


def _mean(h: np.ndarray, ttl_s: float, run_s: float) -> np.ndarray:
    """Mean of g(h, min(t, ttl)) over a run. [N]"""
    x = h * ttl_s
    grown = np.where(x < SMALL, 0.5 - x / 6.0, (x + np.expm1(-x)) / np.maximum(x, SMALL) ** 2)
    return np.asarray((ttl_s**2 * grown + (run_s - ttl_s) * _within(h, ttl_s)) / run_s)


def _mean_before_and_after(h: np.ndarray, ttl_s: float, run_s: float) -> np.ndarray:
    """Mean of g(h, min(t, ttl)) g(h, min(run - t, ttl)) over a run. [N]"""
    edges_s = sorted({0.0, min(ttl_s, run_s - ttl_s), max(ttl_s, run_s - ttl_s), run_s})
    total = np.zeros_like(h)
    for start_s, end_s in pairwise(edges_s):
        half_s = (end_s - start_s) / 2.0
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            t_s = start_s + half_s * (1.0 + node)
            both = _within(h, min(t_s, ttl_s)) * _within(h, min(run_s - t_s, ttl_s))
            total = total + half_s * weight * both
    return np.asarray(total / run_s)


# temporal joins ------------------------------------------------------------------------------------------------------


class TemporalJoin(KeyedOperator):
    """Joins records with a table by key. Records of `side` change its rows and go no further; each other record finds
    `selectivity` rows, as they are when it comes (Flink's temporal join; its broadcast state, if the stream of the side
    is `broadcast`). The table is the state of its key groups."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "joins records with a table that one of its inputs changes"
    costs_like: ClassVar[str] = "map"

    kind: Literal["temporal-join"] = "temporal-join"
    side: Annotated[Name, Field(description="the input (by default, the producer) whose records change the table")]
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="rows that a record of another input finds")] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the widest input")] = None
    time: Annotated[
        TimeOf,
        Field(
            exclude_if=lambda time: time == "processing",
            description="of which the rows are: when a record comes, or its own, once the watermark has passed it",
        ),
    ] = "processing"

    @property
    def needs_event_time(self) -> bool:
        """Whether records find the rows of their own times."""
        return self.time == "event"

    @property
    def awaits(self) -> str:
        """Over event time, the turn of each record."""
        return "turn" if self.needs_event_time else ""

    @property
    def hands_over(self) -> str:
        """Kind of output: results of event time, or the records themselves."""
        return "results" if self.needs_event_time else "records"

    @property
    def keyed(self) -> bool:
        """Whether all records of a key belong on one subtask."""
        return self.key_groups is not None or self.needs_event_time

    def passed_from(self, side: str) -> float:
        """Share of an input's records that leave in results: 0 of those that change the table."""
        return 0.0 if side == self.side else 1.0

    def why_not_from(self, sides: Sequence[str]) -> str:
        """Says that the side, or any other input, is missing; empty if neither is."""
        if self.side not in sides:
            return f"has the side {self.side!r}, from which no stream comes; its inputs are {', '.join(sides)}"
        return "" if len(sides) > 1 else f"has no input but its side {self.side!r}; add the stream to be joined"

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join. Records that change the table are input, too."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        passed = mixing.passed or (1.0,) * len(inputs)  # unknown: the most there can be
        joined = sum([rate * part for rate, part in zip(inputs, passed, strict=True)], start=none)
        out = self.selectivity * joined
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """A record of the side writes a row; another one reads one."""
        return StateAccess(writes=1.0) if producer == self.side else StateAccess(reads=1.0)

    @property
    def mechanism(self) -> Tabling:
        """Tabling by the operator's side."""
        return Tabling(self.selectivity, self.side, self.time == "event")

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results; over event time, older by the wait for the watermark, which is shorter for records that
        come late themselves. [3, N]"""
        return np.asarray(mixed + np.maximum(held.disorder.slack_s - held.disorder.disorder_s / 2.0, 0.0))
