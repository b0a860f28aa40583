"""All kinds of operators. Only this file and the features of learned models know their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args

from pydantic import Field

from twin.kinds.aggregate import Aggregate, Session
from twin.kinds.basic import (
    AsyncIO,
    ExternalSink,
    Filter,
    KafkaSource,
    KeyedState,
    LookupJoin,
    Map,
    Router,
    Sink,
    Source,
)
from twin.kinds.compute import Compute, Consolidate
from twin.kinds.group_aggregate import GroupAggregate
from twin.kinds.join import IntervalJoin, Join
from twin.kinds.rows import Deduplicate, OverAggregate, TopN
from twin.kinds.table_joins import RegularJoin, TemporalJoin

OfPapers = Source | Filter | Map | Aggregate | Compute | Consolidate | Join | Sink
OfJobs = AsyncIO | ExternalSink | KafkaSource | Router | Session | LookupJoin | KeyedState | TemporalJoin | IntervalJoin
OfSql = Deduplicate | GroupAggregate | OverAggregate | RegularJoin | TopN
AnyOperator = OfPapers | OfJobs | OfSql

Operator = Annotated[AnyOperator, Field(discriminator="kind")]


def by_kind(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    """Classes by their kind. Raises TypeError for one whose kind is no default."""
    found = {each.model_fields["kind"].default: each for each in kinds}
    for kind, each in found.items():
        if not isinstance(kind, str):
            raise TypeError(f'{each.__name__} has no default kind; write kind: Literal["NAME"] = "NAME"')
    return found


BY_KIND: Mapping[str, type[AnyOperator]] = by_kind(get_args(AnyOperator))
KINDS: tuple[str, ...] = tuple(BY_KIND)
SOURCES = frozenset(name for name, kind in BY_KIND.items() if kind.is_source)
SINKS = frozenset(name for name, kind in BY_KIND.items() if kind.is_sink)
"""Kinds whose statistics say how many records arrived (sources), or were received and how late (sinks)."""
