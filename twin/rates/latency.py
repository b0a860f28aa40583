"""How old results are when they arrive, added up along the streams from formulas.

Ages are kept as [3, N]: since ingestion (row 0), since generation at the broker (row 1), and the lag of the results
behind a run that starts empty (row 2): what a run of H seconds lacks of H seconds' steady output.

* An operator adds its service time, and the wait in its line (`twin.rates.lines`); where its keys are uneven, of its
  busiest replica and of all others, by what leaves these (`twin.rates.hottest`).
* What waits for a system outside takes no CPU; the wait for a place there is that of M/G/c (`twin.rates.calling`).
* A saturated operator, and all upstream of it, wait in full channels: credits over the rate of the stream, the way
  there included. Of streams that meet, only those above the fair rate fill theirs; the others wait in the same line.
* Operators that run as one are one queue, in front of the first, with the services of all of them.
* Where sockets differ, service and wait are means over them, and only the replicas on the busiest fill their channels.
* A stream between hosts adds the producer's latency, or that of all links on its route, and the transmission.
* A stream in batches adds the wait for a full one or the next flush, and for the turn in it (`twin.rates.batches`).
* A window adds the age of the oldest involved tuple at its evaluation. Aggregates: of the oldest of n tuples of one
  group, n s / (n + 1) in a time window of s seconds, (n (w + 1) / (n + 1) - 1) gaps in a count window of w tuples.
  Over event time, the same of a Poisson number, without the slack of the source.
  Joins: of the oldest of tuples drawn at random from the window, one a side, plus the older side's age.
* An evaluation takes its operator, and all of its results leave at its end: half of them wait at the operator after it.
* Copies of a tuple that come by several ways, or from several replicas, wait for each other (`twin.rates.again`).
* The lag grows by all of these but full channels, and by the windows only as they start: a tumbling time window by
  its length (the last one ends with the run), others by half a slide, and joins by what sliding windows lack until
  they are first full.
* A source that ingests a share f of what is offered falls behind by (1 - f) t once the channels before it are full
  (`twin.rates.filling`): if they are at once, its results are (1 - f) H / 2 older on average over a run of H seconds.
  No result of that run is older than H.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.kinds.ages import Held
from twin.rates.again import again_s
from twin.rates.batches import batch_waits_s
from twin.rates.calling import away_s
from twin.rates.cores import FULL
from twin.rates.filling import Measured, behind_s, filled, filling_s
from twin.rates.hottest import hottest
from twin.rates.layout import Layout
from twin.rates.lines import Line, Queues, queues_s
from twin.rates.load import Load
from twin.rates.queues import RHO_MAX
from twin.rates.throttle import felt


class Ages(NamedTuple):
    """In seconds. results_s: processing, end-to-end and lag of the results over the sinks, [3, N].

    ages_s: of what operators emit, [3, O, N]; of that, channel_s, queue_s, line_s and window_s [O, N] (see RateAnswer).
    blocked_on: whether an operator's input channels are full, and jam_on those of which share of its replicas. [O, N]
    filling_rn: how long that takes, by source [R, N]. full_sn: whether a stream's channels are; way_sn: how long tuples
    are on them, and link_sn how long of that on the network. [S, N]
    """

    results_s: np.ndarray
    ages_s: np.ndarray
    channel_s: np.ndarray
    queue_s: np.ndarray
    line_s: np.ndarray
    window_s: np.ndarray
    blocked_on: np.ndarray
    filling_rn: np.ndarray
    full_sn: np.ndarray
    way_sn: np.ndarray
    link_sn: np.ndarray


def result_ages_s(
    layout: Layout, offered: Load, found: Load, share: np.ndarray, measured: Measured, queues: Queues | None = None
) -> Ages:
    """Ages along the streams, at most the horizon at the sinks.

    found: the load after throttling; share: the ingested share of each source's offered rate [sources, N]. queues: in
    front of operators; None: those that last.
    """
    job = layout.job
    blocked_on, full_sn, jam_on = _full(layout, found, share)
    filling_rn = filling_s(layout, offered, found, full_sn)
    link_sn, lines = _links_s(layout, found), queues or queues_s(layout, found)
    service_on, wait_on = lines.service_on, lines.wait_on
    channel_sn = _channels_s(layout, found, Full(blocked_on, full_sn, jam_on), link_sn, lines)
    felt_rn = filling_rn / share  # what leaves then came in long before
    channel_sn = link_sn + (channel_sn - link_sn) * filled(felt_rn.max(axis=0), measured)
    size = (len(job.names), layout.size)
    ages, (channel_on, queue_on, waited_on, window_on) = np.zeros((3, *size)), np.zeros((4, *size))
    sent_sn = layout.carried_sn(found.out_on)
    burst_on = np.where(np.isfinite(found.bursts_on), found.out_on / np.maximum(found.bursts_on, 1e-12), 1.0)
    batch_sn, turn_on = batch_waits_s(layout, found, burst_on, lines.pace_on)
    for o in range(len(job.names)):
        streams = job.inputs[o]
        queue_on[o] = service_on[o]
        if not streams:
            source = job.sources.index(o)
            slowed = share[source]
            behind = np.where(slowed < 1.0, (1.0 - slowed) * behind_s(felt_rn[source], measured), wait_on[o])
            ages[:, o] = service_on[o]
            ages[1, o] += behind
            continue
        producers = [job.producer_s[s] for s in streams]
        arriving = ages[:, producers] + channel_sn[None, streams] + batch_sn[streams]
        waits_s = wait_on[o] + turn_on[o] + again_s(layout, found, lines, o, arriving[0])
        waited_on[o] = np.where(blocked_on[o], 0.0, waits_s)
        queue_on[o] += waited_on[o]
        if o in job.calling:
            queue_on[o] += away_s(job.calling[o], found.in_on[o], layout.replicas_on[o], blocked_on[o])
        arriving[2] = ages[2, producers] + link_sn[streams]  # channels fill quickly beside the rate at which they drain
        arriving[2] += batch_sn[streams]
        rates = sent_sn[streams]
        if (passed := job.passed[o]) is not None:
            rates = rates * passed[:, None]  # only what leaves is of an age
        mixed = _mixed(rates, arriving)
        taken = _taken(layout, found, o)
        bursts = found.bursts_on[producers].max(axis=0)
        held = Held(taken, found.window_on[o], found.groups_on[o], job.piece_o[o], job.disorder_o[o], bursts)
        through = job.operators[o].ages_s(arriving, mixed, held)
        channel_on[o] = mixed[0] - _mixed(rates, ages[:, producers])[0]
        window_on[o] = through[0] - mixed[0]
        ages[:, o] = through + queue_on[o]
        if o in job.windowed:
            ages[:, o] += _evaluated_s(layout, found, o)
    weights = found.in_on[job.sinks]
    total = weights.sum(axis=0)
    results = np.where(total > 1e-12, _mixed(weights, ages[:, job.sinks]), ages[:, job.sinks[0]])
    parts = channel_on, queue_on, waited_on, window_on
    return Ages(np.minimum(results, measured.end_s), ages, *parts, blocked_on, filling_rn, full_sn, channel_sn, link_sn)


def _evaluated_s(layout: Layout, found: Load, o: int) -> np.ndarray:
    """How long one replica takes to look at what its window holds and to make the results. [N]"""
    job, fires = layout.job, found.fires_on[o]
    results = np.divide(found.out_on[o], fires, out=np.zeros_like(fires), where=fires > 0.0)
    work = found.window_on[o] * job.scan_o[o] + results * job.result_o[o]
    return np.asarray(work / found.speed_on[o] / (layout.replicas_on[o] if job.by_time_o[o] else 1.0))


def _taken(layout: Layout, found: Load, o: int) -> np.ndarray:
    """What comes to an operator; with count windows, to each replica. [N]"""
    if o not in layout.job.slides or layout.job.names[o] not in layout.counted:
        return found.in_on[o]
    return np.asarray(found.fires_on[o] * layout.job.slides[o] / layout.replicas_on[o])


def _mixed(rates: np.ndarray, ages: np.ndarray) -> np.ndarray:
    """Mean over K streams by their rates [K, N], of ages [3, K, N]. [3, N]"""
    if len(rates) == 1:
        return ages[:, 0]
    return np.asarray((ages * rates).sum(axis=1) / np.maximum(rates.sum(axis=0), 1e-12))


class Full(NamedTuple):
    """Which operators' input queues, and which streams' channels, are full [O, N], [S, N] bool. jam_on: where sockets
    differ, the share of an operator's replicas whose channels are full if any are [O, N]."""

    blocked_on: np.ndarray
    full_sn: np.ndarray
    jam_on: np.ndarray | None


