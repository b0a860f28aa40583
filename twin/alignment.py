"""Keys that stay together from one operator to the next: which key groups of a consumer hear of which of its producer.

Without an alignment the key group of a tuple in one operator says nothing of its key group in the next (full
partitioning). The patterns are those of ALBIC (Madsen, Zhou, Cao 2016, Fig. 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.keys import distinct_values, key_groups_of
from twin.spec import Spec

if TYPE_CHECKING:
    from twin.query import Query, Stream
    from twin.workload import Workload

Pattern = Literal["one-to-one", "partial-merge", "partial-partitioning"]


class Alignment(Spec):
    """Of one stream between operators with key groups.

    one-to-one: key group k sends to key group k. partial-merge: each sends to one, neighbours to the same.
    partial-partitioning: each sends evenly to `degree` in a row. The rest of the tuples fall on all key groups.
    """

    pattern: Pattern
    share: Annotated[float, Field(gt=0, le=1, description="of the stream's tuples that keep to the pattern")] = 1.0
    degree: Annotated[int | None, Field(ge=1, description="receivers of each key group, of partial-partitioning")] = (
        None
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.degree is None) == (self.pattern == "partial-partitioning"):
            raise ValueError("degree is for partial-partitioning, which needs it, and for no other pattern")
        return self


def alignment_by_name(value: object) -> object:
    """From a pattern's name alone."""
    return {"pattern": value} if isinstance(value, str) else value


def parts(pattern: Alignment, producers: int, consumers: int) -> np.ndarray:
    """[producers, consumers] the part that each gets of what each key group sends by the pattern; rows sum to 1."""
    degree = pattern.degree or 1
    found = np.zeros((producers, consumers))
    first = np.arange(producers) * consumers // producers
    for step in range(degree):
        found[np.arange(producers), (first + step) % consumers] = 1.0 / degree
    return found


def check_alignments(query: Query, workload: Workload) -> None:
    """Raises ValueError if an alignment does not fit the operators that it joins, or their keys."""
    for stream in query.streams:
        if stream.alignment is not None:
            _check(query, stream, stream.alignment)
            if stream.alignment.share == 1.0 and stream.consumer in workload.keys:
                raise ValueError(
                    f"workload.keys.{stream.consumer}: its keys are those of {stream.producer!r}, by the alignment of "
                    "the stream between them; say there how frequent they are, or give the alignment a share below 1"
                )
            _check_filled(query, stream, workload)


def _check_filled(query: Query, stream: Stream, workload: Workload) -> None:
    for name in (stream.producer, stream.consumer):
        skew, groups = workload.keys.get(name), key_groups_of(query.operator(name)) or 0
        if skew is not None and not distinct_values(query.operator(name), skew, groups).all():
            raise ValueError(
                f"workload.keys.{name}: an aligned stream is between key groups that have keys, and not all have with "
                "these; give it fewer key_groups, or more keys"
            )


def _check(query: Query, stream: Stream, alignment: Alignment) -> None:
    where = f"the alignment of stream {stream.producer!r} -> {stream.consumer!r}"
    producer, consumer = query.operator(stream.producer), query.operator(stream.consumer)
    ends = {each.name: key_groups_of(each) for each in (producer, consumer)}
    for name, count in ends.items():
        if count is None:
            raise ValueError(f"{where} is between key groups, and {name!r} has none; give it key_groups")
        if not query.operator(name).values_by_key_group(count).all():
            raise ValueError(f"{where}: {name!r} has key groups without keys; give it at most as many as groups")
    sends, hears = ends[producer.name] or 0, ends[consumer.name] or 0
    if not query.partitioning(stream).keeps_keys:
        raise ValueError(f"{where} needs hash partitioning, not {query.partitioning(stream)}")
    if producer.joins:
        raise ValueError(
            f"{where}: the keys of a join's results are not known; align what follows from other operators"
        )
    if alignment.pattern == "one-to-one" and sends != hears:
        raise ValueError(f"{where} is one-to-one between {sends} and {hears} key groups; give both as many")
    if alignment.pattern == "partial-merge" and hears > sends:
        raise ValueError(f"{where} merges {sends} key groups into {hears}; give {consumer.name!r} no more than {sends}")
    if (alignment.degree or 1) > hears:
        raise ValueError(f"{where} has a degree of {alignment.degree}, but {consumer.name!r} has {hears} key groups")
