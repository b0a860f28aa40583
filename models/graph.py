"""Joint operator-resource graph of one deployment, and tables of many graphs (Costream, Section III-A)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.features import (
    CONTEXT,
    FEATURES,
    HOST,
    NODE_TYPES,
    SINK,
    WIDTHS,
    Feature,
    encode,
    raw_rows,
    width,
)
from models.job_columns import JobColumns, base_costs, host_physics, job_columns, operator_physics, plan_physics
from models.labels import kinds_of_plans
from twin.deployment import Deployment
from twin.kinds.registry import KINDS
from twin.metrics import ESTIMATED
from twin.rates.model import RateAnswer, RateModel
from twin.scenario import RunSettings

HORIZON_S: float = RunSettings().horizon_s
UTILISATION = [feature.name for feature in CONTEXT].index("utilisation")
SOURCE = NODE_TYPES.index("source")


class EncodedInput(NamedTuple):
    """Column of a feature among the encoded inputs of a node or plan, and the code of the value 1 there.

    Tables hold codes alone, which grow with values, so they tell whether a value is above 1.
    """

    column: int
    code_of_1: float

    @classmethod
    def of(cls, features: Sequence[Feature], name: str) -> EncodedInput:
        """Column and code of the feature of that name, which has one column. Raises ValueError if there is none."""
        place = [feature.name for feature in features].index(name)
        (code,) = features[place].encoding.encode(np.ones(1)).astype(np.float32)[0].tolist()
        return cls(width(features[:place]), code)

    def above_1(self, inputs_NxC: np.ndarray) -> np.ndarray:
        """[N] whether the value is above 1."""
        return np.asarray(inputs_NxC[:, self.column] > self.code_of_1)


PEAK, PEAK_PRESSURE = EncodedInput.of(FEATURES["source"], "peak"), EncodedInput.of(CONTEXT, "peak_pressure")


class JointGraph(NamedTuple):
    """Graph of one deployment. Operators in data-flow order; only hosts that carry a subtask are nodes.

    kinds: [O] index into NODE_TYPES.  named: [O] the operators' own kinds.  levels: [O] longest path from a source.
    operators: [O] raw feature values, as long as the columns of the kind.  hosts: [H] likewise.
    streams: (producer, consumer) operators.  placements: (operator, host), one per pair however many subtasks.
    context: raw values of models.features.CONTEXT.  rates: the rate model's answer, in the order of ESTIMATED.
    """

    kinds: tuple[int, ...]
    named: tuple[str, ...]
    levels: tuple[int, ...]
    operators: tuple[list[float], ...]
    hosts: tuple[list[float], ...]
    streams: tuple[tuple[int, int], ...]
    placements: tuple[tuple[int, int], ...]
    context: list[float]
    rates: list[float]

    @property
    def utilisation(self) -> float:
        """Highest nominal utilisation, by the rate model."""
        return self.context[UTILISATION]


def joint_graph(
    deployment: Deployment,
    job: JobColumns | None = None,
    horizon_s: float = HORIZON_S,
    answer: RateAnswer | None = None,
) -> JointGraph:
    """Graph of a deployment under its own plan. horizon_s: length of the run that is to be predicted.
    job, answer: its columns, and the rate model's answer for that plan alone and that length, if already computed."""
    job = job or job_columns(deployment)
    answer = answer or RateModel(horizon_s).answer(deployment, [deployment.plan])
    operators = {**job.operators, **{name: of_PxO[0] for name, of_PxO in operator_physics(answer).items()}}
    hosts = {**job.hosts(), **{name: of_PxH[0, job.used] for name, of_PxH in host_physics(answer).items()}}
    node_of = {host: node for node, host in enumerate(job.used.tolist())}
    return JointGraph(
        kinds=tuple(NODE_TYPES.index(kind) for kind in job.node_types),
        named=job.kinds,
        levels=tuple(job.levels_O.tolist()),
        operators=tuple(raw_rows(FEATURES[kind], operators, [o])[0].tolist() for o, kind in enumerate(job.node_types)),
        hosts=tuple(raw_rows(FEATURES["host"], hosts, range(len(job.used))).tolist()),
        streams=job.streams,
        placements=tuple((int(o), node_of[int(h)]) for o, h in zip(*np.nonzero(job.subtasks_OxH), strict=True)),
        context=raw_rows(CONTEXT, plan_physics(answer, job, horizon_s), [0])[0].tolist(),
        rates=base_costs(answer)[0].tolist(),
    )


