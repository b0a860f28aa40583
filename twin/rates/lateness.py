"""How late results become while queues grow: of every second of a run, the part by which what leaves is older.

What comes to a replica by a factor p too fast and leaves at a time t has come at t / p: it waited t (1 - 1 / p). If it
was already a t' late when it came at t', it leaves t (1 - (1 - a) / p) late. Some tuples of an operator are late, as
they came through replicas that can't keep up, and others are not: both are followed, as a result of a window is as late
as the latest of the tuples that it is made of. Axes are those of `twin.rates.layout`; rows of [2, N] are time since
ingestion and since generation, as in `twin.rates.latency`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.rates.layout import Layout
from twin.rates.paces import Paces


class Late(NamedTuple):
    """share: of tuples, those that are late; pace: by how many seconds more every second. [2, N] each"""

    share: np.ndarray
    pace: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Over all tuples."""
        return np.asarray(self.share * self.pace)


def lateness(layout: Layout, paces: Paces) -> np.ndarray:
    """By how many seconds results become older every second, over all sinks. [2, N]"""
    job, load = layout.job, paces.load
    sent_sn = job.sent_sn(load.out_on)
    found: list[Late] = []
    for o in range(len(job.names)):
        if job.inputs[o]:
            coming = [_behind(found[job.producer_s[s]], paces.over_sn[s]) for s in job.inputs[o]]
            rates = [sent_sn[s] / np.maximum(paces.over_sn[s], 1.0) for s in job.inputs[o]]
            found.append(_worked_off(layout, paces, o, _met(layout, paces, o, coming, rates)))
        else:
            none = np.zeros((2, layout.size))
            behind = _worked_off(layout, paces, o, Late(none, none))
            found.append(Late(behind.share * [[0.0], [1.0]], behind.pace * [[0.0], [1.0]]))  # it waits at the broker
    weights = load.in_on[job.sinks]
    total = np.sum([weight * found[o].mean for weight, o in zip(weights, job.sinks, strict=True)], axis=0)
    return np.asarray(total / np.maximum(weights.sum(axis=0), 1e-12))


def _met(layout: Layout, paces: Paces, o: int, coming: list[Late], rates: list[np.ndarray]) -> Late:
    """What an operator looks at: any tuple that comes, the latest of a window's group, the latest of a match."""
    job = layout.job
    if o in job.windowed and job.operators[o].joins:
        found = coming[0]
        for other in coming[1:]:
            found = _later(found, other)
        return found
    total = np.maximum(np.sum(rates, axis=0), 1e-12)
    share = np.sum([rate * each.share for rate, each in zip(rates, coming, strict=True)], axis=0) / total
    mean = np.sum([rate * each.mean for rate, each in zip(rates, coming, strict=True)], axis=0) / total
    pace = mean / np.maximum(share, 1e-12)
    if o in job.windowed:
        each = paces.load.window_on[o] / np.maximum(paces.load.groups_on[o], 1e-12)
        share = 1.0 - (1.0 - np.minimum(share, 1.0)) ** np.maximum(each, 1.0)
    return Late(share, pace)


def _later(one: Late, other: Late) -> Late:
    """The later of a tuple of each."""
    share = one.share + other.share - one.share * other.share
    both = one.share * other.share * np.maximum(one.pace, other.pace)
    mean = both + one.mean * (1.0 - other.share) + other.mean * (1.0 - one.share)
    return Late(share, mean / np.maximum(share, 1e-12))


def _behind(late: Late, over: np.ndarray) -> Late:
    """Behind what so much more comes to than it can take: all are late then."""
    mean = 1.0 - (1.0 - late.mean) / np.maximum(over, 1.0)
    waits = over > 1.0
    return Late(np.where(waits, 1.0, late.share), np.where(waits, mean, late.pace))


def _worked_off(layout: Layout, paces: Paces, o: int, late: Late) -> Late:
    """What leaves the operator, of all of its parts."""
    cells = len(layout.operator_c)
    rows = [*range(*layout.cells(o).indices(cells)), *range(cells + o, len(paces.over_kn), len(layout.job.names))]
    weights = paces.worked_kn[rows] / np.maximum(paces.worked_kn[rows].sum(axis=0), 1e-12)
    each = [_behind(late, paces.over_kn[row]) for row in rows]
    share = np.sum([weight * part.share for weight, part in zip(weights, each, strict=True)], axis=0)
    mean = np.sum([weight * part.mean for weight, part in zip(weights, each, strict=True)], axis=0)
    return Late(share, mean / np.maximum(share, 1e-12))
