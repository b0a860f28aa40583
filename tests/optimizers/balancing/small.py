"""Balancing problems small enough to try every assignment."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from optimizers.balancing.problem import Balance


def balance(loads=((20, 20, 20, 0),), homes=(0, 0, 0, 1), nodes=2, budget=1.0, **more) -> Balance:
    """Balancing problem on equal nodes by default. loads: of cpu, then of mem."""
    named = dict(zip(("cpu", "mem"), (np.array(each, float) for each in loads), strict=False))
    given = {"capacity_h": np.ones(nodes)} | more
    return Balance(loads=named, home_g=np.array(homes), budget=budget, **given)


@st.composite
def balances(draw, kill=True) -> Balance:
    """Strategy of problems with 2 or 3 unequal nodes, up to 6 groups, two resources, a budget as count or cost."""
    nodes, groups = draw(st.integers(2, 3)), draw(st.integers(1, 6))
    column = st.lists(st.integers(0, 20), min_size=groups, max_size=groups)
    marked = draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)) if kill else [False] * nodes
    marked[draw(st.integers(0, nodes - 1))] = False
    return balance(
        (draw(column), draw(column)),
        draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups)),
        capacity_h=draw(st.lists(st.sampled_from([1.0, 1.5, 2.0]), min_size=nodes, max_size=nodes)),
        kill_h=marked,
        limits={draw(st.sampled_from(["cpu", "mem"])): 30.0},
        budget=draw(st.integers(0, groups)),
        cost_g=draw(st.none() | st.lists(st.integers(0, 3), min_size=groups, max_size=groups)),
    )


def assignments(problem: Balance) -> Iterator[np.ndarray]:
    """All allowed assignments."""
    for nodes in itertools.product(range(len(problem.capacity_h)), repeat=len(problem.home_g)):
        node_g = np.array(nodes)
        if not problem.violation(node_g):
            yield node_g


def best(problem: Balance) -> tuple[float, float]:
    """Least objective of all assignments: load distance, then deviations above and below together."""
    return min(problem.objective(node_g) for node_g in assignments(problem))
