"""Brute force for tasks that are more than a queue: they wait for answers, or evaluate windows, in which records are
compared with each other."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.ordinary.records import Array, Records, together


def calling(t: Array, services: Array, away: Array, each: Mapping[str, Any]) -> tuple[Array, Array]:
    """Times at which answers leave, and services start; at most `capacity` calls are pending, in order or not."""
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
    """Results of a time window, and starts and ends of services and evaluations.

    An evaluation takes the task: it scans what the window holds, makes the results, and all leave at its end.
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
        found = results(held, begun, each)
        free = begun + (engine["scan_us"] * len(held.t) + engine["result_us"] * len(found.t)) / 1e6
        parts.append(found.at(np.full(len(found.t), free)))
        spans.append((begun, free))
    begun_at, done_at = np.array(spans).T
    return together(parts), np.concatenate([started, begun_at]), np.concatenate([done, done_at])


def evaluations(done: Records, window: Mapping[str, Any], horizon_s: float) -> Iterator[tuple[float, Records]]:
    """Ends of windows, and the records that they hold.

    A count window ends after every slide of the subtask's records, a time window at all multiples of the slide.
    """
    if window["policy"] == "count":
        size = window["size_records"]
        for end in range(size, len(done.t) + 1, window.get("slide_records", size)):
            yield done.t[end - 1], done[end - size : end]
        return
    size_s = window["size_s"]
    slide_s = window.get("slide_s", size_s)
    for end_s in slide_s * np.arange(1, int(horizon_s / slide_s) + 1):
        first, last = np.searchsorted(done.t, (end_s - size_s, end_s))
        yield end_s, done[first:last]


def of_groups(held: Records, now: float) -> Records:
    """Results of an evaluation, one for each group, as old as its oldest record, in the order of the groups."""
    _, first, inverse = np.unique(held.key, return_index=True, return_inverse=True)
    found = held[first].at(np.full(len(first), now))
    found.born, found.taken = np.full(len(first), np.inf), np.full(len(first), np.inf)
    np.minimum.at(found.born, inverse, held.born)
    np.minimum.at(found.taken, inverse, held.taken)
    return found


def matches(held: Records, now: float, sides: int) -> Records:
    """Results of a join, one for each combination of records of all sides with one key, as old as the oldest, in the
    order of the keys."""
    whole = held[held.side == 0]
    for side in range(1, sides):
        other = held[held.side == side]
        a, b = np.nonzero(whole.key[:, None] == other.key[None, :])
        born, taken = np.minimum(whole.born[a], other.born[b]), np.minimum(whole.taken[a], other.taken[b])
        whole = Records(whole.t[a], born, taken, whole.key[a], whole.side[a])
    return whole[np.argsort(whole.key, kind="stable")].at(np.full(len(whole.t), now))


def emitted(done: Records, each: Mapping[str, Any], horizon_s: float) -> Records:
    """All results of a window, a join or a session."""
    if each["kind"] == "session":
        return _sessions(done, each["gap_s"], horizon_s)
    parts = [done[:0]]
    for now, held in evaluations(done, each["window"], horizon_s):
        parts.append(results(held, now, each))
    return together(parts)


def results(held: Records, now: float, each: Mapping[str, Any]) -> Records:
    """Results of one evaluation."""
    return matches(held, now, len(each["from"])) if each["kind"] == "join" else of_groups(held, now)


def _sessions(done: Records, gap_s: float, horizon_s: float) -> Records:
    """Results of sessions, one for each run of a key's records without a gap, when the gap after them is over."""
    by_key = done[np.lexsort((done.t, done.key))]
    new = np.concatenate([[True], (np.diff(by_key.t) >= gap_s) | (np.diff(by_key.key) != 0)])
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(new)) - 1
    found = by_key[starts].at(by_key.t[ends] + gap_s)
    found = found[found.t < horizon_s]
    return found[np.argsort(found.t, kind="stable")]
