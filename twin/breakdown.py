"""Where the time goes: which part of the mean end-to-end latency results spend at which operator, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twin.query import Query
from twin.spending import WAYS, quantile_s

Ends = tuple[str, str]
"""Names of a stream's producer and consumer."""


@dataclass(frozen=True, slots=True)
class SpentTime:
    """Times that records spent at an operator in one way, in seconds; quantiles are within 1 %. count: of records, or
    of results where it is they that wait."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class TimePart:
    """Part of the mean end-to-end latency. mean_s: seconds of it. times: of single records at the operator."""

    operator: str
    way: str
    mean_s: float
    times: SpentTime


def spent_times(rows: Iterable[Mapping[str, Any]]) -> dict[str, SpentTime]:
    """Times by way, such as `queue_s`, from the rows of an operator's periods."""
    sums: dict[str, float] = {}
    counts: dict[str, dict[int, int]] = {}
    for row in rows:
        for each in row.get("spent") or ():
            way = each["way"]
            sums[way] = sums.get(way, 0.0) + each["sum_s"]
            histogram = counts.setdefault(way, {})
            for bucket, count in zip(each["buckets"], each["counts"], strict=True):
                histogram[bucket] = histogram.get(bucket, 0) + count
    found = {}
    for way in WAYS:
        if way in counts:
            total = sum(counts[way].values())
            quantiles = (quantile_s(counts[way], q) for q in (0.5, 0.95, 0.99))
            found[f"{way}_s"] = SpentTime(total, sums[way] / total, *quantiles)
    return found


def visits(query: Query, came: Mapping[Ends, float], results: Mapping[str, float]) -> dict[str, float]:
    """Share of the results on whose way each operator was. Where streams meet, a result is from each in proportion.

    came: records by stream; absent within a chain. results: by sink.
    """
    total = sum(results.values())
    found = dict.fromkeys((operator.name for operator in query.topological), 0.0)
    if not total:
        return found
    for name in reversed(list(found)):
        found[name] += results.get(name, 0.0) / total
        producers = query.upstream[name]
        all_came = sum(came.get((each, name), 0.0) for each in producers)
        for each in producers:
            found[each] += found[name] * (came.get((each, name), 0.0) / all_came if all_came else 1.0 / len(producers))
    return found


def parts(operators: Sequence[Any]) -> list[TimePart]:
    """Parts of the mean end-to-end latency, the largest first. operators: `OperatorTotals`."""
    found = [
        TimePart(each.operator, way.removesuffix("_s"), each.visits * _mean_s(each.spent, way), times)
        for each in operators
        if each.visits
        for way, times in each.spent.items()
    ]
    return sorted(found, key=lambda part: -part.mean_s)


def _mean_s(spent: Mapping[str, SpentTime], way: str) -> float:
    """Mean time in one way of all records at an operator; few of them wait for barriers."""
    times = spent[way]
    return times.mean * (times.count / spent["queue_s"].count if way == "barriers_s" else 1.0)
