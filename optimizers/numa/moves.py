"""Iterated local search on sockets: the best of all small changes, again and again; then a kick, and it starts anew.

Changes: a replica goes to another socket; two of different operators exchange their sockets; one is added; one is
removed and one of another operator added, anywhere. All are estimated in one batch. Plans with a core for each replica
come first: threads are bound to cores (Section 6.1), and one that needs nearly all of a core never makes up for the
time that others take. Then a higher load that is borne; of equal ones, less work in all, which leaves room for later
steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optimizers.numa.space import SocketSpace
from twin.rates.numa_job import NumaJob
from twin.rates.numa_rates import results_share, sustained

CLOSE = 1e-6
"""Relative difference below which loads count as equal."""
STEPS = 500
PRESSED = 0.75
"""Share of a core above which a replica never makes up for the time that it loses to others there."""
KICK = 6
"""Number of replicas that a kick moves elsewhere."""
IN_VAIN = 12
"""Number of kicks in a row without a better placement after which the search ends."""


def searched(
    job: NumaJob,
    counts_ol: np.ndarray,
    most_replicas: int,
    rng: np.random.Generator,
    spent: Callable[[int], bool],
    space: SocketSpace,
    *,
    scale: bool = True,
) -> tuple[np.ndarray, int]:
    """Best placement found from a first one, and the number of placements weighed.

    spent: whether that number weighed is enough. most_replicas, scale: as in `improved`.
    """
    best, weighed = improved(job, counts_ol, most_replicas, space, scale=scale, spent=spent)
    worth, in_vain = _worth(job, best[None])[:, 0], 0
    while not space.pinned_o.all() and in_vain < IN_VAIN and worth[1] < 1.0 - CLOSE and not spent(weighed):
        found, more = improved(job, _kicked(best, rng, space), most_replicas, space, scale=scale, spent=spent)
        weighed += more
        reached = _worth(job, found[None])[:, 0]
        in_vain = 0 if _better(reached[:2], worth[:2]) else in_vain + 1
        if not in_vain:
            best, worth = found, reached
    return best, weighed


def _better(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether `one` is better than `other` in the first value in which they differ by more than rounding."""
    for ours, theirs in zip(one.tolist(), other.tolist(), strict=True):
        if abs(ours - theirs) > CLOSE * abs(theirs):
            return bool(ours > theirs)
    return False


def _kicked(counts_ol: np.ndarray, rng: np.random.Generator, space: SocketSpace) -> np.ndarray:
    """Placement with some replicas elsewhere, each operator with as many as before."""
    found = counts_ol.copy()
    for _ in range(KICK):
        o = int(rng.choice(np.flatnonzero(~space.pinned_o)))
        start, end = rng.choice(np.flatnonzero(found[o])), int(rng.choice(np.flatnonzero(space.allowed_ol[o])))
        found[o, start] -= 1
        found[o, end] += 1
    return found


def improved(
    job: NumaJob,
    counts_ol: np.ndarray,
    most_replicas: int,
    space: SocketSpace,
    *,
    steps: int = STEPS,
    scale: bool = True,
    spent: Callable[[int], bool] | None = None,
) -> tuple[np.ndarray, int]:
    """Placement that no small change improves, or that `steps` steps reach, and the number of placements weighed.

    spent: whether that number weighed is enough, asked at each step. most_replicas: of all operators together. scale:
    whether their numbers may change."""
    here, weighed = counts_ol.astype(float), 0
    worth = _worth(job, here[None])[:, 0]
    for _ in range(steps):
        changes = neighbours(here, most_replicas, scale)
        changes = changes[space.holds(changes)]
        if not len(changes):  # one socket, and no replica to spare
            break
        worths = _worth(job, changes)
        weighed += len(changes)
        best = int(np.lexsort(worths[::-1])[-1])
        if not _better(worths[:, best], worth):
            break
        if spent is not None and spent(weighed):
            return changes[best], weighed
        here, worth = changes[best], worths[:, best]
    return here, weighed


