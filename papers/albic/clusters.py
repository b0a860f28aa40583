"""Synthetic clusters and jobs of ALBIC's Sections 5.1 and 5.3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from optimizers.balancing.problem import Assignment, Balance, KeyGroupTraffic
from twin.errors import BadInput
from twin.randomness import random_stream

# clusters ------------------------------------------------------------------------------------------------------------
# Synthetic clusters of ALBIC's Sections 5.1 and 5.3: key groups of about equal load, on unequal nodes.
#
# Choices that the paper leaves open: `varies` is in percentage points of a node; half of the adjusted nodes get half
# of it more, half get half of it less; a random half to all of a node's groups carry that, in proportion to their
# load.


SIZES: Mapping[str, tuple[int, int, int]] = {"fig2": (20, 400, 10), "fig3": (40, 800, 20), "fig4": (60, 1200, 30)}
"""Nodes, key groups and operators of each figure."""
MEAN_LOAD = 60.0
"""Mean load of a node in percent, such that a `varies` of 80 stays between 0 and 100."""
JITTER = 0.05
"""Largest relative deviation of a group's load, either way."""
PLANNED = "Every figure of ours is of plans for synthetic loads, computed; nothing here is simulated, or of a cluster."
"""Statement on what the figures of these experiments are of."""
ADJUSTED = 0.2
"""Share of the nodes whose load is adjusted."""


def cluster(nodes: int, groups: int, *, varies: float, budget: float, seed: int) -> Balance:
    """Balancing problem with as many key groups on each node; the budget counts migrations. Raises BadInput unless
    groups are a multiple of nodes and 0 <= varies <= 80."""
    if groups % nodes or not 0.0 <= varies <= 2.0 * min(MEAN_LOAD, 100.0 - MEAN_LOAD):
        raise BadInput(f"groups must be a multiple of nodes and varies from 0 to 80, got {groups}, {nodes}, {varies}")
    each, rng = groups // nodes, random_stream(seed, f"albic.cluster/{nodes}")
    load_hk = MEAN_LOAD / each * (1.0 + rng.uniform(-JITTER, JITTER, (nodes, each)))
    adjusted = rng.choice(nodes, 2 * max(1, round(ADJUSTED * nodes / 2)), replace=False)
    for place, node in enumerate(adjusted):
        some = rng.choice(each, rng.integers((each + 1) // 2, each + 1), replace=False)
        sign = 1.0 if place % 2 else -1.0
        load_hk[node, some] *= max(0.0, 1.0 + sign * 0.5 * varies / load_hk[node, some].sum())
    home_g = np.repeat(np.arange(nodes), each)
    return Balance(loads={"cpu": load_hk.ravel()}, home_g=home_g, capacity_h=np.ones(nodes), budget=budget)


# jobs ----------------------------------------------------------------------------------------------------------------
# Synthetic jobs of ALBIC's Section 5.3: a share of the key groups communicates one to one, the others with all.
#
# Choices that the paper leaves open: the share is of upstream groups; each sends one unit a second; operators form
# disjoint pairs, or one chain; groups start on random nodes, as many on each; before each round the loads of a fifth
# of the nodes change by up to 2 % either way, all groups of a node alike.


Topology = Literal["pairs", "chain"]
BUDGET, VARIES, DRIFT, DRIFTING = 20, 20, 0.02, 0.2


def job(size: str, topology: Topology, percent: float, seed: int) -> Balance:
    """Balancing problem with traffic. percent: of the upstream groups that send to one group alone."""
    nodes, groups, operators = SIZES[size]
    balance = cluster(nodes, groups, varies=VARIES, budget=BUDGET, seed=seed)
    place = random_stream(seed, f"albic.job/{size}").permutation(groups)  # neighbours are random, loads of nodes stay
    traffic = _traffic(groups, operators, topology, percent, seed)
    home_g, load_g = np.empty_like(balance.home_g), np.empty(groups)
    home_g[place], load_g[place] = balance.home_g, balance.work_g
    return replace(balance, home_g=home_g, loads={"cpu": load_g}, traffic=traffic)


def _traffic(groups: int, operators: int, topology: Topology, percent: float, seed: int) -> KeyGroupTraffic:
    operator_g = np.arange(groups) * operators // groups
    links = list(pairwise(range(operators)))[:: 2 if topology == "pairs" else 1]
    rng = random_stream(seed, f"albic.traffic/{topology}/{percent}")
    parts = []
    for upstream, downstream in links:
        senders, receivers = (np.flatnonzero(operator_g == each) for each in (upstream, downstream))
        alone = rng.permutation(len(senders)) < round(percent / 100.0 * len(senders))
        matrix = np.diag(alone.astype(float)) + np.outer(~alone, np.full(len(receivers), 1.0 / len(receivers)))
        sender, receiver = np.nonzero(matrix)
        parts.append((senders[sender], rng.permutation(receivers)[receiver], matrix[sender, receiver]))
    sender_e, receiver_e, rate_e = (np.concatenate(column) for column in zip(*parts, strict=True))
    return KeyGroupTraffic(operator_g, sender_e, receiver_e, rate_e)


def drifts(rounds: int, seed: int) -> Iterator[Callable[[Balance], Balance]]:
    """Yields for each round a function that changes loads."""
    rng = random_stream(seed, "albic.drift")
    for _ in range(rounds):
        yield lambda balance: _drifted(balance, rng)


def _drifted(balance: Balance, rng: np.random.Generator) -> Balance:
    nodes = len(balance.capacity_h)
    factor_h = np.ones(nodes)
    some = rng.choice(nodes, round(DRIFTING * nodes), replace=False)
    factor_h[some] += rng.uniform(-DRIFT, DRIFT, len(some))
    return replace(balance, loads={name: load_g * factor_h[balance.home_g] for name, load_g in balance.loads.items()})


def rounds(
    start: Balance, plan: Callable[[Balance], Assignment], drifts: Iterable[Callable[[Balance], Balance]]
) -> Iterator[tuple[Balance, Assignment]]:
    """Yields the balancing problem and its plan by round: loads drift, a plan is made and applied."""
    balance = start
    for drift in drifts:
        balance = drift(balance)
        found = plan(balance)
        yield balance, found
        balance = moved(balance, found.node_g)


def moved(balance: Balance, node_g: np.ndarray) -> Balance:
    """Balancing problem of the next round: groups are on their new nodes, and loads are in percent of those."""
    loads = {name: balance.work(name) / balance.capacity_h[node_g] for name in balance.loads}
    return replace(balance, home_g=node_g, loads=loads)
