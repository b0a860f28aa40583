"""Operators that call systems outside the job: asynchronous calls, lookup joins, and sinks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from twin.calls import Calls
from twin.kinds.flow import Columns
from twin.kinds.mechanism import Asking, Writing
from twin.kinds.operator import Fraction, KeyedOperator, OperatorBase, Selective
from twin.spec import Spec

# asynchronous calls --------------------------------------------------------------------------------------------------
# Asynchronous calls: operators that wait for answers from outside the job, which takes no CPU.


Latency = Annotated[float, Field(ge=0, le=10**5, description="mean seconds from a call to its answer")]
LatencyScv = Annotated[float, Field(ge=0, le=100, description="squared coefficient of variation of that; Gamma")]
Places = Annotated[int, Field(ge=1, le=10**6, description="calls of one subtask that wait at a time")]
PerSecond = Annotated[float, Field(gt=0, le=10**9, description="calls a second that all subtasks together may make")]


Lost = Literal["fail", "drop"]
"""What becomes of a record whose call is lost: it fails the job, as Flink's default is, or it is dropped."""


class Retry(Spec):
    """Further attempts at a call that has failed, as in Flink's AsyncRetryStrategy: after a fixed delay, or delays that
    grow."""

    max_attempts: Annotated[int, Field(ge=1, le=1000, description="attempts beside the first one, at most")]
    delay_s: Annotated[float, Field(ge=0, le=10**5, description="from a failure to the next attempt")]
    multiplier: Annotated[float, Field(ge=1, le=1000, description="of the delay, from each attempt to the next")] = 1.0
    max_delay_s: Annotated[float | None, Field(ge=0, le=10**5, description="longest delay; absent: any")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_delay_s is not None and self.max_delay_s < self.delay_s:
            raise ValueError(
                f"max_delay_s ({self.max_delay_s:g}) is shorter than delay_s ({self.delay_s:g}); make it longer"
            )
        return self


class Calling(OperatorBase):
    """Base of operators that make a call for each record. Service is the CPU time of making it and taking the
    answer."""

    runs_alone: ClassVar[bool] = True

    timeout_s: Annotated[
        float | None,
        Field(
            gt=0,
            le=10**5,
            exclude_if=lambda each: each is None,
            description="from a call's first attempt, after which it is given up; absent: never",
        ),
    ] = None
    on_timeout: Annotated[
        Lost, Field(exclude_if=lambda how: how == "fail", description="the job, or drop the record")
    ] = "fail"
    failure_share: Annotated[
        Fraction, Field(exclude_if=lambda share: not share, description="of the attempts, that fail at random")
    ] = 0.0
    on_failure: Annotated[
        Lost,
        Field(exclude_if=lambda how: how == "fail", description="the job, or drop the record, once no attempt is left"),
    ] = "fail"
    retry: Annotated[
        Retry | None, Field(exclude_if=lambda each: each is None, description="absent: a failed call is lost")
    ] = None

    @model_validator(mode="after")
    def _check_losses(self) -> Self:
        if self.retry is not None and not self.failure_share:
            raise ValueError(f"{self.name!r} has a retry, and no attempt fails; give failure_share, or leave it out")
        if self.on_timeout == "drop" and self.timeout_s is None:
            raise ValueError(f"{self.name!r} has on_timeout and no timeout_s; give one, or leave it out")
        if self.on_failure == "drop" and not self.failure_share:
            raise ValueError(f"{self.name!r} has on_failure, and no attempt fails; give failure_share, or leave it out")
        return self

    @property
    def plain_calls(self) -> Calls:
        """Calls to the system outside, one for each record, without losses."""
        raise NotImplementedError

    @property
    def calls(self) -> Calls:
        """Calls to the system outside, one for each record."""
        calls, retry = self.plain_calls, self.retry
        if self.timeout_s is not None:
            calls = replace(calls, timeout_s=self.timeout_s, late_lost=self.on_timeout == "drop")
        if self.failure_share:
            calls = replace(calls, failure_share=self.failure_share, failed_lost=self.on_failure == "drop")
        if retry is not None:
            most_s = math.inf if retry.max_delay_s is None else retry.max_delay_s
            calls = replace(calls, retries=retry.max_attempts, delay_s=retry.delay_s, most_delay_s=most_s)
            calls = replace(calls, multiplier=retry.multiplier)
        return calls


class AsyncIO(Calling, Selective, KeyedOperator):
    """Calls a system outside for each record, as Flink's AsyncDataStream does: `unordered` answers leave as they come,
    `ordered` ones in the order of their records."""

    does: ClassVar[str] = "asks a system outside for each record and waits without CPU"

    kind: Literal["async"] = "async"
    latency_s: Latency
    latency_scv: LatencyScv = 1.0
    capacity: Places = 100
    ordered: bool = False
    rate_per_s: PerSecond | None = None
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="records that leave for each answer")] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None

    @property
    def one_to_one(self) -> bool:
        """Whether each record leaves as one, at once: all calls are answered, and its selectivity is 1."""
        return self.gain == 1.0

    @property
    def gain(self) -> float:
        """Mean number of records that leave for each input record."""
        return self.selectivity * self.calls.answered

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """Selectivity that makes the operator emit that many records per input record."""
        answered = self.calls.answered
        return {"selectivity": results_per_input / answered} if answered > 0.0 else {}

    @property
    def plain_calls(self) -> Calls:
        """Calls with the operator's latency, capacity, order and limit."""
        return Calls(self.latency_s, self.latency_scv, self.capacity, self.ordered, self.rate_per_s)

    @property
    def mechanism(self) -> Asking:  # type: ignore[override]
        """Calls, and the number of records that leave for each answer."""
        return Asking(self.calls, self.selectivity)


