"""Watermarks: when operators over event time get those that they wait for.

A watermark passes an event time once each subtask of each source has read a later record, or is idle. It goes the way
of the records, and waits for the last of all subtasks that send it on: for their flushes, and for the calls that are
under way before it. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.kinds.flow import IN_ORDER, Disorder
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.queueing import mixed_by

NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
"""Points and weights of integrals from -1 to 1."""
TICKS = (np.arange(16) + 0.5) / 16, np.full(16, 1 / 16)
"""Waits for the next watermark that is sent in time, as shares of the interval, and their weights."""
AT_ONCE = np.zeros(1), np.ones(1)
"""The same where watermarks are not sent in time."""


class Coming(NamedTuple):
    """What comes to an operator. disorder: of its records, where slack_s is how much longer than these the watermark
    takes that its results wait for, 0 if for none. In seconds [N], from an event time: reached_s: until its watermark
    has come; moved_s: the part of that on the way; dated_s: until its records are here, and have waited for it."""

    disorder: Disorder
    reached_s: np.ndarray
    moved_s: np.ndarray
    dated_s: np.ndarray


class Watermarks:
    """Watermarks on their way through a job, and the event times of what they pass, in seconds.

    An operator over event time waits for the slowest of its ways; its results then have waited for all watermarks
    before it. Results of processing time have the time at which they are made.

    told_on: time on the way of a watermark that leaves an operator; stamp_on: time from the event time of what leaves
    it until it leaves. [O, N]
    """

    def __init__(self, layout: Layout, found: Load, batch_sn: np.ndarray) -> None:
        """batch_sn: mean wait of a stream's records for their batch. [S, N]"""
        self.layout, self.found = layout, found
        self.told_on, self.stamp_on = np.zeros((2, len(layout.job.names), layout.size))
        self.last_sn = _last_flush_s(layout, batch_sn)

    def begin(self, o: int, age_s: np.ndarray) -> None:
        """Notes what a source sends, at that age. [N]"""
        self.told_on[o] = self.stamp_on[o] = age_s

    def come(self, o: int, moved_s: np.ndarray, rates: np.ndarray) -> Coming:
        """What comes to an operator, after all before it have left theirs.

        moved_s: time on each of its inputs; rates: of the records that leave in results. [K, N]
        """
        job, streams = self.layout.job, self.layout.job.inputs[o]
        producers, operator = [job.producer_s[s] for s in streams], job.operators[o]
        way_s = (self.told_on[producers] + moved_s + self.last_sn[streams]).max(axis=0)
        stamps_s = self.stamp_on[producers] + moved_s
        oldest = o in job.windows.all or operator.event_windows
        dated_s = stamps_s.max(axis=0) if oldest else mixed_by(rates, stamps_s[None])[0]
        disorder, announced_s = self._announced(o)
        reached_s = way_s + announced_s
        if operator.awaits in ("watermark", "turn"):
            disorder = disorder._replace(slack_s=np.maximum(reached_s - dated_s, 0.0))
            dated_s = np.maximum(dated_s, reached_s)
        return Coming(disorder, reached_s, way_s, dated_s)

    def leave(self, o: int, came: Coming, queue_s: np.ndarray, made_s: np.ndarray) -> None:
        """Notes what leaves an operator. queue_s: wait and service of a record; made_s: of an evaluation of its window.
        [N]"""
        job = self.layout.job
        untimed = job.operators[o].hands_over == "untimed"
        self.stamp_on[o] = made_s if untimed else came.dated_s + queue_s + made_s
        calls = o in job.calling and any(job.windows.awaited_o)
        self.told_on[o] = came.moved_s + made_s + (self._cleared_s(o) if calls else queue_s)

    def _cleared_s(self, o: int) -> np.ndarray:
        """Wait of a watermark at an operator that calls, until all calls of all its subtasks before it are answered.
        [N]"""
        rates, back = np.unique(np.broadcast_to(self.found.in_on[o], self.layout.size), return_inverse=True)
        return np.array([self.layout.job.calling[o].cleared_s(float(rate)) for rate in rates])[back.reshape(-1)]

    def _announced(self, o: int) -> tuple[Disorder, np.ndarray | float]:
        """Disorder of what comes to an operator, and the seconds after an event time when all of its sources have
        announced it. [N]

        A source's subtask reads r records a second, each up to d seconds after its event time. Of those that it reads t
        seconds after an event time and the slack, a share min(1, t / d) has a later event time: the first of them moves
        its watermark there. Where watermarks are sent in time, it is announced up to `every_s` later, evenly. A subtask
        that has read nothing for its idle time is not waited for, but if all are idle, the next record of any of them
        is. The mean of the largest of independent times is the integral of the probability that one of them is longer
        than t, here over all t = scale x / (1 - x).
        """
        layout, job = self.layout, self.layout.job
        sources = job.windows.awaited_o[o]
        if not sources:
            return IN_ORDER, 0.0
        each_on = np.maximum(self.found.in_on, 1e-12) / layout.subtasks_on
        scale_s = np.max(
            [1.0 / each_on[k] + np.sqrt(each.disorder_s / each_on[k]) + each.every_s for k, each in sources.items()],
            axis=0,
        )
        slack_s = max(each.slack_s for each in sources.values())
        total_s = np.full(layout.size, slack_s)
        for node, weight in zip((1.0 + NODES) / 2.0, WEIGHTS / 2.0, strict=True):
            at_s, (all_done, all_idle) = scale_s * node / (1.0 - node), np.ones((2, layout.size))
            for k, each in sources.items():
                waits, idle = np.zeros((2, layout.size))
                for tick, share in zip(*(TICKS if each.every_s else AT_ONCE), strict=True):
                    before_s = at_s + slack_s - each.slack_s - tick * each.every_s
                    came = each_on[k] * _read_s(np.maximum(before_s, 0.0), each.disorder_s)
                    none = np.exp(-came) if job.arrival_scv_o[k] > 0.0 else np.maximum(1.0 - came, 0.0)
                    none = np.where(before_s > 0.0, none, 1.0)
                    asleep = np.minimum(np.exp(-each_on[k] * each.idle_s), none)
                    waits, idle = waits + share * (none - asleep), idle + share * asleep
                all_done *= (1.0 - waits) ** layout.subtasks_on[k]
                all_idle *= idle ** layout.subtasks_on[k]
            total_s += weight * scale_s / (1.0 - node) ** 2 * (1.0 - all_done + all_idle)
        every_s = max(each.every_s for each in sources.values())
        return Disorder(max(each.disorder_s for each in sources.values()), 0.0, every_s), total_s


def _last_flush_s(layout: Layout, batch_sn: np.ndarray) -> np.ndarray:
    """How much longer than a record for its batch a watermark waits for the last of n producers, in seconds [S, N].

    Flushes come at independent times: the largest of n waits is n / (n + 1) of a flush on average, and a record waits
    for half of one.
    """
    several = layout.subtasks_on[layout.job.producer_s]
    alone = np.array(layout.job.dealing.forward_s)[:, None]
    return np.where(alone, 0.0, batch_sn * (several - 1.0) / (several + 1.0))


def _read_s(at_s: np.ndarray, disorder_s: float) -> np.ndarray:
    """Seconds in which a subtask reads as many records as it reads from after an event time by `at_s`: the integral of
    min(1, t / disorder_s) up to there."""
    if disorder_s == 0.0:
        return at_s
    return np.where(at_s < disorder_s, at_s**2 / (2.0 * disorder_s), at_s - disorder_s / 2.0)
