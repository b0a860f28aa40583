"""Session windows: the tuples of a key until it is silent for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType
from twin.kinds.ages import HeldTuples
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Sessioning
from twin.kinds.operator import KeyedOperator


class Session(KeyedOperator):
    """Emits one tuple for each session of a key, `gap_s` after the session's last tuple. Until then, it holds a summary
    of the key, of the size of a tuple. Keys are equally frequent; where key groups are skewed (`workload.keys`), those
    of each group."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "summarises what comes of a key until it is silent for a while"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["session"] = "session"
    gap_s: Annotated[float, Field(ge=1e-6, le=10**7, description="of silence of a key, processing time")]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream")]
    key_type: DataType = "int"

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.require_keys(self.keys)
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Always true: sessions are by key."""
        return True

    @property
    def hands_over(self) -> str:
        """Kind of output: results without event time."""
        return "untimed"

    @property
    def memory_s(self) -> float:
        """Seconds for which a tuple keeps its session open."""
        return self.gap_s

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return (
            f"that keys of {self.name} are unlike (so fewer sessions end than estimated where fewer than two tuples of "
            "a key come in gap_s, and more, which are shorter, where more come)"
        )

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the key and the value."""
        return Columns.one(self.key_type) + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator: a tuple is the last of its session if no other of its key comes in the gap, as for
        exp(-rate gap / keys) of them."""
        total, _, burst_s = mixing.arriving(inputs, bursts)
        each = total * self.gap_s / self.keys
        none, never = np.zeros_like(total), np.full_like(total, np.inf)
        return Flow(inputs, total, total * np.exp(-each), self._open(total), none, none, never, burst_s)

    def _open(self, in_per_s: np.ndarray) -> np.ndarray:
        """Expected sessions at any time: keys of which a tuple came within the gap. [N]"""
        return np.asarray(-self.keys * np.expm1(-in_per_s * self.gap_s / self.keys))

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldTuples) -> np.ndarray:
        """Ages of the results: sessions are busy periods of M/D/infinity, (exp(rate gap) - 1) / rate of a key. [3,
        N]"""
        lasts_s = self.lasts_s(held.in_per_s)
        return np.asarray(mixed + np.stack([lasts_s, lasts_s, np.full_like(lasts_s, self.gap_s)]))

    def lasts_s(self, in_per_s: np.ndarray) -> np.ndarray:
        """Mean length of a session in seconds, with the gap at its end. [N]"""
        per_key = np.maximum(in_per_s, 1e-12) / self.keys
        return np.asarray(np.expm1(np.minimum(per_key * self.gap_s, 700.0)) / per_key)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Sessioning:
        """Sessioning by the operator's gap."""
        return Sessioning(self.gap_s, self.keys)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no session ended."""
        return (
            f"{self.name!r} took in {taken} tuples of {self.keys} keys, and none of them was silent for "
            f"{self.gap_s:g} s; shorten its gap_s, give it more keys or run longer"
        )
