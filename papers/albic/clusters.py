"""Synthetic clusters of ALBIC's Sections 5.1 and 5.3: key groups of about equal load, on unequal nodes.

Choices that the paper leaves open: `varies` is in percentage points of a node; half of the adjusted nodes get half of
it more, half get half of it less; a random half to all of a node's groups carry that, in proportion to their load.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimizers.balancing.balance import Balance
from twin.errors import BadInput
from twin.randomness import random_stream

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
