"""Algorithm 1 of Enorm: merge the two components with the largest score, as long as two fit.

By COMM the score is the rate from operator to operator; by PA it is the number of attributes in common, so that much
can still be merged afterwards. Both find what the paper's loop finds, which looks at all transfers after each merge.
"""

from __future__ import annotations

import heapq

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
