"""The paper's baseline: grow a component from the first operator, then from random ones (Enorm, Section 7.6)."""

from __future__ import annotations

import numpy as np

from optimizers.fusion.components import Fusion
from optimizers.fusion.job import Job
from optimizers.fusion.merging import Merging


def baseline(job: Job, rng: np.random.Generator, *, whole: bool = True) -> Fusion:
    """A component takes in the operator downstream with which it has most attributes in common, as long as one fits.

    It begins at the first operator, then at random ones that are still alone. whole: what it takes in may already be
    part of a component, which then comes along. The paper does not say; only so has COMM the most components, as it
    reports.
    """
    merging = Merging(job)
    consumers: list[list[int]] = [[] for _ in job.operators]
    for edge in merging.edges:
        consumers[edge.producer].append(edge.consumer)
    for start in [0, *rng.permutation(np.arange(1, len(consumers))).tolist()]:
        if len(merging.members[merging.component(start)]) == 1:
            _grow(merging, start, consumers, whole)
    return merging.result()


def _grow(merging: Merging, start: int, consumers: list[list[int]], whole: bool) -> None:
    while True:
        grown = merging.component(start)
        downstream = (merging.component(each) for member in merging.members[grown] for each in consumers[member])
        fitting = [
            each for each in downstream if merging.fit(grown, each) and (whole or len(merging.members[each]) == 1)
        ]
        if not fitting:
            return
        merging.merge(grown, max(fitting, key=lambda each: merging.common(grown, each)))
