"""All placements that obey the rules: counted, listed, and drawn uniformly.

Seen from the sink, every operator of a tree-shaped query has one path downstream. An operator then either stays on
the host of its consumer, or moves to a host that is not on that path and not of a stronger bin than any host on it;
what lies upstream of its other siblings does not matter. Hosts that span the same bins are interchangeable, so the
number of ways to place an operator and all above it depends only on how many hosts of each such class the path has
taken. That makes counting exact and cheap, and drawing by the counts exactly uniform.

In a query whose operators feed several consumers, only the first stream out of each operator is followed, and what
then breaks a rule is rejected: still uniform over the valid placements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from optimizers.rules import BinRange, bin_ranges, is_valid
from twin.cluster import Cluster
from twin.errors import BadInput
from twin.query import Query

MAX_LISTED = 50_000
"""`PlacementSpace.all` refuses to list more."""
MAX_DRAWS_PER_PLACEMENT = 2_000

Taken = tuple[int, ...]
"""For each class of interchangeable hosts, how many of them the path from here to the sink has visited."""


class PlacementSpace:
    """The valid placements of one query on one cluster."""

    def __init__(self, query: Query, cluster: Cluster) -> None:
        self._query = query
        self._bins = bin_ranges(cluster)
        self._classes: list[BinRange] = sorted(set(self._bins.values()))
        sizes = Counter(self._bins.values())
        self._sizes = [sizes[each] for each in self._classes]
        self._members = [[name for name, found in self._bins.items() if found == each] for each in self._classes]
        self._above = {
            operator.name: [
                stream.producer for stream in query.inputs(operator.name) if query.outputs(stream.producer)[0] == stream
            ]
            for operator in query.operators
        }
        self._counted: dict[tuple[str, Taken], int] = {}
        self.is_tree = all(len(query.outputs(operator.name)) <= 1 for operator in query.operators)

    @cached_property
    def count(self) -> int:
        """How many valid placements there are; an upper bound where `exact` is False."""
        return len(self._listed) if self._listable and not self.is_tree else self._relaxed

    @property
    def exact(self) -> bool:
        """Whether `count` is exact: for trees always, for others up to `MAX_LISTED` placements."""
        return self.is_tree or self._listable

    def all(self) -> list[dict[str, str]]:
        """Every valid placement, in a fixed order. Raises BadInput above `MAX_LISTED`."""
        if not self._listable:
            raise BadInput(
                f"{self.count} valid placements are too many to list (at most {MAX_LISTED}); "
                "use an optimizer that samples (costream, local-search)"
            )
        return list(self._listed)

    @cached_property
    def _relaxed(self) -> int:
        """Placements of the query with only the first stream out of each operator."""
        nothing = (0,) * len(self._sizes)
        total = 1
        for sink in self._query.sinks:
            total *= sum(size * self._ways(sink.name, taken) for _, size, taken in self._moves(nothing))
        return total

    @property
    def _listable(self) -> bool:
        return self._relaxed <= MAX_LISTED

    @cached_property
    def _listed(self) -> list[dict[str, str]]:
        return list(self._extend(0, {}))

    def draw(self, rng: np.random.Generator) -> dict[str, str]:
        """One valid placement, uniformly. Raises BadInput if rejection finds none (queries that are not trees only)."""
        for _ in range(MAX_DRAWS_PER_PLACEMENT):
            placement = self._draw_relaxed(rng)
            if self.is_tree or is_valid(self._query, self._bins, placement):
                return {operator.name: placement[operator.name] for operator in self._query.operators}
        raise BadInput(
            f"no valid placement among {MAX_DRAWS_PER_PLACEMENT} draws for a query that is no tree; offer more hosts"
        )

    def sample(self, rng: np.random.Generator, size: int) -> list[dict[str, str]]:
        """`size` different valid placements, uniformly without replacement; all of them, shuffled, if there are fewer.

        Raises BadInput if size is below 1.
        """
        if size < 1:
            raise BadInput(f"number of candidate placements must be >= 1, got {size}")
        if self._listable and self.count <= 2 * size:
            everything = self.all()
            return [everything[index] for index in rng.permutation(len(everything))[:size]]
        found: dict[tuple[str, ...], dict[str, str]] = {}
        for _ in range(20 * size):
            placement = self.draw(rng)
            found.setdefault(tuple(placement.values()), placement)
            if len(found) == size:
                break
        return list(found.values())

    def _moves(self, taken: Taken) -> list[tuple[int, int, Taken]]:
        """Classes from which a host not on the path may be taken: (class, hosts left in it, taken afterwards)."""
        ceiling = min((each.highest for each, used in zip(self._classes, taken, strict=True) if used), default=99)
        return [
            (index, size - taken[index], (*taken[:index], taken[index] + 1, *taken[index + 1 :]))
            for index, size in enumerate(self._sizes)
            if size > taken[index] and self._classes[index].lowest <= ceiling
        ]

    def _ways(self, operator: str, taken: Taken) -> int:
        """Ways to place everything upstream of `operator`, which sits on the last host of the path."""
        key = (operator, taken)
        if key not in self._counted:
            total = 1
            for above in self._above[operator]:
                total *= self._ways(above, taken) + sum(
                    left * self._ways(above, after) for _, left, after in self._moves(taken)
                )
            self._counted[key] = total
        return self._counted[key]

    def _draw_relaxed(self, rng: np.random.Generator) -> dict[str, str]:
        placement: dict[str, str] = {}
        nothing = (0,) * len(self._sizes)
        stack = [(sink.name, "", nothing, frozenset[str]()) for sink in self._query.sinks]
        while stack:
            operator, below, taken, path = stack.pop()
            moves = self._moves(taken)
            weights = [float(left * self._ways(operator, after)) for _, left, after in moves]
            weights.append(float(self._ways(operator, taken)) if below else 0.0)
            chosen = int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights), side="right"))
            if chosen >= len(moves):
                host = below
            else:
                index, _, taken = moves[chosen]
                free = [name for name in self._members[index] if name not in path]
                host = free[int(rng.integers(len(free)))]
            placement[operator] = host
            stack.extend((above, host, taken, path | {host}) for above in self._above[operator])
        return placement

    def _extend(self, depth: int, placement: dict[str, str]) -> Iterator[dict[str, str]]:
        """Backtracking in data-flow order; `is_valid` on the finished part prunes."""
        if depth == len(self._query.topological):
            yield {operator.name: placement[operator.name] for operator in self._query.operators}
            return
        name = self._query.topological[depth].name
        for host in self._bins:
            placement[name] = host
            if self._fits(name, placement):
                yield from self._extend(depth + 1, placement)
        placement.pop(name, None)

    def _fits(self, operator: str, placement: dict[str, str]) -> bool:
        """Whether placing `operator` last breaks no rule with anything upstream of it."""
        host = placement[operator]
        for above, producers in self._upstream[operator].items():
            other = placement[above]
            if self._bins[other].lowest > self._bins[host].highest:
                return False
            if other == host and any(placement[producer] != host for producer in producers):
                return False
        return True

    @cached_property
    def _upstream(self) -> dict[str, dict[str, list[str]]]:
        """For each operator, each operator upstream of it, with the direct producers through which that is so."""
        found: dict[str, dict[str, list[str]]] = {}
        for operator in self._query.topological:
            mine: dict[str, list[str]] = {}
            for stream in self._query.inputs(operator.name):
                for above in (stream.producer, *found[stream.producer]):
                    mine.setdefault(above, []).append(stream.producer)
            found[operator.name] = mine
        return found
