"""Space of plans for the search on sockets, and classes of interchangeable sockets.

A symmetry exchanges equal sockets, and others with them, which changes nothing of a job: among identical sub-problems
only one is looked at (BriskStream, Section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from optimizers.counted import enough_memory
from optimizers.interface import Problem
from optimizers.space import counts_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.numa_job import NumaJob

MOST = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class SocketSpace:
    """Space of placements on sockets. allowed_ol: where replicas may be. home_ol: the given plan. pinned_o: operators
    that stay there; kept_o: operators whose numbers of replicas stay. most_replicas: of an operator. tied: of equal
    number."""

    allowed_ol: np.ndarray
    home_ol: np.ndarray
    pinned_o: np.ndarray
    kept_o: np.ndarray
    most_replicas: int
    tied: tuple[list[int], ...] = ()

    @classmethod
    def of(cls, problem: Problem, name: str) -> SocketSpace:
        """Space of a problem; hosts without memory for an operator are left out, if others have it.

        Raises BadInput for limits that the optimizer (`name`) does not keep to: Costream's rules, a number of moves,
        all replicas on one socket.
        """
        job, space = problem.deployment, problem.space
        if space.costream_rules or space.most_moves is not None or space.spread is False:
            raise BadInput(
                f"{name} keeps to no rules, no number of moves, and no replicas together; use milp or local-search"
            )
        allowed_ol = space.allows_ol(job)
        roomy_ol = allowed_ol & enough_memory(PlacementCoefficients.of(job))
        allowed_ol = np.where(roomy_ol.any(axis=1, keepdims=True), roomy_ol, allowed_ol)
        pinned_o = space.pinned_o(job)
        free = space.free_o(job) & bool(space.free_replicas) & ~_copied_o(job)
        groups = tuple(group for group in space.tied(job) if len(group) > 1)
        for group in groups:
            free[group] = free[group].all()
        return cls(allowed_ol, counts_of(job, job.plan), pinned_o, ~free, space.most_replicas, groups)

    @classmethod
    def everything(cls, operators: int, sockets: int) -> SocketSpace:
        """Space of all placements of any numbers of replicas."""
        none_o, nothing_ol = np.zeros(operators, bool), np.zeros((operators, sockets), np.int64)
        return cls(nothing_ol == 0, nothing_ol, none_o, none_o, MOST)

    def levelled(self, replicas_o: np.ndarray, level: Callable[[np.ndarray], int]) -> np.ndarray:
        """Numbers of replicas [o] with those that are tied made equal, to the least or the greatest of them."""
        found_o = replicas_o.copy()
        for group in self.tied:
            found_o[group] = level(found_o[group])
        return found_o

    def holds(self, counts_nol: np.ndarray) -> np.ndarray:
        """[n] whether the space has each of these placements."""
        inside_n = ~((counts_nol > 0) & ~self.allowed_ol & ~self.pinned_o[:, None]).any(axis=(1, 2))
        home_n = (counts_nol == self.home_ol)[:, self.pinned_o].all(axis=(1, 2))
        replicas_no = counts_nol.sum(axis=2)
        same_n = (replicas_no == self.home_ol.sum(axis=1))[:, self.kept_o].all(axis=1)
        for group in self.tied:
            same_n &= (replicas_no[:, group] == replicas_no[:, group[:1]]).all(axis=1)
        return np.asarray(inside_n & home_n & same_n & (replicas_no <= self.most_replicas)[:, ~self.kept_o].all(axis=1))


def _copied_o(job: Deployment) -> np.ndarray:
    """[o] whether each replica gets all tuples of some stream, so that more replicas make more of the same."""
    ways = [[job.query.partitioning(each) for each in job.query.inputs(o.name)] for o in job.query.topological]
    return np.array([any(way.copies for way in each) for each in ways])


MAX_STEPS = 20_000
"""Most steps of the search for a symmetry, after which sockets count as different, which is never wrong."""


class Symmetry:
    """Symmetries of a job's sockets: of capacities, operators allowed, and distances and channels of all pairs."""

    def __init__(self, job: NumaJob, allowed_ol: np.ndarray | None = None) -> None:
        columns = [job.capacity_l, job.speed_l, job.memory_l, job.cores_l, job.card_h[job.host_l]]
        columns += [] if allowed_ol is None else list(allowed_ol)
        self._kind_l = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()
        pairs = np.concatenate([job.fetch_sij, job.send_sij, job.channel_ij[None], job.apart_ij[None]])
        flat = np.ascontiguousarray(pairs.transpose(1, 2, 0).reshape(-1, len(pairs)))
        self._pair_ij = np.unique(flat, axis=0, return_inverse=True)[1].reshape(job.apart_ij.shape)
        self.distinct = cache(self._distinct)

    def _distinct(self, used: frozenset[int]) -> tuple[int, ...]:
        """Used sockets, and one of each class of unused ones that some symmetry exchanges without moving a used one."""
        found: list[int] = []
        for socket in range(len(self._kind_l)):
            if socket in used or not any(self._exchange(used, other, socket) for other in found if other not in used):
                found.append(socket)
        return tuple(found)

    def _exchange(self, used: frozenset[int], one: int, other: int) -> bool:
        """Whether a symmetry that leaves the used sockets in place takes `one` to `other`."""
        image = {socket: socket for socket in used}
        if not self._fits(image, one, other):
            return False
        image[one] = other
        rest = [socket for socket in range(len(self._kind_l)) if socket not in image]
        self._steps = 0
        return self._complete(image, rest)

    def _complete(self, image: dict[int, int], rest: list[int]) -> bool:
        if not rest:
            return True
        first, *others = rest
        taken = set(image.values())
        for target in range(len(self._kind_l)):
            self._steps += 1
            if self._steps > MAX_STEPS:
                return False
            if target not in taken and self._fits(image, first, target):
                image[first] = target
                if self._complete(image, others):
                    return True
                del image[first]
        return False

    def _fits(self, image: dict[int, int], socket: int, target: int) -> bool:
        if self._kind_l[socket] != self._kind_l[target]:
            return False
        pair = self._pair_ij
        return pair[socket, socket] == pair[target, target] and all(
            pair[socket, a] == pair[target, b] and pair[a, socket] == pair[b, target] for a, b in image.items()
        )
