"""Waits of records at an operator that keeps up: for their batch, for their turn, and for answers to calls."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from twin.calls import Calls
from twin.kinds.operator import beside
from twin.rates.arrays import JobArrays
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.queueing import RHO_MAX, ggc_wait_s, shared_wait_s, superposed
from twin.rates.sockets import demands, shared

# batches -------------------------------------------------------------------------------------------------------------
# Waits of records that come together: for their batch, for their turn in it, in a window's results.
#
# A producer's records wait until a batch is full, or until the next flush, which comes periodically and knows nothing
# of them: where a batch does not fill in a period they wait half of one, as those of a real Flink do. A batch that
# leaves together arrives together, so at the consumer a record has on average half the batch before it; and what the
# consumer makes of a batch comes to the next operator at the consumer's pace.
#
# Subtasks of a time window are evaluated at the same moments, so a consumer gets its share of all their results at
# once; of count windows, that of one subtask's. The records that a flat map makes of one come at one moment, too; where
# b - 1 others come with a record on average, it waits (b - 1) / 2 services for those of them that are before it, and
# for records that are already there as if gaps varied b times as much (GI^[b]/G/1, below). Letters at
# the end of a name are the axes of `twin.rates.layout`.


def made_on(layout: Layout) -> np.ndarray:
    """Records that a task makes at one moment of an input record, up to an operator of it, if it makes any. [O, N]"""
    job = layout.job
    made = np.ones((len(job.names), layout.size)) * job.gain_o[:, None]
    if layout.fusing is not None:
        for s in layout.fusing.downward:
            several = np.maximum(made[job.producer_s[s]] * job.share_s[s], 1.0)
            made[job.consumer_s[s]] *= np.where(layout.fusing.inner_sn[s], several, 1.0)
    return made


def beside_on(layout: Layout, found: Load) -> np.ndarray | None:
    """Mean number of others that come to a subtask together with a record [O, N]; None if no operator makes several.

    Records that leave in batches are counted where batches are.
    """
    job = layout.job
    if not job.multiplies:
        return None
    others, made = np.zeros((len(job.names), layout.size)), made_on(layout)
    for o, streams in enumerate(job.inputs):
        lumps = [s for s in streams if job.gain_o[job.producer_s[s]] != 1.0 or layout.fusing is not None]
        total = np.maximum(found.in_on[o], 1e-12)
        for s in lumps:
            mine = found.out_on[job.producer_s[s]] * job.share_s[s] / total
            others[o] += mine * _beside(layout, s, made[job.producer_s[s]] * job.share_s[s])
    return others if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, others)


def _beside(layout: Layout, s: int, made: np.ndarray) -> np.ndarray:
    job, ways = layout.job, layout.ways(s)
    if job.dealing.batch_s[s] > 1 or job.dealing.drops_s[s]:
        return np.zeros(layout.size)
    if job.dealing.in_turn_s[s]:
        return beside(made / ways)
    return np.asarray(beside(made) / ways)


class Burst(NamedTuple):
    """Burst of records to each subtask: `size` of them come, one every `gap_s` seconds, and `lump` of these at the same
    moment, as they were made of one record; these wait for each other as in GI^[b]/G/1 (see below). [N] each"""

    size: np.ndarray
    gap_s: np.ndarray
    lump: np.ndarray

    @classmethod
    def at_once(cls, size: np.ndarray) -> Self:
        """Burst of records that leave together, without gaps."""
        return cls(size, np.zeros_like(size), np.ones_like(size))


def batch_waits_s(
    layout: Layout, found: Load, results_on: np.ndarray, each_on: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean waits in seconds of a stream's records for their batch [S, N], and of an operator's for those they came with
    [O, N].

    results_on: records that an evaluation of a window emits. each_on: seconds that an operator takes for a record. [O,
    N] each
    """
    job = layout.job
    before_sn = np.zeros((len(job.streams), layout.size))
    turn_on = np.zeros((len(job.names), layout.size))
    single = Burst.at_once(np.ones(layout.size))
    lump_on = made_on(layout) if job.multiplies else np.ones_like(turn_on)
    bursts = [single] * len(job.streams)
    for o in range(len(job.names)):
        coming = single
        if job.inputs[o]:
            coming, turn_on[o] = _longest(job, o, bursts, each_on[o])
        made = np.maximum(found.out_on[o] / np.maximum(found.in_on[o], 1e-12), 1e-9)
        for s in job.outputs[o]:
            if o in job.windows.all:
                mine, theirs = _results(layout, o, s, results_on[o])
            else:
                share = _share(layout, s) * job.share_s[s]
                gap_s = np.maximum(each_on[o], coming.gap_s) / made
                mine = Burst(coming.size * made * share, gap_s / share, np.maximum(lump_on[o] * share, 1.0))
                theirs = mine._replace(size=np.maximum(mine.size, 1.0))
            bursts[s] = theirs
            if job.dealing.batch_s[s] > 1:
                per_s = found.out_on[o] / layout.subtasks_on[o] * _share(layout, s) * job.share_s[s]
                before_sn[s], bursts[s] = _batched(job, s, per_s, mine, theirs, windowed=o in job.windows.all)
            if layout.fusing is not None:  # chained operators have no channel in between
                inner = layout.fusing.inner_sn[s]
                pairs = zip(theirs, bursts[s], strict=True)
                before_sn[s] = np.where(inner, 0.0, before_sn[s])
                bursts[s] = Burst(*(np.where(inner, within, between) for within, between in pairs))
    if layout.fusing is not None:
        turn_on = np.where(layout.fusing.behind_on, 0.0, turn_on)
    return before_sn, turn_on


