"""What an operating system does with threads it knows nothing about: each goes where the fewest run, a core.

BriskStream, Table 6 ("OS"). The replicas are those of the deployment's plan; the order in which threads start is
random.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimizers.interface import Problem, Solution, Traits
from optimizers.socket_solution import solution
from twin.randomness import stream
from twin.rates.numa_job import NumaJob


@dataclass(frozen=True, slots=True)
class Spread:
    """Satisfies `interface.Optimizer`."""

    traits: ClassVar = Traits(objective="throughput_per_s", baseline=True)
    name: str = "spread"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput for a stream that is not dealt evenly."""
        started_s = time.perf_counter()
        job = NumaJob(problem.deployment)
        replicas_o = job.counts_of(problem.deployment.plan).sum(axis=1)
        counts_ol = spread(job.cores_l, replicas_o, stream(problem.seed, "spread"))
        return solution(problem, job, [counts_ol], started_s=started_s)


def spread(cores_l: np.ndarray, replicas_o: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The placement [o, l] of so many replicas on sockets of so many cores."""
    counts_ol = np.zeros((len(replicas_o), len(cores_l)))
    for o in rng.permutation(np.repeat(np.arange(len(replicas_o)), replicas_o)):
        counts_ol[o, int(np.argmin(counts_ol.sum(axis=0) / cores_l))] += 1
    return counts_ol
