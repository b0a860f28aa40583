"""Whose replicas may become more or fewer.

Free is the number of an operator whose tuples any replica may take, or that parts them by keys. An aggregate without
keys counts all tuples together, and what is dealt to one replica alone gains nothing from others: these keep theirs.
Operators that are joined by forward streams have equally many.
"""

from __future__ import annotations

import numpy as np

from twin.deployment import Deployment
from twin.kinds.windowed import Windowed
from twin.query import AnyOperator


def free_o(deployment: Deployment, pinned_o: np.ndarray) -> np.ndarray:
    """Whether the number of an operator's replicas may change. [O in data-flow order]"""
    free = ~pinned_o & [_divisible(deployment, each) for each in deployment.query.topological]
    for group in tied(deployment):
        free[group] = free[group].all()
    return np.asarray(free)


def tied(deployment: Deployment) -> list[list[int]]:
    """Operators that must have equally many replicas, those on their own included; indices in data-flow order."""
    import networkx as nx  # most commands start without

    query = deployment.query
    row = {operator.name: o for o, operator in enumerate(query.topological)}
    graph: nx.Graph[int] = nx.empty_graph(len(row))
    forward = [each for each in query.streams if query.partitioning(each).paired]
    graph.add_edges_from((row[each.producer], row[each.consumer]) for each in forward)
    return [sorted(group) for group in nx.connected_components(graph)]


def _divisible(deployment: Deployment, operator: AnyOperator) -> bool:
    ways = [deployment.query.partitioning(each) for each in deployment.query.inputs(operator.name)]
    counts_all = isinstance(operator, Windowed) and not operator.keyed
    return not counts_all and not any(way.whole and not way.copies for way in ways)
