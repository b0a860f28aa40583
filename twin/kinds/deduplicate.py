"""Deduplication: the first or the last row of each key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.kinds.by_key import ByKey, ByTime, Changelog, Ttl, first_share, lasting_s, poisson_tail, seen_keys
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Deduplicating

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
