"""Base of the operators of Flink SQL that keep rows by key, with the laws of keys that come for the first time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.kinds.flow import Flow, Mixing
from twin.kinds.operator import REFUSED, KeyedOperator, StateAccess
from twin.windows import Holds, TimeOf

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
