"""Random replication and placement on sockets: the plans that BriskStream's Fig. 14 compares with."""

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
class RandomSockets:
    """One random plan; most_replicas: of all operators together, None: one a core."""

    traits: ClassVar = Traits(objective="throughput_per_s", baseline=True)
    name: str = "random-sockets"
    most_replicas: int | None = None

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput for a stream that is not dealt evenly."""
        started_s = time.perf_counter()
        job = NumaJob(problem.deployment)
        most = int(job.cores_l.sum()) if self.most_replicas is None else self.most_replicas
        counts_ol = scattered(job, most, stream(problem.seed, "random-sockets"))
        return solution(problem, job, [counts_ol], started_s=started_s)


def scattered(job: NumaJob, most_replicas: int, rng: np.random.Generator) -> np.ndarray:
    """Each operator one replica, then one more of a random one until the limit; each on a random socket. [o, l]"""
    operators, sockets = len(job.operators), len(job.locations)
    more = rng.integers(operators, size=max(0, most_replicas - operators))
    replicas_o = 1 + np.bincount(more, minlength=operators)
    counts_ol = np.zeros((operators, sockets))
    np.add.at(counts_ol, (np.repeat(np.arange(operators), replicas_o), rng.integers(sockets, size=replicas_o.sum())), 1)
    return counts_ol