def _longest(job: JobArrays, o: int, bursts: list[Burst], each: np.ndarray) -> tuple[Burst, np.ndarray]:
    """Burst among those to an operator whose records wait longest for their turn, and their mean wait in seconds. [N]

    each: seconds that the operator takes for a record.
    """
    sizes, gaps_s, lumps = (np.stack([bursts[s][i] for s in job.inputs[o]]) for i in (0, 1, 2))
    turns_s = np.maximum(sizes - lumps, 0.0) / 2.0 * np.maximum(each - gaps_s, 0.0)
    longest = turns_s.argmax(axis=0), np.arange(len(each))
    return Burst(sizes[longest], gaps_s[longest], lumps[longest]), turns_s[longest]


def _share(layout: Layout, s: int) -> np.ndarray:
    """Share of a producer subtask's output on a stream that goes to one subtask, or to the common queue. [N]"""
    job = layout.job
    if job.dealing.broadcast_s[s] or job.dealing.shared_o[job.consumer_s[s]]:
        return np.ones(layout.size)
    return np.where(layout.straight(s), 1.0, 1.0 / layout.subtasks_on[job.consumer_s[s]])


def _results(layout: Layout, o: int, s: int, results: np.ndarray) -> tuple[Burst, Burst]:
    """Bursts of a window's evaluation: from one subtask to one place, and all that one consumer subtask gets."""
    job = layout.job
    dealt = 1.0 if job.dealing.broadcast_s[s] else 1.0 / layout.subtasks_on[job.consumer_s[s]]
    if job.windows.by_time_o[o]:
        mine = results / layout.subtasks_on[o] * _share(layout, s)
        return Burst.at_once(mine), Burst.at_once(np.maximum(results * dealt, 1.0))
    alone = np.where(layout.straight(s), 1.0, dealt)
    return Burst.at_once(results * _share(layout, s)), Burst.at_once(np.maximum(results * alone, 1.0))


def _batched(
    job: JobArrays, s: int, per_s: np.ndarray, mine: Burst, theirs: Burst, *, windowed: bool
) -> tuple[np.ndarray, Burst]:
    """Mean wait of a record for its batch in seconds [N], and the burst that a subtask of the consumer then gets.

    per_s: records a second into one batch. mine: the burst that one producer subtask sends to one place. theirs: the
    burst that a consumer subtask would get without batches.
    """
    batch, flush_s = job.dealing.batch_s[s], job.deployment.engine.flush_s
    assert flush_s is not None
    wait_s = np.where(per_s * flush_s < batch, flush_s / 2.0, fill_wait_s(per_s, batch, flush_s))
    leaving = np.clip(per_s * flush_s, 1.0, batch)
    whole = windowed & (mine.size >= batch)  # full batches of one evaluation leave one after another
    return wait_s, Burst.at_once(np.where(whole, theirs.size, leaving))


def fill_wait_s(per_s: np.ndarray, batch: int, flush_s: float) -> np.ndarray:
    """Mean wait of a record for its batch, in seconds, where evenly spaced records come at those rates. [N]

    Between two flushes N = rate x flush_s records fill as many batches as they can; the rest waits for the flush.
    """
    coming = np.maximum(per_s * flush_s, 1e-12)
    full = np.floor(coming / batch)
    rest = coming - full * batch
    return np.asarray((full * batch * (batch - 1) + rest * rest) / 2.0 / coming**2 * flush_s)


