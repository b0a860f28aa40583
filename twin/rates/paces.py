"""What flows while channels still fill: each replica works at its own pace, and nobody waits for anybody else.

What comes too fast waits in front of the replicas that can't keep up, and of streams whose network is full; all others
take what comes to them, and downstream comes what was worked off. That is the state of a run that starts empty until
pressure has come to a source (`twin.rates.filling`). Axes are those of `twin.rates.layout`; K is *parts* of operators:
the replicas in each cell and, where keys are uneven, the busiest replica beside them, one an operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from twin.rates.layout import Layout
from twin.rates.load import Load, flow_at, load

ROUNDS, WHOLE, CLOSE = 7, 2, 0.005
"""Of what replicas get when what comes to others has changed; those by whole steps; the change of a share that is none.
"""


class Paces(NamedTuple):
    """load: at the rates that are worked off. over_kn: by which factor more comes than that, if above 1; share_kn: of
    what comes to the operator, what comes to the part; [K, N] each. over_sn: the same of a stream. [S, N]"""

    load: Load
    over_kn: np.ndarray
    share_kn: np.ndarray
    over_sn: np.ndarray

    def by_operator(self, layout: Layout, each_kn: np.ndarray) -> np.ndarray:
        """The sum over an operator's parts. [O, N]"""
        cells = len(layout.operator_c)
        found = layout.over_cells(each_kn[:cells])
        return found if len(each_kn) == cells else found + each_kn[cells:]

    @property
    def worked_kn(self) -> np.ndarray:
        """Of what comes to the operator, what the part works off. [K, N]"""
        return np.asarray(self.share_kn / np.maximum(self.over_kn, 1.0))


def own_paces(layout: Layout, offered: Load, slowdown_on: np.ndarray, stalls_s: Mapping[str, np.ndarray]) -> Paces:
    """Under plans that start empty, when every source offers all it has.

    offered: if all kept up. slowdown_on, stalls_s: as of `load` and `flows`. What is worked off leaves room to
    neighbours and comes to those downstream; after some rounds by half steps, in logs. Plans that are done stay
    as they are: what else is estimated together must make no difference.
    """
    job = layout.job
    rates = {name: np.full(layout.size, rate) for name, rate in job.offered_per_s.items()}
    ends = [(each.producer, each.consumer) for each in job.streams]
    found = _paces(layout, offered)
    passed_on, passed_sn = np.ones((len(job.names), layout.size)), np.ones(found.over_sn.shape)
    for turn in range(ROUNDS):
        next_on = found.by_operator(layout, found.worked_kn)
        next_sn = 1.0 / np.maximum(found.over_sn, 1.0)
        moves = (np.abs(next_on - passed_on) > CLOSE).any(axis=0) | (np.abs(next_sn - passed_sn) > CLOSE).any(axis=0)
        if not moves.any():
            break
        passed_on = np.where(moves, np.sqrt(passed_on * next_on) if turn >= WHOLE else next_on, passed_on)
        passed_sn = np.where(moves, np.sqrt(passed_sn * next_sn) if turn >= WHOLE else next_sn, passed_sn)
        passes: dict[str | tuple[str, str], np.ndarray] = dict(zip(job.names, passed_on, strict=True))
        passes |= dict(zip(ends, passed_sn, strict=True))
        flow = flow_at(job, rates, stalls_s, passes, layout.counted)
        found = _paces(layout, load(layout, flow, slowdown_on))
    waits_sn = np.where(found.over_sn > 1.0, 0.0, found.load.nic_sn)  # the others' have no end: see `lateness`
    return found._replace(load=replace(found.load, in_on=found.load.in_on * passed_on, nic_sn=waits_sn))


def _paces(layout: Layout, now: Load) -> Paces:
    over_cn = _over(layout, now)
    share_cn, over_sn = layout.share_cn, np.maximum(now.nic_sn, 1e-9)
    if layout.crowding_on is None:
        return Paces(now, over_cn, share_cn, over_sn)
    busiest_on = np.where(layout.replicas_on > 1, layout.crowding_on, 1.0) / layout.replicas_on
    others_on = (1.0 - busiest_on) * layout.replicas_on / np.maximum(layout.replicas_on - 1.0, 1.0)
    over_kn = np.concatenate([over_cn * others_on[layout.operator_c], layout.mean(over_cn) * layout.crowding_on])
    share_kn = np.concatenate([share_cn * (1.0 - busiest_on)[layout.operator_c], busiest_on])
    return Paces(now, over_kn, share_kn, over_sn)


def _over(layout: Layout, now: Load) -> np.ndarray:
    """What comes to the replicas of a cell over what they can take. [C, N]"""
    job = layout.job
    if now.cells is None:
        over_cn = np.asarray(now.used_on * np.ones(layout.size))
    else:
        over_cn = np.maximum(now.cells.busy_cn / np.maximum(now.cells.speed_cn, 1e-12), now.cells.moving_cn)
        over_cn = np.where(layout.here_cn, over_cn, 0.0)
        speed_cn = np.where(layout.here_cn, now.cells.speed_cn, 0.0)
        for o in np.flatnonzero(job.shared_o).tolist():  # whoever is free takes
            rows = layout.cells(o)
            asked = layout.mean(np.where(layout.here_cn, now.cells.busy_cn, 0.0))[o]
            over_cn[rows] = asked / np.maximum(layout.mean(speed_cn)[o], 1e-12)
    for o, calls in job.calling.items():
        crowding = 1.0 if layout.crowding_on is None else layout.crowding_on[o]
        limit = calls.used(now.in_on[o], now.in_on[o] / layout.replicas_on[o] * crowding)
        over_cn[layout.cells(o)] = np.maximum(over_cn[layout.cells(o)], limit)
    if layout.fusing is None:
        return over_cn
    return np.where(layout.fusing.behind_on[layout.operator_c], 0.0, over_cn)
