"""The ranges of numbers in the training rows. Beyond them a model extrapolates, and no search may follow it there.

A search under a model that extrapolates finds the model's errors: the plans that it underestimates most. What a query
and its hosts are does not depend on the plan, so a job is inside or outside as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from models.columns import Column, OneHot, encode
from models.facts import HostFacts, operator_facts
from models.features import COLUMNS, NODE_TYPES, raw_row, require_learned
from models.graph import GraphTable
from twin.deployment import Deployment

Ranges = Mapping[str, Sequence[float]]
"""Lowest and highest encoded input, by `kind column`."""
MARGIN = 0.1
"""Beyond the range, as a share of what is -1 to 1 once encoded."""
GROUPS = frozenset({"data", "hardware", "rate", "cost", "operator"})
LOADS = frozenset({"cpu_load", "network_load", "memory_load", "tasks"})
"""Of hosts; they depend on the plan."""


def ranges_of(graphs: GraphTable, rows: np.ndarray) -> dict[str, list[float]]:
    """What some rows of a table hold."""
    found: dict[str, list[float]] = {}
    for kind, ragged in zip(NODE_TYPES, graphs.nodes, strict=True):
        nodes, _ = ragged.take(rows)
        start = 0
        for column in COLUMNS[kind]:
            inputs = nodes[:, start : start + column.encoding.width]
            start += column.encoding.width
            if len(nodes) and _counts(column):
                found[f"{kind} {column.name}"] = [float(inputs.min()), float(inputs.max())]
    return found


def outside(ranges: Ranges, deployment: Deployment) -> list[str]:
    """`kind column` of all numbers of a job that are beyond the ranges; of hosts, whether it uses them or not."""
    operators = operator_facts(deployment)
    require_learned(operators)
    rows: list[tuple[str, list[float]]] = [(each.spec.kind, raw_row(each.spec.kind, each)) for each in operators]
    rows += [("host", raw_row("host", HostFacts(host))) for host in deployment.cluster.hosts]
    return sorted({name for kind, row in rows for name in _beyond(ranges, kind, row)})


def _beyond(ranges: Ranges, kind: str, row: Sequence[float]) -> list[str]:
    inputs = encode(COLUMNS[kind], np.array([row]))[0]
    found, start = [], 0
    for column in COLUMNS[kind]:
        value, name = float(inputs[start]), f"{kind} {column.name}"
        start += column.encoding.width
        low, high = ranges.get(name, (-np.inf, np.inf))
        if _counts(column) and not low - 2 * MARGIN <= value <= high + 2 * MARGIN:
            found.append(name)
    return found


def _counts(column: Column) -> bool:
    return column.group in GROUPS and column.name not in LOADS and not isinstance(column.encoding, OneHot)
