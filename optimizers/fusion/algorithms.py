"""The algorithms of fusion by which a plan is made, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optimizers.fusion.baseline import baseline
from optimizers.fusion.components import Fusion
from optimizers.fusion.exact import least_communication
from optimizers.fusion.greedy import by_attributes, by_communication
from optimizers.fusion.job import Job
from optimizers.patience import Patience
from twin.randomness import stream

SECONDS, PART, LEAST_S = 30.0, 0.5, 0.1
"""Of the exact solution, at most; of the time that there is; and at least."""

Fused = tuple[Fusion, float | None]
"""A fusion, and the least communication that any other has; None: not known."""


def _exact(job: Job, _: int, patience: Patience) -> Fused:
    found = least_communication(job, seconds=max(LEAST_S, min(SECONDS, PART * patience.left_s)))
    return found.fusion, found.bound


ALGORITHMS: Mapping[str, Callable[[Job, int, Patience], Fused]] = {
    "comm": lambda job, *_: (by_communication(job), None),
    "pa": lambda job, *_: (by_attributes(job), None),
    "baseline": lambda job, seed, _: (baseline(job, stream(seed, "fusion-baseline")), None),
    "exact": _exact,
}
"""Given a seed, and until when there is time. Each raises BadInput for a job that it cannot fuse."""
