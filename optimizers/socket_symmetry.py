"""Which sockets are interchangeable: exchanging them, and others with them, changes nothing of a job.

BriskStream, Section 4: among identical sub-problems only one is looked at.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from twin.rates.numa_job import NumaJob

MAX_STEPS = 20_000
"""A search for a symmetry gives up after so many steps: the sockets then count as different, which is never wrong."""


class Symmetry:
    """The symmetries of a job's sockets: capacities, who may be there, distances and channels of all pairs."""

    def __init__(self, job: NumaJob, allowed_ol: np.ndarray | None = None) -> None:
        columns = [job.capacity_l, job.speed_l, job.memory_l, job.cores_l, *([] if allowed_ol is None else allowed_ol)]
        self._kind_l = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()
        pairs = np.concatenate([job.fetch_sij, job.send_sij, job.channel_ij[None], job.apart_ij[None]])
        flat = np.ascontiguousarray(pairs.transpose(1, 2, 0).reshape(-1, len(pairs)))
        cards = job.card_h[job.host_l]
        self._kind_l = np.unique(np.stack([self._kind_l, cards], axis=1), axis=0, return_inverse=True)[1].ravel()
        self._pair_ij = np.unique(flat, axis=0, return_inverse=True)[1].reshape(job.apart_ij.shape)
        self.distinct = cache(self._distinct)

    def _distinct(self, used: frozenset[int]) -> tuple[int, ...]:
        """The used sockets, and one of each class of unused ones that a symmetry which moves no used one exchanges."""
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
