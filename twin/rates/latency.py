"""Ages of results when they arrive, added up along the streams from formulas, with their waits for watermarks and for
the checkpoint that has them.

Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twin.checkpoints import Checkpoints
from twin.deployment import key_shares
from twin.key_skew import KeySkew
from twin.kinds.flow import IN_ORDER, Disorder, HeldRecords
from twin.kinds.windowed import Windowed
from twin.query import AnyOperator
from twin.rates.arrays import JobArrays
from twin.rates.channels import Full, Hops, MeasuredSpan, channel_waits_s, full_channels, held_back, links_s, used_hops
from twin.rates.filling import Shown, shown
from twin.rates.layout import Layout
from twin.rates.load import LOGISTIC, Load, Reached, Results, entries_on, entry_bytes_on, windows_on
from twin.rates.queueing import RHO_MAX
from twin.rates.waiting import away_s, batch_waits_s, bunched_s, queues_s
from twin.windows import Window
from twin.workload import distinct_values, key_groups_of, touched

# ages ----------------------------------------------------------------------------------------------------------------
# Ages are kept as [3, N]: since ingestion (row 0), since generation at the broker (row 1), and the lag of the results
# behind a run that starts empty (row 2): what a run of H seconds lacks of H seconds' steady output.
#
# * An operator adds its service time, and the wait in its line (`twin.rates.waiting`).
# * A record waits for a system outside without CPU; the wait for a place there is that of M/G/c (`twin.rates.waiting`).
# * A saturated operator, and all upstream of it, wait in full channels: credits over the rate of the stream, the way
#   there included. Of streams that meet, only those above the fair rate fill theirs; the others wait in the same line.
#   Until channels are full, and where others do not keep up either, `twin.rates.filling` has the waits.
# * Chained operators are one queue, in front of the first, with the services of all of them. What a record becomes on
#   one branch waits until the task has done the work of the others, as all of it leaves together.
# * Where sockets differ, service and wait are means over them, and only the subtasks on the busiest fill their
#   channels.
# * A stream between hosts adds the producer's latency, or that of all links on its route, and the transmission.
# * A stream in batches adds the wait for a full one or the next flush, and for the turn in it (`twin.rates.waiting`).
# * A window adds the age of the oldest involved record at its evaluation. Aggregates: of the oldest of n records of one
#   group, n s / (n + 1) in a time window of s seconds, (n (w + 1) / (n + 1) - 1) gaps in a count window of w records.
#   Of inputs that come at different ages, that of the oldest record counts. Over event time, the same of a Poisson
#   number; a result leaves when the watermarks of all sources have passed, by the slowest way. Joins: of the oldest of
#   records drawn at random from the window, one a side, plus the older side's age.
# * An evaluation takes its operator, and all of its results leave at its end: half of them wait at the operator after
#   it.
# * Calls whose answers leave in order make bursts (`twin.rates.waiting`).
# * The lag grows by all of these but full channels, and by the windows only as they start: a tumbling time window by
#   its length (the last one ends with the run), others by half a slide, and joins by what sliding windows lack until
#   they are first full.
# * A source that ingests a share f of what is offered falls behind by (1 - f) t (`twin.rates.filling`).
# * Lags of single results differ: by the flush that they get, by their waits, by the way, and in joins by how full the
#   window was. They are taken for logistic, as their mean and variance say. So a run that is shorter than the mean has
#   results, too: the quickest. Where the tail of their ages falls exponentially, by 1 / b, their mean age is the run's
#   length less 2 b; where ages are spread evenly, a third of it.
# * The delay of results begins again where they wait for a window: at its end or, over event time, with the watermark,
#   which comes as late as records that pass no window. Where results wait for records alone, it is that of the last.


class Ages(NamedTuple):
    """Ages and waits in seconds. results_s: processing latency, end-to-end latency and lag of the results over the
    sinks, [3, N]; spread_s: standard deviation of the lag [N]; delay_s: their delay since all that they waited for was
    there [N].

    ages_s: of what operators emit, [3, O, N]; parts of it: channel_s, queue_s, line_s and window_s [O, N] (see
    RateAnswer). blocked_on: whether an operator's input channels are full in the end. [O, N] fills: how they fill.
    way_sn: time of a stream's records on their way; link_sn: part of that on the network and waiting for it; batch_sn:
    wait for their batch before. [S, N]
    """

    results_s: np.ndarray
    spread_s: np.ndarray
    delay_s: np.ndarray
    ages_s: np.ndarray
    channel_s: np.ndarray
    queue_s: np.ndarray
    line_s: np.ndarray
    window_s: np.ndarray
    blocked_on: np.ndarray
    fills: Shown
    way_sn: np.ndarray
    link_sn: np.ndarray
    batch_sn: np.ndarray


def result_ages_s(layout: Layout, offered: Load, found: Load, share: np.ndarray, measured: MeasuredSpan) -> Ages:
    """Ages along the streams, at most the horizon at the sinks.

    found: the load after throttling; share: the ingested share of each source's offered rate [sources, N].
    """
    job = layout.job
    blocked_on, full_sn, jam_on = full_channels(layout, found, share)
    link_sn, lines = links_s(layout, found), queues_s(layout, found)
    service_on, wait_on = lines.service_on, lines.wait_on
    channel_sn = channel_waits_s(layout, found, Full(blocked_on, full_sn, jam_on), link_sn)
    fills = shown(layout, offered, found, full_sn, measured)
    most_sn = channel_sn
    wait_sn = np.maximum(most_sn - link_sn, 0.0)
    steady_sn = wait_sn * held_back(fills.held_s[job.producer_s] + wait_sn, measured)
    channel_sn = np.where(
        full_sn,
        link_sn + np.maximum(np.clip(fills.wait_sn - link_sn, 0.0, wait_sn), steady_sn),
        link_sn + fills.wait_sn,
    )
    size = (len(job.names), layout.size)
    ages, (channel_on, queue_on, waited_on, window_on) = np.zeros((3, *size)), np.zeros((4, *size))
    (delay_on, varied_on), busy_s = np.zeros((2, *size)), in_service_s(found)
    sent_sn = layout.carried_sn(found.out_on)
    burst_on = np.where(np.isfinite(found.bursts_on), found.out_on / np.maximum(found.bursts_on, 1e-12), 1.0)
    batch_sn, turn_on = batch_waits_s(layout, found, burst_on, lines.line_on)
    if job.deployment.engine.network_memory is not None:  # a full channel's buffer that is being filled is in its room
        batch_sn = np.where(full_sn, 0.0, batch_sn)
    marks = Watermarks(layout, found, batch_sn)
    beside_sn = np.zeros_like(link_sn) if layout.fusing is None else layout.fusing.beside_s(lines.line_on)
    for o in range(len(job.names)):
        streams = job.inputs[o]
        queue_on[o] = service_on[o]
        if not streams:
            source = job.sources.index(o)
            ages[:, o] = service_on[o]
            ages[1, o] += np.where(share[source] < 1.0, fills.behind_on[o], wait_on[o])
            ages[2, o] += np.where(share[source] < 1.0, 0.0, wait_on[o])
            delay_on[o], varied_on[o] = ages[0, o], wait_on[o] ** 2
            marks.begin(o, ages[0, o])
            continue
        producers = [job.producer_s[s] for s in streams]
        leaving = ages[:, producers] + beside_sn[streams]
        arriving = leaving + channel_sn[None, streams] + batch_sn[streams]
        waits_s = wait_on[o] + turn_on[o] + _behind_answers_s(layout, found, o)
        room_s, held_s = ((each_sn - link_sn)[streams].max(axis=0) for each_sn in (most_sn, channel_sn))
        waited_on[o] = np.where(blocked_on[o], np.maximum(np.minimum(waits_s, room_s) - held_s, 0.0), waits_s)
        queue_on[o] += waited_on[o]
        if o in job.calling:
            queue_on[o] += away_s(job.calling[o], found.in_on[o], layout.subtasks_on[o], blocked_on[o])
        arriving[2] = ages[2, producers] + link_sn[streams]  # channels fill quickly beside the rate at which they drain
        arriving[2] += batch_sn[streams]
        rates = sent_sn[streams]
        if (passed := job.passed[o]) is not None:
            rates = rates * passed[:, None]  # only records that leave in results have an age
        mixed = _mixed(rates, arriving)
        moved_s = (beside_sn + channel_sn + batch_sn)[streams]
        disorder, reached_s = marks.come(o, moved_s, rates)
        taken = _taken(layout, found, o)
        bursts = found.bursts_on[producers].max(axis=0)
        held = HeldRecords(
            taken,
            found.window_on[o],
            found.groups_on[o],
            job.windows.piece_o[o],
            disorder,
            bursts,
            rates + np.zeros(layout.size) if len(streams) > 1 else None,
        )
        through = job.operators[o].ages_s(arriving, mixed, held)
        varied_on[o] = waited_on[o] ** 2 + _variance(
            rates, np.minimum(arriving[2], measured.end_s), varied_on[producers] + batch_sn[streams] ** 2 / 3.0
        )
        operator = job.operators[o]
        if isinstance(operator, Windowed) and operator.joins:
            varied_on[o] += (through[2] - mixed[2]) ** 2 * _filling_scv(operator.window, len(streams))
        channel_on[o] = mixed[0] - _mixed(rates, leaving)[0]
        window_on[o] = through[0] - mixed[0]
        made_s = _evaluated_s(layout, found, o) if o in job.windows.all else np.zeros(layout.size)
        ages[:, o] = through + queue_on[o] + made_s
        if job.operators[o].awaits == "end":
            delay_on[o] = busy_s[o] + made_s
        else:
            alike = job.operators[o].joins and o not in job.windows.all  # each side's records make half of the results
            sides = np.ones_like(rates) if alike else rates
            delayed_s = _mixed(sides, (delay_on[producers] + moved_s)[None])[0]
            delay_on[o] = _begun_s(job.operators[o], delayed_s, reached_s, window_on[o]) + queue_on[o] + made_s
        marks.leave(o, queue_on[o], made_s)
    weights = (offered.in_on * fills.taken_on)[job.sinks]
    results = _mixed(weights, ages[:, job.sinks])
    spread_s = np.sqrt(_variance(weights, np.minimum(ages[2, job.sinks], measured.end_s), varied_on[job.sinks]))
    youngest_s = np.minimum(2.0 * LOGISTIC * spread_s, measured.end_s * 2.0 / 3.0)
    results[:2] = np.minimum(results[:2], measured.end_s - youngest_s)
    (delay_s,) = np.minimum(_mixed(weights, delay_on[None, job.sinks]), results[0])
    parts = channel_on, queue_on, waited_on, window_on
    return Ages(results, spread_s, delay_s, ages, *parts, blocked_on, fills, channel_sn, link_sn, batch_sn)


def _begun_s(operator: AnyOperator, delayed_s: np.ndarray, reached_s: np.ndarray, window_s: np.ndarray) -> np.ndarray:
    """Delay of results when their operator begins to make them, in seconds, if they wait for records or watermarks.
    [N]

    delayed_s: of the records that come; reached_s: from an event time until its watermark has come; window_s: what the
    operator adds to the records' ages before it begins.
    """
    if operator.awaits == "watermark":
        return np.maximum(reached_s, delayed_s)  # a window before it may have waited already
    alone = operator.joins or isinstance(operator, Windowed)  # results wait for records, of which the last one tells
    return delayed_s if alone else delayed_s + window_s


def _filling_scv(window: Window, sides: int) -> float:
    """Variance of the lag of a join because its window fills, over the square of all of its lag.

    A result comes by t while the window fills with the probability (t / L)^k for k sides: L k / (k + 1) on average, of
    a squared coefficient of variation 1 / (k (k + 2)). The rest of the lag is the wait for the first slide.
    """
    filling, begun = (window.size - window.slide) * sides / (sides + 1.0), window.slide / 2.0
    return float((filling / (filling + begun)) ** 2 / (sides * (sides + 2.0)))


def in_service_s(found: Load) -> np.ndarray:
    """Mean time in seconds until a task is done with the record in service, if there is one. [O, N]"""
    return np.asarray(np.minimum(found.busy_on, 1.0) * found.line_s_on * (1.0 + found.line_scv_on) / 2.0)


MANY = 128
"""Number of times whose longest is found by a sum; with more of them, it grows with their logarithm."""


def longest(rho: np.ndarray, several: np.ndarray) -> np.ndarray:
    """Mean of the longest of n independent times over the mean of one, where each is 0 with the probability 1 - rho and
    else exponential: the integral of 1 - (1 - rho exp(-x))^n, which is the sum of (1 - (1 - rho)^k) / k for k up to n,
    over rho. rho: in (0, 1]; several: n. [...]"""
    idle, total = 1.0 - rho, np.log(np.maximum(several / MANY, 1.0))  # where as many wait, some are at work
    for k in range(1, int(min(np.max(several), MANY)) + 1):
        total = total + np.where(k <= several, (1.0 - idle**k) / k, 0.0)
    return np.asarray(total / rho)


def _behind_answers_s(layout: Layout, found: Load, o: int) -> np.ndarray | float:
    """Extra wait of an operator's records behind answers that leave in order, in seconds. [N]"""
    job, extra_s = layout.job, np.zeros(layout.size)
    rho = np.minimum(found.used_on[o], RHO_MAX)
    for s in job.inputs[o]:
        producer = job.producer_s[s]
        if producer not in job.calling or not job.calling[producer].ordered or job.dealing.batch_s[s] > 1:
            continue
        share = found.out_on[producer] * job.share_s[s] / np.maximum(found.in_on[o], 1e-12)
        own = share / (1.0 if job.dealing.forward_s[s] else layout.subtasks_on[producer])
        load = rho * own / (1.0 - rho * (1.0 - own))  # utilisation of the time that other inputs leave
        each_per_s = found.in_on[producer] / layout.subtasks_on[producer]
        extra_s = extra_s + share * bunched_s(job.calling[producer], each_per_s, load)
    return extra_s if layout.fusing is None else np.where(layout.fusing.behind_on[o], 0.0, extra_s)


