"""Routes through a network of links: the lowest latency, then the fewest hops, then the nodes' names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

HOP_MS = 1e-6
"""Added to each link's latency, so that of equally fast routes the shorter one is taken."""


class Routes:
    """All routes of one network; each is found when it is first asked for."""

    def __init__(self, nodes: Iterable[str], links: Iterable[tuple[str, str, float]]) -> None:
        import networkx as nx  # an eighth of a second, for clusters with links alone

        self._paths = nx.single_source_dijkstra_path
        self._graph: nx.Graph[str] = nx.Graph()
        self._graph.add_nodes_from(sorted(nodes))  # as the search follows this order, which decides among equals
        ends = sorted((min(one, other), max(one, other), latency_ms) for one, other, latency_ms in links)
        self._graph.add_weighted_edges_from((one, other, latency_ms + HOP_MS) for one, other, latency_ms in ends)
        self._parts: dict[str, int] = {}
        for number, part in enumerate(nx.connected_components(self._graph)):
            self._parts.update(dict.fromkeys(part, number))
        self._from: dict[str, dict[str, list[str]]] = {}

    def connected(self, start: str, end: str) -> bool:
        """Whether any route leads from one node to another. Raises KeyError for an unknown node."""
        return self._parts[start] == self._parts[end]

    def between(self, start: str, end: str) -> tuple[tuple[str, str], ...]:
        """The links of the route as (from, to), in order; none from a node to itself.

        Raises KeyError if there is no route.
        """
        if start not in self._from:
            self._from[start] = self._paths(self._graph, start)
        nodes = self._from[start][end]
        return tuple(pairwise(nodes))
