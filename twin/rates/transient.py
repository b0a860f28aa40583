"""Costs of runs in which channels are still filling: until then operators work at their own paces, and queues grow.

What comes too fast waits in front of the replicas that can't keep up, and of streams whose network is full; all others
take what comes to them, and downstream comes what was worked off. Each replica's queue grows by itself: as a reflected
Brownian motion, which grows by what is too much, and by chance as the square root of the time where that is little.
What comes to a replica by a factor p too fast and leaves at a time t has come at t / p: it waited t (1 - 1 / p). If it
was already a t' late when it came at t', it leaves t (1 - (1 - a) / p) late. All is means over the tuples of an
operator, of which some came through replicas that keep up and others did not; a result of a window is as old as its
oldest tuple, so as late as what comes through the latest replica, and a match as late as the later side.

From when pressure has come to the sources on, sources are held back (`twin.rates.backpressure`). A run shows the mean
of both over its results. Axes are those of `twin.rates.layout`; K is *parts* of operators: the replicas in each cell
and, where keys are uneven, the busiest replica beside them, one an operator. Rows of [2, N] are time since ingestion
and since generation, as in `twin.rates.latency`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from twin.rates.batches import beside_on
from twin.rates.channels import MeasuredSpan, filling_s, held_back
from twin.rates.cpu_sharing import FULL
from twin.rates.latency import Ages, result_ages_s
from twin.rates.layout import Layout
from twin.rates.load import Load, flow_at, load
from twin.rates.queueing import grown_wait_s
from twin.rates.skew import busiest_and_others
from twin.rates.waiting import Queues, queues_s

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
        """The part's share of the operator's input that it processes. [K, N]"""
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
    busiest_on, others_on = busiest_and_others(layout.crowding_on, layout.replicas_on)
    over_kn = np.concatenate([over_cn * others_on[layout.operator_c], layout.mean(over_cn) * layout.crowding_on])
    share_kn = np.concatenate([share_cn * (1.0 - busiest_on)[layout.operator_c], busiest_on])
    if layout.uneven is not None and layout.crowding is not None:
        for o in layout.crowding.taken:
            _set_known(layout, o, over_cn, over_kn, share_kn)
    return Paces(now, over_kn, share_kn, over_sn)


def _set_known(layout: Layout, o: int, over_cn: np.ndarray, over_kn: np.ndarray, share_kn: np.ndarray) -> None:
    """Sets the rows of an operator of which it is known what the subtasks in every cell take: the subtask that is
    furthest over what it can take, and in every cell the others. over_kn, share_kn: changed in place."""
    assert layout.uneven is not None
    cells, plans, replicas_n = layout.cells(o), np.arange(layout.size), layout.replicas_on[o]
    over_cn, count_cn = over_cn[cells], layout.count_cn[cells]
    mean_cn, most_cn = layout.uneven.mean_cn[cells], layout.uneven.most_cn[cells]
    worst = (over_cn * most_cn).argmax(axis=0), plans
    left_cn, others_cn = mean_cn * count_cn, count_cn.copy()
    left_cn[worst] = np.maximum(left_cn[worst] - most_cn[worst], 0.0)
    others_cn[worst] -= 1.0
    over_kn[cells] = over_cn * left_cn / np.maximum(others_cn, 1.0)
    share_kn[cells] = left_cn / replicas_n
    row = len(layout.operator_c) + o
    over_kn[row], share_kn[row] = (over_cn * most_cn)[worst], most_cn[worst] / replicas_n


def _over(layout: Layout, now: Load) -> np.ndarray:
    """What comes to the replicas of a cell over what they can take. [C, N]"""
    job = layout.job
    if now.cells is None:
        over_cn = np.asarray(now.used_on * np.ones(layout.size))
    else:
        over_cn = np.maximum(now.cells.busy_cn / np.maximum(now.cells.speed_cn, 1e-12), now.cells.moving_cn)
        over_cn = np.where(layout.here_cn, over_cn, 0.0)
        speed_cn = np.where(layout.here_cn, now.cells.speed_cn, 0.0)
        for o in np.flatnonzero(job.dealing.shared_o).tolist():  # whoever is free takes
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


INGESTED, GENERATED = 0, 1


def lateness(layout: Layout, paces: Paces) -> np.ndarray:
    """Seconds by which results become older every second, over all sinks. [2, N]"""
    job, load = layout.job, paces.load
    sent_sn = layout.carried_sn(load.out_on)
    late: list[np.ndarray] = []
    latest: list[np.ndarray] = []
    for o in range(len(job.names)):
        if job.inputs[o]:
            before = latest if o in job.windows.all and not job.operators[o].joins else late
            coming = [_behind(before[job.producer_s[s]], paces.over_sn[s]) for s in job.inputs[o]]
            if job.operators[o].joins or o in job.windows.all:
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
    """The mean of K arrays [2, N] by weights [K, N]. [2, N]"""
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


@dataclass(frozen=True, slots=True)
class Reached:
    """What N plans come to once sources are held back. slowdown_on, stalls_s: as of `load` and `flows`."""

    layout: Layout
    slowdown_on: np.ndarray
    stalls_s: Mapping[str, np.ndarray]
    offered: Load
    reached: Load
    share: np.ndarray

    def ages(self, measured: MeasuredSpan) -> Ages:
        """The ages of results over a part of a run."""
        return result_ages_s(self.layout, self.offered, self.reached, self.share, measured)

    def per_s(self, ages: Ages, measured: MeasuredSpan) -> np.ndarray:
        """Results a second over a part of a run, of which those of its empty start are missing. [N]"""
        arriving = self.reached.in_on[self.layout.job.sinks].sum(axis=0)
        return np.asarray(arriving * held_back(ages.results_s[2], measured))

    def select(self, rows: np.ndarray) -> Reached:
        """The same for some of the plans (a mask [N])."""
        stalls_s = {name: each[rows] for name, each in self.stalls_s.items()}
        offered, reached = self.offered.select(rows), self.reached.select(rows)
        return Reached(
            self.layout.select(rows), self.slowdown_on[:, rows], stalls_s, offered, reached, self.share[:, rows]
        )


class Results(NamedTuple):
    """At the sinks: results a second over the measured time [N]; their ages since ingestion and generation [2, N]."""

    per_s: np.ndarray
    ages_s: np.ndarray


def results(state: Reached, ages: Ages, measured: MeasuredSpan) -> tuple[Results, Results]:
    """The results of a run, and those that it would have if nothing took time to fill."""
    lasting = Results(state.per_s(ages, measured), ages.results_s[:2])
    until_n = _until(state, ages)
    early_n = 1.0 - held_back(until_n, measured)
    rows = early_n > 0.0
    if not rows.any():
        return lasting, lasting
    per_s, ages_s = lasting.per_s.copy(), lasting.ages_s.copy()
    part = Results(lasting.per_s[rows], lasting.ages_s[:, rows])
    per_s[rows], ages_s[:, rows] = _blended(state.select(rows), part, early_n[rows], until_n[rows], measured)
    return Results(per_s, ages_s), lasting


def _until(state: Reached, ages: Ages) -> np.ndarray:
    """When sources are held back: the mean over them, by how much they are. [N]"""
    job, filling_rn = state.layout.job, ages.filling_rn
    alone_sn = ages.full_sn & (state.reached.stream_sn > FULL)
    if alone_sn.any():
        filling_rn = filling_s(state.layout, state.offered, state.reached, ages.full_sn, alone_sn)
    weights = (1.0 - state.share) * np.array([[job.offered_per_s[job.names[o]]] for o in job.sources])
    total = weights.sum(axis=0)
    return np.divide((weights * filling_rn).sum(axis=0), total, out=np.zeros_like(total), where=total > 0)


def _blended(
    state: Reached, lasting: Results, early_n: np.ndarray, until_n: np.ndarray, measured: MeasuredSpan
) -> Results:
    """early_n: the share of the measured time before sources are held back."""
    before = MeasuredSpan(measured.start_s, np.minimum(until_n, measured.end_s))
    after = MeasuredSpan(np.clip(until_n, measured.start_s, measured.end_s * (1.0 - 1e-6)), measured.end_s)
    early = _while_filling(state, before)
    late = lasting
    if (until_n < measured.end_s).any():
        ages = state.ages(after)
        late = Results(state.per_s(ages, after), ages.results_s[:2])
    counts = early_n * early.per_s, (1.0 - early_n) * late.per_s
    total = counts[0] + counts[1]
    some = total > 0.0
    mine = np.where(some, counts[0], early_n) / np.where(some, total, 1.0)
    return Results(total, late.ages_s + mine * (early.ages_s - late.ages_s))


def _while_filling(state: Reached, before: MeasuredSpan) -> Results:
    """At the replicas' own paces, over that part of a run."""
    layout = state.layout
    paces = own_paces(layout, state.offered, state.slowdown_on, state.stalls_s)
    middle_s = np.asarray((before.start_s + before.end_s) / 2.0)
    ages = result_ages_s(
        layout, paces.load, paces.load, np.ones_like(state.share), before, _growing(layout, paces, middle_s)
    )
    per_s = paces.load.in_on[layout.job.sinks].sum(axis=0) * held_back(ages.results_s[2], before)
    return Results(per_s, ages.results_s[:2] + lateness(layout, paces) * middle_s)


