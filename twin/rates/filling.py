"""How long channels take to fill: a run that starts empty feels a bottleneck when its pressure has come to the source.

What an operator cannot take waits in its channels, then in those of its producers, and so on up to the sources, each at
the rate by which too much is offered. Until then nothing is held back, and results become older all the time. Letters
at the end of a name are the axes of `twin.rates.layout`; R is the sources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.rates.cores import FULL
from twin.rates.layout import Layout
from twin.rates.load import Load


def credits_sn(layout: Layout) -> np.ndarray:
    """Tuples that all channels of a stream hold together. [S, N]"""
    job = layout.job
    replicas_sn = layout.replicas_on[job.consumer_s].copy()
    replicas_sn[[job.shared_o[o] for o in job.consumer_s]] = 1.0  # of one common queue
    return np.asarray(replicas_sn * layout.room_sn)


def filling_s(
    layout: Layout, offered: Load, reached: Load, full_sn: np.ndarray, alone_sn: np.ndarray | None = None
) -> np.ndarray:
    """Time from an empty start until the channels between a source and what slows it are full; of others 0. [R, N]

    full_sn: which streams' channels will be full; alone_sn: whatever is behind them, as their network is; None: it
    waits for all behind.
    """
    job = layout.job
    if not full_sn.any():
        return np.zeros((len(job.sources), layout.size))
    excess_sn = _excess_sn(layout, offered, reached)
    room_sn = credits_sn(layout)
    if layout.crowding_on is not None:  # the busiest replica's channels fill, and those alone
        alone_on = np.where(reached.cpu_on > FULL, layout.crowding_on, 1.0)
        room_sn = room_sn / alone_on[job.consumer_s]
    each_sn = np.where(full_sn, room_sn / np.maximum(excess_sn, 1e-9), np.inf)
    until_on = np.zeros((len(job.names), layout.size))
    for o in reversed(range(len(job.names))):
        if job.outputs[o]:
            behind = [until_on[job.consumer_s[s]] for s in job.outputs[o]]
            if alone_sn is not None:
                behind = [np.where(alone_sn[s], 0.0, each) for s, each in zip(job.outputs[o], behind, strict=True)]
            onward = np.min([each_sn[s] + each for s, each in zip(job.outputs[o], behind, strict=True)], axis=0)
            until_on[o] = np.where(np.isfinite(onward), onward, 0.0)
    return until_on[job.sources]


def _excess_sn(layout: Layout, offered: Load, reached: Load) -> np.ndarray:
    """Tuples a second that a stream's channels gain. Where streams meet, those of all wait in one line: each gains by
    what it brings, whichever will be slowed in the end. [S, N]"""
    job = layout.job
    excess_sn = layout.carried_sn(offered.out_on - reached.out_on)
    sent_sn = layout.carried_sn(offered.out_on) + np.zeros(layout.size)
    for streams in job.inputs:
        if len(streams) > 1:
            brought = np.maximum(sent_sn[streams].sum(axis=0), 1e-300)
            excess_sn[streams] = excess_sn[streams].sum(axis=0) * sent_sn[streams] / brought
    return excess_sn


class Measured(NamedTuple):
    """The part of a run, from an empty start at 0, over which means are taken; of each plan its own where arrays."""

    start_s: float | np.ndarray
    end_s: float | np.ndarray

    @property
    def length_s(self) -> float | np.ndarray:
        """Of that part."""
        return self.end_s - self.start_s


def held_back(until: np.ndarray, measured: Measured) -> np.ndarray:
    """Share of the time in which a source is held back that is so from then on."""
    return np.clip((measured.end_s - until) / measured.length_s, 0.0, 1.0)


def behind_s(until: np.ndarray, measured: Measured) -> np.ndarray:
    """The mean of the time since then, 0 before."""
    ends = (np.maximum(each - until, 0.0) ** 2 for each in (measured.end_s, measured.start_s))
    return np.asarray((next(ends) - next(ends)) / 2.0 / measured.length_s)


def filled(until: np.ndarray, measured: Measured) -> np.ndarray:
    """How long a full channel's wait is on average, of the longest: it grows evenly until then."""
    growing = np.clip(until, measured.start_s, measured.end_s)
    grown_s = (growing**2 - measured.start_s**2) / 2.0 / np.maximum(until, 1e-9)
    return np.asarray((grown_s + measured.end_s - growing) / measured.length_s)
