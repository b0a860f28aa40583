"""Brute force where tasks delay each other: stations in a row that share cores, or have little room between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.ordinary.records import Array

IDLE, BUSY, HELD = 0, 1, 2


class Row:
    """A source and the stations that follow it, one task each. cores: shared evenly by the working tasks, at most one
    each. room: records sent and not yet taken up by the next station. One that does not fit blocks its station."""

    def __init__(self, services: Sequence[Array], kept: Sequence[Array], cores: float, room: int) -> None:
        self.services, self.kept, self.cores, self.room = services, kept, cores, room
        count = len(services)
        self.lines: list[deque[int]] = [deque() for _ in range(count)]
        self.state, self.left, self.who = [IDLE] * count, [0.0] * count, [0] * count
        self.taken = np.full(len(services[0]), np.nan)
        self.done = np.full((count, len(services[0])), np.nan)
        self.busy = np.zeros(count)

    def run(self, arrivals: Array, start_s: float, end_s: float) -> None:
        """Fills taken [s], done [s] and, between start and end, busy [s]."""
        now, coming = 0.0, 0
        while now < end_s:
            working = [k for k, state in enumerate(self.state) if state == BUSY]
            speed = min(1.0, self.cores / max(1, len(working)))
            first = min(working, key=self.left.__getitem__, default=None)
            finish = np.inf if first is None else now + self.left[first] / speed
            arrival = arrivals[coming] if coming < len(arrivals) else np.inf
            then = min(finish, arrival, end_s)
            for k in working:
                self.left[k] -= (then - now) * speed
                self.busy[k] += max(0.0, then - max(now, start_s))
            now = then
            if then == arrival:
                self.lines[0].append(coming)
                coming += 1
                self._take(0, now)
            elif first is not None and then == finish:
                self._finish(first, now)

    def _take(self, k: int, now: float) -> None:
        if self.state[k] != IDLE or not self.lines[k]:
            return
        self.who[k] = self.lines[k].popleft()
        self.state[k], self.left[k] = BUSY, float(self.services[k][self.who[k]])
        if k == 0:
            self.taken[self.who[k]] = now
        elif self.state[k - 1] == HELD:
            self._pass_on(k - 1, now)

    def _finish(self, k: int, now: float) -> None:
        self.done[k, self.who[k]] = now
        if k + 1 == len(self.state) or not self.kept[k][self.who[k]]:
            self.state[k] = IDLE
            self._take(k, now)
        else:
            self._pass_on(k, now)

    def _pass_on(self, k: int, now: float) -> None:
        if len(self.lines[k + 1]) >= self.room:
            self.state[k] = HELD
            return
        if k == 0:
            self.taken[self.who[k]] += now - self.done[k, self.who[k]]  # a source polls when there is room
        self.lines[k + 1].append(self.who[k])
        self.state[k] = IDLE
        self._take(k + 1, now)
        self._take(k, now)


def run(job: Mapping[str, Any], arrivals: Array, rng: Any) -> tuple[Array, Array, Array, dict[str, float]]:
    """Times [s] of results, of their records' arrival and of their being taken; and the busy share of each operator."""
    operators = list(job["operators"].items())
    count, settings = len(arrivals), job["run"]
    services = []
    for _, each in operators:
        scv, mean = each.get("service_scv", 1), each.get("ms", 0) / 1e3
        services.append(rng.gamma(1 / scv, mean * scv, size=count) if scv else np.full(count, mean))
    kept = [rng.random(count) < each.get("selectivity", 1) for _, each in operators]
    cores = job["hosts"].get("a", {"cpu_percent": 1e9})["cpu_percent"] / 100
    row = Row(services, kept, cores, job["engine"]["channel_records"])
    row.run(arrivals, settings["warmup_s"], settings["horizon_s"])
    results = ~np.isnan(row.done[-1])
    seconds = settings["horizon_s"] - settings["warmup_s"]
    busy = {f"busy {name}": row.busy[k] / seconds for k, (name, _) in enumerate(operators)}
    return row.done[-1][results], arrivals[results], row.taken[results], busy
