"""Costream's placement rules, each against its words."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.rules import (
    BinRange,
    bin_range,
    bin_ranges,
    capability,
    is_valid,
    valid_rows,
)
from twin.cluster import Host


def machine(cpu_percent: float, ram_mb: float) -> Host:
    return Host(name="h", cpu_percent=cpu_percent, ram_mb=ram_mb, bandwidth_mbps=100, latency_ms=1)


def placements(query, hosts):
    names = [operator.name for operator in query.operators]
    return (dict(zip(names, each, strict=True)) for each in itertools.product(hosts, repeat=len(names)))


def paths(query):
    graph = nx.DiGraph([(each.producer, each.consumer) for each in query.streams])
    for source, sink in itertools.product(query.sources, query.sinks):
        yield from nx.all_simple_paths(graph, source.name, sink.name)


@given(st.floats(1, 1e4), st.floats(1, 1e6), st.floats(1, 100), st.floats(1, 100))
def test_more_of_anything_is_never_weaker(cpu, ram, more_cpu, more_ram):
    weak, strong = bin_range(machine(cpu, ram)), bin_range(machine(cpu * more_cpu, ram * more_ram))
    assert strong.lowest >= weak.lowest
    assert strong.highest >= weak.highest
    assert 0 <= weak.lowest <= weak.highest <= 2


def test_the_table_of_the_paper_spans_the_scores():
    assert capability(machine(50, 1000)) == 0.0
    assert capability(machine(800, 32000)) == pytest.approx(1.0)
    assert bin_range(machine(50, 1000)) == BinRange(0, 0)
    assert bin_range(machine(800, 32000)) == BinRange(2, 2)


def test_rules_2_and_3_hold_exactly_when_they_hold_on_every_path(query, make_cluster):
    """Rules 2 and 3 hold exactly if on every path bins can never fall and no host is visited again."""
    bins = bin_ranges(make_cluster(4))
    every = list(itertools.islice(placements(query, bins), 0, None, 3))
    expected = [
        all(rises(bins, placement, path) and stays_away(placement, path) for path in paths(query))
        for placement in every
    ]
    assert any(expected) and not all(expected)
    rows = np.array([[list(bins).index(host) for host in placement.values()] for placement in every])
    assert valid_rows(query, bins, rows).tolist() == expected
    assert [is_valid(query, bins, placement) for placement in every[:50]] == expected[:50]


def rises(bins, placement, path):
    choices = itertools.product(*(range(bins[placement[o]].lowest, bins[placement[o]].highest + 1) for o in path))
    return any(list(choice) == sorted(choice) for choice in choices)


def stays_away(placement, path):
    visit = [host for host, _ in itertools.groupby(placement[name] for name in path)]
    return len(visit) == len(set(visit))
