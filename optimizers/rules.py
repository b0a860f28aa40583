"""Costream's three rules for realistic placements (Costream, Section V and Figure 5), as predicates on any DAG.

1. Operators may share a host. It is a permission, so there is nothing to check.
2. Data never flows to a host of a weaker capability bin.
3. Data that left a host never returns to it.

The paper sorts hosts into three bins that "are intersected in their feature range" and gives no numbers; its public
code has them per feature: CPU 50-300, 300-600, 600-800 %, RAM 1-4, 4-16, 8-32 GB. Hosts whose features are drawn
independently fit no such box, so each gets a score: the mean of the places of its CPU and its RAM in the ranges of
Table II, on a logarithmic scale, 0 for the weakest machine of the table and 1 for the strongest. The boxes then span
scores of 0-0.52, 0.52-0.85 and 0.75-1; `BINS` has these, with the first two made to overlap like the others. A host
in an overlap counts as either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from twin.cluster import Cluster, Host
from twin.query import Query

Placement = Mapping[str, str]
"""For each operator, the name of the host that all its replicas run on."""

CPU_PERCENT = (50.0, 800.0)
RAM_MB = (1000.0, 32000.0)
BINS = ((0.0, 0.55), (0.5, 0.85), (0.75, 1.0))
"""Score ranges, both ends included, from weak to strong. They cover [0, 1]."""


class BinRange(NamedTuple):
    """Weakest and strongest bin (0, 1, 2) that a host can count as."""

    lowest: int
    highest: int


def capability(host: Host) -> float:
    """Score of a host in [0, 1]; machines beyond the range of Table II count as its ends."""
    return (_place(host.left_percent, *CPU_PERCENT) + _place(host.ram_mb, *RAM_MB)) / 2


def _place(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, math.log(value / low) / math.log(high / low)))


def bin_range(host: Host) -> BinRange:
    """Bins whose range holds the host's score."""
    score = capability(host)
    fits = [index for index, (low, high) in enumerate(BINS) if low <= score <= high]
    return BinRange(fits[0], fits[-1])


def bin_ranges(cluster: Cluster) -> dict[str, BinRange]:
    """Bins of every host, by name."""
    return {host.name: bin_range(host) for host in cluster.hosts}


def is_valid(query: Query, bins: Mapping[str, BinRange], placement: Placement) -> bool:
    """Whether a placement obeys all rules."""
    number = {host: h for h, host in enumerate(bins)}
    return bool(valid_rows(query, bins, np.array([[number[placement[each.name]] for each in query.operators]]))[0])


def valid_rows(query: Query, bins: Mapping[str, BinRange], hosts_po: np.ndarray) -> np.ndarray:
    """[P] whether each of many placements is valid: rows of indices into `bins`, operators as listed.

    Rule 2: along every path, hosts can be given bins that never fall. That is so if and only if no operator's strongest
    bin is below the weakest bin of an operator upstream. Rule 3: on no path does a host occur again after the data has
    left it.
    """
    lowest_h, highest_h = np.array(list(bins.values())).T
    column = {operator.name: index for index, operator in enumerate(query.operators)}
    floor: dict[str, np.ndarray] = {}
    visited: dict[str, np.ndarray] = {}
    valid_p, rows = np.ones(len(hosts_po), bool), np.arange(len(hosts_po))
    for operator in query.topological:
        host_p = hosts_po[:, column[operator.name]]
        floor_p = lowest_h[host_p]
        visited_ph = np.zeros((len(hosts_po), len(bins)), bool)
        for stream in query.inputs(operator.name):
            before_ph = visited[stream.producer]
            valid_p &= (host_p == hosts_po[:, column[stream.producer]]) | ~before_ph[rows, host_p]
            floor_p = np.maximum(floor_p, floor[stream.producer])
            visited_ph |= before_ph
        valid_p &= floor_p <= highest_h[host_p]
        visited_ph[rows, host_p] = True
        floor[operator.name], visited[operator.name] = floor_p, visited_ph
    return valid_p