def _full(layout: Layout, found: Load, share: np.ndarray) -> Full:
    """A stream's channel is full if it, its consumer or something downstream is the bottleneck; where several streams
    meet, only those which bring more than the fair rate are. Where sockets differ, the replicas on some are the
    bottleneck.
    """
    job = layout.job
    throttled = share.min(axis=0) < 1.0
    stream_sn = found.stream_sn
    blocked_on = throttled & (found.cpu_on > FULL)
    full_sn = throttled & (stream_sn > FULL)
    jam_on = None if found.cells is None else layout.mean(np.where(found.cells.cpu_cn > FULL, 1.0, 0.0))
    if not throttled.any():
        return Full(blocked_on, full_sn, jam_on)
    felt_sn = felt(layout, found)[1]
    for o in reversed(range(len(job.names))):
        for s in job.outputs[o]:
            blocked_on[o] |= full_sn[s]
            if jam_on is not None:
                jam_on[o] = np.where(full_sn[s], 1.0, jam_on[o])
        for s in job.inputs[o]:
            full_sn[s] |= blocked_on[o] & (felt_sn[s] > 0.99)
    return Full(blocked_on, full_sn, jam_on)


def _links_s(layout: Layout, found: Load) -> np.ndarray:
    """Latency, transmission and the wait for the network card and the links. [S, N]"""
    if layout.links is not None:
        waits_sn = np.where(found.nic_sn > 0.0, layout.links.waits_sn(layout.carried_sn(found.out_on)), 0.0)
        return np.asarray(layout.latency_sn + layout.links.send_sn + waits_sn)
    rho = np.minimum(found.nic_sn, RHO_MAX)
    return np.asarray(layout.latency_sn + layout.send_sn * (1.0 + rho / (1.0 - rho) / 2.0))


