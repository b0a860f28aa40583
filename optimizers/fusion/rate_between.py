"""Algorithm 1 with the rate between *components* as the score: all transfers count that a merge would save.

Line 16 of the algorithm takes the rate between two operators. Many small transfers between two components can be more
than one large one elsewhere.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from optimizers.fusion.components import Fusion
from optimizers.fusion.job import Job
from optimizers.fusion.merging import Merging


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
