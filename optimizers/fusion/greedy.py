"""Algorithm 1 of Enorm: merge the two components with the largest score, as long as two fit.

By COMM the score is the rate from operator to operator (line 16); by PA it is the number of attributes in common, so
that much can still be merged afterwards. Both find what the paper's loop finds, which looks at all transfers after each
merge. Ours is the rate between components: many small transfers can be more than one large one elsewhere.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from optimizers.fusion.components import Fusion
from optimizers.fusion.job import Job
from optimizers.fusion.merging import Merging


def by_communication(job: Job) -> Fusion:
    """Score COMM. One pass suffices, the largest rate first: a rate never changes, and what does not fit never will."""
    merging = Merging(job)
    for edge in sorted(merging.edges, key=lambda edge: -edge.rate_per_s):
        one, other = merging.component(edge.producer), merging.component(edge.consumer)
        if edge.rate_per_s and merging.fit(one, other):
            merging.merge(one, other)
    return merging.result()


def by_attributes(job: Job) -> Fusion:
    """Score PA. Scores only fall, so one that was true when it was noted is an upper bound: it is asked for again."""
    merging = Merging(job)
    scores = [(-merging.common(edge.producer, edge.consumer), index) for index, edge in enumerate(merging.edges)]
    heapq.heapify(scores)
    while scores:
        noted, index = heapq.heappop(scores)
        edge = merging.edges[index]
        one, other = merging.component(edge.producer), merging.component(edge.consumer)
        if not merging.fit(one, other):
            continue
        score = -merging.common(one, other)
        if score == noted:
            merging.merge(one, other)
        else:
            heapq.heappush(scores, (score, index))
    return merging.result()


def by_rate_between(job: Job) -> Fusion:
    """Merges the two components with the largest rate between them, as long as two fit."""
    merging = Merging(job)
    rates: list[dict[int, float]] = [defaultdict(float) for _ in job.operators]
    for edge in merging.edges:
        for one, other in ((edge.producer, edge.consumer), (edge.consumer, edge.producer)):
            rates[one][other] += edge.rate_per_s
    waiting = [(-edge.rate_per_s, edge.producer, edge.consumer) for edge in merging.edges]
    heapq.heapify(waiting)
    while waiting:
        noted, one, other = heapq.heappop(waiting)
        current = rates[one].get(other, 0.0)
        if not current or -noted != current or not merging.fit(one, other):
            continue
        kept, gone = merging.merge(one, other)
        for neighbour, rate in rates[gone].items():
            del rates[neighbour][gone]
            if neighbour != kept:
                rates[kept][neighbour] += rate
                rates[neighbour][kept] = rates[kept][neighbour]
                heapq.heappush(waiting, (-rates[kept][neighbour], kept, neighbour))
        rates[gone].clear()
    return merging.result()
