"""Balancing problems of the suite: from a seed to key groups on nodes, some of which have too much or too little."""

from __future__ import annotations

import numpy as np

from optimizers.balancing.balance import Balance
from twin.randomness import stream

MEAN = 60.0
"""Percent of a node."""
SKEWS = (0.2, 0.5, 1.0)
"""Standard deviations of the log of a group's load."""
SHARES = (0.01, 0.05, 0.2)
"""Of the groups, that may migrate."""


def unbalanced(seed: int) -> Balance:
    """5 to 40 nodes of one or two capacities, 10 to 40 groups on each; lognormal loads, and nodes differ."""
    rng = stream(seed, "suite")
    nodes, each = int(rng.integers(5, 41)), int(rng.integers(10, 41))
    load = np.exp(rng.choice(SKEWS) * rng.standard_normal((nodes, each)))
    load *= (MEAN * rng.uniform(0.5, 1.5, nodes) / load.sum(axis=1))[:, None]
    capacity = rng.choice([1.0, 2.0], nodes) if rng.random() < 0.5 else np.ones(nodes)
    budget = max(1, round(float(rng.choice(SHARES)) * nodes * each))
    home = np.repeat(np.arange(nodes), each)
    return Balance(loads={"cpu": load.ravel()}, home_g=home, capacity_h=capacity, budget=budget)