# calls ---------------------------------------------------------------------------------------------------------------
# Waits of records for a call to an external system and for its answer.


def away_s(calls: Calls, in_per_s: np.ndarray, parallelism: np.ndarray, blocked: np.ndarray) -> np.ndarray:
    """Mean seconds from the arrival of a record to its answer, for an operator with `in_per_s` records a second. [N]

    Arrivals count as Poisson. A record waits for a place as in M/G/c, by Allen and Cunneen, where servers are as fast
    as answers leave under full load; and for its turn among the calls of all subtasks, as in M/D/1. If the operator is
    blocked, records wait in its channels instead.
    """
    each, total, held = np.broadcast_arrays(in_per_s / parallelism, in_per_s, blocked)
    rows, back = np.unique(np.stack([each, total, held]), axis=1, return_inverse=True)
    found = [_away_s(calls, float(one), float(all_), bool(full)) for one, all_, full in rows.T]
    return np.array(found)[back.reshape(-1)]


def bunched_s(calls: Calls, each_per_s: np.ndarray, load: np.ndarray) -> np.ndarray:
    """Extra seconds that records wait behind a subtask whose answers leave in order, and so together. [N]

    load: of the station behind it. A call that began at A and took L delays a record that came at B: its work ends at
    A + L + S or later, where S are the services of the records between them. So it ends max(L - (B - A) + S) after B,
    over all earlier calls. With the mean of S, load (B - A), this is the time until the answer if records came
    1 / (1 - load) times as often.
    """
    found = []
    for rate, used in np.broadcast(each_per_s, np.minimum(load, RHO_MAX)):
        most_s = np.inf if calls.capacity is None or rate <= 0.0 else calls.capacity / rate
        kept_s = [min(calls.kept_s(float(each)), most_s) for each in (rate, rate / (1.0 - used))]
        found.append(kept_s[1] - kept_s[0])
    return np.array(found)


def _away_s(calls: Calls, each_per_s: float, total_per_s: float, blocked: bool) -> float:
    kept_s = calls.kept_s(each_per_s)
    if calls.capacity is not None and each_per_s > 0.0:
        kept_s = min(kept_s, calls.capacity / each_per_s)
    kept_s -= calls.sooner_s  # only those that are answered leave
    return kept_s if blocked else kept_s + _place_s(calls, each_per_s) + _turn_s(calls, total_per_s)


def _place_s(calls: Calls, per_s: float) -> float:
    if not np.isfinite(calls.subtask_per_s):
        return 0.0
    used = min(per_s / calls.subtask_per_s, RHO_MAX)
    return ggc_wait_s(calls.servers, used, 1.0, calls.bunching, calls.served_s)


def _turn_s(calls: Calls, per_s: float) -> float:
    if calls.most_per_s is None:
        return 0.0
    used = min(per_s / calls.most_per_s, RHO_MAX)
    return used / (1.0 - used) / 2.0 / calls.most_per_s


# queues --------------------------------------------------------------------------------------------------------------
# Waits of records in the queue of an operator that keeps up.
#
# The wait is that of a GI/G/1 queue (Kingman 1961; of Poisson arrivals that of Pollaczek and Khinchine) at the speed
# that the socket gives its task beside the others; where b records come at one moment, that of GI^[b]/G/1, which is
# (rho (b c_a^2 + c_s^2) / (1 - rho) + b - 1) / 2 services at a load of rho, with the squared coefficients of variation
# c_a^2 of the gaps between such moments and c_s^2 of services; of subtasks with a shared queue, that of M/M/c, for
# other gaps and services by Allen and Cunneen.
#
# The regularity of gaps is followed along the streams. The output of a station is as regular as its input where it is
# idle, and as its services where it is busy (Whitt, "The queueing network analyzer", 1983, eq. 38). A part of it,
# chosen at random, is the more like Poisson's, the smaller it is. Each n-th record in turn is n times as regular; the
# more producers deal, each for itself, the more it is as if at random. Several streams together become Poisson again.
# Parts that were dealt to the subtasks of an operator and meet again are as regular as the whole was, so streams are
# followed as wholes, too. Letters at the end of a name are the axes of `twin.rates.layout`.


class Gaps(NamedTuple):
    """Squared coefficients of variation of the gaps between arrivals: at one subtask of an operator, at all of them
    together, and at the host where the records came in. [O, N] each"""

    one_on: np.ndarray
    all_on: np.ndarray
    entry_on: np.ndarray


