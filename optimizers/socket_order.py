"""Which of several placements on sockets come first, before the problem's cost model is asked."""

from __future__ import annotations

import numpy as np

from optimizers.scaling import Placed
from optimizers.socket_moves import borne, crowded
from twin.rates.numa_job import NumaJob


def by_load(placed: Placed) -> float:
    """Less is better."""
    return -placed.load


def different(placements: list[np.ndarray]) -> list[np.ndarray]:
    """Each once, in their order."""
    return list({each.astype(int).tobytes(): each for each in placements}.values())


def best_first(job: NumaJob, placements: list[np.ndarray]) -> list[np.ndarray]:
    """Different ones, those with a core for each replica first, by the load they bear."""
    counts_nol = np.array(different(placements))
    order = np.lexsort((-borne(job, counts_nol)[0], crowded(job, counts_nol)))
    return [counts_nol[index] for index in order]
