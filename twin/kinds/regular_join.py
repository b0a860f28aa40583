"""Regular joins: each row of one side is joined with all rows of the other that have its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from twin.columns import Columns, DataType, joined_columns
from twin.kinds.ages import HeldRecords
from twin.kinds.by_key import ByKey, Ttl, first_share, lasting_s
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Pairing
from twin.kinds.operator import Name


class Sent(NamedTuple):
    """Results a second of a regular join. pairs: of two rows; alone: rows of an outer side without a partner;
    withdrawn: those of them that are retracted as a partner comes. [N] each"""

    pairs: np.ndarray
    alone: np.ndarray
    withdrawn: np.ndarray


class RegularJoin(ByKey):
    """Joins each record with all rows of the other side that have its key, and keeps it as a row, for ever or for
    `ttl_s`: Flink's regular join (StreamingJoinOperator). A record of an outer side that finds no row leaves alone, and
    is retracted when a row for it comes."""

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

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that frequent keys of {self.name} have more matches"

    def why_not_from(self, sides: Sequence[str]) -> str:
        """Says that the inputs are not `left` and `right`; empty if they are."""
        if sorted(sides) == sorted((self.left, self.right)):
            return ""
        return f"joins {self.left!r} with {self.right!r}, but its inputs are {', '.join(sides)}; make them agree"

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of both inputs, with one copy of the key."""
        return joined_columns(inputs, self.key_type)

    def _sides(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Left and right input, from inputs that are in the order of their names."""
        first, second = inputs[0], inputs[-1]
        return (first, second) if self.left < self.right else (second, first)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join of random (Poisson) records, as a mean over the run."""
        run_s = lasting_s(mixing)
        sent, total = self.sent(self._sides(inputs), run_s), np.sum(inputs, axis=0)
        rows = total * (run_s if self.ttl_s is None else min(self.ttl_s, run_s))
        return self.passed_on(inputs, bursts, mixing, sent.pairs + sent.alone + sent.withdrawn, rows)

    def sent(self, sides: tuple[np.ndarray, np.ndarray], run_s: float) -> Sent:
        """Results a second, as means over a run that begins without rows.

        At time t each side has rate min(t, ttl) rows, so 2 rate rate min(t, ttl) / keys pairs come a second. A record
        is alone with the probability exp(-c min(t, ttl)), where c is the rate of a key on the other side, and a partner
        comes before the row or the run has ended with 1 - exp(-c min(ttl, run - t)).
        """
        left, right = sides
        ttl_s = run_s if self.ttl_s is None else min(self.ttl_s, run_s)
        pairs = 2.0 * left * right / self.keys * ttl_s * (1.0 - ttl_s / (2.0 * run_s))
        alone, withdrawn = np.zeros_like(pairs), np.zeros_like(pairs)
        for is_outer, mine, other in zip(self.outer, sides, sides[::-1], strict=True):
            if not is_outer:
                continue
            c = np.maximum(other, 1e-12) / self.keys
            bare = first_share(other, self.keys, run_s, self.ttl_s)
            alone = alone + mine * bare
            grows_s = min(ttl_s, run_s - ttl_s)  # while only one of the two times is below the time to live
            one = (np.exp(-c * ttl_s) - np.exp(-c * (ttl_s + grows_s))) / c
            between_s = abs(run_s - 2.0 * ttl_s)
            both = np.exp(-c * np.minimum(2.0 * ttl_s, run_s))
            withdrawn = withdrawn + mine * (bare - (2.0 * one + between_s * both) / run_s)
        return Sent(pairs, alone, withdrawn)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results, as old as the records that caused them: pairs come with either side. [3, N]"""
        return np.asarray((arriving[:, 0] + arriving[:, -1]) / 2.0)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Pairing:
        """Pairing of both sides."""
        return Pairing(self.left, self.outer, self.ttl_s)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no two rows matched."""
        return (
            f"{self.name!r} took in {taken} records of {self.keys} keys, and no two of them matched; see that both "
            "inputs get records, or run longer"
        )
