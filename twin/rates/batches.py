"""Waits of tuples that come together: for their batch, for their turn in it, in a window's results.

A producer's tuples wait until a batch is full, or until the next flush, which comes periodically and knows nothing of
them: where a batch does not fill in a period they wait half of one, as those of a real Flink do. A batch that leaves
together arrives together, so at the consumer a tuple has on average half the batch before it; and what the consumer
makes of a batch comes to the next operator at the consumer's pace.

Replicas of a time window are evaluated at the same moments, so a consumer gets its share of all their results at once;
of count windows, that of one replica's. The tuples that a flat map makes of one come at one moment, too; where b - 1
others come with a tuple on average, it waits (b - 1) / 2 services for those of them that are before it, and for tuples
that are already there as if gaps varied b times as much (GI^[b]/G/1, `twin.rates.waiting`). Letters at the end of a
name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from twin.kinds.selective import beside
from twin.rates.arrays import JobArrays
from twin.rates.layout import Layout
from twin.rates.load import Load


def made_on(layout: Layout) -> np.ndarray:
    """Tuples that a task makes at one moment of an input tuple, up to an operator of it, if it makes any. [O, N]"""
    job = layout.job
    made = np.ones((len(job.names), layout.size)) * job.gain_o[:, None]
    if layout.fusing is not None:
        for s in layout.fusing.downward:
            several = np.maximum(made[job.producer_s[s]] * job.share_s[s], 1.0)
            made[job.consumer_s[s]] *= np.where(layout.fusing.inner_sn[s], several, 1.0)
    return made


def beside_on(layout: Layout, found: Load) -> np.ndarray | None:
    """Mean number of others that come to a replica together with a tuple [O, N]; None if no operator makes several.

    Tuples that leave in batches are counted where batches are.
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
    """Burst of tuples to each replica: `size` of them come, one every `gap_s` seconds, and `lump` of these at the same
    moment, as they were made of one tuple; these wait for each other as in GI^[b]/G/1 (see above). [N] each"""

    size: np.ndarray
    gap_s: np.ndarray
    lump: np.ndarray

    @classmethod
    def at_once(cls, size: np.ndarray) -> Self:
        """Burst of tuples that leave together, without gaps."""
        return cls(size, np.zeros_like(size), np.ones_like(size))


def batch_waits_s(
    layout: Layout, found: Load, results_on: np.ndarray, each_on: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean waits in seconds of a stream's tuples for their batch [S, N], and of an operator's for those they came with
    [O, N].

    results_on: tuples that an evaluation of a window emits. each_on: seconds that an operator takes for a tuple. [O, N]
    each
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
                per_s = found.out_on[o] / layout.replicas_on[o] * _share(layout, s) * job.share_s[s]
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
    """Burst among those to an operator whose tuples wait longest for their turn, and their mean wait in seconds. [N]

    each: seconds that the operator takes for a tuple.
    """
    sizes, gaps_s, lumps = (np.stack([bursts[s][i] for s in job.inputs[o]]) for i in (0, 1, 2))
    turns_s = np.maximum(sizes - lumps, 0.0) / 2.0 * np.maximum(each - gaps_s, 0.0)
    longest = turns_s.argmax(axis=0), np.arange(len(each))
    return Burst(sizes[longest], gaps_s[longest], lumps[longest]), turns_s[longest]


def _share(layout: Layout, s: int) -> np.ndarray:
    """Share of a producer replica's output on a stream that goes to one replica, or to the common queue. [N]"""
    job = layout.job
    if job.dealing.broadcast_s[s] or job.dealing.shared_o[job.consumer_s[s]]:
        return np.ones(layout.size)
    return np.where(layout.straight(s), 1.0, 1.0 / layout.replicas_on[job.consumer_s[s]])


def _results(layout: Layout, o: int, s: int, results: np.ndarray) -> tuple[Burst, Burst]:
    """Bursts of a window's evaluation: from one replica to one place, and all that one consumer replica gets."""
    job = layout.job
    dealt = 1.0 if job.dealing.broadcast_s[s] else 1.0 / layout.replicas_on[job.consumer_s[s]]
    if job.windows.by_time_o[o]:
        mine = results / layout.replicas_on[o] * _share(layout, s)
        return Burst.at_once(mine), Burst.at_once(np.maximum(results * dealt, 1.0))
    alone = np.where(layout.straight(s), 1.0, dealt)
    return Burst.at_once(results * _share(layout, s)), Burst.at_once(np.maximum(results * alone, 1.0))


def _batched(
    job: JobArrays, s: int, per_s: np.ndarray, mine: Burst, theirs: Burst, *, windowed: bool
) -> tuple[np.ndarray, Burst]:
    """Mean wait of a tuple for its batch in seconds [N], and the burst that a replica of the consumer then gets.

    per_s: tuples a second into one batch. mine: the burst that one producer replica sends to one place. theirs: the
    burst that a consumer replica would get without batches.
    """
    batch, flush_s = job.dealing.batch_s[s], job.deployment.engine.flush_s
    assert flush_s is not None
    wait_s = np.where(per_s * flush_s < batch, flush_s / 2.0, fill_wait_s(per_s, batch, flush_s))
    leaving = np.clip(per_s * flush_s, 1.0, batch)
    whole = windowed & (mine.size >= batch)  # full batches of one evaluation leave one after another
    return wait_s, Burst.at_once(np.where(whole, theirs.size, leaving))


def fill_wait_s(per_s: np.ndarray, batch: int, flush_s: float) -> np.ndarray:
    """Mean wait of a tuple for its batch, in seconds, where evenly spaced tuples come at those rates. [N]

    Between two flushes N = rate x flush_s tuples fill as many batches as they can; the rest waits for the flush.
    """
    coming = np.maximum(per_s * flush_s, 1e-12)
    full = np.floor(coming / batch)
    rest = coming - full * batch
    return np.asarray((full * batch * (batch - 1) + rest * rest) / 2.0 / coming**2 * flush_s)
