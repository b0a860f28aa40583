"""Ages of latency markers, as Flink shows them: the time that a marker takes from a source to each operator.

A marker waits in channels and queues as tuples do, takes no service and passes windows by. So its age at an operator is
its age at the producer plus the time on the stream from there; where streams meet, there are markers of each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twin.metrics import measured
from twin.query import Query

Ends = tuple[str, str]
"""Names of a stream's producer and consumer."""


@dataclass(frozen=True, slots=True)
class MarkerAge:
    """Mean age of a source's markers where an operator takes them; None if no tuple came that way to tell."""

    operator: str
    source: str
    age_s: float | None


def marker_ages(query: Query, took_s: Mapping[Ends, float]) -> tuple[MarkerAge, ...]:
    """Ages by operator in data-flow order, and source. took_s: mean seconds on a stream; nan: unknown; absent: 0."""
    found: dict[str, list[MarkerAge]] = {operator.name: [] for operator in query.topological}
    for source in query.sources:
        count, ages_s = {source.name: 1.0}, {source.name: 0.0}
        for name in found:
            ways = [each for each in query.upstream[name] if each in count]
            if ways:
                count[name] = sum(count[each] for each in ways)
                total_s = sum(count[each] * (ages_s[each] + took_s.get((each, name), 0.0)) for each in sorted(ways))
                ages_s[name] = total_s / count[name]
                known = math.isfinite(ages_s[name])
                found[name].append(MarkerAge(name, source.name, ages_s[name] if known else None))
    return tuple(age for ages in found.values() for age in ages)


def by_operator(ages: Iterable[MarkerAge]) -> dict[str, float]:
    """Mean ages over the sources whose markers have known ages, by operator; operators without any are left out."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for each in ages:
        if each.age_s is not None:
            found[each.operator].append(each.age_s)
    return {name: sum(values) / len(values) for name, values in found.items()}


def by_source(ages: Iterable[MarkerAge]) -> dict[str, dict[str, float | None]]:
    """Ages by operator, and then source, for JSON."""
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for each in ages:
        found[each.operator][each.source] = each.age_s
    return dict(found)


def from_sources(found: Mapping[str, Mapping[str, float | None]]) -> tuple[MarkerAge, ...]:
    """Reads the JSON of `by_source`."""
    return tuple(
        MarkerAge(operator, source, age_s) for operator, ages in found.items() for source, age_s in ages.items()
    )


def means_s(rows: Sequence[Mapping[str, Any]], warmup_s: float) -> dict[Ends, float]:
    """Mean seconds on each stream over the periods after the warm-up; nan if no tuple came. rows: of `StreamMeter`."""
    tuples: defaultdict[Ends, int] = defaultdict(int)
    took_s: defaultdict[Ends, float] = defaultdict(float)
    for row in measured(rows, warmup_s):
        tuples[row["ends"]] += row["tuples"]
        took_s[row["ends"]] += row["took_s"]
    return {ends: took_s[ends] / count if count else math.nan for ends, count in tuples.items()}