def _evaluated_s(layout: Layout, found: Load, o: int) -> np.ndarray:
    """Time that one subtask takes to look at the content of its window and to make the results, in seconds. [N]

    Operators behind a window over time in its chain have done their work on all of the results before any leaves.
    """
    job, fires = layout.job, found.fires_on[o]
    results = np.divide(found.out_on[o], fires, out=np.zeros_like(fires), where=fires > 0.0)
    work = found.window_on[o] * job.costs.scan_o[o] + results * job.costs.result_o[o]
    if layout.fusing is not None and job.windows.by_time_o[o]:
        for s in job.outputs[o]:
            work = work + np.where(layout.fusing.inner_sn[s], results * found.line_s_on[job.consumer_s[s]], 0.0)
    return np.asarray(work / found.speed_on[o] / (layout.subtasks_on[o] if job.windows.by_time_o[o] else 1.0))


def _taken(layout: Layout, found: Load, o: int) -> np.ndarray:
    """Records a second that come to an operator; with count windows, to each subtask. [N]"""
    if o not in layout.job.windows.slides or layout.job.names[o] not in layout.counted:
        return found.in_on[o]
    return np.asarray(found.fires_on[o] * layout.job.windows.slides[o] / layout.subtasks_on[o])


def _mixed(rates: np.ndarray, ages: np.ndarray) -> np.ndarray:
    """Mean over K streams by their rates [K, N], of A ages [A, K, N]; where nothing flows, all count alike. [A, N]"""
    if len(rates) == 1:
        return ages[:, 0]
    rates = np.where(rates.sum(axis=0) > 0.0, rates, 1.0)
    return np.asarray((ages * rates).sum(axis=1) / rates.sum(axis=0))


