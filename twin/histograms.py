"""Histograms of latencies in logarithmic buckets: mergeable, of constant memory, with quantiles within 1 %."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from math import log
from typing import Any

LOWEST_S = 1e-6
GROWTH = 1.02
_LOG_GROWTH = math.log(GROWTH)
COLUMNS = {"processing": "processingLatency", "e2e": "e2eLatency", "delay": "resultDelay"}
"""Beginnings of the names of columns, by latency."""


def bucket(latency_s: float) -> int:
    """Index k of the bucket (lowest * growth^k, lowest * growth^(k+1)]; everything below goes to bucket 0."""
    if latency_s <= LOWEST_S:
        return 0
    return int(log(latency_s / LOWEST_S) / _LOG_GROWTH)


def representative_s(index: int) -> float:
    """Geometric middle of a bucket, in seconds."""
    return float(LOWEST_S * GROWTH ** (index + 0.5))


def merge(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Sum of several histograms."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for index, count in histogram.items():
            total[index] = total.get(index, 0) + count
    return total


def histogram_of(sinks: Iterable[Mapping[str, Any]], latency: str) -> dict[int, int]:
    """The histogram of the latencies of results, from rows of sinks. latency: of COLUMNS."""
    buckets, counts = f"{COLUMNS[latency]}Buckets", f"{COLUMNS[latency]}Counts"
    return merge(dict(zip(row[buckets], row[counts], strict=True)) for row in sinks)


def quantile_s(histogram: Mapping[int, int], q: float) -> float:
    """Middle, in seconds, of the first bucket up to which a share q of the counts lies. Raises ValueError if empty."""
    total = sum(histogram.values())
    if not total:
        raise ValueError("an empty histogram has no quantiles")
    seen = 0
    for index in sorted(histogram):
        seen += histogram[index]
        if seen >= q * total:
            return representative_s(index)
    return representative_s(max(histogram))
