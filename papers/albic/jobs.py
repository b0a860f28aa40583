"""Synthetic jobs of ALBIC's Section 5.3: a share of the key groups communicates one to one, the others with all.

Choices that the paper leaves open: the share is of upstream groups; each sends one unit a second; operators form
disjoint pairs, or one chain; groups start on random nodes, as many on each; before each round the loads of a fifth of
the nodes change by up to 2 % either way, all groups of a node alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.interface import Assignment
from optimizers.balancing.traffic import KeyGroupTraffic
from papers.albic.clusters import SIZES, cluster
from twin.randomness import random_stream

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
