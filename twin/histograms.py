"""Histograms of times in logarithmic buckets, mergeable and of constant memory: of latencies, and of the ways in which
records spend time at an operator."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from math import log
from typing import Any

# latencies -----------------------------------------------------------------------------------------------------------
# Histograms of latencies in logarithmic buckets: mergeable, of constant memory, with quantiles within 1 %.


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


# where the time goes -------------------------------------------------------------------------------------------------
# Where the time goes: the ways in which records spend time at an operator, and histograms of these times.
#
# A bucket is a 64th of an octave, so that the bits of a time name it: its exponent, and the first six bits behind. That
# is several times faster than a logarithm, and a record notes three times at each operator.


WAYS: Mapping[str, str] = {
    "channel": "from the producer's emission to the queue: batching, room in a full channel, cards and links",
    "queue": "until the subtask takes the record up; at a source, at the broker",
    "service": "being processed, with all that slows the subtask's CPU down",
    "window": "of a result's oldest record, until its window ends or its last record comes",
    "result": "from the end of the window until the result leaves",
    "answer": "of a record of an asynchronous call, until its answer is there",
    "barriers": "put aside, until the barriers of all inputs have come",
    "commit": "of a result at a sink, until a checkpoint commits it",
}
"""Ways to spend time, and what each is."""
(
    CHANNEL_TIME,
    QUEUE_TIME,
    SERVICE_TIME,
    WINDOW_TIME,
    RESULT_TIME,
    ANSWER_TIME,
    BARRIER_TIME,
    COMMIT_TIME,
) = range(8)
"""Numbers of the ways, in their order."""
BITS, SHIFT = 6, 46
"""Bits of the fraction that name a bucket, and behind how many others these are."""
LOWEST = -20
"""Power of two, in seconds, up to which all times are in the first bucket: a microsecond."""
OCTAVES = 40
FIRST = (1023 + LOWEST) << BITS
BUCKETS = OCTAVES << BITS


def place(time_s: float) -> int:
    """Number of the bucket of a time, as compiled code finds it."""
    (bits,) = struct.unpack("<q", struct.pack("<d", time_s))
    return int(min(max((bits >> SHIFT) - FIRST, 0), BUCKETS - 1))


def middle_s(number: int) -> float:
    """Middle of a bucket, in seconds: within 0.8 % of all times in it, but for the first, which begins at 0."""
    octave, part = number >> BITS, number & ((1 << BITS) - 1)
    return 2.0 ** (octave + LOWEST) * (1.0 + (part + 0.5) / (1 << BITS)) if number else 0.0


def spent_quantile_s(histogram: Mapping[int, int], q: float) -> float:
    """Middle, in seconds, of the first bucket up to which a share q of the counts lies."""
    total, seen, last = sum(histogram.values()), 0, 0
    for number in sorted(histogram):
        seen, last = seen + histogram[number], number
        if seen >= q * total:
            break
    return middle_s(last)
