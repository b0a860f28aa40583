"""Copies of one tuple that reach an operator one after the other: on several ways, or from replicas that all got it.

Who comes a time d after a copy finds more work than others do: of the copy's service B what is left when I, the time
that the server would have been idle since, is gone: E[(B - I)+] (reflection). For d exponential of mean 1 / q, I is 0
if the work W found in M/G/1 lasts longer, with chance 1 - E[exp(-x W)], else exponential of rate x, the root of
x - rate (1 - E[exp(-x B)]) = q (Takacs 1962). With Pollaczek and Khinchine's E[exp(-x W)] = (1 - rho) x / q there is
left, of a mean service,

    1 - (1 - rho) (x / q - 1) / rho,

all for d = 0 and nothing for long ones. 1 - E[exp(-x B)] is taken as x s / (1 + x s (1 + scv) / 2), as it is of
exponential services; 1 / q as the difference of mean ages. If tuples find X more on average, they wait X / (1 - rho)
longer, since the mean of the squared work stays as it is. Letters at the end of a name are the axes of
`twin.rates.layout`.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from twin.rates.arrays import JobArrays
from twin.rates.calls import bunched_s
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.queueing import RHO_MAX
from twin.rates.waiting import Queues

LEAST_S = 1e-9
"""Seconds between copies that come at the same moment."""


def again_s(layout: Layout, found: Load, lines: Queues, o: int, arriving_kn: np.ndarray) -> np.ndarray | float:
    """How much longer the tuples of an operator wait for that, and behind answers that leave in order.

    arriving_kn: their ages by stream. [N]
    """
    job, streams = layout.job, [s for s in layout.job.inputs[o] if layout.job.dealing.batch_s[s] == 1]
    producers = [job.producer_s[s] for s in streams]
    if not (job.dealing.akin_o[o] or any(job.dealing.copied_o[p] or job.answers_in_order(p) for p in producers)):
        return 0.0
    ages = dict(zip(job.inputs[o], arriving_kn, strict=True))
    rho = np.minimum(found.used_on[o], RHO_MAX)
    uneven_s = (1.0 + found.line_scv_on[o]) / 2.0 * lines.line_on[o]
    extra_s = np.zeros(layout.size)
    pairs = _by_ways(layout, found, streams, ages) + _of_copies(layout, found, lines, streams)
    for s, pairs_per_s, apart_s in pairs:
        mine = pairs_per_s / np.maximum(found.in_on[o], 1e-12) / layout.ways(s)
        extra_s = extra_s + mine * left(rho, uneven_s, apart_s) * lines.line_on[o]
    extra_s = extra_s / (1.0 - rho) / (layout.replicas_on[o] if job.dealing.shared_o[o] else 1.0)
    for s in (s for s in streams if job.answers_in_order(job.producer_s[s])):
        producer = job.producer_s[s]
        share = found.out_on[producer] * job.share_s[s] / np.maximum(found.in_on[o], 1e-12)
        own = share / (1.0 if job.dealing.forward_s[s] else layout.replicas_on[producer])
        load = rho * own / (1.0 - rho * (1.0 - own))  # of the time that the others leave
        each_per_s = found.in_on[producer] / layout.replicas_on[producer]
        extra_s = extra_s + share * bunched_s(job.calling[producer], each_per_s, load)
    return extra_s if layout.fusing is None else np.where(layout.fusing.behind_on[o], 0.0, extra_s)


Pairs = tuple[int, np.ndarray, np.ndarray]
"""A stream, how many pairs of copies a second have one on it, how far these are apart in seconds. [N] each"""


def _by_ways(layout: Layout, found: Load, streams: list[int], ages: dict[int, np.ndarray]) -> list[Pairs]:
    """Copies of what one operator sent to several others."""
    job, sent_sn, pairs = layout.job, layout.carried_sn(found.out_on), list[Pairs]()
    for one, other in combinations(streams, 2):
        both = _stems(job, job.producer_s[one]) & _stems(job, job.producer_s[other])
        if both and not job.operators[max(both)].exclusive:
            often = sent_sn[one] * sent_sn[other] / np.maximum(found.out_on[max(both)], 1e-12)
            pairs.append((other, often, np.abs(ages[one] - ages[other])))
    return pairs


def _of_copies(layout: Layout, found: Load, lines: Queues, streams: list[int]) -> list[Pairs]:
    """What replicas make that all got the same: their queues differ by their services alone."""
    job, sent_sn, pairs = layout.job, layout.carried_sn(found.out_on), list[Pairs]()
    for s in streams:
        p = job.producer_s[s]
        if job.dealing.copied_o[p]:
            copied_per_s = sum(sent_sn[t] for t in job.inputs[p] if job.dealing.broadcast_s[t])
            made = sent_sn[s] / np.maximum(found.in_on[p], 1e-12)
            scv = found.line_scv_on[p]
            unlike = np.sqrt(scv / np.maximum(scv + lines.gap_on[p], 1e-12))
            apart_s = (lines.line_on[p] + lines.wait_on[p]) * unlike
            pairs.append((s, copied_per_s * (layout.replicas_on[p] - 1.0) / 2.0 * made**2, apart_s))
    return pairs


def left(rho: np.ndarray, longer_s: np.ndarray, apart_s: np.ndarray) -> np.ndarray:
    """Share of a service that is left after `apart_s`. longer_s: s (1 + scv) / 2."""
    later = 1.0 / np.maximum(apart_s, LEAST_S)
    half = (1.0 - rho - later * longer_s) / 2.0
    longer_s = np.maximum(longer_s, 1e-12)
    rate = (np.sqrt(half**2 + longer_s * later) - half) / longer_s
    return np.clip(1.0 - (1.0 - rho) * (rate / later - 1.0) / np.maximum(rho, 1e-12), 0.0, 1.0)


def _stems(job: JobArrays, o: int) -> set[int]:
    """The operators whose tuples leave this one as they came: none of those behind a window."""
    if job.operators[o].hands_over != "tuples":
        return set()
    return {o}.union(*(_stems(job, job.producer_s[s]) for s in job.inputs[o]))
