"""Where results arrive (twin.engine.logics.sink)."""

from __future__ import annotations

import math
from typing import Any

from twin.kernel.items import release
from twin.kernel.layout import item_at, sink_at
from twin.kernel.native import compiled, whole_at

LOWEST_S = 1e-6
LOG_GROWTH = math.log(1.02)
"""As twin.engine.sketch."""


@compiled
def collect(s: Any, here_sink: int, here: int) -> None:
    """A result has arrived: its latencies count."""
    sink, item = sink_at(here_sink), item_at(here)
    processing_s, e2e_s = item.at_s - item.taken_s, item.at_s - item.born_s
    if processing_s < 0.0:
        processing_s = 0.0
    if e2e_s < processing_s:
        e2e_s = processing_s
    sink.count += 1
    sink.counted += 1
    sink.processing_sum_s += processing_s
    sink.e2e_sum_s += e2e_s
    whole_at(sink.processing + 8 * bucket(processing_s)).value += 1
    whole_at(sink.e2e + 8 * bucket(e2e_s)).value += 1
    release(s, here)


@compiled
def bucket(latency_s: float) -> int:
    """Of the histogram."""
    return int(math.log(latency_s / LOWEST_S) / LOG_GROWTH) if latency_s > LOWEST_S else 0
