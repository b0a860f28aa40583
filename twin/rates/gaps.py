"""How regularly tuples come to a replica: the squared variation of the gaps between them, along the streams.

What leaves a station is as regular as what came where it is idle, and as its services where it is busy (Whitt, "The
queueing network analyzer", 1983, eq. 38). A part of it, chosen at random, is the more like Poisson's, the smaller it
is; each n-th tuple in turn is n times as regular; and of several producers, what is superposed becomes Poisson again.
Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

import numpy as np

from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.queues import superposed


def gap_scv_on(layout: Layout, found: Load) -> np.ndarray:
    """Of what comes to a replica. What comes in batches, from windows, or again by another way, counts as
    Poisson's. [O, N]"""
    job = layout.job
    coming = np.ones((len(job.names), layout.size))
    leaving = np.ones_like(coming)
    for o, streams in enumerate(job.inputs):
        if not streams:
            coming[o] = job.arrival_scv_o[o]
        elif not job.akin_o[o] and not any(job.batch_s[s] > 1 for s in streams):
            coming[o] = _met(layout, found, streams, leaving)
        if o in job.windowed or o in job.calling:
            continue
        busy = np.minimum(found.used_on[o], 1.0) ** 2
        servers = layout.replicas_on[o] if job.shared_o[o] else 1.0
        leaves = 1.0 + (1.0 - busy) * (coming[o] - 1.0) + busy / np.sqrt(servers) * (found.line_scv_on[o] - 1.0)
        leaving[o] = 1.0 + np.minimum(job.gain_o[o], 1.0) * (leaves - 1.0)
    return coming


def _met(layout: Layout, found: Load, streams: list[int], leaving: np.ndarray) -> np.ndarray:
    """Of several streams, at one of the consumer's replicas."""
    job = layout.job
    producers, total, weighed = np.zeros(layout.size), np.zeros(layout.size), np.zeros(layout.size)
    for s in streams:
        producer, rate = job.producer_s[s], found.out_on[job.producer_s[s]] * job.share_s[s]
        producers = producers + (1.0 if job.forward_s[s] else layout.replicas_on[producer])
        total = total + rate
        weighed = weighed + rate * _dealt(layout, s, leaving[producer])
    return superposed(weighed / np.maximum(total, 1e-12), producers)


def _dealt(layout: Layout, s: int, scv: np.ndarray) -> np.ndarray:
    """Of what one producer replica sends to one of the consumer's."""
    job, turns = layout.job, layout.ways(s)
    scv = 1.0 + job.share_s[s] * (scv - 1.0)
    if job.to_one_s[s]:
        return scv
    if not job.in_turn_s[s]:
        return 1.0 + (scv - 1.0) / turns
    return scv / np.maximum(turns / max(job.gain_o[job.producer_s[s]], 1.0), 1.0)  # of ten at once, each gets some
