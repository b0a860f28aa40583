"""RLAS's last phase: one replica or two at a time move, come or go under the problem's own cost model.

Tree and local search weigh placements by the load that all sources sustain. That is quick, but it knows nothing of one
source slowed and another not, of memory, or of waits. The problem's cost model does, and it is what the plan is judged
by. No step puts more replicas beyond the cores of their sockets, as threads are bound to cores.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimizers.interface import Problem
from optimizers.milp.candidates import Candidates
from optimizers.socket_moves import crowded, neighbours
from optimizers.socket_solution import PROVED
from optimizers.space import counts_of
from twin.randomness import stream
from twin.rates.numa_job import NumaJob

SOON_S = 0.01
BATCH = 100
"""Plans that are estimated at once."""


def polished(
    problem: Problem, job: NumaJob, starts: Sequence[np.ndarray], until_s: float | None
) -> tuple[list[np.ndarray], int]:
    """The best plans [o, l] reached from the best of the starts and the given plan, and how many were estimated.

    Those are at most the problem's budget less what the answer needs; until_s: as time.perf_counter() tells it. The
    starts themselves where there is no time or budget.
    """
    kept = 1 + problem.alternatives
    left_s = None if until_s is None else until_s - time.perf_counter()
    if problem.budget <= kept + len(starts) or (left_s is not None and left_s < SOON_S):
        return list(starts[:kept]), 0
    known = Candidates(replace(problem, budget=problem.budget - kept, seconds=left_s), problem.space)
    given_ol = counts_of(problem.deployment, problem.deployment.plan)
    known.look_at([*(each.astype(np.int64) for each in starts), given_ol], always=True)
    if not len(known):
        return list(starts[:kept]), 0
    rng, most = stream(problem.seed, "rlas-polish"), int(job.cores_l.sum())
    while (
        known.left > 0
        and not _all_through(problem, job, known)
        and _stepped(known, job, most, rng, scale=bool(problem.space.free_replicas))
    ):
        pass
    return [known.counts(int(row)).astype(float) for row in known.ranking[:kept]], known.evaluations


def _all_through(problem: Problem, job: NumaJob, known: Candidates) -> bool:
    """Whether the best plan already lets everything through, so that more replicas gain nothing."""
    best, throughput = known.candidate(known.best), problem.objective == "throughput_per_s"
    return throughput and best.sane and best.objective >= job.results_per_s * (1.0 - PROVED)


def _stepped(known: Candidates, job: NumaJob, most: int, rng: np.random.Generator, *, scale: bool) -> bool:
    """Whether some change of the best plan known is better; a batch of them after the other, until one is."""
    here = known.best
    near = neighbours(known.counts(here), most, scale)
    near = near[crowded(job, near) <= crowded(job, known.counts(here)[None])[0]] if len(near) else near
    order = rng.permutation(len(near))
    for first in range(0, len(near), BATCH):
        known.look_at(near[order[first : first + BATCH]])
        if known.best != here or known.left <= 0:
            return known.best != here
    return False
