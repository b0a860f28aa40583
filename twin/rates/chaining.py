"""Chains under N plans at once: the streams that lie within one task, and their effect on loads and waits.

Chained operators are a path; sums over it are taken from its end to its beginning, stream by stream, and values of the
whole task are spread from its beginning to its end. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from twin.chaining import fused, goes_straight_on, may_chain
from twin.kinds.selective import beside
from twin.plan import ExecutionPlan

if TYPE_CHECKING:
    from twin.rates.arrays import JobArrays


class Fusing:
    """Chains under N plans. inner_sn: whether a stream is within a task [S, N]. behind_on, ahead_on: whether an
    operator follows another in its task, and whether another follows it [O, N]."""

    def __init__(self, job: JobArrays, inner_sn: np.ndarray) -> None:
        self.job = job
        self.inner_sn = inner_sn
        self.downward = [s for s in np.argsort(job.consumer_s, kind="stable").tolist() if inner_sn[s].any()]
        self.behind_on, self.ahead_on = np.zeros((2, len(job.names), inner_sn.shape[1]), dtype=bool)
        for s in self.downward:
            self.behind_on[job.consumer_s[s]] |= inner_sn[s]
            self.ahead_on[job.producer_s[s]] |= inner_sn[s]

    def select(self, rows: np.ndarray) -> Fusing:
        """Chains under some of the plans (a boolean mask [N])."""
        return Fusing(self.job, self.inner_sn[:, rows])

    def gathered(self, each_on: np.ndarray) -> np.ndarray:
        """Sum over chained operators, at the first of each chain; 0 at the others. [O, N]"""
        total = each_on.copy()
        for s in reversed(self.downward):
            producer, consumer = self.job.producer_s[s], self.job.consumer_s[s]
            moved = np.where(self.inner_sn[s], total[consumer], 0.0)
            total[producer] += moved
            total[consumer] -= moved
        return total

    def spread(self, each_on: np.ndarray) -> np.ndarray:
        """Value of the first of chained operators, at each of them. [O, N]"""
        found = each_on.copy()
        for s in self.downward:
            producer, consumer = self.job.producer_s[s], self.job.consumer_s[s]
            found[consumer] = np.where(self.inner_sn[s], found[producer], found[consumer])
        return found

    def served(
        self, service_on: np.ndarray, scv_on: np.ndarray, in_on: np.ndarray, out_on: np.ndarray, fires_on: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """CPU time of a tuple from an operator to the end of its task, and its squared coefficient of variation. [O, N]
        each

        The results of an evaluation of a window over time are no part of any tuple's service.
        """
        mean_on, variance_on = service_on.copy(), scv_on * service_on**2
        for s in reversed(self.downward):
            o, after = self.job.producer_s[s], self.job.consumer_s[s]
            gain, chance = out_on[o] / np.maximum(in_on[o], 1e-12), np.ones(1)
            if self.job.windows.by_time_o[o]:
                gain = np.zeros_like(gain)
            elif o in self.job.windows.all:
                chance = np.minimum(1.0, fires_on[o] / np.maximum(in_on[o], 1e-12))
            else:
                chance = np.minimum(1.0, gain)
            lump_s = gain / np.maximum(chance, 1e-12) * mean_on[after]
            more = gain * variance_on[after] + chance * (1.0 - chance) * lump_s**2
            variance_on[o] += np.where(self.inner_sn[s], more, 0.0)
            mean_on[o] += np.where(self.inner_sn[s], gain * mean_on[after], 0.0)
        return mean_on, variance_on / np.maximum(mean_on, 1e-12) ** 2

    def siblings(self) -> np.ndarray:
        """Mean number of others that come to an operator behind the first of its task with a tuple, of the same tuple
        that came to the task; 0 at the first. [O, N]"""
        found_on = np.zeros(self.behind_on.shape)
        for s in self.downward:
            o, after = self.job.producer_s[s], self.job.consumer_s[s]
            made = self.job.gain_o[o] * self.job.share_s[s]
            found_on[after] = np.where(self.inner_sn[s], found_on[o] * made + beside(made), 0.0)
        return found_on

    def left_scv(self, service_on: np.ndarray, scv_on: np.ndarray) -> np.ndarray:
        """Squared coefficient of variation of a task's work between two tuples that an operator is done with. [O, N]

        Of each operator's results a random part goes on: the work between those is that of a geometric number of them.
        """
        mean_on, found_on = service_on.copy(), scv_on.copy()
        for s in self.downward:
            o, after = self.job.producer_s[s], self.job.consumer_s[s]
            part = min(self.job.gain_o[o], 1.0)
            before_s, own_s = mean_on[o] / max(part, 1e-12), service_on[after]
            squares = before_s**2 * (1.0 + part * (found_on[o] - 1.0)) + own_s**2 * scv_on[after]
            scv = squares / np.maximum(before_s + own_s, 1e-150) ** 2
            mean_on[after] = np.where(self.inner_sn[s], before_s + own_s, mean_on[after])
            found_on[after] = np.where(self.inner_sn[s], scv, found_on[after])
        return found_on


def of_plans(job: JobArrays, plans: Sequence[ExecutionPlan]) -> Fusing | None:
    """Chains under plans; None if no plan has any."""
    query, engine = job.deployment.query, job.deployment.engine
    if not engine.chaining and not any(plan.fused for plan in plans):
        return None
    inner_sn = np.zeros((len(job.streams), len(plans)), dtype=bool)
    number = {(each.producer, each.consumer): s for s, each in enumerate(job.streams)}
    for n, plan in enumerate(plans):
        for group in fused(query, plan, engine):
            for ends in pairwise(group):
                inner_sn[number[ends], n] = True
    return Fusing(job, inner_sn) if inner_sn.any() else None


def of_counts(job: JobArrays, counts_nol: np.ndarray) -> Fusing | None:
    """Chains under plans given by replicas by plan, operator and socket [N, O, L]: those that sit alike stay
    chained."""
    query, plan = job.deployment.query, job.deployment.plan
    chaining = job.deployment.engine.chaining
    links = [(each.producer, each.consumer) for each in job.streams if chaining and may_chain(query, each)]
    inner_sn = np.zeros((len(job.streams), len(counts_nol)), dtype=bool)
    for group in (*plan.fused, *links):
        alike_n = np.ones(len(counts_nol), dtype=bool)
        rows = [_row(job, ends) for ends in pairwise(group)]
        for number, s in enumerate(rows, 1):
            start, end = counts_nol[:, job.producer_s[s]], counts_nol[:, job.consumer_s[s]]
            alike_n &= (start == end).all(axis=1)
            if not goes_straight_on(query, group[:number], group[number]):
                alike_n &= start.sum(axis=1) == 1
        inner_sn[rows] |= alike_n
    return Fusing(job, inner_sn) if inner_sn.any() else None


def _row(job: JobArrays, ends: tuple[str, str]) -> int:
    return next(s for s, each in enumerate(job.streams) if (each.producer, each.consumer) == ends)