def gap_scvs(layout: Layout, found: Load) -> Gaps:
    """Variation of the gaps between every operator's arrivals. Batches, results of windows, answers of calls, and
    copies that meet count as Poisson."""
    job, fusing, left_scv_on = layout.job, layout.fusing, found.line_scv_on
    if fusing is not None:
        scv_on, beside_sn = job.costs.scv_o[:, None] + np.zeros(layout.size), fusing.beside_s(found.line_s_on)
        left_scv_on = fusing.left_scv(found.service_on, scv_on, beside_sn)
    coming, all_in, entry, leaving, together, entered = np.ones((6, len(job.names), layout.size))
    for o, streams in enumerate(job.inputs):
        if not streams:
            coming[o] = all_in[o] = entry[o] = job.arrival_scv_o[o]
        elif not job.dealing.akin_o[o] and not any(job.dealing.batch_s[s] > 1 for s in streams):
            coming[o], all_in[o] = _met(layout, found, o, leaving, together)
        if streams and fusing is not None:  # within a task, records go on as they came to it
            before = job.producer_s[streams[0]]
            coming[o] = np.where(fusing.behind_on[o], leaving[before], coming[o])
            all_in[o] = np.where(fusing.behind_on[o], together[before], all_in[o])
        if streams:
            entry[o] = _entered(layout, found, streams, entered, all_in[o])
        if o in job.windows.all or o in job.calling:
            continue
        rho2, gain = np.minimum(found.used_on[o], 1.0) ** 2, np.minimum(job.gain_o[o], 1.0)
        varied = left_scv_on[o] - 1.0
        if fusing is not None:  # a task spaces records by all of its work, as they leave it
            rho2 = np.where(fusing.ahead_on[o], 0.0, rho2)
        servers = np.sqrt(layout.subtasks_on[o])
        own = servers if job.dealing.shared_o[o] else 1.0
        leaving[o] = 1.0 + gain * ((1.0 - rho2) * (coming[o] - 1.0) + rho2 / own * varied)
        together[o] = 1.0 + gain * ((1.0 - rho2) * (all_in[o] - 1.0) + rho2 / servers * varied)
        entered[o] = entry[o]
    return Gaps(coming, all_in, entry)


