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
from twin.kinds.flow import HeldRecords
from twin.kinds.windowed import Windowed
from twin.query import AnyOperator
from twin.rates.arrays import JobArrays
from twin.rates.bursts import Gathered
from twin.rates.channels import Full, Hops, MeasuredSpan, channel_waits_s, full_channels, held_back, links_s, used_hops
from twin.rates.filling import Shown, room_sn, shown
from twin.rates.layout import Layout
from twin.rates.load import LOGISTIC, Load, Reached, Results, entries_on, entry_bytes_on, windows_on
from twin.rates.queueing import RHO_MAX, mixed_by, variance_by
from twin.rates.waiting import away_s, batch_waits_s, bunched_s, queues_s
from twin.rates.watermarks import Watermarks
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
# * Lags of single results differ: by the flush that they get, by their waits, and by the way. They are taken for
#   logistic, as their mean and variance say. So a run that is shorter than the mean has results, too: the quickest.
#   Where the tail of their ages falls exponentially, by 1 / b, their mean age is the run's length less 2 b; where ages
#   are spread evenly, a third of it.
# * The delay of results begins again where they wait for a window: at its end or, over event time, with the watermark,
#   which comes as late as records that pass no window. Where results wait for records alone, it is that of the last.


class Ages(NamedTuple):
    """Ages and waits in seconds. results_s: processing latency, end-to-end latency and lag of the results over the
    sinks, [3, N]; spread_s: standard deviation of the lag [N]; delay_s: their delay since all that they waited for was
    there [N].

    ages_s: of what operators emit, [3, O, N]; parts of it: channel_s, queue_s, line_s and window_s [O, N] (see
    RateAnswer). blocked_on: whether an operator's input channels are full in the end. [O, N] fills: how they fill.
    way_sn: time of a stream's records on their way; link_sn: part of that on the network and waiting for it; batch_sn:
    wait for their batch before [S, N]. behind: probability that bursts leave sources behind at the end of the run [N].
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
    behind: np.ndarray


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
    gathered = Gathered(layout, offered, room_sn(layout, found), measured)
    beside_sn = np.zeros_like(link_sn) if layout.fusing is None else layout.fusing.beside_s(lines.line_on)
    for o in range(len(job.names)):
        streams = job.inputs[o]
        queue_on[o] = service_on[o]
        if not streams:
            source = job.sources.index(o)
            ages[:, o] = service_on[o]
            ages[1, o] += np.where(share[source] < 1.0, fills.behind_on[o], wait_on[o])
            ages[2, o] += np.where(share[source] < 1.0, 0.0, wait_on[o])
            more = gathered.pass_on(o, sent_sn[streams])
            ages[1:, o] += more.outside_s  # a source takes what it reads at once
            delay_on[o], varied_on[o] = ages[0, o], wait_on[o] ** 2 + more.variance
            marks.begin(o, ages[0, o])
            continue
        producers = [job.producer_s[s] for s in streams]
        leaving = ages[:, producers] + beside_sn[streams]
        arriving = leaving + channel_sn[None, streams] + batch_sn[streams]
        waits_s = wait_on[o] + turn_on[o] + _behind_answers_s(layout, found, o)
        room_s, held_s = ((each_sn - link_sn)[streams].max(axis=0) for each_sn in (most_sn, channel_sn))
        waited_on[o] = np.where(blocked_on[o], np.maximum(np.minimum(waits_s, room_s) - held_s, 0.0), waits_s)
        more = gathered.pass_on(o, sent_sn[streams])
        queue_on[o] += waited_on[o] + np.where(blocked_on[o], 0.0, more.inside_s)  # full channels are full anyway
        if o in job.calling:
            queue_on[o] += away_s(job.calling[o], found.in_on[o], layout.subtasks_on[o], blocked_on[o])
        arriving[2] = ages[2, producers] + link_sn[streams]  # channels fill quickly beside the rate at which they drain
        arriving[2] += batch_sn[streams]
        rates = sent_sn[streams]
        if (passed := job.passed[o]) is not None:
            rates = rates * passed[:, None]  # only records that leave in results have an age
        come, oldest_s = _coming(rates, arriving[2], measured)
        mixed = np.concatenate([mixed_by(come, np.minimum(arriving[:2], oldest_s)), mixed_by(rates, arriving[2:])])
        moved_s = (beside_sn + channel_sn + batch_sn)[streams]
        came = marks.come(o, moved_s, rates)
        taken = _taken(layout, found, o)
        bursts = found.bursts_on[producers].max(axis=0)
        held = HeldRecords(
            taken,
            found.window_on[o],
            found.groups_on[o],
            job.windows.piece_o[o],
            came.disorder,
            bursts,
            rates + np.zeros(layout.size) if len(streams) > 1 else None,
        )
        through = job.operators[o].ages_s(arriving, mixed, held)
        late_s, varied = np.minimum(arriving[2], measured.end_s), varied_on[producers] + batch_sn[streams] ** 2 / 3.0
        varied_on[o] = waited_on[o] ** 2 + more.variance + variance_by(rates, late_s, varied)
        channel_on[o] = mixed[0] - mixed_by(come, np.minimum(leaving[:1], oldest_s))[0]
        window_on[o] = through[0] - mixed[0]
        made_s = _evaluated_s(layout, found, o) if o in job.windows.all else np.zeros(layout.size)
        ages[:, o] = through + queue_on[o] + made_s
        ages[1:, o] += more.outside_s
        if job.operators[o].awaits == "end":
            delay_on[o] = busy_s[o] + made_s
        else:
            alike = job.operators[o].joins and o not in job.windows.all  # each side's records make half of the results
            sides = np.ones_like(rates) if alike else rates
            delayed_s = mixed_by(_coming(sides, arriving[2], measured)[0], (delay_on[producers] + moved_s)[None])[0]
            delay_on[o] = _begun_s(job.operators[o], delayed_s, came.reached_s, window_on[o]) + queue_on[o] + made_s
        marks.leave(o, came, queue_on[o], made_s)
    weights = (offered.in_on * fills.taken_on)[job.sinks]
    lag_s = ages[2, job.sinks]
    come, oldest_s = _coming(weights, lag_s, measured)
    of_age = mixed_by(come, np.minimum(ages[:2, job.sinks], oldest_s))
    results = np.concatenate([of_age, mixed_by(weights, lag_s[None])])
    spread_s = np.sqrt(variance_by(weights, np.minimum(lag_s, measured.end_s), varied_on[job.sinks]))
    youngest_s = np.minimum(2.0 * LOGISTIC * spread_s, measured.end_s * 2.0 / 3.0)
    results[:2] = np.minimum(results[:2], measured.end_s - youngest_s)
    (delay_s,) = np.minimum(mixed_by(come, delay_on[None, job.sinks]), results[0])
    parts = channel_on, queue_on, waited_on, window_on
    return Ages(
        results, spread_s, delay_s, ages, *parts, blocked_on, fills, channel_sn, link_sn, batch_sn, gathered.behind
    )


def _coming(rates: np.ndarray, lag_s: np.ndarray, measured: MeasuredSpan) -> tuple[np.ndarray, np.ndarray]:
    """Rates of K streams, times the share of the run that is left after their lag, at least a little; and the most that
    the mean age of what comes then can be: it comes between the lag and the end of the run. [K, N] each"""
    within_s = np.minimum(lag_s, measured.end_s)
    return rates * np.maximum(1.0 - within_s / measured.end_s, 1e-6), (measured.end_s + within_s) / 2.0


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


def stopped_hn(layout: Layout, offered: Load) -> np.ndarray:
    """Share of the time for which a host's tasks do no work on records: pauses of a collector, and the work that
    checkpoints make on threads. A checkpoint takes longer where records use more of the host, and the next waits for
    it. [H, N]"""
    job, (pause_s, cycle_s) = layout.job, layout.job.pauses_s
    found = np.full((len(job.places.capacity_h), layout.size), pause_s / cycle_s)
    if (spec := job.checkpoints) is not None:
        sent = uploads(layout, offered, spec, np.full(layout.size, spec.interval_s))
        work_on, heads_cn = _work_on_s(layout, spec, sent.bytes_on), layout.count_cn
        if layout.fusing is not None:  # those of a chain are one task
            heads_cn = heads_cn * ~layout.fusing.behind_on[layout.operator_c]
        at_work_hn = np.minimum(job.places.capacity_h[:, None], layout.by_host(heads_cn * layout.core_cn))
        drained_hn = layout.by_host(work_on[layout.operator_c] * layout.count_cn) / np.maximum(at_work_hn, 1e-12)
        passed_on = work_on.copy()  # barriers pass tasks in turn
        for o, streams in enumerate(job.inputs):
            if streams:
                passed_on[o] += passed_on[[job.producer_s[s] for s in streams]].max(axis=0)
        lasts_s = (drained_hn / (1.0 - np.minimum(offered.cpu_hn, RHO_MAX))).max(axis=0)
        lasts_s = np.maximum(lasts_s, passed_on.max(axis=0)) + sent.sent_on.max(axis=0)
        lasts_s += sent.stored_n + spec.async_ms * 1e-3
        found += drained_hn / np.maximum(spec.interval_s, lasts_s + spec.min_pause_s)
    return np.minimum(found, RHO_MAX)


def _work_on_s(layout: Layout, spec: Checkpoints, bytes_on: np.ndarray) -> np.ndarray:
    """Seconds of the work that a checkpoint makes on the thread of a subtask. [O, N]"""
    once = 1.0 if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, 1.0)  # for all of a chain
    return np.asarray(spec.sync_ms * 1e-3 * once + bytes_on / layout.subtasks_on * spec.sync_ns_per_byte * 1e-9)


def _worked_s(layout: Layout, spec: Checkpoints, bytes_on: np.ndarray) -> np.ndarray:
    """Seconds until that work is done: alone on the slowest of its cores, or as long as all subtasks of its host need,
    as their barriers come at about the same time. [O, N]"""
    work_on = _work_on_s(layout, spec, bytes_on)
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
