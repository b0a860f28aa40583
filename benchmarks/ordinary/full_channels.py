"""Brute force for checkpoints of stations in a row whose channels are full: one record after the other.

A record is taken up when its station is free, served, and leaves once there is room behind it. So the times of each
follow from those of the records before it, and nothing is simulated. An aligned barrier is in the row as a record of no
size. One that overtakes passes each station when its record in service is done; where it costs no CPU, records do not
notice it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.ordinary import streams
from benchmarks.ordinary.jobs import Costs
from benchmarks.ordinary.records import Array
from benchmarks.ordinary.whole import ages


class Row:
    """One run of a job whose operators are maps in a row, on one host."""

    def __init__(self, job: Mapping[str, Any], seed: int) -> None:
        self.job, self.rng, self.costs = job, np.random.default_rng(seed + 10**6), job["checkpoints"]
        self.start_s, self.horizon_s = float(job["run"]["warmup_s"]), float(job["run"]["horizon_s"])
        self.names = list(job["operators"])
        law = {"law": "poisson", "rate_per_s": job["operators"][self.names[0]]["rate"]}
        self.born = streams.arrivals(law, [], self.horizon_s, self.rng)
        shape = len(self.names), len(self.born)
        means_s = np.array([job["operators"][name].get("ms", 0) / 1e3 for name in self.names])
        self.services = means_s[:, None] * self.rng.exponential(size=shape)
        self.taken, self.done, self.left = np.full(shape, np.inf), np.full(shape, np.inf), np.full(shape, np.inf)
        self.triggers = np.arange(self.costs["first_s"], self.horizon_s, self.costs["interval_s"])
        self.passed = np.full((len(self.names), len(self.triggers)), np.inf)

    def run(self) -> dict[str, float]:
        """Measurements after the warm-up, by name."""
        overtaking, sync_s = self.costs.get("mode") == "unaligned", self.costs.get("sync_ms", 1) / 1e3
        assert not (overtaking and sync_s)
        free, due = np.zeros(len(self.names)), 0
        for i, born in enumerate(self.born):
            while not overtaking and due < len(self.triggers) and self.triggers[due] <= max(born, free[0]):
                t = self.triggers[due]
                for k in range(len(self.names)):
                    self.passed[k, due] = t = max(t, free[k])
                    free[k] = t + sync_s
                due += 1
            self._record(i, born, free)
        if overtaking:
            self._overtake()
        return self._measured(sync_s)

    def _record(self, i: int, t: float, free: Array) -> None:
        room = self.job["engine"]["channel_records"]
        for k in range(len(self.names)):
            self.taken[k, i] = max(t, free[k])
            self.done[k, i] = t = self.taken[k, i] + self.services[k, i]
            if k + 1 < len(self.names) and i >= room:
                t = max(t, self.taken[k + 1, i - room])
            self.left[k, i] = free[k] = t

    def _overtake(self) -> None:
        for number, t in enumerate(self.triggers):
            for k in range(len(self.names)):
                last = int(np.searchsorted(self.taken[k], t, side="right")) - 1
                self.passed[k, number] = t = max(t, self.done[k, last])

    def _flying(self, number: int) -> int:
        """Records that a barrier overtakes: those that a station is done with and the next one has not taken up."""
        found = 0
        for k in range(1, len(self.names)):
            t = self.passed[k, number]
            done, taken = np.searchsorted(self.done[k - 1], t, side="right"), np.searchsorted(self.taken[k], t)
            found += int(done) - int(taken)
        return found

    def _measured(self, sync_s: float) -> dict[str, float]:
        seconds, last = self.horizon_s - self.start_s, len(self.names) - 1
        measured = (self.left[last] >= self.start_s) & (self.left[last] < self.horizon_s)
        polled = self.left[0] - self.services[0]  # a source polls when there is room
        t = self.left[last][measured]
        found = {"T": float(measured.sum()) / seconds} | ages(t, polled[measured], self.born[measured])
        ends = self.passed[-1] + sync_s
        size = 0.0
        if self.costs.get("mode") == "unaligned":
            size = Costs(self.job["operators"], self.job["engine"]).bytes_of(self.names[0])
        sent = np.array([size * self._flying(number) if size else 0.0 for number in range(len(self.triggers))])
        ends = ends + sent * 8e-6 / self.costs.get("storage_mbps", np.inf)
        done = (self.triggers >= self.start_s) & (ends < self.horizon_s)
        found |= {"checkpoints": int(done.sum()), "checkpoint s": float((ends - self.triggers)[done].mean())}
        return found | {"aligned s": 0.0, "put aside": 0.0, "bytes": float(sent[done].mean())}
