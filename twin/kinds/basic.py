"""Basic kinds, which take one record after the other: sources and sinks, filters, maps, state by key, splits, and calls
to systems outside.

No window holds records here, and none waits for records of another input: those kinds have files of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.calls import Calls
from twin.key_skew import first_reader
from twin.kinds.flow import Columns, DataType, Flow, Mixing
from twin.kinds.mechanism import Asking, Collecting, Reading, Remembering, Routing, Writing
from twin.kinds.operator import Fraction, KeyedOperator, Name, OperatorBase, Selective
from twin.spec import Spec

# sources -------------------------------------------------------------------------------------------------------------
# They read records from a message broker; of Kafka, no two subtasks read the same partition.


Seconds0 = Annotated[float, Field(ge=0, le=10**6)]


class Source(OperatorBase):
    """Polls a broker and emits its records. Where windows are over event time, it also sends watermarks: the newest
    event time less `slack_s` (Enorm, Section 6.2; Flink's `forBoundedOutOfOrderness`)."""

    is_source: ClassVar[bool] = True
    does: ClassVar[str] = "reads from the message broker"
    costs_like: ClassVar[str] = ""

    kind: Literal["source"] = "source"
    columns: Columns = Columns(ints=1, strings=1, doubles=1)
    disorder_s: Annotated[
        Seconds0, Field(exclude_if=lambda s: not s, description="event times lie up to so long before arrival, evenly")
    ] = 0.0
    slack_s: Annotated[
        Seconds0, Field(exclude_if=lambda s: not s, description="how late events may be; later ones are dropped")
    ] = 0.0
    watermark_interval_s: Annotated[
        float | None,
        Field(
            ge=1e-3,
            le=10**6,
            exclude_if=lambda s: s is None,
            description="of processing time, from a watermark to the next; absent: by the engine",
        ),
    ] = None
    idle_s: Annotated[
        float | None,
        Field(
            ge=1e-3,
            le=10**7,
            exclude_if=lambda s: s is None,
            description="without a record, after which nobody waits for a subtask's watermark; absent: never",
        ),
    ] = None

    @property
    def mechanism(self) -> Reading:
        """Reading from the broker."""
        return Reading(self.disorder_s, self.slack_s, self.watermark_interval_s, self.idle_s)


Share = Annotated[float, Field(ge=0, le=10**12)]


class KafkaSource(Source):
    """Source whose subtasks read whole partitions: more subtasks than partitions are idle, and where partitions cannot
    be shared evenly some subtasks read more than others."""

    does: ClassVar[str] = "reads the partitions of a topic"
    costs_like: ClassVar[str] = "source"

    kind: Literal["kafka-source"] = "kafka-source"  # type: ignore[assignment]
    partitions: Annotated[int, Field(ge=1, le=10**5, description="of the topic")]
    partition_shares: Annotated[
        tuple[Share, ...] | None,
        Field(
            exclude_if=lambda shares: shares is None,
            description="of the records, by partition, in any unit; 0: it is silent; absent: all have the same rate",
        ),
    ] = None
    topic: Annotated[
        str | None,
        Field(
            min_length=1,
            exclude_if=lambda name: name is None,
            description="its name, whose hash is the subtask that reads partition 0 in Flink; absent: the first one",
        ),
    ] = None

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        given = self.partition_shares
        if given is not None and len(given) != self.partitions:
            raise ValueError(
                f"{self.name!r} has {len(given)} partition_shares for {self.partitions} partitions; give one for each"
            )
        if given is not None and not sum(given) > 0.0:
            raise ValueError(f"{self.name!r}: all partition_shares are 0; give one that is above, or leave them out")
        return self

    @property
    def parts(self) -> int:
        """Number of partitions of the topic."""
        return self.partitions

    @property
    def part_shares(self) -> np.ndarray | None:
        """Share of the records in each partition; None: all have the same. [partitions]"""
        given = self.partition_shares
        return None if given is None or len({*given}) == 1 else np.array(given) / sum(given)

    def first_reader(self, parallelism: int) -> int:
        """Number of the subtask that reads partition 0: by the name of the topic, as in Flink, if it is given."""
        return 0 if self.topic is None else first_reader(self.topic, parallelism)


# sinks ---------------------------------------------------------------------------------------------------------------


class Sink(OperatorBase):
    """Sink where results arrive, and where latency and throughput are measured."""

    is_sink: ClassVar[bool] = True
    does: ClassVar[str] = "receives the results"
    costs_like: ClassVar[str] = ""

    kind: Literal["sink"] = "sink"

    @property
    def mechanism(self) -> Collecting:
        """Collecting: the sink only counts and measures."""
        return Collecting()


# filters, maps, and state by key -------------------------------------------------------------------------------------


FilterFunction = Literal["<", ">", "<=", ">=", "!=", "startswith", "endswith"]


class Filter(Selective):
    """Passes a share `selectivity` of its input (Costream, Definition 6)."""

    thins: ClassVar[bool] = True
    does: ClassVar[str] = "lets a share of the records pass"
    costs_like: ClassVar[str] = ""

    kind: Literal["filter"] = "filter"
    selectivity: Fraction
    function: FilterFunction = "<"
    literal_type: DataType = "int"


class Map(Selective, KeyedOperator):
    """Emits `selectivity` records per input record: 1 is a map, above 1 a flat map (a word splitter emits 10)."""

    does: ClassVar[str] = "turns one record into another"
    costs_like: ClassVar[str] = ""

    kind: Literal["map"] = "map"
    selectivity: Annotated[float, Field(ge=0, le=10**6)] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None
    passes: Annotated[
        tuple[Name, ...],
        Field(exclude_if=lambda names: not names, description="attributes of its input that its output has unchanged"),
    ] = ()

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Attributes that the operator passes unchanged (the field `passes`)."""
        return attributes & frozenset(self.passes)


class KeyedState(Map):
    """Map with a state for each key, which lives for `ttl_s` after the key's last record (Flink's state TTL), or for
    ever. Keys are equally frequent; where key groups are skewed (`workload.keys`), those of each group."""

    does: ClassVar[str] = "keeps a state for each key until it has been silent for long enough"
    costs_like: ClassVar[str] = "map"

    kind: Literal["keyed-state"] = "keyed-state"  # type: ignore[assignment]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream")]
    ttl_s: Annotated[float | None, Field(gt=0, le=10**8, description="absent: states are never forgotten")] = None
    state_bytes_per_key: Annotated[float, Field(ge=0, le=10**9, description="of the state of one key")] = 100.0

    @property
    def keeps_rows(self) -> bool:
        """Always true: a state for each key."""
        return True

    @property
    def keyed(self) -> bool:
        """Always true: a state for each key."""
        return True

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that rare keys of {self.name} expire, so that it holds fewer than of equally frequent ones"

    def state_bytes(self, in_per_s: np.ndarray, horizon_s: float) -> np.ndarray:
        """State of all subtasks, in bytes: of K keys, those with a record within the time to live, or the run: K (1 -
        exp(-rate ttl / K)). [N]"""
        span_s = horizon_s if self.ttl_s is None else min(self.ttl_s, horizon_s)
        each = np.minimum(in_per_s * min(span_s, 1e9) / self.keys, 700.0)
        return np.asarray(-self.keys * np.expm1(-each) * self.state_bytes_per_key)

    @property
    def mechanism(self) -> Remembering:  # type: ignore[override]
        """Remembering for the time to live."""
        return Remembering(self.selectivity, self.ttl_s, self.state_bytes_per_key)


# splits --------------------------------------------------------------------------------------------------------------
# Side outputs are splits, too: each record goes to some of the operator's consumers, by share.


Part = Annotated[float, Field(gt=0, le=1)]
WHOLE = 1.0 + 1e-9
"""Sum of shares up to which they count as parts of one whole, with what rounding adds."""


class Router(OperatorBase):
    """Sends each record to one of its consumers, or to none, if the shares add up to 1 or less; if they add up to more,
    to each consumer at random, independently of the others."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "sends shares of the records to different consumers"

    kind: Literal["router"] = "router"
    shares: Annotated[Mapping[str, Part], Field(min_length=1, description="of its input, by consumer")]

    @property
    def exclusive(self) -> bool:
        """Whether a record goes to one consumer at most: the shares add up to 1 or less."""
        return sum(self.shares.values()) <= WHOLE

    @property
    def gain(self) -> float:
        """Share of the input that goes to any consumer; 1 if records may go to several."""
        return min(1.0, sum(self.shares.values()))

    def share_to(self, consumer: str) -> float:
        """Share of the output that goes to the consumer of that name."""
        return self.shares[consumer] / self.gain

    def why_not_to(self, consumers: Sequence[str]) -> str:
        """Says which consumer has no share, or which share has no consumer; empty if they agree."""
        missing = [name for name in consumers if name not in self.shares]
        if missing:
            return f"gives no share to its consumer {missing[0]!r}; add '{missing[0]}: SHARE' to its shares"
        beyond = [name for name in self.shares if name not in consumers]
        return f"gives a share to {beyond[0]!r}, to which no stream leads; add one, or leave it out" if beyond else ""

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the router; records that go to no consumer are lost."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none, out = np.zeros_like(total), self.gain * total
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    @property
    def mechanism(self) -> Routing:
        """Routing by the given shares."""
        return Routing(self.shares, self.exclusive)


# asynchronous calls --------------------------------------------------------------------------------------------------
# Operators wait for answers from outside the job, which takes no CPU.


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
# Each record is joined with rows of a table outside, through a cache.


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


# sinks in external systems -------------------------------------------------------------------------------------------
# They write to a system outside, which takes a limited load.


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