def _entered(layout: Layout, found: Load, streams: list[int], entered_on: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Mean over these streams' records of `entered_on` of the producer if they stay on its host, else of `here`. [N]"""
    producers = [layout.job.producer_s[s] for s in streams]
    rates = found.out_on[producers] * layout.job.share_s[streams, None]
    each = entered_on[producers] + layout.remote_sn[streams] * (here - entered_on[producers])
    return np.asarray((rates * each).sum(axis=0) / np.maximum(rates.sum(axis=0), 1e-12))


def _met(
    layout: Layout, found: Load, o: int, leaving: np.ndarray, together: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Squared variations of gaps where streams meet at one subtask of operator `o`, and at all its subtasks together.
    [N] each

    leaving, together: of the output of one subtask of each operator, and of all its subtasks.
    """
    job = layout.job
    total, one, all_ = np.zeros(layout.size), np.zeros(layout.size), np.zeros(layout.size)
    for s in job.inputs[o]:
        producer, share = job.producer_s[s], job.share_s[s]
        rate = found.out_on[producer] * share
        whole = 1.0 + share * (together[producer] - 1.0)
        alone = 1.0 + share * (leaving[producer] - 1.0) if job.dealing.forward_s[s] else _dealt(layout, s, whole)
        total, one, all_ = total + rate, one + rate * alone, all_ + rate * whole
    met, total = np.array(len(job.inputs[o])), np.maximum(total, 1e-12)
    return superposed(one / total, met), superposed(all_ / total, met)


def _dealt(layout: Layout, s: int, whole: np.ndarray) -> np.ndarray:
    """Squared variation of the gaps in one consumer subtask's part of a stream; `whole`: in all of it. [N]

    Each producer subtask deals in turn for itself, so the more of them there are, the more it is as if at random.
    """
    job, subtasks_on = layout.job, layout.subtasks_on
    if job.dealing.to_one_s[s]:
        return whole
    turns = subtasks_on[job.consumer_s[s]]
    if not job.dealing.in_turn_s[s]:
        return np.asarray(1.0 + (whole - 1.0) / turns)
    turns = np.maximum(turns / max(job.gain_o[job.producer_s[s]], 1.0), 1.0)  # ten made at once go to ten subtasks
    return superposed(1.0 / turns, subtasks_on[job.producer_s[s]]) - (1.0 - whole) / turns


class Queues(NamedTuple):
    """Queues by operator and plan [O, N], in seconds: service of a record; service of the chain from there on; mean
    wait of a record."""

    service_on: np.ndarray
    line_on: np.ndarray
    wait_on: np.ndarray


def queues_s(layout: Layout, found: Load) -> Queues:
    """Queues in the steady state, of operators that are not overloaded.

    Where sockets differ, these are means over them. Only the first of chained operators has a queue.
    """
    fusing, rows, cells = layout.fusing, layout.operator_c, found.cells
    beside = beside_on(layout, found)
    busy_cn, speed_cn = demands(layout, found)
    line_cn = (found.line_s_on[rows] if cells is None or fusing is not None else cells.service_cn) / speed_cn
    gaps = gap_scvs(layout, found)
    more_cn = 0.0 if beside is None else beside[rows]
    irregular_cn = (gaps.one_on[rows] * (1.0 + more_cn) + found.line_scv_on[rows]) / 2.0

    def wait_s(load_cn: np.ndarray) -> np.ndarray:
        """Mean wait in services at a load; b of the formula above is 1 + more_cn."""
        rho_cn = np.minimum(load_cn, RHO_MAX)
        return np.asarray(rho_cn * irregular_cn / (1.0 - rho_cn) + more_cn / 2.0)

    core_cn, longer_cn, variability_cn = shared(layout, found, busy_cn, gaps.entry_on)
    alone_cn = line_cn * np.minimum(speed_cn, core_cn) / core_cn
    apart_cn = alone_cn * (1.0 + wait_s(busy_cn / core_cn))
    beside_cn = np.maximum(line_cn * (1.0 + wait_s(busy_cn / speed_cn)) - apart_cn, alone_cn * longer_cn)
    # where visits vary less than Poisson ones, others add less, whether by their load or by meeting (`shared`)
    stay_cn = apart_cn + variability_cn * np.maximum(beside_cn, 0.0)
    line_cn = np.minimum(line_cn, stay_cn)  # so that they then lengthen the service less, too
    line_on, wait_on = layout.mean(line_cn), layout.mean(stay_cn - line_cn)
    service_on = line_on
    if fusing is not None:  # operators behind the first get the same cores
        slow_on = fusing.spread(line_on / np.maximum(found.line_s_on, 1e-300))
        # all that a task makes of a record leaves together, when the last of it is done
        service_on = found.service_on * slow_on * (1.0 + fusing.siblings())
        line_on = found.line_s_on * slow_on
    wait_on = _of_common_queues(layout, found, line_on, gaps, beside, wait_on)
    if fusing is not None:
        wait_on = np.where(fusing.behind_on, 0.0, wait_on)
    return Queues(service_on, line_on, wait_on)


def _of_common_queues(
    layout: Layout, found: Load, line_on: np.ndarray, gaps: Gaps, beside: np.ndarray | None, wait_on: np.ndarray
) -> np.ndarray:
    """Waits `wait_on`, with those of subtasks that take from one queue put in. [O, N]"""
    rho = np.minimum(found.used_on, RHO_MAX)
    for o in np.flatnonzero(layout.job.dealing.shared_o).tolist():
        each = zip(layout.subtasks_on[o], rho[o], gaps.all_on[o], found.line_scv_on[o], line_on[o], strict=True)
        wait_on[o] = [ggc_wait_s(int(c), *(float(value) for value in rest)) for c, *rest in each]
        crowded = layout.subtasks_on[o] > (layout.capacity_cn / layout.core_cn)[layout.first_c[o]]
        if crowded.any():
            time_s = _on_fewer_cores_s(layout, found, o, (gaps.all_on[o] + found.line_scv_on[o]) / 2.0)
            wait_on[o] = np.where(crowded, np.maximum(time_s - line_on[o], 0.0), wait_on[o])
        if beside is not None:
            wait_on[o] += beside[o] / layout.subtasks_on[o] * line_on[o] / (2.0 * (1.0 - rho[o]))
    return wait_on


def _on_fewer_cores_s(layout: Layout, found: Load, o: int, variability: np.ndarray) -> np.ndarray:
    """Wait and service in seconds where more subtasks take from one queue than there are cores: that of as many servers
    as cores, with all the work on the socket. [N]"""
    cell = layout.first_c[o]  # all subtasks are on one host
    busy_cn = demands(layout, found)[0] * layout.count_cn
    cores, core, total = layout.capacity_cn[cell], layout.core_cn[cell], layout.on_sockets(busy_cn)[cell]
    longer = shared_wait_s(cores / core, total / core) * variability
    return np.asarray(found.line_s_on[o] / core * (1.0 + longer))
