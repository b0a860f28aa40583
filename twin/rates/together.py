"""Tuples that come at one moment, because one tuple of their producer made them all.

A flat map's results are in line behind each other, and find each other there as what comes in batches does: as in
M^[b]/G/1, a tuple waits (b - 1) s / (2 (1 - rho)) longer than if each came by itself, b - 1 being how many others come
with it on average. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

import numpy as np

from twin.kinds.selective import beside
from twin.rates.layout import Layout
from twin.rates.load import Load


def made_on(layout: Layout) -> np.ndarray:
    """Tuples that one of those which come to a task makes at one moment, up to an operator of it. [O, N]"""
    job = layout.job
    made = np.ones((len(job.names), layout.size)) * job.gain_o[:, None]
    if layout.fusing is not None:
        for s in layout.fusing.downward:
            inner = np.where(layout.fusing.inner_sn[s], made[job.producer_s[s]] * job.share_s[s], 1.0)
            made[job.consumer_s[s]] *= inner
    return made


def beside_on(layout: Layout, found: Load) -> np.ndarray | None:
    """Others that come to a replica with a tuple, a mean over all that come [O, N]; None if no operator makes several.

    What leaves in batches is counted where batches are.
    """
    job = layout.job
    if not job.multiplies:
        return None
    others, made = np.zeros((len(job.names), layout.size)), made_on(layout)
    for o, streams in enumerate(job.inputs):
        lumps = [s for s in streams if job.gain_o[job.producer_s[s]] != 1.0 or layout.fusing is not None]
        total = np.maximum(found.in_on[o], 1e-12)
        for s in lumps:
            mine = found.out_on[job.producer_s[s]] * job.share_s[s] / total
            others[o] += mine * _beside(layout, s, made[job.producer_s[s]] * job.share_s[s])
    return others if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, others)


def _beside(layout: Layout, s: int, made: np.ndarray) -> np.ndarray:
    job, ways = layout.job, layout.ways(s)
    if job.batch_s[s] > 1 or job.drops_s[s]:
        return np.zeros(layout.size)
    if job.in_turn_s[s]:
        return beside(made / ways)
    return np.asarray(beside(made) / ways)
