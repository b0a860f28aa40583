"""Wait of results for the checkpoint that has them, if sinks are exactly-once.

A checkpoint takes from its beginning until barriers have reached all tasks, and each has done its work and uploaded its
state. Aligned barriers stay between the same records all the way. So from the source on a record takes half a period on
average and all of the next checkpoint, however long it is on its way; the time that a window adds comes on top.
Unaligned ones are soon at the sink, and results wait from there. Sources, and tasks that unaligned barriers reach, take
them when the record in service is done. The load of checkpoints on tasks is not included.
Letters at the end of a name are the axes of `twin.rates.layout`; k is hops, as in `twin.rates.channels`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twin.checkpoints import Checkpoints
from twin.deployment import key_shares
from twin.key_skew import KeySkew
from twin.kinds.windowed import Windowed
from twin.rates.arrays import JobArrays
from twin.rates.backpressure import Reached, Results
from twin.rates.channels import Hops, MeasuredSpan, used_hops
from twin.rates.latency import Ages, in_service_s
from twin.rates.layout import Layout
from twin.rates.load import Load, entries_on, entry_bytes_on, windows_on
from twin.rates.queueing import RHO_MAX
from twin.workload import distinct_values, key_groups_of, touched

PHASES = 100
"""Number of starts of the first checkpoint that stand for all."""


class Uploads(NamedTuple):
    """Uploads of a checkpoint. bytes_on: of all subtasks of an operator [O, N]. sent_on: seconds that they are on their
    way, from the slowest host [O, N]. stored_n: seconds in which the storage takes those of all operators [N]."""

    bytes_on: np.ndarray
    sent_on: np.ndarray
    stored_n: np.ndarray


def uploads(layout: Layout, found: Load, spec: Checkpoints, period_s: np.ndarray) -> Uploads:
    """Uploads of a checkpoint. period_s: the time whose changes an increment holds, in seconds [N]."""
    bytes_on = _windows_on(layout, found, period_s if spec.state == "incremental" else None)
    for o in range(len(bytes_on)):
        bytes_on[o] += key_state_n(layout.job, o, found.in_on[o] * period_s if spec.state == "incremental" else None)
    sent_on = np.zeros_like(bytes_on) if spec.storage is None else _sent_on(layout, found, spec.storage, bytes_on)
    stored_n = bytes_on.sum(axis=0) * 8e-6 / (np.inf if spec.storage_mbps is None else spec.storage_mbps)
    return Uploads(bytes_on, sent_on, stored_n)


def _windows_on(layout: Layout, found: Load, period_s: np.ndarray | None) -> np.ndarray:
    """Bytes in windows at a checkpoint: on average, half a slide less than at an evaluation. [O, N]"""
    job = layout.job
    held_on = windows_on(layout, found.window_on) + np.zeros((len(job.names), layout.size))
    for o, operator in enumerate(job.operators):
        if isinstance(operator, Windowed) and o not in job.entries:
            slides = found.in_on[o] if job.windows.by_time_o[o] else layout.subtasks_on[o]
            held_on[o] -= np.minimum(operator.window.slide * slides, held_on[o]) / 2.0
    if period_s is not None:
        held_on = np.minimum(held_on, found.in_on * period_s)
    if job.entries:
        since_on = np.full_like(held_on, np.inf)
        if period_s is not None:
            each_on = np.where(np.array(job.windows.by_time_o)[:, None], 1.0, found.in_on / layout.subtasks_on)
            since_on = period_s * each_on
        entries = windows_on(layout, entries_on(job, found.window_on, found.groups_on, layout.counted, since_on))
        held_on[list(job.entries)] = (entries + np.zeros_like(held_on))[list(job.entries)]
    return np.asarray(held_on * entry_bytes_on(job, found.in_on, layout.carried_sn(found.out_on)))


def key_state_n(job: JobArrays, o: int, came_n: np.ndarray | None) -> float | np.ndarray:
    """Bytes of an operator's key groups: of all of them, or of the part whose keys are among `came_n` records. [N]"""
    operator, name = job.operators[o], job.names[o]
    groups, each = key_groups_of(operator), getattr(operator, "state_bytes_per_group", 0.0)
    if groups is None or came_n is None:
        return float((groups or 0) * each)
    skew = job.deployment.workload.keys.get(name, KeySkew())
    shares, values = key_shares(distinct_values(operator, skew, groups), skew)
    return np.asarray(each * touched(came_n[:, None], shares / values).sum(axis=1))


def _sent_on(layout: Layout, found: Load, storage: str, bytes_on: np.ndarray) -> np.ndarray:
    """Seconds to the storage of uploads, all sent at once beside the records, over the same cards and links. [O, N]"""
    cluster = layout.job.deployment.cluster
    hops = Hops(cluster)
    end = [host.name for host in cluster.hosts].index(storage)
    crossed_hk = np.zeros((len(cluster.hosts), len(hops.slow_k)))
    for start, crossed_k in enumerate(crossed_hk):
        crossed_k[hops.route(start, end)] = 1.0
    bytes_nh = layout.by_host(bytes_on[layout.operator_c] * layout.evenly_cn).T
    busy_nk = bytes_nh @ crossed_hk * hops.slow_k / (1.0 - np.minimum(used_hops(layout, found), RHO_MAX))
    sent_hn = (crossed_hk[:, None] * busy_nk).max(axis=2) + (crossed_hk @ hops.latency_k)[:, None]
    return np.where(bytes_on > 0.0, layout.worst(np.where(layout.here_cn, layout.of_hosts(sent_hn), 0.0)), 0.0)