# lookup joins --------------------------------------------------------------------------------------------------------
# Lookup joins: each record is joined with rows of a table outside, through a cache.


class LookupJoin(AsyncIO):
    """Calls a table outside for a record whose row is not in the cache, which answers the others after
    `hit_latency_s`."""

    does: ClassVar[str] = "looks records up in a table outside, through a cache"

    kind: Literal["lookup-join"] = "lookup-join"  # type: ignore[assignment]
    hit_ratio: Annotated[Fraction, Field(description="of the records, that the cache answers")] = 0.0
    hit_latency_s: Latency = 0.0
    rate_per_s: Annotated[PerSecond | None, Field(description="misses that the table bears, of all subtasks")] = None
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="rows that a record matches")] = 1.0

    @property
    def plain_calls(self) -> Calls:
        """Calls with the hits of the cache among them; misses are spread evenly over all records."""
        misses = 1.0 - self.hit_ratio
        rate_per_s = None if self.rate_per_s is None or not misses else self.rate_per_s / misses
        return replace(super().plain_calls, rate_per_s=rate_per_s, hit_ratio=self.hit_ratio, hit_s=self.hit_latency_s)


# sinks ---------------------------------------------------------------------------------------------------------------
# External sinks: they write to a system outside, which takes a limited load.


class ExternalSink(Calling):
    """Sink where results arrive once a system outside has acknowledged them. The system takes at most `rate_per_s` from
    all subtasks, or `capacity` at a time from each; a result that it does not take blocks the job."""

    is_sink: ClassVar[bool] = True
    does: ClassVar[str] = "writes the results to a system outside that bears so much"
    costs_like: ClassVar[str] = "sink"

    kind: Literal["external-sink"] = "external-sink"
    rate_per_s: PerSecond | None = None
    capacity: Places | None = None
    latency_s: Latency = 0.0
    latency_scv: LatencyScv = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rate_per_s is None and self.capacity is None:
            raise ValueError(
                f"external-sink {self.name!r} has no limit; give rate_per_s, or capacity and latency_s, "
                "or make it a sink"
            )
        if self.rate_per_s is None and self.latency_s == 0.0:
            raise ValueError(
                f"external-sink {self.name!r}: a capacity of {self.capacity} limits nothing where latency_s is 0; "
                "give the seconds to an acknowledgement"
            )
        return self

    @property
    def plain_calls(self) -> Calls:
        """Writes to the system outside, with their latency and limits."""
        return Calls(self.latency_s, self.latency_scv, self.capacity, False, self.rate_per_s)

    @property
    def mechanism(self) -> Writing:
        """Writing, by its calls."""
        return Writing(self.calls)
