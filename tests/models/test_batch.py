"""Laws of batching: nothing is lost, doubled or mixed up."""

from __future__ import annotations

import numpy as np
import pytest

from models.batch import Batch, Capacity, batch_of, capacity_for, cut, needs
from models.feature import encode
from models.features import FEATURES, HOST, NODE_TYPES
from models.graph import GraphTable, JointGraph, concatenate, stack


def described(graph: JointGraph) -> tuple[object, ...]:
    """A graph as sets of nodes and edges that do not depend on how the nodes are numbered."""
    operators = [
        (kind, tuple(encode(FEATURES[NODE_TYPES[kind]], np.array([raw]))[0].tolist()))
        for kind, raw in zip(graph.kinds, graph.operators, strict=True)
    ]
    hosts = [tuple(encode(FEATURES["host"], np.array([raw]))[0].tolist()) for raw in graph.hosts]
    return (
        sorted(operators),
        sorted(hosts),
        sorted((operators[u], operators[v]) for u, v in graph.streams),
        sorted((operators[o], hosts[h]) for o, h in graph.placements),
    )


def edges(batch: Batch, capacity: Capacity) -> list[tuple[int, int]]:
    """Rows of producer and consumer of every stream, padding left out."""
    found = [
        (int(sender), int(nodes[position]))
        for nodes, senders, receivers in zip(*batch.levels, strict=True)
        for sender, position in zip(senders, receivers, strict=True)
        if sender < capacity.operators
    ]
    sinks = zip(batch.sink_senders, batch.sink_receivers, strict=True)
    return found + [(int(u), int(v) + capacity.sinks.start) for u, v in sinks if u < capacity.operators]


def unpad(batch: Batch, capacity: Capacity, graph: int) -> tuple[object, ...]:
    """The same description, read off a batch."""
    kinds = np.repeat(np.arange(HOST), capacity.nodes[:HOST])
    inputs = [row for kind in range(HOST) for row in batch.inputs[kind]]
    operators = {
        row: (int(kinds[row]), tuple(inputs[row].tolist())) for row in np.flatnonzero(batch.operator_graph == graph)
    }
    hosts = {row: tuple(batch.inputs[HOST][row].tolist()) for row in np.flatnonzero(batch.host_graph == graph)}
    streams = [
        (operators[sender], operators[consumer]) for sender, consumer in edges(batch, capacity) if sender in operators
    ]
    placements = [
        (operators[o], hosts[h]) for o, h in zip(batch.placed_operators, batch.placed_hosts, strict=True) if h in hosts
    ]
    return (sorted(operators.values()), sorted(hosts.values()), sorted(streams), sorted(placements))


def test_batches_give_back_every_graph(graphs: list[JointGraph], table: GraphTable) -> None:
    row_needs = needs(table)
    capacity = capacity_for(table, 16, row_needs)
    order = np.random.default_rng(3).permutation(len(graphs))
    found = []
    for chosen in cut(row_needs, order, capacity):
        batch = batch_of(table, chosen, capacity)
        for position, graph in enumerate(chosen):
            assert unpad(batch, capacity, position) == described(graphs[graph])
        found += chosen.tolist()
    assert found == order.tolist()


def test_every_update_follows_those_it_reads(graphs: list[JointGraph], table: GraphTable) -> None:
    capacity = Capacity.of_flat(len(graphs), needs(table).sum(axis=0))
    batch = batch_of(table, np.arange(len(graphs)), capacity)
    padding = {capacity.operators}
    sources = range(table.nodes[NODE_TYPES.index("source")].start[-1])
    done = set(sources) | padding
    for nodes, senders, _ in zip(*batch.levels, strict=True):
        assert set(senders.tolist()) <= done
        assert done.isdisjoint(set(nodes.tolist()) - padding)
        done |= set(nodes.tolist())
    assert set(batch.sink_senders.tolist()) <= done
    sinks = {capacity.sinks.start + int(position) for position in batch.sink_receivers}
    assert done.isdisjoint(sinks)
    assert len((done | sinks) - padding) == sum(len(graph.kinds) for graph in graphs)


def test_a_graph_that_does_not_fit_is_an_error(graphs: list[JointGraph], table: GraphTable) -> None:
    capacity = Capacity.of_flat(1, needs(table).min(axis=0))
    with pytest.raises(ValueError, match="larger than the batch"):
        list(cut(needs(table), np.arange(len(graphs)), capacity))
    with pytest.raises(ValueError, match="do not fit a batch of 1"):
        batch_of(table, np.arange(len(graphs)), capacity)


def test_concatenated_tables_hold_the_same_graphs(graphs: list[JointGraph], table: GraphTable) -> None:
    parts = concatenate([stack(graphs[:7]), stack(graphs[7:8]), stack(graphs[8:])])
    for ours, theirs in zip(parts.nodes, table.nodes, strict=True):
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        np.testing.assert_array_equal(ours.start, theirs.start)
    np.testing.assert_array_equal(needs(parts), needs(table))
