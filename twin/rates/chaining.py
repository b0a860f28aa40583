"""Chains under N plans at once: the streams that lie within one task, and their effect on loads and waits.

Chained operators are a tree; sums over it are taken from its ends to its beginning, stream by stream, and values of the
whole task are spread from its beginning to its ends. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twin.chaining import (
    Fused,
    differs_behind,
    fused,
    goes_straight_on,
    links,
    links_of,
    may_chain,
    path_to,
)
from twin.kinds.operator import beside
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
        """CPU time of a record from an operator to the end of its task, and its squared coefficient of variation. [O,
        N] each

        The results of an evaluation of a window over time are no part of any record's service.
        """
        mean_on, variance_on = service_on.copy(), scv_on * service_on**2
        behind_on, varies_on = np.zeros((2, *mean_on.shape))  # of all that follow an operator, together
        for o in reversed(range(len(mean_on))):
            inner = [s for s in self.job.outputs[o] if self.inner_sn[s].any()]
            if not inner:
                continue
            for s in inner:
                after = self.job.consumer_s[s]
                behind_on[o] += np.where(self.inner_sn[s], mean_on[after], 0.0)
                varies_on[o] += np.where(self.inner_sn[s], variance_on[after], 0.0)
            gain, chance = out_on[o] / np.maximum(in_on[o], 1e-12), np.ones(1)
            if self.job.windows.by_time_o[o]:
                gain = np.zeros_like(gain)
            elif o in self.job.windows.all:
                chance = np.minimum(1.0, fires_on[o] / np.maximum(in_on[o], 1e-12))
            else:
                chance = np.minimum(1.0, gain)
            lump_s = gain / np.maximum(chance, 1e-12) * behind_on[o]
            variance_on[o] += gain * varies_on[o] + chance * (1.0 - chance) * lump_s**2
            mean_on[o] += gain * behind_on[o]
        return mean_on, variance_on / np.maximum(mean_on, 1e-12) ** 2

    def siblings(self) -> np.ndarray:
        """Mean number of others that come to an operator behind the first of its task with a record, of the same record
        that came to the task; 0 at the first. [O, N]"""
        found_on = np.zeros(self.behind_on.shape)
        for s in self.downward:
            o, after = self.job.producer_s[s], self.job.consumer_s[s]
            made = self.job.gain_o[o] * self.job.share_s[s]
            found_on[after] = np.where(self.inner_sn[s], found_on[o] * made + beside(made), 0.0)
        return found_on

    def beside_s(self, line_on: np.ndarray) -> np.ndarray:
        """Time for which a task works on the other branches of the record of which a stream's record is made, before
        all leave it together, in seconds. [S, N]

        line_on: seconds of a record from an operator to the end of its task. The results of an evaluation of a window
        over time all leave at its end.
        """
        found_sn, siblings_on = np.zeros(self.inner_sn.shape), self.siblings()
        evaluated_on = np.zeros_like(self.behind_on)
        for o in range(len(line_on)):
            evaluated_on[o] |= bool(self.job.windows.by_time_o[o])
            branches = [s for s in self.job.outputs[o] if self.inner_sn[s].any()]
            for s in branches:
                after = self.job.consumer_s[s]
                evaluated_on[after] |= self.inner_sn[s] & evaluated_on[o]
                works_s = np.where(self.inner_sn[s] & ~evaluated_on[o], line_on[after] * (1 + siblings_on[after]), 0.0)
                for other in self.job.outputs[o]:
                    found_sn[other] += works_s * (other != s)
        return found_sn

    def left_scv(self, service_on: np.ndarray, scv_on: np.ndarray, beside_sn: np.ndarray) -> np.ndarray:
        """Squared coefficient of variation of a task's work between two records that an operator is done with. [O, N]

        Of each operator's results a random part goes on: the work between those is that of a geometric number of them.
        beside_sn: work on other branches, which counts as work of the operator at which they part.
        """
        mean_on, found_on = service_on.copy(), scv_on.copy()
        for s in self.downward:
            o, after = self.job.producer_s[s], self.job.consumer_s[s]
            part = min(self.job.gain_o[o], 1.0)
            before_s, own_s = mean_on[o] / max(part, 1e-12) + beside_sn[s], service_on[after]
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
        for ends in links_of(query, fused(query, plan, engine)):
            inner_sn[number[ends], n] = True
    return Fusing(job, inner_sn) if inner_sn.any() else None


def of_counts(job: JobArrays, counts_nol: np.ndarray) -> Fusing | None:
    """Chains under plans given by subtasks by plan, operator and socket [N, O, L]: those that sit alike stay
    chained."""
    query, plan = job.deployment.query, job.deployment.plan
    inner_sn = np.zeros((len(job.streams), len(counts_nol)), dtype=bool)
    for group in plan.fused:
        rows = [_row(job, ends) for ends in links(query, group)]
        inner_sn[rows] |= np.logical_and.reduce([_alike(job, counts_nol, group, s) for s in rows])
    for s in np.argsort(job.consumer_s, kind="stable").tolist() if job.deployment.engine.chaining else ():
        stream = job.streams[s]
        if may_chain(query, stream):
            alike_n = _alike(job, counts_nol, (stream.producer, stream.consumer), s)
            for before, above_n in _above(job, inner_sn, s):
                if differs_behind(query, plan, before, stream):
                    alike_n &= ~above_n
            inner_sn[s] |= alike_n
    return Fusing(job, inner_sn) if inner_sn.any() else None


def _alike(job: JobArrays, counts_nol: np.ndarray, group: Fused, s: int) -> np.ndarray:
    """Whether the ends of a stream within a group sit alike, so that its records go straight on. [N]"""
    query, (producer, consumer) = job.deployment.query, (job.streams[s].producer, job.streams[s].consumer)
    start, end = counts_nol[:, job.producer_s[s]], counts_nol[:, job.consumer_s[s]]
    alike_n = (start == end).all(axis=1)
    if not goes_straight_on(query, path_to(query, group, producer), consumer):
        alike_n &= start.sum(axis=1) == 1
    return np.asarray(alike_n)


def _above(job: JobArrays, inner_sn: np.ndarray, s: int) -> Iterator[tuple[str, np.ndarray]]:
    """Operators before a stream's producer that may be chained with it, and under which plans they are. [N] each"""
    together_n = np.ones(inner_sn.shape[1], dtype=bool)
    streams = job.inputs[job.producer_s[s]]
    while streams and (together_n := together_n & inner_sn[streams[0]]).any():
        yield job.streams[streams[0]].producer, together_n
        streams = job.inputs[job.producer_s[streams[0]]]


def _row(job: JobArrays, ends: tuple[str, str]) -> int:
    return next(s for s, each in enumerate(job.streams) if (each.producer, each.consumer) == ends)
