"""Streams by brute force: arrays and queues over them; their arrivals, partitions and travel; records one by one."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from benchmarks.ordinary.jobs import LINK_LATENCY_MS

# arrays --------------------------------------------------------------------------------------------------------------
# Streams as arrays, and queues as recursions over them.


Array = np.ndarray


@dataclass(slots=True)
class Records:
    """Records of a stream. t: when each is there [s]; born, taken: when its oldest input came to the broker and was
    taken [s]. key: drawn for the operator that it goes to; side: the number of the stream that it came by."""

    t: Array
    born: Array
    taken: Array
    key: Array
    side: Array

    def __getitem__(self, which: Any) -> Records:
        return Records(*(getattr(self, each.name)[which] for each in fields(self)))

    def at(self, t: Array) -> Records:
        """Records with other times."""
        return Records(t, self.born, self.taken, self.key, self.side)


def together(parts: list[Records]) -> Records:
    """Records of several streams in order of time."""
    joined = Records(*(np.concatenate([getattr(p, each.name) for p in parts]) for each in fields(Records)))
    return joined[np.argsort(joined.t, kind="stable")]


def fifo(arrivals: Array, services: Array) -> Array:
    """Departures from a queue with a single server (Lindley's recursion)."""
    before = np.cumsum(services) - services
    return np.maximum.accumulate(arrivals - before) + before + services


def fifo_of_many(arrivals: Array, services: Array, servers: int) -> Array:
    """Departures from a queue with several servers."""
    free, done = [0.0] * servers, np.empty_like(arrivals)
    for k in range(len(arrivals)):
        done[k] = max(arrivals[k], heapq.heappop(free)) + services[k]
        heapq.heappush(free, done[k])
    return done


@dataclass(frozen=True, slots=True)
class Clock:
    """Work over time [s] of a server that goes at a share of its speed, `speed`, from start to end."""

    start: float
    end: float
    speed: float

    def virtual(self, t: Array) -> Array:
        """Work that could be done until t."""
        return t - (1 - self.speed) * np.clip(t - self.start, 0, self.end - self.start)

    def real(self, v: Array) -> Array:
        """Time at which the work v could be done."""
        slow = np.clip(v - self.start, 0, (self.end - self.start) * self.speed)
        return v + slow * (1 / self.speed - 1)


# arrivals, partitions and travel -------------------------------------------------------------------------------------
# By the laws of `docs/scenario-files.md`: arrivals, the subtask that gets each record, and travel in batches, over
# cards and links.


KEYED = ("join", "session")
STEP_S = 0.01
"""Time for which a changing rate is held."""


def arrivals(law: Mapping[str, Any], changes: Sequence[Mapping[str, Any]], horizon_s: float, rng: Any) -> Array:
    """Times at which records of one source arrive [s]. changes: its events of kind `rate-change`."""
    if law["law"] == "constant":
        return np.arange(1, int(law["rate_per_s"] * horizon_s)) / law["rate_per_s"]
    if law["law"] == "replay":
        return np.loadtxt(law["path"], skiprows=1)
    if law["law"] == "bursty":
        ends, rates = _bursty(law["states"], horizon_s, rng)
    else:
        ends, rates = _by_the_clock(law, changes, horizon_s)
    starts = np.concatenate([[0.0], ends[:-1]])
    counts = rng.poisson(rates * (ends - starts))
    spread = np.repeat(ends - starts, counts) * rng.random(counts.sum())
    return np.sort(np.repeat(starts, counts) + spread)


def _by_the_clock(
    law: Mapping[str, Any], changes: Sequence[Mapping[str, Any]], horizon_s: float
) -> tuple[Array, Array]:
    """Ends of pieces of constant rate [s], and the rates."""
    ends = np.arange(1, round(horizon_s / STEP_S) + 1) * STEP_S
    t = ends - STEP_S / 2
    rates = np.full(t.shape, float(law.get("rate_per_s", 0)))
    if law["law"] == "steps":
        steps = law["steps"]
        rates = np.array([each["rate_per_s"] for each in steps], dtype=float)
        rates = rates[np.searchsorted([each["at_s"] for each in steps], t, side="right") - 1]
    elif law["law"] == "diurnal":
        rates *= 1 + law["amplitude"] * np.sin(2 * np.pi * t / law["period_s"])
    elif law["law"] == "spikes":
        rates[t % law["every_s"] > law["every_s"] - law["duration_s"]] *= law["factor"]
    for change in changes:
        rates = np.where(t > change["at_s"], change.get("rate_per_s", rates * change.get("factor", 1)), rates)
    return ends, rates


def _bursty(states: Sequence[Mapping[str, float]], horizon_s: float, rng: Any) -> tuple[Array, Array]:
    means = np.array([each["mean_s"] for each in states])
    state, now = int(rng.choice(len(states), p=means / means.sum())), 0.0
    ends, rates = [], []
    while now < horizon_s:
        now = min(now + rng.exponential(means[state]), horizon_s)
        ends.append(now)
        rates.append(float(states[state]["rate_per_s"]))
        state = (state + 1) % len(states)
    return np.array(ends), np.array(rates)


def draw_keys(each: Mapping[str, Any], law: Mapping[str, Any], count: int, rng: Any) -> Array:
    """Keys of `count` records, from as many keys as the operator has; key k is in key group k modulo their number."""
    keys = each.get("groups") or each.get("keys") or each.get("key_groups", 1)
    if each["kind"] == "join":
        keys = round((1 / each["selectivity"]) ** (1 / (len(each["from"]) - 1)))
    groups = each.get("key_groups", keys)
    shares = np.array(law.get("shares") or np.arange(1, groups + 1.0) ** -law.get("zipf", 0.0))
    group = rng.choice(groups, size=count, p=shares / shares.sum())
    many = np.ceil((keys - group) / groups)
    return group + groups * (rng.random(count) * many).astype(int)


def dealt(each: Mapping[str, Any], how: str | None, k: int, t: Array, keys: Array, parallelism: int, rng: Any) -> Any:
    """Subtask for each record from the producer's subtask k; None if every subtask gets it."""
    keyed = each["kind"] in KEYED or "groups" in each or "key_groups" in each
    how = how or ("hash" if keyed else "rebalance")
    count = len(t)
    if how == "broadcast":
        return None
    if how in ("forward", "global", "shared"):
        return np.full(count, k if how == "forward" else 0)
    if how == "rebalance":
        return (np.arange(count) + rng.integers(parallelism)) % parallelism
    if how == "two-choice":
        return _of_two(keys % each["key_groups"], each["key_groups"], parallelism, rng)
    if not keyed:
        return rng.integers(parallelism, size=count)
    groups = each.get("key_groups")
    return keys % parallelism if groups is None else (keys % groups) * parallelism // groups


def _of_two(group: Array, groups: int, parallelism: int, rng: Any) -> Array:
    pairs = np.array([rng.choice(parallelism, 2, replace=False) for _ in range(groups)])
    sent, whose = [0] * parallelism, np.empty(len(group), dtype=int)
    for k, (a, b) in enumerate(pairs[group]):
        whose[k] = a if sent[a] <= sent[b] else b
        sent[whose[k]] += 1
    return whose


def batched(t: Array, size: int, flush_s: float, rng: Any) -> Array:
    """Times at which records leave that wait until their batch is full or flushed."""
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
    """Times at which records of `size` bytes arrive that leave at t, by the shortest way."""
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
    """Times at which records arrive that leave a host at t, in order."""
    return fifo(t, 8e-6 * sizes / host["bandwidth_mbps"]) + host["latency_ms"] / 1e3


# one by one ----------------------------------------------------------------------------------------------------------
# What travels in channels one by one, records, barriers and watermarks; and the time that a paused host has.


RECORD, BARRIER, WATERMARK = "record", "barrier", "watermark"


@dataclass(slots=True)
class Item:
    """A record, a barrier or a watermark. t: when it is there [s]. number: of the barrier's checkpoint, or the time of
    the watermark [s]. born, taken: when the record's oldest input came to the broker and was taken [s]. event: its
    event time, or where its piece of event time begins [s]. side: the producer that it came from. late: whether the
    watermark had passed it."""

    t: float
    what: str = RECORD
    number: float = 0
    born: float = 0.0
    taken: float = 0.0
    event: float = 0.0
    key: int = 0
    side: str = ""
    late: bool = False

    def at(self, t: float, **changes: Any) -> Item:
        """The same at another time."""
        return replace(self, t=t, **changes)


class Pauses:
    """Time of a host that stops for `pause_s` at exponential intervals of running; without an interval, never."""

    def __init__(self, interval_s: float | None, pause_s: float, end_s: float, rng: Any) -> None:
        self.begins, self.worked, now, self.pause_s = list[float](), list[float](), 0.0, pause_s
        while interval_s is not None and now < end_s:
            ran_s = rng.exponential(interval_s)
            self.begins.append(now + ran_s)
            self.worked.append((self.worked[-1] if self.worked else 0.0) + ran_s)
            now += ran_s + pause_s

    def awake(self, t: float) -> float:
        """The time itself, or the end of the pause that it is in."""
        k = bisect_right(self.begins, t) - 1
        return max(t, self.begins[k] + self.pause_s) if k >= 0 else t

    def after(self, start: float, work_s: float) -> float:
        """Time at which work is done that begins at `start`, or after the pause that this is in."""
        if not self.begins:
            return start + work_s
        begun = self.awake(start)
        past = bisect_right(self.begins, begun)  # pauses that are over
        ran_s = begun - past * self.pause_s + work_s
        return ran_s + self.pause_s * max(past, bisect_left(self.worked, ran_s))