def _worth(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[3, n] worth of placements, more is better, the first number above all: replicas without a core of their own,
    negative; load that is borne, in steps of CLOSE; load that all cores together could bear."""
    borne_n, total_n = borne(job, counts_nol)
    scale = CLOSE * max(float(borne_n.max()), 1e-300)
    return np.stack([-crowded(job, counts_nol), np.round(borne_n / scale) * scale, total_n])


def borne(job: NumaJob, counts_nol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sustained load [n] (of several sources, the share of all results), and load that all cores could bear [n]."""
    found = sustained(job, counts_nol)
    if len(job.sources) == 1 or not job.additive:
        return found.load_n, found.total_n
    return results_share(job, counts_nol), found.total_n


def crowded(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[n] number of replicas beyond the cores of their socket."""
    return np.asarray(np.maximum(counts_nol.sum(axis=1) - job.cores_l, 0).sum(axis=1))


def pressed(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[n] cores that replicas need beyond PRESSED of a core each for the load borne, summed, on crowded sockets."""
    needs_no = np.minimum(borne(job, counts_nol)[0], 1.0)[:, None] * job.in_o * job.time_o / counts_nol.sum(axis=2)
    over_nl = counts_nol.sum(axis=1) > job.cores_l
    beyond_no = np.maximum(needs_no - PRESSED, 0.0)
    return np.round(np.einsum("nol,nl,no->n", counts_nol, over_nl.astype(float), beyond_no), 6)


def loosened(job: NumaJob, counts_ol: np.ndarray, most_replicas: int, space: SocketSpace) -> np.ndarray:
    """Placement with replicas added beside pressed ones until none is pressed, at most so many in all."""
    found = counts_ol.copy()
    while found.sum() < most_replicas and pressed(job, found[None])[0]:
        over_l = found.sum(axis=0) > job.cores_l
        needs_o = job.in_o * job.time_o / found.sum(axis=1) * (found * over_l).any(axis=1)
        o = int(np.argmax(needs_o))
        found[o, int(np.argmax(found[o] * over_l))] += 1
        if not space.holds(found[None])[0]:
            return counts_ol
    return found


def neighbours(counts_ol: np.ndarray, most_replicas: int, scale: bool) -> np.ndarray:
    """All placements one change away [n, o, l]."""
    operators, sockets = range(counts_ol.shape[0]), range(counts_ol.shape[1])
    taken = [(o, j) for o in operators for j in sockets if counts_ol[o, j] > 0]
    deltas: list[tuple[tuple[int, int], ...]] = []  # loses a replica, gains one, in turn
    deltas += [((o, i), (o, j)) for o, i in taken for j in sockets if i != j]
    deltas += [((o, i), (p, i), (p, j), (o, j)) for o, i in taken for p, j in taken if o < p and i != j]
    if scale:
        spare = [(o, i) for o, i in taken if counts_ol[o].sum() > 1]
        deltas += [((o, i), (p, j)) for o, i in spare for p in operators if p != o for j in sockets]
        if counts_ol.sum() < most_replicas:
            deltas += [((-1, -1), (o, j)) for o in operators for j in sockets]
    changed = np.pad(np.repeat(counts_ol[None], len(deltas), axis=0), ((0, 0), (0, 1), (0, 1)))  # -1 is thrown away
    for length in (2, 4):
        rows = [row for row, delta in enumerate(deltas) if len(delta) == length]
        for step in range(length if rows else 0):
            o, j = np.array([deltas[row][step] for row in rows]).T
            changed[rows, o, j] += 1 if step % 2 else -1
    return changed[:, :-1, :-1]


def different(placements: list[np.ndarray]) -> list[np.ndarray]:
    """Placements without repetitions, in their order."""
    return list({each.astype(int).tobytes(): each for each in placements}.values())


def best_first(job: NumaJob, placements: list[np.ndarray]) -> list[np.ndarray]:
    """Different placements by the load they bear; those with a core for each replica come first."""
    counts_nol = np.array(different(placements))
    order = np.lexsort((-borne(job, counts_nol)[0], crowded(job, counts_nol)))
    return [counts_nol[index] for index in order]