def _growing(layout: Layout, paces: Paces, at_s: np.ndarray) -> Queues:
    """Queues of which those that are more than full have grown for so long, but for `lateness`."""
    load, rows = paces.load, layout.operator_c
    lasting = queues_s(layout, load)
    gap_on = lasting.gap_on
    if len(paces.over_kn) > len(rows):  # the busiest replicas, each by itself
        rows = np.concatenate([rows, np.arange(len(layout.job.names))])
    over = np.maximum(paces.over_kn, 1e-6)
    servers = np.where(np.array(layout.job.dealing.shared_o)[:, None], layout.replicas_on, 1.0)
    beside = beside_on(layout, load)
    lumps_on = gap_on if beside is None else gap_on + beside
    varied = (lasting.line_on * (lumps_on + load.line_scv_on) / servers)[rows] * over
    came_s = at_s / np.maximum(over, 1.0)
    grown = grown_wait_s(over - 1.0, varied, came_s)
    grown -= np.maximum(over - 1.0, 0.0) * came_s
    wait_kn = np.where(over < 1.0, lasting.wait_on[rows], grown)
    worked = paces.worked_kn
    wait_on = paces.by_operator(layout, worked * wait_kn) / np.maximum(paces.by_operator(layout, worked), 1e-12)
    if layout.fusing is not None:
        wait_on = np.where(layout.fusing.behind_on, 0.0, wait_on)
    return lasting._replace(wait_on=wait_on)