class Ragged(NamedTuple):
    """Rows of many graphs, graph after graph: rows[start[g] : start[g + 1]] are those of graph g."""

    rows: np.ndarray
    start: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Sequence[Sequence[float]]], columns: int, dtype: type = np.int32) -> Ragged:
        """Rows from one part a graph, each a list of rows with that many columns."""
        flat = [row for part in parts for row in part]
        rows: np.ndarray = np.array(flat, dtype=dtype).reshape(len(flat), columns)
        return cls(rows, np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64))

    def counts(self) -> np.ndarray:
        """Number of rows of each graph."""
        return np.diff(self.start)

    def take(self, graphs_G: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of some graphs, in their order, and for each row its graph's position in `graphs_G`."""
        count_G = self.counts()[graphs_G]
        owner_R = np.repeat(np.arange(len(graphs_G)), count_G)
        first_G = np.cumsum(count_G) - count_G
        index_R = np.arange(len(owner_R)) - first_G[owner_R] + self.start[graphs_G][owner_R]
        return self.rows[index_R], owner_R

    def part(self, graphs_G: np.ndarray) -> Ragged:
        """Rows of some graphs, in their order, as a table of their own."""
        count_G = self.counts()[graphs_G]
        return Ragged(self.take(graphs_G)[0], np.concatenate([[0], np.cumsum(count_G)]).astype(np.int64))


@dataclass(frozen=True)
class GraphTable:
    """Table of many graphs, column-wise and encoded, from which batches are cut.

    nodes: for each node type its inputs [nodes, WIDTHS[type]].
    streams: rows (producer's kind, its number among the graph's nodes of that kind, the consumer's kind and number,
    the consumer's level).  updates: rows (kind, number, level), one an operator that has inputs, sinks aside.
    placements: rows (kind, number, host's number).  others: rows (kind, number, index into KINDS), one an operator
    whose own kind is not its node type.
    context_GxC: inputs of each plan as a whole.  rates_GxA: the rate model's answers, in the order of ESTIMATED.
    """

    nodes: tuple[Ragged, ...]
    streams: Ragged
    updates: Ragged
    placements: Ragged
    others: Ragged
    context_GxC: np.ndarray
    rates_GxA: np.ndarray

    def __len__(self) -> int:
        return len(self.streams.start) - 1

    @property
    def kind_G(self) -> np.ndarray:
        """[G] kind of each plan, an index into models.labels.KINDS."""
        sources = self.nodes[SOURCE]
        varying_G = np.logical_or.reduceat(PEAK.above_1(sources.rows), sources.start[:-1])
        return kinds_of_plans(self.rates_GxA, varying_G, PEAK_PRESSURE.above_1(self.context_GxC))

    def take(self, graphs_G: np.ndarray) -> GraphTable:
        """Table of some of the graphs, in that order."""
        return GraphTable(
            tuple(each.part(graphs_G) for each in self.nodes),
            self.streams.part(graphs_G),
            self.updates.part(graphs_G),
            self.placements.part(graphs_G),
            self.others.part(graphs_G),
            self.context_GxC[graphs_G],
            self.rates_GxA[graphs_G],
        )


def graph_table(deployments: Iterable[Deployment], rates: RateModel) -> GraphTable:
    """Table of the graphs of many deployments, for the runs that the rate model answers for."""
    answered = ((each, rates.answer(each, [each.plan])) for each in deployments)
    return stack([joint_graph(each, horizon_s=rates.run_s(each), answer=answer) for each, answer in answered])


def stack(graphs: Sequence[JointGraph]) -> GraphTable:
    """Table of graphs. Raises ValueError if a feature is not finite."""
    numbers = [_numbers(graph.kinds) for graph in graphs]
    nodes = []
    for kind, name in enumerate(NODE_TYPES):
        raw = [_rows_of(graph, kind) for graph in graphs]
        ragged = Ragged.of(raw, len(FEATURES[name]), np.float64)
        inputs = encode(FEATURES[name], ragged.rows)
        if not np.isfinite(inputs).all():
            raise ValueError(f"a feature of a {name} node is not finite")
        nodes.append(Ragged(inputs.reshape(-1, WIDTHS[kind]), ragged.start))
    streams = [
        [(g.kinds[u], n[u], g.kinds[v], n[v], g.levels[v]) for u, v in g.streams]
        for g, n in zip(graphs, numbers, strict=True)
    ]
    updates = [
        [(k, i, level) for k, i, level in zip(g.kinds, n, g.levels, strict=True) if level > 0 and k != SINK]
        for g, n in zip(graphs, numbers, strict=True)
    ]
    placements = [[(g.kinds[o], n[o], h) for o, h in g.placements] for g, n in zip(graphs, numbers, strict=True)]
    others = [
        [(k, i, KINDS.index(name)) for k, i, name in zip(g.kinds, n, g.named, strict=True) if NODE_TYPES[k] != name]
        for g, n in zip(graphs, numbers, strict=True)
    ]
    context = encode(CONTEXT, np.array([graph.context for graph in graphs]).reshape(-1, len(CONTEXT)))
    if not np.isfinite(context).all():
        raise ValueError("a feature of a plan is not finite")
    return GraphTable(
        tuple(nodes),
        Ragged.of(streams, 5),
        Ragged.of(updates, 3),
        Ragged.of(placements, 3),
        Ragged.of(others, 3),
        context,
        np.array([graph.rates for graph in graphs]).reshape(-1, len(ESTIMATED)),
    )


def _rows_of(graph: JointGraph, kind: int) -> list[list[float]]:
    if kind == HOST:
        return list(graph.hosts)
    return [row for row, its_kind in zip(graph.operators, graph.kinds, strict=True) if its_kind == kind]


def _numbers(kinds: Sequence[int]) -> list[int]:
    """Number of each operator among those of its kind."""
    seen = [0] * len(NODE_TYPES)
    numbers = []
    for kind in kinds:
        numbers.append(seen[kind])
        seen[kind] += 1
    return numbers


def concatenate(tables: Sequence[GraphTable]) -> GraphTable:
    """Table of all graphs of several tables, in order."""

    def joined(parts: Sequence[Ragged]) -> Ragged:
        counts = np.concatenate([part.counts() for part in parts])
        return Ragged(np.concatenate([part.rows for part in parts]), np.concatenate([[0], np.cumsum(counts)]))

    return GraphTable(
        tuple(joined([table.nodes[kind] for table in tables]) for kind in range(len(NODE_TYPES))),
        joined([table.streams for table in tables]),
        joined([table.updates for table in tables]),
        joined([table.placements for table in tables]),
        joined([table.others for table in tables]),
        np.concatenate([table.context_GxC for table in tables]),
        np.concatenate([table.rates_GxA for table in tables]),
    )
