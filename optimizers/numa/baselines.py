"""Baselines of RLAS: placements that weigh no distances (BriskStream, Table 6 and Fig. 14).

First fit and round robin keep to the constraints of equations 3 to 5 at the load that the job could bear if no record
came from afar, and relax these step by step until everything has found a place. First fit goes through the operators in
data-flow order and takes the first socket with room, so that neighbours meet (as T-Storm does); round robin goes on to
the next socket after each subtask (as R-Storm does, to balance resources). Spread is an operating system's placement of
unknown threads: each goes where the fewest run, a core ("OS"). These keep the numbers of subtasks of the
deployment's plan; random sockets draw both numbers and places.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimizers.interface import Problem, Solution, Traits
from optimizers.numa.space import solution
from twin.randomness import random_stream
from twin.rates.numa_rates import NumaJob, Sustained, sustained

RELAXED = 1.1
"""Factor by which constraints are relaxed until all subtasks fit."""


@dataclass(frozen=True, slots=True)
class FirstFit:
    """First-fit placement. turn: whether each subtask begins at the socket after the last one's (round robin)."""

    traits: ClassVar = Traits(objective="throughput_per_s", baseline=True)
    name: str = "first-fit"
    turn: bool = False

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput for a stream that is not dealt evenly."""
        started_s = time.perf_counter()
        job = NumaJob(problem.deployment)
        counts_ol = fitted(job, job.counts_of(problem.deployment.plan).sum(axis=1), turn=self.turn)
        return solution(problem, job, [counts_ol], started_s=started_s)


def fitted(job: NumaJob, subtasks_o: np.ndarray, *, turn: bool) -> np.ndarray:
    """First-fit placement [o, l] of so many subtasks. turn: round robin."""
    nothing = np.zeros((len(subtasks_o), len(job.locations)))
    load = float(sustained(job, nothing[None], subtasks_o[None]).load_n[0])
    while True:
        found = _within(job, subtasks_o, load, turn)
        if found is not None:
            return found
        load /= RELAXED


def _within(job: NumaJob, subtasks_o: np.ndarray, load: float, turn: bool) -> np.ndarray | None:
    """Placement whose resources all bear that load, or None if some subtask has no room anywhere."""
    sockets = len(job.locations)
    counts_ol = np.zeros((len(subtasks_o), sockets))
    first = 0
    for o, count in enumerate(subtasks_o):
        for _ in range(int(count)):
            tried_nol = np.repeat(counts_ol[None], sockets, axis=0)
            tried_nol[np.arange(sockets), o, np.arange(sockets)] += 1
            order = (np.arange(sockets) + first) % sockets
            room = _resources(sustained(job, tried_nol, subtasks_o - tried_nol.sum(axis=2)))[order] >= load
            if not room.any():
                return None
            socket = int(order[room.argmax()])
            counts_ol = tried_nol[socket]
            if turn:
                first = socket + 1
    return counts_ol


def _resources(found: Sustained) -> np.ndarray:
    """[n] load at which the first shared resource is full."""
    limits = (found.cpu_nl, found.memory_nl, found.channel_nij.reshape(len(found.load_n), -1), found.card_nh)
    return np.asarray(np.min([each.min(axis=1) for each in limits], axis=0))


@dataclass(frozen=True, slots=True)
class Spread:
    """Satisfies `interface.Optimizer`."""

    traits: ClassVar = Traits(objective="throughput_per_s", baseline=True)
    name: str = "spread"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput for a stream that is not dealt evenly."""
        started_s = time.perf_counter()
        job = NumaJob(problem.deployment)
        subtasks_o = job.counts_of(problem.deployment.plan).sum(axis=1)
        counts_ol = spread(job.cores_l, subtasks_o, random_stream(problem.seed, "spread"))
        return solution(problem, job, [counts_ol], started_s=started_s)


def spread(cores_l: np.ndarray, subtasks_o: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Spread placement [o, l] of so many subtasks on sockets of so many cores."""
    counts_ol = np.zeros((len(subtasks_o), len(cores_l)))
    for o in rng.permutation(np.repeat(np.arange(len(subtasks_o)), subtasks_o)):
        counts_ol[o, int(np.argmin(counts_ol.sum(axis=0) / cores_l))] += 1
    return counts_ol


@dataclass(frozen=True, slots=True)
class RandomSockets:
    """Random placement: one plan. most_subtasks: of all operators together; None: one a core."""

    traits: ClassVar = Traits(objective="throughput_per_s", baseline=True)
    name: str = "random-sockets"
    most_subtasks: int | None = None

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput for a stream that is not dealt evenly."""
        started_s = time.perf_counter()
        job = NumaJob(problem.deployment)
        most = int(job.cores_l.sum()) if self.most_subtasks is None else self.most_subtasks
        counts_ol = scattered(job, most, random_stream(problem.seed, "random-sockets"))
        return solution(problem, job, [counts_ol], started_s=started_s)


def scattered(job: NumaJob, most_subtasks: int, rng: np.random.Generator) -> np.ndarray:
    """[o, l] random placement: one subtask an operator, then more of random ones; each on a random socket."""
    operators, sockets = len(job.operators), len(job.locations)
    more = rng.integers(operators, size=max(0, most_subtasks - operators))
    subtasks_o = 1 + np.bincount(more, minlength=operators)
    counts_ol = np.zeros((operators, sockets))
    np.add.at(counts_ol, (np.repeat(np.arange(operators), subtasks_o), rng.integers(sockets, size=subtasks_o.sum())), 1)
    return counts_ol
