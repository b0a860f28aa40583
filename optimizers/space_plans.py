"""Plans of a space, as replicas by operator and socket: counted, listed, and drawn.

An operator's options are the places that its replicas may have, whatever the others do; plans are all combinations that
the space holds (streams have a route, rules are kept). Under Costream's rules few combinations are left, so placements
come from `optimizers.enumeration`, which counts and draws them exactly.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from itertools import combinations

import numpy as np

from optimizers.counted import counts_on
from optimizers.enumeration import MAX_LISTED, PlacementSpace, different
from optimizers.space import Space, counts_of, host_of_sockets
from twin.deployment import Deployment
from twin.errors import BadInput

NOTHING = "no plan of the space was found ({words}); allow more hosts, pin fewer operators, or leave out the rules"


class SpacePlans:
    """Plans of one job. Raises BadInput if the space names unknown parts, or leaves numbers of replicas free."""

    def __init__(self, deployment: Deployment, space: Space) -> None:
        if space.free_replicas:
            raise BadInput(
                "plans with any number of replicas are not listed or drawn; use rlas or milp-hosts, or fix them"
            )
        self._job, self._space = deployment, space
        self._allowed_ol = space.allows_ol(deployment)
        self._host_l = host_of_sockets(deployment)
        self._home_ol, self._pinned_o = counts_of(deployment, deployment.plan), space.pinned_o(deployment)
        self._spread = space.spreads(deployment)
        one_socket = len(self._host_l) == len(deployment.cluster.hosts)
        self._ruled = (
            PlacementSpace(deployment.query, deployment.cluster) if space.costream_rules and one_socket else None
        )

    @property
    def exact(self) -> bool:
        """Whether `count` is exact; otherwise it is an upper bound."""
        return self._listable or (self._ruled_whole and self._ruled is not None and self._ruled.exact)

    @cached_property
    def count(self) -> int:
        """Number of plans, or an upper bound."""
        if self._ruled is not None and self._ruled_whole:
            return self._ruled.count
        return len(self._listed) if self._listable else self._combinations

    def all(self) -> np.ndarray:
        """Every plan [N, O, L], in a fixed order. Raises BadInput above MAX_LISTED combinations."""
        if not self._listable:
            raise BadInput(
                f"{self.count} plans are too many to list (at most {MAX_LISTED}); "
                "use an optimizer that samples (costream, local-search)"
            )
        return self._listed

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """At most `size` different plans [N, O, L], >= 1, at random; all, shuffled, if there are few.

        Uniform without replacement where the options of operators are independent, or under the rules alone. Raises
        BadInput if none is found.
        """
        if size < 1:
            raise BadInput(f"number of candidate placements must be >= 1, got {size}")
        if self._ruled is not None and self._ruled_whole:
            return self._counts(self._ruled.sample(rng, size))
        if self._listable and self.count <= 2 * size:
            return self._some(self._listed[rng.permutation(len(self._listed))[:size]])
        found = different(partial(self.draws, rng, size), size)
        if len(found) < size and self._listable:
            found = self._listed[rng.permutation(len(self._listed))]
        return self._some(found[:size])

    def draws(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws plans [N, O, L], with replacement: those of so many combinations that the space holds, maybe none."""
        if self._ruled is not None:
            found = self._counts(self._ruled.draws(rng, size))
            found[:, self._pinned_o] = self._home_ol[self._pinned_o]
        else:
            found = np.stack([self._drawn(o, rng, size) for o in range(len(self._home_ol))], axis=1)
        if self._space.most_moves is not None:
            order_no = rng.random(found.shape[:2]).argsort(axis=1)
            found = np.where((order_no < self._space.most_moves)[:, :, None], found, self._home_ol)
        return found[self._space.holds(self._job, found)]

    def _some(self, found: np.ndarray) -> np.ndarray:
        if not len(found):
            raise BadInput(NOTHING.format(words=self._space.words(self._job)))
        return found

    def _counts(self, hosts_no: np.ndarray) -> np.ndarray:
        return counts_on(self._job, hosts_no)

    @property
    def _ruled_whole(self) -> bool:
        """Whether Costream's rules are the only limit of the space, on hosts that all reach each other."""
        whole = self._allowed_ol.all() and not self._pinned_o.any() and self._space.most_moves is None
        return self._ruled is not None and bool(whole) and not self._job.cluster.links

    @cached_property
    def _combinations(self) -> int:
        return math.prod(self._ways(o) for o in range(len(self._home_ol)))

    @property
    def _listable(self) -> bool:
        if self._combinations <= MAX_LISTED:
            return True
        return self._ruled is not None and self._ruled.listable

    @cached_property
    def _listed(self) -> np.ndarray:
        if self._ruled is not None and self._ruled.listable:
            found = self._counts(self._ruled.all())
        else:
            options = [self._options(o) for o in range(len(self._home_ol))]
            index = np.indices([len(each) for each in options]).reshape(len(options), -1)
            found = np.stack([each[row] for each, row in zip(options, index, strict=True)], axis=1)
        return found[self._space.holds(self._job, found)]

    def _ways(self, o: int) -> int:
        """Number of options of an operator."""
        if self._pinned_o[o]:
            return 1
        sockets, replicas = int(self._allowed_ol[o].sum()), int(self._home_ol[o].sum())
        return math.comb(replicas + sockets - 1, replicas) if self._spread else sockets

    def _options(self, o: int) -> np.ndarray:
        """[K, L] options of an operator."""
        if self._pinned_o[o]:
            return self._home_ol[o : o + 1]
        sockets, replicas = np.flatnonzero(self._allowed_ol[o]), int(self._home_ol[o].sum())
        parts = _parted(replicas, len(sockets)) if self._spread else replicas * np.eye(len(sockets), dtype=np.int64)
        found = np.zeros((len(parts), len(self._host_l)), np.int64)
        found[:, sockets] = parts
        return found

    def _drawn(self, o: int, rng: np.random.Generator, size: int) -> np.ndarray:
        """[size, L] options of an operator, drawn uniformly."""
        found = np.zeros((size, len(self._host_l)), np.int64)
        if self._pinned_o[o]:
            found[:] = self._home_ol[o]
            return found
        sockets, replicas = np.flatnonzero(self._allowed_ol[o]), int(self._home_ol[o].sum())
        if not self._spread or replicas == 1:
            found[np.arange(size), sockets[rng.integers(len(sockets), size=size)]] = replicas
        else:
            found[:, sockets] = _randomly_parted(replicas, len(sockets), rng, size)
        return found


def _parted(replicas: int, sockets: int) -> np.ndarray:
    """All ways to part replicas [K, sockets]: bars among stars."""
    bars = list(combinations(range(replicas + sockets - 1), sockets - 1))
    return _between(np.array(bars, np.int64).reshape(len(bars), sockets - 1), replicas + sockets - 1)


def _randomly_parted(replicas: int, sockets: int, rng: np.random.Generator, size: int) -> np.ndarray:
    """[size, sockets] random divisions of replicas over sockets, each equally likely."""
    total = replicas + sockets - 1
    bars = np.sort(rng.random((size, total)).argsort(axis=1)[:, : sockets - 1], axis=1)
    return _between(bars, total)


def _between(bars: np.ndarray, total: int) -> np.ndarray:
    """[K, sockets] numbers of stars between bars."""
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, total)))
    return np.diff(edges, axis=1) - 1
