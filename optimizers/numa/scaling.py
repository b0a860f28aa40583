"""BriskStream's topologically sorted iterative scaling (Section 4, Algorithm 1), which sets numbers of replicas.

From the sinks towards the sources, the first operator that is sent more than it can take gets more replicas,
everything is placed anew, and so on, until nothing is over-supplied or the replicas are used up. The best placement on
the way is the answer. The paper begins with one replica each; scaling here begins with half of the replicas that
operators need, so that little time gives a good plan too: smaller numbers teach nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from optimizers.numa.space import SocketSpace
from twin.rates.numa_job import NumaJob
from twin.rates.numa_rates import free_running, sustained, times

OVER = 1.001
"""Ratio of supply to intake above which an operator is a bottleneck."""
SOURCE_STEP = 1.25
"""Growth of sources a step: their supply says nothing of the replicas they need, as they are always offered more."""
HALF = 0.5
"""Share of the needed replicas with which scaling begins."""
ROUNDS = 6
"""Most placements of all replicas in proportion to the times of the placement before: four settle 576 on 32 sockets."""
PATIENCE = 30
"""Number of placements in a row that are no better after which scaling ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Placement [o, l] and the load that it bears. bound: no placement of as many replicas bears more; inf if not
    proved."""

    counts_ol: np.ndarray
    load: float
    bound: float = math.inf


def proportioned(
    job: NumaJob, place: Callable[[np.ndarray], Placed], most_replicas: int, space: SocketSpace
) -> Iterator[Placed]:
    """Yields placements of all replicas at once: first as many of each operator as it needs if nothing is fetched, then
    in proportion to the times of tuples where they were placed, with fetching; at most ROUNDS, while numbers change."""
    time_o, tried = job.time_o, set[bytes]()
    for _ in range(ROUNDS):
        replicas_o = in_proportion(job, most_replicas, space, time_o=time_o)
        if (key := replicas_o.tobytes()) in tried:
            return
        tried.add(key)
        yield (placed := place(replicas_o))
        time_o = mean_times(job, placed.counts_ol)


def mean_times(job: NumaJob, counts_ol: np.ndarray) -> np.ndarray:
    """[o] mean time of an input tuple over an operator's replicas, in reference-core seconds."""
    share_ol = counts_ol / counts_ol.sum(axis=1, keepdims=True)
    return np.asarray((share_ol * times(job, share_ol[None])[0]).sum(axis=1))


def in_proportion(
    job: NumaJob, most_replicas: int, space: SocketSpace, share: float = 1.0, *, time_o: np.ndarray | None = None
) -> np.ndarray:
    """[o] numbers of replicas: that share of what operators need, one each at least; all together at most
    `most_replicas`, unless there are more operators than that. time_o: of a tuple; None: nothing is fetched."""
    need_o = job.in_o * (job.time_o if time_o is None else time_o) / job.speed_l.max()
    wanted_o = share * need_o * min(1.0, most_replicas / np.ceil(need_o).sum())
    found_o = np.ceil(wanted_o - 1e-9).astype(int)
    if found_o.sum() > most_replicas:
        found_o = np.floor(wanted_o).astype(int)
    found_o = space.levelled(np.clip(found_o, 1, space.most_replicas), np.max)
    while found_o.sum() > most_replicas and found_o.max() > 1:  # small ones were rounded up
        found_o[found_o.argmax()] -= 1
    found_o = space.levelled(found_o, np.min)
    return np.where(space.kept_o, space.home_ol.sum(axis=1), found_o)


def scaled(
    job: NumaJob,
    place: Callable[[np.ndarray], Placed],
    most_replicas: int,
    space: SocketSpace,
    *,
    refine: bool = True,
    first_o: np.ndarray | None = None,
) -> Iterator[Placed]:
    """Yields each placement on the way. first_o: the first numbers of replicas, one each by default.

    place: returns the best placement of numbers of replicas. refine: where cores stop a plan before any replica
    does, operators are split further, although none is over-supplied, so that they fill the sockets better ("failed to
    allocate", Appendix D). space: which numbers stay, and the most replicas of an operator.
    """
    replicas_o = np.where(space.kept_o, space.home_ol.sum(axis=1), 1 if first_o is None else first_o)
    best, without_gain = -math.inf, 0
    while without_gain < PATIENCE:
        placed = place(replicas_o)
        yield placed
        without_gain = 0 if placed.load > best * (1.0 + 1e-6) else without_gain + 1
        best = max(best, placed.load)
        wanted_o = _wanted(job, placed.counts_ol, replicas_o, space.kept_o)
        if (wanted_o == replicas_o).all() and refine:
            wanted_o = _split(job, placed.counts_ol, replicas_o, space.kept_o)
        wanted_o = space.levelled(wanted_o, np.max)
        wanted_o = np.where(space.kept_o, wanted_o, np.minimum(wanted_o, space.most_replicas))
        if wanted_o.sum() > most_replicas:
            left = max(0, most_replicas - int(replicas_o.sum()))  # one each may be more than that
            left //= max(1, int(np.count_nonzero(wanted_o > replicas_o)))  # those that are tied grow together
            wanted_o = replicas_o + np.minimum(wanted_o - replicas_o, left)
        if (wanted_o == replicas_o).all():
            return
        replicas_o = wanted_o


def _wanted(job: NumaJob, counts_ol: np.ndarray, replicas_o: np.ndarray, kept_o: np.ndarray) -> np.ndarray:
    """[o] numbers of replicas with more for the bottleneck nearest to the sinks, by the ratio of its over-supply."""
    found = free_running(job, counts_ol[None])
    over_o = found.supplied_no[0] / np.maximum(found.taken_no[0], 1e-300)
    for o in reversed(range(len(replicas_o))):
        if over_o[o] > OVER and not kept_o[o]:
            ratio = min(over_o[o], SOURCE_STEP) if o in job.sources else over_o[o]
            return replicas_o + np.where(np.arange(len(replicas_o)) == o, math.ceil(replicas_o[o] * (ratio - 1.0)), 0)
    return replicas_o


def _split(job: NumaJob, counts_ol: np.ndarray, replicas_o: np.ndarray, kept_o: np.ndarray) -> np.ndarray:
    """[o] replicas, with one more of the heaviest on the socket that is full first, if cores are short."""
    found = sustained(job, counts_ol[None])
    if kept_o.all() or found.load_n[0] >= 1.0 or found.cpu_nl[0].min() > found.load_n[0] * OVER:
        return replicas_o
    full = int(found.cpu_nl[0].argmin())
    each_o = job.in_o * found.time_nol[0, :, full] / replicas_o
    heaviest = int(np.where((counts_ol[:, full] > 0) & ~kept_o, each_o, -1.0).argmax())
    return replicas_o + (np.arange(len(replicas_o)) == heaviest)
