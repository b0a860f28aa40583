"""Session windows: the records of a key until it is silent for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType
from twin.kinds.ages import HeldRecords
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Sessioning
from twin.kinds.operator import REFUSED, KeyedOperator, StateAccess
from twin.kinds.windowed import LateTo
from twin.windows import Holds, TimeOf


class Session(LateTo, KeyedOperator):
    """Emits one record for each session of a key, `gap_s` after the session's last record. Until then, it holds an
    accumulator of the key; of the size of a record, where the engine's `window_state` is `records`. Over event time, a
    session ends when the watermark has passed the gap; a record that comes later is late, or within
    `allowed_lateness_s` makes the session emit once more. Keys are equally frequent; where key groups are skewed
    (`workload.keys`), those of each group."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "summarises what comes of a key until it is silent for a while"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["session"] = "session"
    gap_s: Annotated[float, Field(ge=1e-6, le=10**7, description="of silence of a key")]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream")]
    key_type: DataType = "int"
    time: Annotated[
        TimeOf, Field(exclude_if=lambda time: time == "processing", description="by which a key is silent")
    ] = "processing"
    allowed_lateness_s: Annotated[
        float,
        Field(ge=0, le=10**9, exclude_if=lambda late_s: not late_s, description="for which a late record counts"),
    ] = 0.0

    @model_validator(mode="after")
    def _check_time(self) -> Self:
        for name in ("late_to", "allowed_lateness_s"):
            if self.time == "processing" and getattr(self, name):
                raise ValueError(f"{self.name!r} has {name}, and no record is late in processing time; add time: event")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Always true: sessions are by key."""
        return True

    @property
    def accumulated(self) -> Columns:
        """Columns of the key and the value."""
        return self.columns_out(())

    @property
    def if_updated(self) -> str:
        """Changes count as rows of their own, where Flink refuses them."""
        return REFUSED

    @property
    def hands_over(self) -> str:
        """Kind of output: results of event time, or of processing time."""
        return "results" if self.needs_event_time else "untimed"

    @property
    def awaits(self) -> str:
        """The end of a session: its gap without a record."""
        return "watermark" if self.needs_event_time else "end"

    @property
    def needs_event_time(self) -> bool:
        """Whether sessions are over event time."""
        return self.time == "event"

    @property
    def memory_s(self) -> float:
        """Seconds for which a record keeps its session open."""
        return self.gap_s

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return (
            f"that keys of {self.name} are unlike (so fewer sessions end than estimated where fewer than two records "
            "of a key come in gap_s, and more, which are shorter, where more come)"
        )

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """The accumulator and the bounds of the key's sessions are read and written."""
        return StateAccess(reads=2.0, writes=2.0)

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the key and the value."""
        return Columns.one(self.key_type) + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator: a record is the last of its session if no other of its key comes in the gap, as
        for exp(-rate gap / keys) of them."""
        total, _, burst_s = mixing.arriving(inputs, bursts)
        each = total * self.gap_s / self.keys
        none, never = np.zeros_like(total), np.full_like(total, np.inf)
        return Flow(inputs, total, total * np.exp(-each), self._open(total), none, none, never, burst_s)

    def _open(self, in_per_s: np.ndarray) -> np.ndarray:
        """Expected sessions at any time: keys of which a record came within the gap. [N]"""
        return np.asarray(-self.keys * np.expm1(-in_per_s * self.gap_s / self.keys))

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: sessions are busy periods of M/D/infinity, (exp(rate gap) - 1) / rate of a key. [3,
        N]"""
        lasts_s = self.lasts_s(held.in_per_s)
        rows = np.stack([lasts_s, lasts_s, np.full_like(lasts_s, self.gap_s)])
        return np.asarray(mixed + rows + held.disorder.slack_s)

    def lasts_s(self, in_per_s: np.ndarray) -> np.ndarray:
        """Mean length of a session in seconds, with the gap at its end. [N]"""
        per_key = np.maximum(in_per_s, 1e-12) / self.keys
        return np.asarray(np.expm1(np.minimum(per_key * self.gap_s, 700.0)) / per_key)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Sessioning:
        """Sessioning by the operator's gap."""
        return Sessioning(self.gap_s, self.keys, self.time == "event", self.allowed_lateness_s, self.late_to)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no session ended."""
        return (
            f"{self.name!r} took in {taken} records of {self.keys} keys, and none of them was silent for "
            f"{self.gap_s:g} s; shorten its gap_s, give it more keys or run longer"
        )
