"""A space of plans as the search on sockets needs it: where an operator's replicas may be, and whose numbers stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optimizers.interface import Problem
from optimizers.memory import enough_memory
from optimizers.scalable import free_o, tied
from optimizers.space import counts_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.rates.coefficients import PlacementCoefficients

MOST = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class SocketSpace:
    """allowed_ol: where replicas may be. home_ol: the given plan. pinned_o: who stays there; kept_o: whose numbers of
    replicas stay. most_replicas: of an operator. tied: operators that have equally many."""

    allowed_ol: np.ndarray
    home_ol: np.ndarray
    pinned_o: np.ndarray
    kept_o: np.ndarray
    most_replicas: int
    tied: tuple[list[int], ...] = ()

    @classmethod
    def of(cls, problem: Problem, name: str) -> SocketSpace:
        """Hosts without memory for an operator are left out, if others have it.

        Raises BadInput for what the search (name: whose it is) does not keep to: Costream's rules, a number of moves,
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
        free = free_o(job, pinned_o) & bool(space.free_replicas) & ~_copied_o(job)
        groups = tuple(group for group in tied(job) if len(group) > 1)
        for group in groups:
            free[group] = free[group].all()
        return cls(allowed_ol, counts_of(job, job.plan), pinned_o, ~free, space.most_replicas, groups)

    @classmethod
    def everything(cls, operators: int, sockets: int) -> SocketSpace:
        """Any placement of any replicas."""
        none_o, nothing_ol = np.zeros(operators, bool), np.zeros((operators, sockets), np.int64)
        return cls(nothing_ol == 0, nothing_ol, none_o, none_o, MOST)

    def levelled(self, replicas_o: np.ndarray, level: Callable[[np.ndarray], int]) -> np.ndarray:
        """Numbers of replicas [o] with those that are tied made equal, to the least or the greatest of them."""
        found_o = replicas_o.copy()
        for group in self.tied:
            found_o[group] = level(found_o[group])
        return found_o

    def holds(self, counts_nol: np.ndarray) -> np.ndarray:
        """Which of these placements it has. [n]"""
        inside_n = ~((counts_nol > 0) & ~self.allowed_ol & ~self.pinned_o[:, None]).any(axis=(1, 2))
        home_n = (counts_nol == self.home_ol)[:, self.pinned_o].all(axis=(1, 2))
        replicas_no = counts_nol.sum(axis=2)
        same_n = (replicas_no == self.home_ol.sum(axis=1))[:, self.kept_o].all(axis=1)
        for group in self.tied:
            same_n &= (replicas_no[:, group] == replicas_no[:, group[:1]]).all(axis=1)
        return np.asarray(inside_n & home_n & same_n & (replicas_no <= self.most_replicas)[:, ~self.kept_o].all(axis=1))


def _copied_o(job: Deployment) -> np.ndarray:
    """Whether each replica gets all tuples of some stream, so that more replicas make more of the same. [o]"""
    ways = [[job.query.partitioning(each) for each in job.query.inputs(o.name)] for o in job.query.topological]
    return np.array([any(way.copies for way in each) for each in ways])