ROUNDING = 1e-12
"""Share of a mean square below which a variance is nothing but rounding."""


def _variance(rates: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Variance of K streams together, by their rates, means and variances [K, N]. [N]"""
    (mean, second) = _mixed(rates, np.stack([means, variances + means**2]))
    return np.asarray(np.where(second - mean**2 > second * ROUNDING, second - mean**2, 0.0))


# watermarks ----------------------------------------------------------------------------------------------------------
# Operators over event time wait for watermarks. A watermark passes an event time once each subtask of each source has
# read a later record, or is idle.


NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
"""Points and weights of integrals from -1 to 1."""
TICKS = (np.arange(16) + 0.5) / 16, np.full(16, 1 / 16)
AT_ONCE = np.array([0.5]), np.ones(1)
"""TICKS: shares of the interval for which a watermark waits, and their weights. AT_ONCE: the middle, where none varies.
"""


class Watermarks:
    """Watermarks on their way through a job, and the event times of what they pass, in seconds.

    A watermark goes the way of the records. It waits for the last of all subtasks that send it: for their flushes, and
    for all calls that are under way before it. An operator over event time waits for that on the slowest of its ways;
    its results then have waited for all watermarks before it. Results of processing time have the time at which they
    are made.

    told_on: time on the way of a watermark that leaves an operator; stamp_on: time from the event time of what leaves
    it until it leaves. [O, N] coming_s, dated_s: the same of what comes to the operator of the last `come`. [N]
    """

    def __init__(self, layout: Layout, found: Load, batch_sn: np.ndarray) -> None:
        """batch_sn: mean wait of a stream's records for their batch. [S, N]"""
        self.layout, self.found = layout, found
        size_on = len(layout.job.names), layout.size
        self.told_on, self.stamp_on = np.zeros(size_on), np.zeros(size_on)
        self.flush_on, self.last_sn = _flushes_s(layout, batch_sn)
        self.coming_s = self.dated_s = np.zeros(layout.size)

    def begin(self, o: int, age_s: np.ndarray) -> None:
        """Notes what a source sends, at that age. [N]"""
        self.told_on[o] = self.stamp_on[o] = age_s

    def come(self, o: int, moved_s: np.ndarray, rates: np.ndarray) -> tuple[Disorder, np.ndarray]:
        """Disorder of what comes to an operator, and the time from an event time until its watermark has come, in
        seconds [N]. slack_s of the former: how much longer than the records the watermark takes.

        moved_s: time on each of its inputs; rates: of the records that leave in results. [K, N]
        """
        job, streams = self.layout.job, self.layout.job.inputs[o]
        producers, operator = [job.producer_s[s] for s in streams], job.operators[o]
        self.coming_s = (self.told_on[producers] + moved_s + self.last_sn[streams]).max(axis=0)
        stamps_s = self.stamp_on[producers] + moved_s
        oldest = o in job.windows.all or operator.event_windows
        self.dated_s = stamps_s.max(axis=0) if oldest else _mixed(rates, stamps_s[None])[0]
        disorder, announced_s = self._announced(o)
        reached_s = self.coming_s + announced_s
        if operator.awaits not in ("watermark", "turn"):
            return disorder, reached_s
        disorder = disorder._replace(slack_s=np.maximum(reached_s - self.dated_s, 0.0))
        self.dated_s = np.maximum(self.dated_s, reached_s)
        return disorder, reached_s

    def leave(self, o: int, queue_s: np.ndarray, made_s: np.ndarray) -> None:
        """Notes what leaves the operator of the last `come`. queue_s: wait and service of a record; made_s: of an
        evaluation of its window. [N]"""
        job = self.layout.job
        untimed = job.operators[o].hands_over == "untimed"
        self.stamp_on[o] = made_s if untimed else self.dated_s + queue_s + made_s
        calls = o in job.calling and any(job.windows.awaited_o)
        self.told_on[o] = self.coming_s + made_s + (self._cleared_s(o) if calls else queue_s)

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
        its watermark there. Where watermarks are sent in time, it is announced up to `every_s` later, evenly, and then
        waits for a flush, of which the mean counts on the way; the sum of both waits counts as one even wait with the
        same variance.
        A subtask that has read nothing for its idle time is not waited for, but if all are idle, the next record of any
        of them is. The mean of the largest of independent times is the integral of the probability that one of them is
        longer than t, here over all t = scale x / (1 - x).
        """
        layout, found, flush_on = self.layout, self.found, self.flush_on
        job, sources = layout.job, layout.job.windows.awaited_o[o]
        if not sources:
            return IN_ORDER, 0.0
        each_on = np.maximum(found.in_on, 1e-12) / layout.subtasks_on
        scale_s = np.max(
            [
                1.0 / each_on[k] + np.sqrt(each.disorder_s / each_on[k]) + each.every_s + flush_on[k]
                for k, each in sources.items()
            ],
            axis=0,
        )
        slack_s = max(each.slack_s for each in sources.values())
        varied = {k: np.hypot(each.every_s, flush_on[k]) for k, each in sources.items()}
        sooner_s = np.max([(varied[k] - each.every_s) / 2.0 for k, each in sources.items()], axis=0)  # by even waits
        total_s = slack_s - sooner_s
        for node, weight in zip((1.0 + NODES) / 2.0, WEIGHTS / 2.0, strict=True):
            at_s = scale_s * node / (1.0 - node) - sooner_s
            awaited_no_more, all_idle = np.ones((2, layout.size))
            for k, each in sources.items():
                waits, idle = np.zeros((2, layout.size))
                for tick, share in zip(*(TICKS if varied[k].any() else AT_ONCE), strict=True):
                    before_s = at_s + slack_s - each.slack_s - each.every_s / 2.0 - (tick - 0.5) * varied[k]
                    came = each_on[k] * _read_s(np.maximum(before_s, 0.0), each.disorder_s)
                    none = np.exp(-came) if job.arrival_scv_o[k] > 0.0 else np.maximum(1.0 - came, 0.0)
                    none = np.where(before_s > 0.0, none, 1.0)
                    asleep = np.minimum(np.exp(-each_on[k] * each.idle_s), none)
                    waits, idle = waits + share * (none - asleep), idle + share * asleep
                awaited_no_more *= (1.0 - waits) ** layout.subtasks_on[k]
                all_idle *= idle ** layout.subtasks_on[k]
            all_read = awaited_no_more - all_idle  # if all are idle, the next record says how far they are
            total_s += weight * scale_s / (1.0 - node) ** 2 * (1.0 - all_read)
        every_s = max(each.every_s for each in sources.values())
        disorder_s = 0.0 if job.windows.dated_o[o] else max(each.disorder_s for each in sources.values())
        return Disorder(disorder_s, 0.0, every_s), total_s


def _flushes_s(layout: Layout, batch_sn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Longest wait of a watermark for a flush at its source [O, N], and how much longer than a record it waits for the
    last of n producers elsewhere [S, N], in seconds. Flushes come at independent times: the largest of n waits is
    n / (n + 1) of a flush on average, and a record waits for half of one."""
    job, flush_on = layout.job, np.zeros((len(layout.job.names), layout.size))
    for s, producer in enumerate(job.producer_s):
        np.maximum(flush_on[producer], 2.0 * batch_sn[s], out=flush_on[producer])
    several = layout.subtasks_on[job.producer_s]
    alone = np.array(
        [forward or not job.inputs[p] for forward, p in zip(job.dealing.forward_s, job.producer_s, strict=True)]
    )
    return flush_on, np.where(alone[:, None], 0.0, batch_sn * (several - 1.0) / (several + 1.0))


def _read_s(at_s: np.ndarray, disorder_s: float) -> np.ndarray:
    """Seconds in which a subtask reads as many records as it reads from after the end by `at_s`: the integral of
    min(1, t / disorder_s) up to there."""
    if disorder_s == 0.0:
        return at_s
    return np.where(at_s < disorder_s, at_s**2 / (2.0 * disorder_s), at_s - disorder_s / 2.0)


# waits for checkpoints -----------------------------------------------------------------------------------------------
# Results wait for the checkpoint that has them, if sinks are exactly-once.
#
# A checkpoint takes from its beginning until barriers have reached all tasks, and each has done its work and uploaded
# its state. Aligned barriers stay between the same records all the way. So from the source on a record takes half a
# period on average and all of the next checkpoint, however long it is on its way; the time that a window adds comes on
# top. Unaligned ones are soon at the sink, and results wait from there. Sources, and tasks that unaligned barriers
# reach, take them when the record in service is done. The load of checkpoints on tasks is not included. Axis k is hops,
# as in `twin.rates.channels`.


PHASES = 100
"""Number of starts of the first checkpoint that stand for all."""


class Uploads(NamedTuple):
    """Uploads of a checkpoint. bytes_on: of all subtasks of an operator [O, N]. sent_on: seconds that they are on their
    way, from the slowest host [O, N]. stored_n: seconds in which the storage takes those of all operators [N]."""

    bytes_on: np.ndarray
    sent_on: np.ndarray
    stored_n: np.ndarray


def uploads(layout: Layout, found: Load, spec: Checkpoints, period_s: np.ndarray) -> Uploads:
    """Uploads of a checkpoint. period_s: the time whose changes an increment holds, in seconds [N]."""
    bytes_on = _window_bytes_on(layout, found, period_s if spec.state == "incremental" else None)
    for o in range(len(bytes_on)):
        bytes_on[o] += key_state_n(layout.job, o, found.in_on[o] * period_s if spec.state == "incremental" else None)
    sent_on = np.zeros_like(bytes_on) if spec.storage is None else _sent_on(layout, found, spec.storage, bytes_on)
    stored_n = bytes_on.sum(axis=0) * 8e-6 / (np.inf if spec.storage_mbps is None else spec.storage_mbps)
    return Uploads(bytes_on, sent_on, stored_n)


def _window_bytes_on(layout: Layout, found: Load, period_s: np.ndarray | None) -> np.ndarray:
    """Bytes in windows at a checkpoint: on average, half a slide less than at an evaluation. [O, N]"""
    job = layout.job
    held_on = windows_on(layout, found.window_on) + np.zeros((len(job.names), layout.size))
    for o, operator in enumerate(job.operators):
        if isinstance(operator, Windowed) and o not in job.entries:
            slides = found.in_on[o] if job.windows.by_time_o[o] else layout.subtasks_on[o]
            held_on[o] -= np.minimum(operator.window.slide * slides, held_on[o]) / 2.0
    if period_s is not None:
        held_on = np.minimum(held_on, found.in_on * period_s)
    if job.entries:
        since_on = np.full_like(held_on, np.inf)
        if period_s is not None:
            each_on = np.where(np.array(job.windows.by_time_o)[:, None], 1.0, found.in_on / layout.subtasks_on)
            since_on = period_s * each_on
        entries = windows_on(layout, entries_on(job, found.window_on, found.groups_on, layout.counted, since_on))
        held_on[list(job.entries)] = (entries + np.zeros_like(held_on))[list(job.entries)]
    return np.asarray(held_on * entry_bytes_on(job, found.in_on, layout.carried_sn(found.out_on)))


def key_state_n(job: JobArrays, o: int, came_n: np.ndarray | None) -> float | np.ndarray:
    """Bytes of an operator's key groups: of all of them, or of the part whose keys are among `came_n` records. [N]"""
    operator, name = job.operators[o], job.names[o]
    groups, each = key_groups_of(operator), getattr(operator, "state_bytes_per_group", 0.0)
    if groups is None or came_n is None:
        return float((groups or 0) * each)
    skew = job.deployment.workload.keys.get(name, KeySkew())
    shares, values = key_shares(distinct_values(operator, skew, groups), skew)
    return np.asarray(each * touched(came_n[:, None], shares / values).sum(axis=1))


def _sent_on(layout: Layout, found: Load, storage: str, bytes_on: np.ndarray) -> np.ndarray:
    """Seconds to the storage of uploads, all sent at once beside the records, over the same cards and links. [O, N]"""
    cluster = layout.job.deployment.cluster
    hops = Hops(cluster)
    end = [host.name for host in cluster.hosts].index(storage)
    crossed_hk = np.zeros((len(cluster.hosts), len(hops.slow_k)))
    for start, crossed_k in enumerate(crossed_hk):
        crossed_k[hops.route(start, end)] = 1.0
    bytes_nh = layout.by_host(bytes_on[layout.operator_c] * layout.evenly_cn).T
    busy_nk = bytes_nh @ crossed_hk * hops.slow_k / (1.0 - np.minimum(used_hops(layout, found), RHO_MAX))
    sent_hn = (crossed_hk[:, None] * busy_nk).max(axis=2) + (crossed_hk @ hops.latency_k)[:, None]
    return np.where(bytes_on > 0.0, layout.worst(np.where(layout.here_cn, layout.of_hosts(sent_hn), 0.0)), 0.0)


@dataclass(frozen=True, slots=True)
class Commits:
    """Checkpoints, and commits of exactly-once sinks at their ends, in seconds. period_s: from one checkpoint to the
    next; duration_s: of one; size: bytes of one; wait_s: of a result for its commit. [N] each"""

    spec: Checkpoints
    period_s: np.ndarray
    duration_s: np.ndarray
    size: np.ndarray
    wait_s: np.ndarray

    def seen(self, found: Results, measured: MeasuredSpan) -> Results:
        """Results that are committed in the measured part of a run, out of those that reach the sinks.

        If that part has more than its share of commits, earlier results among them do not raise the rate above the
        lasting one.
        """
        share = (self._before(measured.end_s) - self._before(measured.start_s)) * self.period_s / measured.length_s
        waited_s = (np.minimum(each_s + self.wait_s, measured.end_s) for each_s in (found.ages_s, found.delay_s))
        return Results(found.per_s * np.minimum(share, 1.0), *waited_s)

    def _before(self, at_s: float) -> np.ndarray:
        """Number of checkpoints that are complete by `at_s`, as a mean over the possible starts of the first. [N]"""
        first_pn = self.spec.phases_s((np.arange(PHASES) + 0.5) / PHASES)[:, None] + self.duration_s
        complete = np.maximum(np.ceil((at_s - first_pn) / self.period_s), 0.0).mean(axis=0)
        return np.where(self.duration_s <= self.spec.timeout_s, complete, 0.0)


def commits(state: Reached, ages: Ages, spec: Checkpoints) -> Commits:
    """Commits at the rates that are reached."""
    layout, found = state.layout, state.reached
    last_on, passed_on = (
        _overtaking(layout, found, ages) if spec.mode == "unaligned" else _in_order(layout, found, ages)
    )
    each_s = np.full(layout.size, spec.interval_s)
    bytes_on, sent_on, stored_n = uploads(layout, found, spec, each_s)
    duration_s = (last_on + _worked_s(layout, spec, bytes_on) + sent_on).max(axis=0)
    duration_s = duration_s + spec.async_ms * 1e-3 + stored_n
    period_s = np.maximum(each_s, duration_s + spec.min_pause_s)
    sinks = layout.job.sinks
    weights = np.maximum(found.in_on[sinks], 1e-12)
    passed_s = (passed_on[sinks] * weights).sum(axis=0) / weights.sum(axis=0)
    wait_s = period_s / 2.0 + np.maximum(duration_s - passed_s, 0.0)
    return Commits(spec, period_s, duration_s, bytes_on.sum(axis=0), wait_s)


def _worked_s(layout: Layout, spec: Checkpoints, bytes_on: np.ndarray) -> np.ndarray:
    """Seconds of the work that a checkpoint makes on the thread of a subtask: alone on the slowest of its cores, or as
    long as all subtasks of its host need, as their barriers come at about the same time. [O, N]"""
    once = 1.0 if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, 1.0)  # for all of a chain
    work_on = spec.sync_ms * 1e-3 * once + bytes_on / layout.subtasks_on * spec.sync_ns_per_byte * 1e-9
    drained_hn = layout.by_host(work_on[layout.operator_c] * layout.count_cn) / layout.job.places.capacity_h[:, None]
    drained_on = layout.worst(np.where(layout.here_cn, layout.of_hosts(drained_hn), 0.0))
    return np.maximum(work_on * layout.worst(layout.here_cn / layout.core_cn), drained_on)


