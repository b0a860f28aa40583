"""How streams travel, by brute force: in batches, over network cards and links, each a server with a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.ordinary.jobs import LINK_LATENCY_MS
from benchmarks.ordinary.records import Array, Clock, fifo


def batched(t: Array, size: int, flush_s: float, rng: Any) -> Array:
    """When records leave that wait for their batch to be full, or for the next flush."""
    if size <= 1 or not len(t):
        return t
    sent, first, flush = t.copy(), 0, rng.random() * flush_s
    for k, now in enumerate(t):
        while flush < now:
            sent[first:k], first = flush, k
            flush += flush_s * rng.uniform(0.95, 1.05)
        if k - first + 1 == size:
            sent[first : k + 1], first = now, k + 1
    sent[first:] = flush
    return sent


def over_links(job: Mapping[str, Any], here: str, there: str, t: Array, size: float) -> Array:
    """When records arrive that leave at t, all of so many bytes, by the shortest way."""
    for link in _way(list(job["links"]), here, there):
        work, latencies = Clock(0, 0, 1), np.full(len(t), LINK_LATENCY_MS / 1e3)
        mbps = job["links"][link]
        for event in job["events"]:
            if event["kind"] == "link-degradation":
                work = Clock(event["at_s"], event["at_s"] + event["duration_s"], event["bandwidth_factor"])
        t = work.real(fifo(work.virtual(t), np.full(len(t), 8e-6 * size / mbps)))
        if work.speed < 1:
            latencies[(t > work.start) & (t < work.end)] *= job["events"][0]["latency_factor"]
        t = t + latencies
    return t


def _way(links: Sequence[str], here: str, there: str) -> list[str]:
    ways: list[tuple[str, list[str]]] = [(here, [])]
    while ways[0][0] != there:
        node, gone = ways.pop(0)
        for link in links:
            ends = link.split("-")
            if node in ends and link not in gone:
                ways.append((ends[ends[0] == node], [*gone, link]))
    return ways[0][1]


def over_card(host: Mapping[str, float], t: Array, sizes: Array) -> Array:
    """When records arrive that leave a host at t, in order."""
    return fifo(t, 8e-6 * sizes / host["bandwidth_mbps"]) + host["latency_ms"] / 1e3
