"""RLAS's last phase: replicas move, come or go one or two at a time under the problem's own cost model.

Tree and local search weigh placements by the load that all sources sustain. That is quick, but it knows nothing of one
source slowed and another not, of memory, or of waits. The problem's cost model does, and it judges the plan. A replica
that is idle for most of its time may well share a core. So there are at most as many replicas as cores and
operators that need little of one together, unless a start has more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from optimizers.candidates import Candidates
from optimizers.climbing import changes_of, climb
from optimizers.deadline import Deadline
from optimizers.interface import Problem
from optimizers.numa.moves import crowded, neighbours
from optimizers.numa.solution import PROVED, as_good, calmest, load_bound, roomiest
from optimizers.selection import estimate
from optimizers.space import counts_of
from twin.randomness import random_stream
from twin.rates.numa_job import NumaJob

SOON_S = 0.01
LITTLE = 0.5
"""Share of a core below which an operator needs little."""
LOST = 0.1
"""Relative error: sockets full of more replicas than cores bear up to so much less than predicted."""
BATCH = 100
"""Number of plans that are estimated at once."""
KICK = 3
"""Number of replicas that a kick moves elsewhere."""
EXCHANGED = 0.3
"""Share of the kicks that exchange two sockets as a whole instead; they differ where directions do."""
IN_VAIN = 12
"""Number of kicks in a row without a better plan after which the search ends."""


def polished(
    problem: Problem, job: NumaJob, starts: Sequence[np.ndarray], deadline: Deadline, bound: float | None
) -> tuple[list[np.ndarray], int]:
    """Best plans [o, l] reached from the best of the starts and the given plan, and the number of plans estimated: at
    most the problem's budget less what the answer needs. The starts themselves if there is no time or budget. bound: of
    the objective, to be reported."""
    kept = 1 + min(problem.alternatives, problem.budget // 2)
    if problem.budget <= kept + len(starts) or deadline.left_s < SOON_S:
        return list(starts[:kept]), 0
    left_s = None if deadline.left_s == math.inf else deadline.left_s
    known = Candidates(replace(problem, budget=problem.budget - kept, seconds=left_s))
    known.bound = bound
    given_ol = counts_of(problem.deployment, problem.deployment.plan)
    first = [*(each.astype(np.int64) for each in starts), given_ol]
    known.look_at(first)
    if not len(known):
        return list(starts[:kept]), 0
    _Polish(problem, job, known).run([row for row in map(known.row, first) if row is not None])
    rows = known.ranking.tolist()
    best = known.candidate(rows[0])
    tied = [row for row in rows if as_good(known.candidate(row), best)]
    tied = [tied[index] for index in roomiest(job, [known[row] for row in tied])]
    if problem.objective == "throughput_per_s":
        every = range(len(known))
        looked_at = [known[row] for row in every]
        tied.insert(0, calmest(job, looked_at, [known.candidate(row) for row in every], tied[0]))
    first_rows = list(dict.fromkeys([*tied, *rows]))[:kept]
    return [known[row].astype(float) for row in first_rows], known.evaluations


def crowded_more(
    problem: Problem,
    job: NumaJob,
    candidates: Sequence[np.ndarray],
    shared: Sequence[np.ndarray],
    deadline: Deadline,
    bound: float | None,
) -> tuple[list[np.ndarray], int]:
    """Plans polished from `shared`, which have more replicas than cores, if the best of them keeps up where the best
    candidate does not, or lets LOST more through; else the candidates. And the number of plans estimated."""
    best, asked = polished(problem, job, shared, deadline, bound)
    pair_ol = [each[0].astype(np.int64) for each in (candidates, best)]
    plans = [job.plan_of(problem.space.deployable(problem.deployment, counts_ol)) for counts_ol in pair_ol]
    found = estimate(problem, plans)
    (here, there), (before, after) = found.sane, found.objective
    more = problem.sign < 0.0 and after > (1.0 + LOST) * before
    return list(best if there > here or (there == here and more) else candidates), asked + len(plans)


def _of_little_work(job: NumaJob) -> int:
    """Number of operators that need less than LITTLE at the load that all cores together bear."""
    need_o = job.in_o * job.time_o / job.speed_l.max() * min(1.0, load_bound(job))
    return int(np.count_nonzero(need_o < LITTLE))


class _Polish:
    """Climbs from the best start, from the other starts, then from the best plan with some replicas elsewhere."""

    def __init__(self, problem: Problem, job: NumaJob, known: Candidates) -> None:
        self._problem, self._job, self._known = problem, job, known
        self._rng = random_stream(problem.seed, "rlas-polish")
        self._space = problem.space
        self._changes = changes_of(problem)
        self._scale = bool(problem.space.free_replicas)
        self._movable_o = np.flatnonzero(~problem.space.pinned_o(problem.deployment))
        starts = (int(known[row].sum()) for row in range(len(known)))
        self._most = max(int(job.cores_l.sum()) + _of_little_work(job), *starts)

    def run(self, starts: list[int]) -> None:
        """Climbs until the budget is spent, everything is let through, or several kicks in a row were in vain."""
        known = self._known
        self._climb(known[row] for row in sorted(set(starts), key=known.ranking.tolist().index))
        in_vain = 0
        while in_vain < IN_VAIN and not self._done() and len(self._movable_o):
            best = known.best
            self._climb([self._kicked(known[best])])
            in_vain = 0 if known.best != best else in_vain + 1

    def _climb(self, starts: Iterable[np.ndarray]) -> None:
        climb(self._known, self._near, starts, batch=BATCH, enough=self._done)

    def _near(self, here_ol: np.ndarray) -> Sequence[np.ndarray]:
        """All changes of a plan: of one or two replicas in random order, those that put no more replicas beyond cores
        first, then of whole operators."""
        near = neighbours(here_ol, self._most, self._scale)
        order = self._rng.permutation(len(near))
        if len(near):
            more_n = crowded(self._job, near[order]) > crowded(self._job, here_ol[None])
            order = order[np.argsort(more_n, kind="stable")]
        return [*near[order], *self._changes(here_ol)]

    def _kicked(self, counts_ol: np.ndarray) -> np.ndarray:
        """Plan some way from another one; it may not be in the space."""
        several = counts_ol.shape[1] > 1 and self._rng.random() < EXCHANGED
        return self._exchanged(counts_ol) if several else self._thrown(counts_ol)

    def _exchanged(self, counts_ol: np.ndarray) -> np.ndarray:
        """Plan with two sockets exchanged as a whole."""
        sockets = np.arange(counts_ol.shape[1])
        one, other = self._rng.choice(sockets, 2, replace=False)
        sockets[[one, other]] = other, one
        return counts_ol[:, sockets]

    def _thrown(self, counts_ol: np.ndarray) -> np.ndarray:
        """Plan with some replicas elsewhere or, where numbers are free, replaced by ones of other operators."""
        found_ol = counts_ol.copy()
        for _ in range(KICK):
            o = p = int(self._rng.choice(self._movable_o))
            if self._scale and found_ol[o].sum() > 1:
                p = int(self._rng.choice(self._movable_o))
            start, end = self._rng.choice(np.flatnonzero(found_ol[o])), int(self._rng.integers(found_ol.shape[1]))
            found_ol[o, start] -= 1
            found_ol[p, end] += 1
        return found_ol

    def _done(self) -> bool:
        """Whether no more plans may be looked at, or the best plan lets everything through already."""
        if self._known.left <= 0:
            return True
        best, throughput = self._known.candidate(self._known.best), self._problem.objective == "throughput_per_s"
        return throughput and best.sane and best.objective >= self._job.results_per_s * (1.0 - PROVED)
