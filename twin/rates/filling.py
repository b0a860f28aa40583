"""How long channels take to fill: a run that starts empty feels a bottleneck when its pressure has come to the source.

What an operator cannot take waits in its channels, then in those of its producers, and so on up to the sources, each at
the rate by which too much is offered. Until then nothing is held back, and results become older all the time. Letters
at the end of a name are the axes of `twin.rates.layout`; R is the sources.
"""

from __future__ import annotations

import numpy as np

from twin.rates.layout import Layout
from twin.rates.load import Load


def credits_sn(layout: Layout) -> np.ndarray:
    """Tuples that all channels of a stream hold together. [S, N]"""
    job = layout.job
    replicas_sn = layout.replicas_on[job.consumer_s].copy()
    replicas_sn[[job.shared_o[o] for o in job.consumer_s]] = 1.0  # of one common queue
    return np.asarray(replicas_sn * job.deployment.engine.channel_tuples)


def filling_s(layout: Layout, offered: Load, reached: Load, full_sn: np.ndarray) -> np.ndarray:
    """Time from an empty start until the channels between a source and what slows it are full; of others 0. [R, N]

    full_sn: which streams' channels will be full.
    """
    job = layout.job
    if not full_sn.any():
        return np.zeros((len(job.sources), layout.size))
    excess_sn = (offered.out_on - reached.out_on)[job.producer_s] * layout.copies_sn
    each_sn = np.where(full_sn, credits_sn(layout) / np.maximum(excess_sn, 1e-9), np.inf)
    until_on = np.zeros((len(job.names), layout.size))
    for o in reversed(range(len(job.names))):
        if job.outputs[o]:
            onward = np.min([each_sn[s] + until_on[job.consumer_s[s]] for s in job.outputs[o]], axis=0)
            until_on[o] = np.where(np.isfinite(onward), onward, 0.0)
    return until_on[job.sources]


def held_back(filling_rn: np.ndarray, horizon_s: float) -> np.ndarray:
    """Share of a run in which a source is held back. [R, N]"""
    return np.clip(1.0 - filling_rn / horizon_s, 0.0, 1.0)


def filled(until_n: np.ndarray, horizon_s: float) -> np.ndarray:
    """How long a full channel's wait is on average over a run, of the longest: it grows evenly until then. [N]"""
    late = until_n / horizon_s
    return np.where(late < 1.0, 1.0 - late / 2.0, 0.5 / np.maximum(late, 1.0))
