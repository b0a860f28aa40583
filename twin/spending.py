"""Where the time goes: the ways in which records spend time at an operator, and histograms of these times.

A bucket is a 64th of an octave, so that the bits of a time name it: its exponent, and the first six bits behind. That
is several times faster than a logarithm, and a record notes three times at each operator.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

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


def quantile_s(histogram: Mapping[int, int], q: float) -> float:
    """Middle, in seconds, of the first bucket up to which a share q of the counts lies."""
    total, seen, last = sum(histogram.values()), 0, 0
    for number in sorted(histogram):
        seen, last = seen + histogram[number], number
        if seen >= q * total:
            break
    return middle_s(last)