def _in_order(layout: Layout, found: Load, ages: Ages) -> tuple[np.ndarray, np.ndarray]:
    """Seconds from a checkpoint's beginning until an operator has the barriers of all its inputs, and seconds that
    records take to it and through it, without windows. [O, N] each

    Records that come together wait for each other; a barrier comes at any time, and finds some of them waiting only for
    the share of the time in which there is work. It sends buffers on, and what these hold comes just before it: the
    work of half a flush on average.
    """
    job, sent_sn, slowest_on = layout.job, layout.carried_sn(found.out_on), _slowest_on(layout, found)
    last_on, passed_on = np.zeros((2, len(job.names), layout.size))
    last_on[job.sources] = (in_service_s(found) * slowest_on)[job.sources]
    for o, streams in enumerate(job.inputs):
        total = np.maximum(sent_sn[streams].sum(axis=0), 1e-12)
        passed_on[o] = ages.channel_s[o] + ages.queue_s[o]
        for s in streams:
            producer = job.producer_s[s]
            bunched = np.isfinite(found.bursts_on[producer])
            waits_s = ages.line_s[o] * np.where(bunched, np.minimum(found.used_on[o], 1.0), slowest_on[o])
            sent_on_s = ages.batch_sn[s] * np.minimum(found.used_on[o], 1.0)
            last_on[o] = np.maximum(last_on[o], last_on[producer] + ages.way_sn[s] + waits_s + sent_on_s)
            passed_on[o] += sent_sn[s] / total * passed_on[producer]
    return last_on, passed_on


def _overtaking(layout: Layout, found: Load, ages: Ages) -> tuple[np.ndarray, np.ndarray]:
    """Seconds from a checkpoint's beginning until an operator has the last and the first of its barriers; it passes the
    first on. [O, N] each"""
    job = layout.job
    left_on = in_service_s(found)
    slowest_on = left_on * _slowest_on(layout, found)
    last_on, first_on = slowest_on.copy(), left_on.copy()
    for o, streams in enumerate(job.inputs):
        if streams:
            came_sn = ages.link_sn[streams] + first_on[[job.producer_s[s] for s in streams]]
            last_on[o], first_on[o] = came_sn.max(axis=0) + slowest_on[o], came_sn.min(axis=0) + left_on[o]
    return last_on, first_on


def _slowest_on(layout: Layout, found: Load) -> np.ndarray:
    """How much longer the slowest subtask of an operator lets a barrier wait than the mean one. [O, N]"""
    return longest(np.clip(found.used_on, 1e-6, 1.0), layout.subtasks_on)
