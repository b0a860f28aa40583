"""Costs of runs in which channels are still filling: until then operators work at their own paces, and queues grow.

Each replica's queue grows by itself: as a reflected Brownian motion, which grows by what is too much, and by chance as
the square root of the time where that is little. From when pressure has come to the sources on, sources are held back
(`twin.rates.throttle`). A run shows the mean of both over its results. Axes are those of `twin.rates.layout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twin.rates.cores import FULL
from twin.rates.filling import Measured, filling_s, held_back
from twin.rates.latency import Ages, result_ages_s
from twin.rates.lateness import lateness
from twin.rates.layout import Layout
from twin.rates.lines import Queues, queues_s
from twin.rates.load import Load
from twin.rates.paces import Paces, own_paces
from twin.rates.queues import grown_wait_s
from twin.rates.together import beside_on


@dataclass(frozen=True, slots=True)
class Reached:
    """What N plans come to once sources are held back. slowdown_on, stalls_s: as of `load` and `flows`."""

    layout: Layout
    slowdown_on: np.ndarray
    stalls_s: Mapping[str, np.ndarray]
    offered: Load
    reached: Load
    share: np.ndarray

    def ages(self, measured: Measured) -> Ages:
        """Of results, over a part of a run."""
        return result_ages_s(self.layout, self.offered, self.reached, self.share, measured)

    def per_s(self, ages: Ages, measured: Measured) -> np.ndarray:
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


def results(state: Reached, ages: Ages, measured: Measured) -> tuple[Results, Results]:
    """Those of a run, and those that it would have if nothing took time to fill."""
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


def _blended(state: Reached, lasting: Results, early_n: np.ndarray, until_n: np.ndarray, measured: Measured) -> Results:
    """early_n: the share of the measured time before sources are held back."""
    before = Measured(measured.start_s, np.minimum(until_n, measured.end_s))
    after = Measured(np.clip(until_n, measured.start_s, measured.end_s * (1.0 - 1e-6)), measured.end_s)
    early = _early(state, before)
    late = lasting
    if (until_n < measured.end_s).any():
        ages = state.ages(after)
        late = Results(state.per_s(ages, after), ages.results_s[:2])
    counts = early_n * early.per_s, (1.0 - early_n) * late.per_s
    total = counts[0] + counts[1]
    some = total > 0.0
    mine = np.where(some, counts[0], early_n) / np.where(some, total, 1.0)
    return Results(total, late.ages_s + mine * (early.ages_s - late.ages_s))


def _early(state: Reached, before: Measured) -> Results:
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
    servers = np.where(np.array(layout.job.shared_o)[:, None], layout.replicas_on, 1.0)
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
