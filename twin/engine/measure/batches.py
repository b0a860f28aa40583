"""What reaches the sinks between given times, which need not be those of the periods."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import simpy

from twin.engine.logics.sink import SinkLogic


class Batches:
    """Reads the sinks whenever a batch ends. `period_ended` has to be called as soon as they begin to count anew."""

    def __init__(self, env: simpy.Environment, sinks: Sequence[SinkLogic], edges_s: Sequence[float]) -> None:
        """edges_s: the ends of all batches but the last, which `table` ends; the first of them begins the first."""
        self.sinks = sinks
        self._before = np.zeros(3)
        self._edges: list[tuple[float, np.ndarray]] = []
        self._env = env
        env.process(self._run(edges_s))

    def period_ended(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The sinks have been read into these rows, and emptied."""
        keys = ("latencyCount", "processingLatencySum_s", "e2eLatencySum_s")
        for row in rows:
            if "latencyCount" in row:
                self._before += [row[key] for key in keys]

    def table(self) -> np.ndarray:
        """[4, B] By batch: seconds, results, and the sums of their processing and end-to-end latencies in seconds.

        The last batch ends now.
        """
        ends = [*self._edges, self._now()]
        return np.array([[until - since, *(end - start)] for (since, start), (until, end) in pairwise(ends)]).T

    def _run(self, edges_s: Sequence[float]) -> Generator[simpy.Event, object, None]:
        for edge_s in edges_s:
            yield self._env.timeout(max(0.0, edge_s - self._env.now))
            self._edges.append(self._now())

    def _now(self) -> tuple[float, np.ndarray]:
        fresh = [(sink.count, sink.processing_sum_s, sink.e2e_sum_s) for sink in self.sinks]
        return self._env.now, self._before + np.sum(fresh, axis=0)