@dataclass(frozen=True, slots=True)
class Commits:
    """Checkpoints, and commits of exactly-once sinks at their ends, in seconds. period_s: from one checkpoint to the
    next; duration_s: of one; size: bytes of one; wait_s: of a result for its commit. [N] each"""

    spec: Checkpoints
    period_s: np.ndarray
    duration_s: np.ndarray
    size: np.ndarray
    wait_s: np.ndarray

    def seen(self, found: Results, measured: MeasuredSpan) -> Results:
        """Results that are committed in the measured part of a run, out of those that reach the sinks.

        If that part has more than its share of commits, earlier results among them do not raise the rate above the
        lasting one.
        """
        share = (self._before(measured.end_s) - self._before(measured.start_s)) * self.period_s / measured.length_s
        waited_s = (np.minimum(each_s + self.wait_s, measured.end_s) for each_s in (found.ages_s, found.delay_s))
        return Results(found.per_s * np.minimum(share, 1.0), *waited_s)

    def _before(self, at_s: float) -> np.ndarray:
        """Number of checkpoints that are complete by `at_s`, as a mean over the possible starts of the first. [N]"""
        first_pn = self.spec.phases_s((np.arange(PHASES) + 0.5) / PHASES)[:, None] + self.duration_s
        complete = np.maximum(np.ceil((at_s - first_pn) / self.period_s), 0.0).mean(axis=0)
        return np.where(self.duration_s <= self.spec.timeout_s, complete, 0.0)


def commits(state: Reached, ages: Ages, spec: Checkpoints) -> Commits:
    """Commits at the rates that are reached."""
    layout, found = state.layout, state.reached
    last_on, passed_on = (
        _overtaking(layout, found, ages) if spec.mode == "unaligned" else _in_order(layout, found, ages)
    )
    each_s = np.full(layout.size, spec.interval_s)
    bytes_on, sent_on, stored_n = uploads(layout, found, spec, each_s)
    slowest_on = layout.worst(layout.here_cn / layout.core_cn)
    worked_on = spec.sync_ms * 1e-3 + bytes_on / layout.subtasks_on * spec.sync_ns_per_byte * 1e-9
    duration_s = (last_on + worked_on * slowest_on + sent_on).max(axis=0) + spec.async_ms * 1e-3 + stored_n
    period_s = np.maximum(each_s, duration_s + spec.min_pause_s)
    sinks = layout.job.sinks
    weights = np.maximum(found.in_on[sinks], 1e-12)
    passed_s = (passed_on[sinks] * weights).sum(axis=0) / weights.sum(axis=0)
    wait_s = period_s / 2.0 + np.maximum(duration_s - passed_s, 0.0)
    return Commits(spec, period_s, duration_s, bytes_on.sum(axis=0), wait_s)


def _in_order(layout: Layout, found: Load, ages: Ages) -> tuple[np.ndarray, np.ndarray]:
    """Seconds from a checkpoint's beginning until an operator has the barriers of all its inputs, and seconds that
    records take to it and through it, without windows. [O, N] each

    Records that come together wait for each other; a barrier comes at any time, and finds some of them waiting only for
    the share of the time in which there is work.
    """
    job, sent_sn = layout.job, layout.carried_sn(found.out_on)
    last_on, passed_on = np.zeros((2, len(job.names), layout.size))
    last_on[job.sources] = in_service_s(found)[job.sources]
    for o, streams in enumerate(job.inputs):
        total = np.maximum(sent_sn[streams].sum(axis=0), 1e-12)
        passed_on[o] = ages.channel_s[o] + ages.queue_s[o]
        for s in streams:
            producer = job.producer_s[s]
            bunched = np.isfinite(found.bursts_on[producer])
            waits_s = ages.line_s[o] * np.where(bunched, np.minimum(found.used_on[o], 1.0), 1.0)
            last_on[o] = np.maximum(last_on[o], last_on[producer] + ages.way_sn[s] + waits_s)
            passed_on[o] += sent_sn[s] / total * passed_on[producer]
    return last_on, passed_on


def _overtaking(layout: Layout, found: Load, ages: Ages) -> tuple[np.ndarray, np.ndarray]:
    """Seconds from a checkpoint's beginning until an operator has the last and the first of its barriers; it passes the
    first on. [O, N] each"""
    job = layout.job
    left_on = in_service_s(found)
    last_on, first_on = left_on.copy(), left_on.copy()
    for o, streams in enumerate(job.inputs):
        if streams:
            came_sn = ages.link_sn[streams] + first_on[[job.producer_s[s] for s in streams]]
            last_on[o], first_on[o] = came_sn.max(axis=0) + left_on[o], came_sn.min(axis=0) + left_on[o]
    return last_on, first_on
