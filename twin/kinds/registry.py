"""All kinds of operators. Only this file and the features of learned models know their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, get_args

from pydantic import Field

from twin.kinds.aggregate import Aggregate
from twin.kinds.async_io import AsyncIO, ExternalSink, LookupJoin
from twin.kinds.compute import Compute
from twin.kinds.consolidate import Consolidate
from twin.kinds.deduplicate import Deduplicate
from twin.kinds.group_aggregate import GroupAggregate
from twin.kinds.interval_join import IntervalJoin
from twin.kinds.join import Join
from twin.kinds.map import Filter, KeyedState, Map
from twin.kinds.over_aggregate import OverAggregate
from twin.kinds.regular_join import RegularJoin
from twin.kinds.router import Router
from twin.kinds.session import Session
from twin.kinds.sink import Sink
from twin.kinds.source import KafkaSource, Source
from twin.kinds.temporal_join import TemporalJoin
from twin.kinds.top_n import TopN

OfPapers = Source | Filter | Map | Aggregate | Compute | Consolidate | Join | Sink
OfJobs = AsyncIO | ExternalSink | KafkaSource | Router | Session | LookupJoin | KeyedState | TemporalJoin | IntervalJoin
OfSql = Deduplicate | GroupAggregate | OverAggregate | RegularJoin | TopN
AnyOperator = OfPapers | OfJobs | OfSql

Operator = Annotated[AnyOperator, Field(discriminator="kind")]
BY_KIND: Mapping[str, type[AnyOperator]] = {each.model_fields["kind"].default: each for each in get_args(AnyOperator)}
KINDS: tuple[str, ...] = tuple(BY_KIND)
SOURCES = frozenset(name for name, kind in BY_KIND.items() if kind.is_source)
SINKS = frozenset(name for name, kind in BY_KIND.items() if kind.is_sink)
"""Kinds whose statistics say how many records arrived (sources), or were received and how late (sinks)."""
