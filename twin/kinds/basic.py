"""Basic kinds, which take one record after the other: sources and sinks, filters, maps, state by key, and splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.key_skew import first_reader
from twin.kinds.flow import Columns, DataType, Flow, Mixing
from twin.kinds.mechanism import Collecting, Reading, Remembering, Routing
from twin.kinds.operator import Fraction, KeyedOperator, Name, OperatorBase, Selective

# sources -------------------------------------------------------------------------------------------------------------
# Sources, which read records from a message broker; of Kafka, no two subtasks read the same partition.


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
# Sinks, where results arrive.


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
# Operators that take one record after the other: filters, maps, and state by key.


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
# Splits and side outputs: each record goes to some of the operator's consumers, by share.


Part = Annotated[float, Field(gt=0, le=1)]
WHOLE = 1.0 + 1e-9


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
