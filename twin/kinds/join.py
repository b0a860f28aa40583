"""Windowed joins: one tuple per match at each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType
from twin.key_skew import zipf_shares
from twin.kinds.ages import Held, length_s, oldest_s, start_s
from twin.kinds.flow import Flow, Mixing, OperatorRates
from twin.kinds.mechanism import Matching
from twin.kinds.operator import Fraction
from twin.kinds.pairing import combinations, stalling
from twin.kinds.windowed import Windowed, content_and_fires


class Join(Windowed):
    """Joins its two or more inputs at each evaluation of their common window: one tuple of each a match.

    Either `selectivity`, matches / (|W1| |W2| ...) (Costream, Definition 7), or `amplification`, output tuples per
    input tuple as measured on a running engine, where the window contents are unknown.
    """

    joins: ClassVar[bool] = True
    does: ClassVar[str] = "matches tuples of two streams within a window"
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
        """Always: matches have the same key."""
        return True

    @property
    def bunches(self) -> bool:
        """By time, tuples that wait are looked at together, and matches grow with the product of the sides."""
        return self.window.policy == "time" and self.amplification is None

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Those of all inputs, with one copy of the key."""
        joined = sum(inputs[1:], inputs[0])
        kept = max(0, joined.count(self.key_type) - (len(inputs) - 1))
        return joined.model_copy(update={f"{self.key_type}s": kept})

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """The matches of each evaluation."""
        if self.window.policy == "count" and self.amplification is None and np.any(np.asarray(mixing.replicas) > 1.0):
            return self._of_replicas(inputs, bursts, mixing)
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

    def _of_replicas(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Of count windows that each replica has of its own: of what comes to it, as keys are dealt to all alike.

        A pair of tuples of dealt sides that meet on one of R replicas is R times as likely to match.
        """
        replicas, whole = mixing.replicas, mixing.whole or (False,) * len(inputs)
        own = tuple(rate if all_ else rate / replicas for rate, all_ in zip(inputs, whole, strict=True))
        found = self.through(own, bursts, mixing._replace(replicas=1.0))
        likelier = replicas ** max(0, len(whole) - sum(whole) - 1)
        total = np.asarray(np.sum(inputs, axis=0))
        often = found.bursts_per_s * replicas
        return found._replace(
            inputs_per_s=inputs,
            in_per_s=total,
            out_per_s=found.out_per_s * likelier * replicas,
            fires_per_s=found.fires_per_s * replicas,
            bursts_per_s=often,
        )

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: Held) -> np.ndarray:
        """The oldest of tuples drawn at random from the window, one a side, plus the older side's age."""
        size_s, slide_s = length_s(self.window, np.maximum(held.in_per_s, 1e-12))
        sides = arriving.shape[1]
        ages = oldest_s(list(arriving.swapaxes(0, 1)), size_s)
        filling_s = sides / (sides + 1.0) * (size_s - slide_s)  # matches grow with that power of the content
        ages[2] = arriving[2].max(axis=0) + start_s(self.window, slide_s) + filling_s
        return ages

    def selectivity_at(self, rates: OperatorRates) -> float:
        """As given (Costream, Definition 7), or output per input tuple."""
        return super().selectivity_at(rates) if self.selectivity is None else self.selectivity

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Matching:
        """See OperatorBase."""
        return Matching(self.window, self.selectivity, self.amplification)

    # measured, and varied --------------------------------------------------------------------------------------------

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """See OperatorBase."""
        return {"selectivity": None, "amplification": results_per_input}

    def lowered(self, factor: float) -> Self:
        """See OperatorBase."""
        if self.selectivity is None:
            return self
        return self.model_copy(update={"selectivity": self.selectivity * factor})

    # advice ----------------------------------------------------------------------------------------------------------

    def crowded(self, sides: int, zipf: float) -> str:
        """That it is said to match more often than tuples are of one key group."""
        if self.key_groups is None or self.selectivity is None:
            return ""
        most = float(np.sum(zipf_shares(self.key_groups, zipf) ** sides))
        if self.selectivity <= most * 1.001:
            return ""
        return (
            f"{self.name}: only tuples of one key group match, with {self.key_groups} key groups {most:.3g} of all, "
            f"which is less than its selectivity of {self.selectivity:g}; lower it or give fewer key_groups"
        )

    def why_silent(self, taken: int, came: int) -> str:
        """Nothing matched, or nothing came of one side."""
        return (
            f"{self.name!r} took in {taken} tuples and nothing came out; see that all of its inputs get tuples, raise "
            "its selectivity, or, if it cannot keep up, give it more CPU"
        )
