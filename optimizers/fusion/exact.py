"""The least communication that any fusion leaves, as an integer program; for jobs of some dozen operators.

A component has an attribute in common, so it is a set of operators that all choose this one. Each operator chooses
one of its attributes, and a transfer is saved if both of its ends have chosen the same: then two components with the
same attribute could be one and save no less. That labels operators, with the relaxation of Kleinberg and Tardos (2002).
Circles of components are allowed, as in Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from optimizers.fusion.components import Fusion, Splits, fused
from optimizers.fusion.job import Job
from optimizers.fusion.lineage import Lineage, attribute_of
from twin.errors import BadInput


@dataclass(frozen=True)
class Exact:
    """fusion: the best that was found. bound: no fusion has less communication (share of all transfers). proved: none
    is better than the one found, within the solver's tolerance of 1e-6 of all transfers."""

    fusion: Fusion
    bound: float
    proved: bool


Choice = tuple[str, Lineage]


def least_communication(job: Job, *, seconds: float = 60.0) -> Exact:
    """Solved by HiGHS, stopped after `seconds`.

    Raises BadInput if there is no time, or if a component could be split into fewer partitions than replicas that its
    operators want, which the program does not know of.
    """
    if not seconds > 0.0:
        raise BadInput(f"seconds must be > 0, got {seconds}")
    splits = Splits(job)
    _check_replicas(job)
    choices = [(operator.name, each) for operator in job.operators for each in sorted(splits.attributes[operator.name])]
    saved = [
        (transfer, each)
        for transfer in job.transfers
        if transfer.rate_per_s
        for each in sorted(splits.common((transfer.producer, transfer.consumer)))
    ]
    if not saved:
        return Exact(alone := fused(job, ()), alone.communication, proved=True)
    column = {choice: index for index, choice in enumerate(choices)}
    rows = [
        (len(choices) + index, column[end, attribute])
        for index, (transfer, attribute) in enumerate(saved)
        for end in (transfer.producer, transfer.consumer)
    ]
    worth = np.array([transfer.rate_per_s for transfer, _ in saved]) / job.rate_per_s
    found = milp(
        c=np.concatenate([np.zeros(len(choices)), -worth]),
        constraints=[_one_each(choices, len(saved)), _both_ends(rows, len(choices) + len(saved))],
        integrality=np.concatenate([np.ones(len(choices)), np.zeros(len(saved))]),
        bounds=Bounds(0.0, 1.0),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    bound = 1.0 + float(found.mip_dual_bound) if found.mip_dual_bound is not None else 0.0
    if found.x is None:
        return Exact(fused(job, ()), bound, proved=False)
    chosen = dict(choice for choice, value in zip(choices, found.x, strict=False) if value > 0.5)
    return Exact(fused(job, _pieces(job, chosen)), max(0.0, bound), proved=found.status == 0)


def _one_each(choices: list[Choice], others: int) -> LinearConstraint:
    """Every operator chooses one attribute."""
    names = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in choices))}
    rows, columns = [names[name] for name, _ in choices], range(len(choices))
    shape = (len(names), len(choices) + others)
    return LinearConstraint(coo_array((np.ones(len(choices)), (rows, columns)), shape).tocsr(), 1.0, 1.0)


def _both_ends(rows: list[tuple[int, int]], columns: int) -> LinearConstraint:
    """saved - chosen <= 0 for either end of each transfer and attribute."""
    saved, chosen = zip(*rows, strict=True)
    numbers = np.arange(len(rows))
    values = np.concatenate([np.ones(len(rows)), -np.ones(len(rows))])
    matrix = coo_array((values, (np.tile(numbers, 2), [*saved, *chosen])), (len(rows), columns))
    return LinearConstraint(matrix.tocsr(), -np.inf, 0.0)


def _pieces(job: Job, chosen: dict[str, Lineage]) -> Iterator[tuple[str, ...]]:
    """Operators that are joined by transfers and have chosen the same attribute."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from(
        (each.producer, each.consumer)
        for each in job.transfers
        if each.producer in chosen and chosen[each.producer] == chosen.get(each.consumer)
    )
    return (tuple(piece) for piece in nx.connected_components(graph))


def _check_replicas(job: Job) -> None:
    most = max(job.operators, key=lambda operator: operator.replicas)
    fewest = min((count for count in job.distinct.values()), default=None)
    if fewest is not None and fewest < most.replicas:
        name = min(job.distinct, key=lambda each: job.distinct[each])
        raise BadInput(
            f"the exact solution does not limit components by replicas: {most.what} wants {most.replicas}, and "
            f"attribute {attribute_of(name)!r} has {fewest} values; ask for fewer replicas, or fuse by Algorithm 1"
        )
