"""Algorithm 1 and scale-in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from optimizers.balancing.adaptation import Decision, Utilisation, planned
from optimizers.balancing.search import Search
from papers.albic.fig5 import separately
from papers.albic.jobs import moved
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
        found = planned(problem, Search(looks=20), stalled=stalled)
        assert not problem.violation(found.node_g)
        problem = moved(problem, found.node_g)
        stalled = problem.marked_h[problem.home_g].sum() == waiting
    assert not problem.marked_h[problem.home_g].any()


def test_nodes_come_where_balancing_alone_is_not_enough_and_marked_ones_are_kept_first():
    """A node at 90 % of two that have 45 % on average: to move half of it is enough."""
    for loads, home, nodes, budget, kill_h, decision in (
        ((30, 30, 30, 0), (0, 0, 0, 1), 2, 1, None, Decision()),
        ((30,) * 6, (0, 0, 0, 1, 1, 1), 2, 4, None, Decision(add=1)),
        ((45, 45, 45, 45), (0, 0, 1, 1), 3, 4, (0, 0, 1), Decision(keep=(2,))),
    ):
        problem = balance((loads,), home, nodes, budget=budget, kill_h=kill_h)
        assert Utilisation(high=85.0)(problem, SEARCH.solve(problem)) == decision


def test_the_least_loaded_nodes_go_and_one_stays():
    problem = balance(((20, 10, 10, 0),), (0, 1, 2, 3), 4, budget=4)
    assert len(Utilisation()(problem, SEARCH.solve(problem)).remove) == 3
    idle = balance(((0, 0, 0, 0),))
    assert Utilisation()(idle, SEARCH.solve(idle)).remove in ((0,), (1,))
    with pytest.raises(BadInput, match="low < target < high"):
        Utilisation(low=70.0)


def test_scale_in_that_is_not_integrated_only_empties():
    problem = balance(((50, 10, 10, 10),), (0, 0, 1, 2), 3, budget=1, kill_h=(0, 0, 1))
    first = separately(problem, SEARCH)
    assert first.moves.tolist() == [3]
    after = moved(problem, first.node_g)
    assert separately(after, SEARCH).node_g.tolist() == SEARCH.solve(after).node_g.tolist()