def _channels_s(layout: Layout, found: Load, full: Full, link_sn: np.ndarray, lines: Queues) -> np.ndarray:
    """From leaving the producer to the head of the consumer's queue, as far as channels are full; else the link. [S, N]

    A full channel holds its credits, those on the way included: by Little's law a tuple spends credits over rate in
    it. A stream that is not full but meets a full one waits in the same line.
    """
    job, (blocked_on, full_sn, jam_on), hot = layout.job, full, hottest(layout, found)
    if not full_sn.any():
        return link_sn
    sent_sn = layout.carried_sn(found.out_on)
    per_replica_sn = sent_sn / layout.replicas_on[job.consumer_s]
    inside_sn = layout.room_sn / np.maximum(per_replica_sn, 1e-9)
    if hot is not None:  # the busiest replica's are full; what comes to the others waits for their own work alone
        line = Line(lines.line_on, lines.gap_on, found.line_scv_on, None)
        others_on = line.wait_s(np.minimum(hot.less / hot.more, 1.0 - 1e-9))
        each, alone = hot.of(job.consumer_s), (found.cpu_on > FULL)[job.consumer_s]
        others_sn = np.minimum(inside_sn / np.maximum(each.less, 1e-9), link_sn + others_on[job.consumer_s])
        inside_sn = np.where(alone, each.share * inside_sn / each.more + (1.0 - each.share) * others_sn, inside_sn)
    if jam_on is not None:
        jam_sn = np.where(blocked_on[job.consumer_s], jam_on[job.consumer_s], 1.0)
        inside_sn = link_sn + (inside_sn - link_sn) * jam_sn
    queued_sn = np.where(full_sn & blocked_on[job.consumer_s], np.maximum(inside_sn - link_sn, 0.0), 0.0)
    passed_sn = np.where(full_sn, np.maximum(inside_sn, link_sn), link_sn)
    for streams in job.inputs:
        if len(streams) > 1:
            line = queued_sn[streams].max(axis=0)
            for s in streams:
                passed_sn[s] = np.where(full_sn[s], passed_sn[s], link_sn[s] + line)
    return passed_sn
