"""Tasks that are more than a server with a line: they wait for answers, or evaluate windows at a cost."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.ordinary import windows
from benchmarks.ordinary.records import Array, Records, together


def calling(t: Array, services: Array, away: Array, each: Mapping[str, Any]) -> tuple[Array, Array]:
    """When answers leave, and services started: at most `capacity` are away at a time, in order or as they come."""
    turn_s, outside = 1 / each.get("rate_per_s", np.inf), list[float]()
    back, started = np.empty(len(t)), np.empty(len(t))
    free = turn = last = 0.0
    for k, service in enumerate(services):
        started[k] = max(t[k], free)
        free = started[k] + service
        while outside and outside[0] <= free:
            heapq.heappop(outside)
        if len(outside) == each.get("capacity", np.inf):
            free = heapq.heappop(outside)
        free = max(free, turn)
        turn = free + turn_s
        last = max(last, free + away[k]) if each.get("ordered") else free + away[k]
        back[k] = last
        heapq.heappush(outside, last)
    return back, started


def evaluating(
    records: Records, services: Array, each: Mapping[str, Any], engine: Mapping[str, Any], horizon_s: float
) -> tuple[Records, Array, Array]:
    """Results of a window over time, and when services and evaluations started and were done.

    An evaluation takes the task: what the window holds is looked at, results are made, and all leave.
    """
    window = each["window"]
    slide_s = window.get("slide_s", window["size_s"])
    done, started = np.full(len(services), np.inf), np.full(len(services), np.inf)
    parts, spans, free, last = [records[:0]], list[tuple[float, float]](), 0.0, 0
    for end_s in slide_s * np.arange(1, int(horizon_s / slide_s) + 2):
        while last < len(services) and max(free, records.t[last]) < end_s:
            started[last] = max(free, records.t[last])
            done[last] = free = started[last] + services[last]
            last += 1
        first = int(np.searchsorted(done[:last], end_s - window["size_s"]))
        held = records[first:last][done[first:last] < end_s]
        begun = max(free, end_s)
        results = windows.results(held, begun, each)
        free = begun + (engine["scan_us"] * len(held.t) + engine["result_us"] * len(results.t)) / 1e6
        parts.append(results.at(np.full(len(results.t), free)))
        spans.append((begun, free))
    begun_at, done_at = np.array(spans).T
    return together(parts), np.concatenate([started, begun_at]), np.concatenate([done, done_at])
