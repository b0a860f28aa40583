"""What a checkpoint uploads under N plans, and for how long.

Letters at the end of a name are the axes of `twin.rates.layout`; k is hops, as in `twin.rates.links`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.checkpoints import Checkpoints
from twin.key_skew import KeySkew
from twin.keys import distinct_values, key_groups_of, touched
from twin.kinds.windowed import Windowed
from twin.rates.arrays import JobArrays
from twin.rates.keys import key_shares
from twin.rates.layout import Layout
from twin.rates.links import Hops
from twin.rates.load import Load, windows_on
from twin.rates.queues import RHO_MAX


class Uploads(NamedTuple):
    """bytes_on: of an operator's replicas. sent_on: for how long they are on their way, from the slowest host. [O, N]
    stored_n: for how long the storage takes up those of all. [N]"""

    bytes_on: np.ndarray
    sent_on: np.ndarray
    stored_n: np.ndarray


def uploads(layout: Layout, found: Load, spec: Checkpoints, period_s: np.ndarray) -> Uploads:
    """period_s: in which what increments have has changed. [N]"""
    bytes_on = _windows_on(layout, found, period_s if spec.state == "incremental" else None)
    for o in range(len(bytes_on)):
        bytes_on[o] += _state_n(layout.job, o, found.in_on[o] * period_s if spec.state == "incremental" else None)
    sent_on = np.zeros_like(bytes_on) if spec.storage is None else _sent_on(layout, found, spec.storage, bytes_on)
    stored_n = bytes_on.sum(axis=0) * 8e-6 / (np.inf if spec.storage_mbps is None else spec.storage_mbps)
    return Uploads(bytes_on, sent_on, stored_n)


def _windows_on(layout: Layout, found: Load, period_s: np.ndarray | None) -> np.ndarray:
    """Bytes in windows: a checkpoint finds half of what a window slides by. [O, N]"""
    job = layout.job
    held_on = windows_on(layout, found.window_on) + np.zeros((len(job.names), layout.size))
    for o, operator in enumerate(job.operators):
        if isinstance(operator, Windowed):
            slides = found.in_on[o] if job.by_time_o[o] else layout.replicas_on[o]
            held_on[o] -= np.minimum(operator.window.slide * slides, held_on[o]) / 2.0
    if period_s is not None:
        held_on = np.minimum(held_on, found.in_on * period_s)
    return np.asarray(held_on * job.held_bytes.mean(found.in_on, layout.carried_sn(found.out_on)))


def _state_n(job: JobArrays, o: int, came_n: np.ndarray | None) -> float | np.ndarray:
    """Bytes of key groups: all, or those of keys that are among so many tuples. [N]"""
    operator, name = job.operators[o], job.names[o]
    groups, each = key_groups_of(operator), getattr(operator, "state_bytes_per_group", 0.0)
    if groups is None or came_n is None:
        return float((groups or 0) * each)
    skew = job.deployment.workload.keys.get(name, KeySkew())
    shares, values = key_shares(distinct_values(operator, skew, groups), skew)
    return np.asarray(each * touched(came_n[:, None], shares / values).sum(axis=1))


def _sent_on(layout: Layout, found: Load, storage: str, bytes_on: np.ndarray) -> np.ndarray:
    """All are sent at once, beside the tuples, over the same cards and links. [O, N]"""
    cluster = layout.job.deployment.cluster
    hops = Hops(cluster)
    end = [host.name for host in cluster.hosts].index(storage)
    crossed_hk = np.zeros((len(cluster.hosts), len(hops.slow_k)))
    for start, crossed_k in enumerate(crossed_hk):
        crossed_k[hops.route(start, end)] = 1.0
    used_nk = found.nic_hn.T
    if layout.links is not None:
        used_nk = layout.links.used_nk(layout.carried_sn(found.out_on) * layout.job.bytes_s[:, None])
    bytes_nh = layout.by_host(bytes_on[layout.operator_c] * layout.share_cn).T
    busy_nk = bytes_nh @ crossed_hk * hops.slow_k / (1.0 - np.minimum(used_nk, RHO_MAX))
    sent_hn = (crossed_hk[:, None] * busy_nk).max(axis=2) + (crossed_hk @ hops.latency_k)[:, None]
    return np.where(bytes_on > 0.0, layout.worst(np.where(layout.here_cn, layout.of_hosts(sent_hn), 0.0)), 0.0)
