"""The least communication that any fusion leaves, as an integer program; for jobs of some dozen operators.

The operators of a component have an attribute in common. Each operator chooses one of its attributes, and a transfer is
saved if both of its ends choose the same one. This labelling problem has the relaxation of Kleinberg and Tardos (2002).
Circles of components are allowed, as in Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np

from optimizers.fusion.components import Fusion, Lineage, Splits, attribute_of, fused
from optimizers.fusion.job import FusionJob
from optimizers.program import Program, ProgramLimits, ProgramOutcome, summed
from twin.errors import BadInput


@dataclass(frozen=True)
class Exact:
    """Answer of the exact solution. fusion: the best one found. bound: least communication of any fusion, as a share of
    all transfers. proved: whether no fusion is better, within the solver's tolerance of 1e-6 of all transfers."""

    fusion: Fusion
    bound: float
    proved: bool


def least_communication(job: FusionJob, *, seconds: float = 60.0) -> Exact:
    """Fusion with the least communication, found by HiGHS, which stops after `seconds`.

    Raises BadInput if `seconds` is not above 0, or if an attribute has fewer values than an operator has replicas, as
    the program does not limit components by replicas.
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
    number = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in choices))}
    program = Program()
    chosen = program.variables((len(choices),), upper=1.0, integer=True)
    column = dict(zip(choices, chosen.tolist(), strict=True))
    program.rows(
        (chosen, summed(np.array([number[name] for name, _ in choices]), np.ones(len(choices)))), low=1, high=1
    )
    both = program.variables((len(saved), 1), upper=1.0)
    for end in ("producer", "consumer"):
        ends = [column[getattr(transfer, end), attribute] for transfer, attribute in saved]
        program.rows((both, 1.0), (np.array(ends)[:, None], -1.0), high=0.0)
    worth = np.array([transfer.rate_per_s for transfer, _ in saved]) / job.rate_per_s
    program.costs(both, -worth[:, None])
    found = program.solve(ProgramLimits(seconds=seconds, gap=0.0))
    bound = max(0.0, 1.0 + found.bound)
    if found.values is None:
        return Exact(fused(job, ()), bound, proved=False)
    taken = dict(choice for choice, index in column.items() if found.values[index] > 0.5)
    return Exact(fused(job, _pieces(job, taken)), bound, proved=found.outcome is ProgramOutcome.SOLVED)


def _pieces(job: FusionJob, chosen: dict[str, Lineage]) -> Iterator[tuple[str, ...]]:
    """Groups of operators that are joined by transfers and have chosen the same attribute."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from(
        (each.producer, each.consumer)
        for each in job.transfers
        if each.producer in chosen and chosen[each.producer] == chosen.get(each.consumer)
    )
    return (tuple(piece) for piece in nx.connected_components(graph))


def _check_replicas(job: FusionJob) -> None:
    most = max(job.operators, key=lambda operator: operator.replicas)
    fewest = min((count for count in job.distinct.values()), default=None)
    if fewest is not None and fewest < most.replicas:
        name = min(job.distinct, key=lambda each: job.distinct[each])
        raise BadInput(
            f"the exact solution does not limit components by replicas: {most.what} wants {most.replicas}, and "
            f"attribute {attribute_of(name)!r} has {fewest} values; ask for fewer replicas, or fuse by Algorithm 1"
        )
