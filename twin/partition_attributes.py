"""Attributes by which operators are keyed, where a query names them (Enorm, Section 4.3).

Two operators that are keyed by the same attribute can be split alike, as long as what is between them leaves its values
as they are. Then tuples of a key are with the same replica in both, and need no stream on which they are dealt again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.plan import ExecutionPlan
    from twin.query import Query


def attributes_of(query: Query, name: str) -> frozenset[str]:
    """The attributes by which an operator is keyed; empty if they are not given."""
    return frozenset(getattr(query.operator(name), "partition_by", None) or ())


def dealt_by(query: Query, path: Iterable[str]) -> frozenset[str]:
    """Attributes of the results of operators that run as one whose values are each with one of their replicas."""
    held: frozenset[str] | None = None
    for name in path:
        own = attributes_of(query, name)
        if held is None:
            held = own
        elif any(query.partitioning(stream).keeps_keys for stream in query.inputs(name)):
            held &= own
        held = query.operator(name).kept(held)
    return held or frozenset()


def check_partition_attributes(query: Query, plan: ExecutionPlan) -> None:
    """Raises ValueError, with the remedy, for attributes by which nothing is dealt, or replicas that need some."""
    for operator in query.operators:
        attributes = getattr(operator, "partition_by", None)
        if attributes is None:
            continue
        if not attributes and plan.replicas(operator.name) > 1:
            raise ValueError(
                f"{operator.name!r} has partition_by [], so it cannot be split, and {plan.replicas(operator.name)} "
                "replicas; give it one, or name the attributes that it is keyed by"
            )
        for stream in query.inputs(operator.name):
            how = query.partitioning(stream)
            if attributes and not how.keeps_keys:
                raise ValueError(
                    f"{operator.name!r} has partition_by, but {stream.producer} -> {stream.consumer} is dealt by "
                    f"{how}; use hash, or leave partition_by out"
                )
