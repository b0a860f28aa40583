"""Algorithm 1 and scale-in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from optimizers.balancing.adaptation import Decision, Utilisation, adapted, moved, scaled, separately
from optimizers.balancing.search import Search
from tests.optimizers.balancing.small import balance, balances
from twin.errors import BadInput

SEARCH = Search(looks=200)


@settings(deadline=None, max_examples=20)
@given(balances())
def test_marked_nodes_get_empty_in_the_end(problem):
    """Whatever is marked, however small the budget, as long as it pays for any group and there is room."""
    problem = balance(
        (problem.loads["cpu"],), problem.home_g, len(problem.capacity_h), budget=1, kill_h=problem.marked_h
    )
    stalled = False
    for _ in range(4 * len(problem.home_g) + 2):
        waiting = problem.marked_h[problem.home_g].sum()
        found = adapted(problem, Search(looks=20), stalled=stalled)
        assert not found.balance.violation(found.plan.node_g)
        problem = moved(problem, found.plan.node_g)
        stalled = problem.marked_h[problem.home_g].sum() == waiting
    assert not problem.marked_h[problem.home_g].any()


def test_empty_marked_nodes_are_to_be_terminated():
    problem = balance(((10, 10),), (0, 1), 4, kill_h=(0, 1, 1, 0))
    assert adapted(problem, SEARCH).empty == (2,)


def test_balancing_first_avoids_scaling_out():
    """A node at 90 % of two that have 45 % on average: to move half of it is enough."""
    problem = balance(((30, 30, 30, 0),), (0, 0, 0, 1), budget=1)
    found = adapted(problem, SEARCH, Utilisation(high=85.0))
    assert not found.decision
    assert found.plan.distance == pytest.approx(15.0)


def test_scaling_out_adds_nodes_and_plans_again():
    problem = balance(((30,) * 6,), (0, 0, 0, 1, 1, 1), budget=4)
    found = adapted(problem, SEARCH, Utilisation(high=85.0))
    assert found.decision == Decision(add=1)
    assert np.bincount(found.plan.node_g).tolist() == [2, 2, 2]


def test_scaling_out_first_keeps_what_is_marked():
    problem = balance(((45, 45, 45, 45),), (0, 0, 1, 1), 3, budget=4, kill_h=(0, 0, 1))
    found = adapted(problem, SEARCH, Utilisation(high=85.0))
    assert found.decision == Decision(add=0, keep=(2,))
    assert not found.balance.marked_h.any()


def test_scaling_in_marks_the_least_loaded_and_leaves_one():
    problem = balance(((20, 10, 10, 0),), (0, 1, 2, 3), 4, budget=4)
    found = adapted(problem, SEARCH, Utilisation())
    assert len(found.decision.remove) == 3
    assert found.balance.mean <= 60.0
    idle = balance(((0, 0, 0, 0),))
    assert Utilisation()(idle, SEARCH.solve(idle)).remove in ((0,), (1,))


def test_marking_all_nodes_is_refused():
    with pytest.raises(BadInput, match="all nodes are marked"):
        scaled(balance(), Decision(remove=(0, 1)))
    with pytest.raises(BadInput, match="low < target < high"):
        Utilisation(low=70.0)


def test_scale_in_that_is_not_integrated_only_empties():
    problem = balance(((50, 10, 10, 10),), (0, 0, 1, 2), 3, budget=1, kill_h=(0, 0, 1))
    first = separately(problem, SEARCH)
    assert first.moves.tolist() == [3]
    after = moved(problem, first.node_g)
    assert separately(after, SEARCH).node_g.tolist() == SEARCH.solve(after).node_g.tolist()
