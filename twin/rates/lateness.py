"""How late results become while queues grow: of every second of a run, the part by which what leaves is older.

What comes to a replica by a factor p too fast and leaves at a time t has come at t / p: it waited t (1 - 1 / p). If it
was already a t' late when it came at t', it leaves t (1 - (1 - a) / p) late. All is means over the tuples of an
operator, of which some came through replicas that keep up and others did not; a result of a window is as old as its
oldest tuple, so as late as what comes through the latest replica, and a match as late as the later side. Axes are those
of `twin.rates.layout`; rows of [2, N] are time since ingestion and since generation, as in `twin.rates.latency`.
"""

from __future__ import annotations

import numpy as np

from twin.rates.layout import Layout
from twin.rates.paces import Paces

INGESTED, GENERATED = 0, 1


def lateness(layout: Layout, paces: Paces) -> np.ndarray:
    """By how many seconds results become older every second, over all sinks. [2, N]"""
    job, load = layout.job, paces.load
    sent_sn = layout.carried_sn(load.out_on)
    late: list[np.ndarray] = []
    latest: list[np.ndarray] = []
    for o in range(len(job.names)):
        if job.inputs[o]:
            before = latest if o in job.windowed and not job.operators[o].joins else late
            coming = [_behind(before[job.producer_s[s]], paces.over_sn[s]) for s in job.inputs[o]]
            if job.operators[o].joins or o in job.windowed:
                met = np.max(coming, axis=0)
            else:
                rates = np.array([sent_sn[s] / np.maximum(paces.over_sn[s], 1.0) for s in job.inputs[o]])
                met = _mean(rates, coming)
        else:
            met = np.zeros((2, layout.size))
        worked, leaving = _worked_off(layout, paces, o, met)
        late.append(_mean(worked, leaving))
        latest.append(np.max(np.where(worked[:, None] > 0.0, leaving, met), axis=0))
        if not job.inputs[o]:  # it waits at the broker
            late[o][INGESTED] = latest[o][INGESTED] = 0.0
    return _mean(load.in_on[job.sinks], [late[o] for o in job.sinks])


def _mean(weights: np.ndarray, late: list[np.ndarray]) -> np.ndarray:
    """By weights [K, N], of K times [2, N]. [2, N]"""
    total = np.maximum(weights.sum(axis=0), 1e-12)
    return np.asarray((weights[:, None] * np.array(late)).sum(axis=0) / total)


def _behind(late: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Behind what so much more comes to than it can take."""
    return np.asarray(1.0 - (1.0 - late) / np.maximum(over, 1.0))


def _worked_off(layout: Layout, paces: Paces, o: int, late: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """How much leaves each part of the operator [K, N], and how late: K times [2, N]."""
    cells = len(layout.operator_c)
    rows = [*range(*layout.cells(o).indices(cells)), *range(cells + o, len(paces.over_kn), len(layout.job.names))]
    return paces.worked_kn[rows], [_behind(late, paces.over_kn[row]) for row in rows]
