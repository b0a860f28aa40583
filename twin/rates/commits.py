"""How long results wait for the checkpoint that has them, where sinks are exactly-once.

A checkpoint takes from its beginning until barriers have reached all tasks, and each has done its work and uploaded
what it holds (`twin.rates.uploads`). Aligned barriers stay between the same tuples all the way. So from the source on a
tuple takes half a period on average and all of the next checkpoint, however long it is on its way; what a window adds
comes on top. Unaligned ones are soon at the sink, and results wait from there. What checkpoints cost tasks is not in
it. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.checkpoints import Checkpoints
from twin.rates.early import Reached, Results
from twin.rates.filling import Measured
from twin.rates.latency import Ages
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.uploads import uploads


@dataclass(frozen=True, slots=True)
class Commits:
    """period_s: from one checkpoint to the next; duration_s: of one; wait_s: of a result. [N] each"""

    spec: Checkpoints
    period_s: np.ndarray
    duration_s: np.ndarray
    wait_s: np.ndarray

    def seen(self, found: Results, measured: Measured) -> Results:
        """Of what reaches the sinks, what is committed in that part of a run, and how old it is then.

        Where that has more than its share of commits, results of before make no more of it than lasts.
        """
        share = (self._before(measured.end_s) - self._before(measured.start_s)) * self.period_s / measured.length_s
        return Results(found.per_s * np.minimum(share, 1.0), np.minimum(found.ages_s + self.wait_s, measured.end_s))

    def _before(self, at_s: float | np.ndarray) -> np.ndarray:
        """Checkpoints that are complete by then. [N]"""
        first_s = self.spec.interval_s + self.duration_s
        complete = np.maximum(np.ceil((at_s - first_s) / self.period_s), 0.0)
        return np.where(self.duration_s <= self.spec.timeout_s, complete, 0.0)


def commits(state: Reached, ages: Ages, spec: Checkpoints) -> Commits:
    """Of checkpoints at the rates that are reached."""
    layout, found = state.layout, state.reached
    last_on, passed_on = _overtaking(layout, ages) if spec.mode == "unaligned" else _in_order(layout, found, ages)
    each_s = np.full(layout.size, spec.interval_s)
    bytes_on, sent_on, stored_n = uploads(layout, found, spec, each_s)
    speed_on = -layout.worst(-np.minimum(layout.capacity_cn, 1.0))
    worked_on = spec.sync_ms * 1e-3 + bytes_on / layout.replicas_on * spec.sync_ns_per_byte * 1e-9
    duration_s = (last_on + worked_on * state.slowdown_on / speed_on + sent_on).max(axis=0) + stored_n
    period_s = np.maximum(each_s, duration_s + spec.min_pause_s)
    sinks = layout.job.sinks
    weights = np.maximum(found.in_on[sinks], 1e-12)
    passed_s = (passed_on[sinks] * weights).sum(axis=0) / weights.sum(axis=0)
    return Commits(spec, period_s, duration_s, period_s / 2.0 + np.maximum(duration_s - passed_s, 0.0))


def _in_order(layout: Layout, found: Load, ages: Ages) -> tuple[np.ndarray, np.ndarray]:
    """When an operator has the barriers of all its inputs; for how long tuples are on their way through it, windows
    apart. [O, N] each"""
    job, sent_sn = layout.job, layout.carried_sn(found.out_on)
    last_on, passed_on = np.zeros((2, len(job.names), layout.size))
    for o, streams in enumerate(job.inputs):
        total = np.maximum(sent_sn[streams].sum(axis=0), 1e-12)
        passed_on[o] = ages.channel_s[o] + ages.queue_s[o]
        for s in streams:
            producer = job.producer_s[s]
            last_on[o] = np.maximum(last_on[o], last_on[producer] + ages.way_sn[s] + ages.line_s[o])
            passed_on[o] += sent_sn[s] / total * passed_on[producer]
    return last_on, passed_on


def _overtaking(layout: Layout, ages: Ages) -> tuple[np.ndarray, np.ndarray]:
    """When an operator has the last and the first of its barriers, which it passes on. [O, N] each"""
    job = layout.job
    last_on, first_on = np.zeros((2, len(job.names), layout.size))
    for o, streams in enumerate(job.inputs):
        if streams:
            came_sn = ages.link_sn[streams] + first_on[[job.producer_s[s] for s in streams]]
            last_on[o], first_on[o] = came_sn.max(axis=0), came_sn.min(axis=0)
    return last_on, first_on
