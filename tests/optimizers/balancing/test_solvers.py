"""Tests of balancing problems, and of their solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from optimizers.balancing.albic import Decision, Utilisation, planned
from optimizers.balancing.problem import KeyGroupTraffic, counting_bound, filled
from optimizers.balancing.search import Search, flux
from optimizers.balancing.solvers import SOLVERS, BalanceMilp
from optimizers.interface import Status
from papers.albic.synthetic import class_bound, cluster, moved, separately
from tests.optimizers.balancing.small import assignments, balance, balances, best
from twin.errors import BadInput

# problems ------------------------------------------------------------------------------------------------------------
# A balancing problem is checked once, where it is made.


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"loads": ()}, "loads of one resource"),
        ({"loads": ((1, np.nan, 1, 1),)}, r"loads\['cpu'\]\[1\] must be a number >= 0, got nan; fill gaps"),
        ({"loads": ((1, -2, 1, 1),)}, "got -2"),
        ({"loads": ((1, 2),)}, "must have 4 entries, got 2"),
        ({"homes": (0, 0, 0, 2)}, "home_g names node 2, but there are 2"),
        ({"homes": ()}, "needs key groups and nodes, got 0 and 2"),
        ({"capacity_h": (1, 0)}, "capacity_h of node 1 must be > 0"),
        ({"kill_h": (True, True)}, "all nodes are marked"),
        ({"budget": -1}, "budget must be a number >= 0, got -1"),
        ({"budget": np.nan}, "budget must be a number >= 0, got nan"),
        ({"cost_g": (1, 1, np.inf, 1)}, r"cost_g\[2\]"),
        ({"limits": {"gpu": 3}}, "limits names 'gpu'"),
        ({"limits": {"cpu": -3}}, r"limits\['cpu'\] must be"),
        ({"serialising": -1}, "serialising"),
        ({"traffic": KeyGroupTraffic([0, 0], [0], [1], [1.0])}, "traffic is of 2 key groups, the balance of 4"),
    ],
)
def test_bad_statistics_are_refused_with_a_remedy(change, says):
    with pytest.raises(BadInput, match=says):
        balance(**change)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (([0, 0], [0], [1, 1], [1.0]), "of one length"),
        (([0, 0], [0], [2], [1.0]), "names key group 2"),
        (([0, 0], [0], [1], [np.nan]), "every rate must be a number"),
        (([0, 0], [1], [1], [1.0]), "sends to itself"),
    ],
)
def test_bad_traffic_is_refused(columns, says):
    with pytest.raises(BadInput, match=says):
        KeyGroupTraffic(*columns)


def test_gaps_are_what_was_known_before_or_nothing():
    assert filled(np.array([1.0, np.nan, np.nan]), np.array([5.0, 2.0, np.nan])).tolist() == [1.0, 2.0, 0.0]
    assert filled(np.array([np.nan])).tolist() == [0.0]


def test_nothing_of_it_can_be_changed():
    problem = balance()
    with pytest.raises(ValueError, match="read-only"):
        problem.home_g[0] = 1
    with pytest.raises(TypeError):
        problem.loads["cpu"] = None


def test_a_group_is_a_smaller_share_of_a_stronger_node():
    problem = balance(capacity_h=(1, 3))
    assert problem.load_h(np.array([0, 0, 1, 1])).tolist() == [40.0, 20.0 / 3.0]
    assert problem.mean == 15.0


def test_the_mean_is_of_unmarked_nodes_and_not_rounded_up():
    assert balance(((10, 10, 10, 11),), (0, 1, 2, 2), 3, kill_h=(0, 0, 1)).mean == 20.5


def test_the_resource_with_the_greatest_total_usage_is_balanced():
    assert balance(((1, 1, 1, 1), (0, 0, 0, 9))).bottleneck == "mem"


def test_pairs_are_outstanding_by_what_their_sender_sends_on_average():
    """Outstanding pairs are judged by the sender's mean: 9 + 1 + 2 to two and one groups of two operators is 4."""
    traffic = KeyGroupTraffic([0, 1, 1, 2], [0, 0, 0, 1], [1, 2, 3, 3], [9.0, 1.0, 2.0, 1.0])
    assert traffic.outstanding(1.5).tolist() == [True, False, False, False]
    assert traffic.outstanding(0.9).tolist() == [True, False, False, True]
    assert traffic.factor(np.array([0, 0, 1, 1])) == pytest.approx(100 * 9 / 13)
    assert KeyGroupTraffic([0, 0], [], [], []).factor(np.array([0, 1])) == 100.0


# solvers -------------------------------------------------------------------------------------------------------------
# Every solver against all assignments of small problems; nodes that come and go.


QUICK = settings(deadline=None, max_examples=25)
WITHIN = [name for name in SOLVERS if name != "cola"]
"""Solvers that keep to the budget."""


@pytest.mark.slow
@QUICK
@given(balances())
def test_the_milp_finds_the_best_of_all(problem):
    found = BalanceMilp(seconds=30).solve(problem)
    distance, _ = best(problem)
    assert not problem.violation(found.node_g)
    assert found.distance == pytest.approx(distance, abs=1e-5)
    assert found.status is Status.OPTIMAL
    assert found.bound <= distance + 1e-6


@QUICK
@given(balances())
def test_no_bound_is_above_the_best_of_all(problem):
    distance, _ = best(problem)
    assert counting_bound(problem) <= distance + 1e-6
    assert class_bound(problem, classes=3) <= distance + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHIN)
@settings(deadline=None, max_examples=15)
@given(problem=balances())
def test_solvers_keep_to_budget_limits_and_marks(name, problem):
    found = SOLVERS[name].solve(problem)
    assert not problem.violation(found.node_g)
    assert found.bound <= found.distance
    assert found.cost <= problem.budget
    assert found.moves.tolist() == np.flatnonzero(found.node_g != problem.home_g).tolist()
    if found.status is Status.OPTIMAL:
        assert found.distance <= best(problem)[0] + 1e-5


@QUICK
@given(balances())
def test_the_search_is_never_worse_than_flux_or_than_staying(problem):
    found = Search(looks=100).solve(problem)
    others = (problem.home_g, flux(problem, best_fit=False), flux(problem, best_fit=True))
    assert found.distance <= min(problem.distance(node_g) for node_g in others) + 1e-6


@QUICK
@given(balances())
def test_lemma_2_load_left_on_marked_nodes_bounds_the_distance(problem):
    """Load left on marked nodes bounds the distance, d >= L_B / |A|: it is 0 only with all groups off them."""
    capacity = problem.capacity_h[~problem.marked_h].sum()
    for node_g in assignments(problem):
        left = problem.work_g[problem.marked_h[node_g]].sum()
        assert problem.distance(node_g) >= left / capacity - 1e-9


def test_a_state_that_fits_nowhere_stays_even_on_a_marked_node():
    """A state that fits nowhere stays, even on a marked node: its 900 MB fit on node 0 only."""
    problem = balance(
        ((30, 10, 10),), (0, 0, 1), 3, 9, state_g=(900, 10, 10), memory_h=(1000, 500, 500), kill_h=(1, 0, 0)
    )
    for name in WITHIN:
        assert SOLVERS[name].solve(problem).node_g[0] == 0


def test_nothing_to_do():
    still = balance(((0, 0, 0, 0),), budget=np.inf)
    for name in SOLVERS:
        found = SOLVERS[name].solve(still)
        assert (found.distance, found.index) == (0.0, 100.0)
    for name in WITHIN:
        assert SOLVERS[name].solve(balance(budget=0)).moves.size == 0
        assert SOLVERS[name].solve(balance(nodes=1, homes=(0, 0, 0, 0))).distance == 0.0


def test_out_of_time_the_start_is_returned_with_its_bound():
    found = BalanceMilp(seconds=1e-9, start=Search(looks=1)).solve(cluster(20, 400, varies=80, budget=20, seed=1))
    assert found.status is Status.FEASIBLE
    assert 0.0 <= found.bound < found.distance


@pytest.mark.parametrize("more", [{"budget": np.inf}, {"budget": 0, "cost_g": np.zeros(60)}])
def test_without_a_limit_all_get_even(more):
    """Without a limit nodes get even: sixty groups start on one of six, of which the last has twice the capacity."""
    loads = np.random.default_rng(0).uniform(1, 10, 60)
    problem = balance((loads,), (0,) * 60, 6, **{"capacity_h": (1, 1, 1, 1, 1, 2)} | more)
    for name in ("search", "flux", "flux-best-fit"):
        assert SOLVERS[name].solve(problem).distance < 10.0


def test_unbounded_weights_are_refused():
    with pytest.raises(BadInput, match="w1 must be > 2 w2"):
        BalanceMilp(w1=2.0, w2=1.0)
    with pytest.raises(BadInput, match="seconds > 0"):
        BalanceMilp(seconds=0.0)


@pytest.mark.parametrize("size", [(20, 400, 80, 10), (60, 1200, 40, 20), (60, 1200, 80, 30)])
def test_where_the_budget_binds_the_counting_bound_is_reached(size):
    nodes, groups, varies, budget = size
    found = Search().solve(cluster(nodes, groups, varies=varies, budget=budget, seed=0))
    assert found.status is Status.OPTIMAL
    assert found.bound > 3.0


def test_same_balance_same_assignment():
    problem = cluster(20, 400, varies=20, budget=10, seed=3)
    assert (Search(looks=200).solve(problem).node_g == Search(looks=200).solve(problem).node_g).all()


def test_a_band_and_a_price_save_migrations():
    problem = cluster(20, 400, varies=20, budget=20, seed=0)
    every, band = (Search(looks=300, band=b).solve(problem) for b in (0.0, 2.0))
    assert band.distance <= 2.0 < problem.distance(problem.home_g)
    assert len(band.moves) < len(every.moves)
    dear = BalanceMilp(w3=1e6).solve(balance())
    assert dear.moves.size == 0 < BalanceMilp().solve(balance()).moves.size


def test_what_is_optimal_is_so_in_the_weighted_objective_too():
    """The optimum is also one of the weighted objective: of two 10 points apart, that with 5 points below, not 6."""
    problem = balance(((40, 24, 1, 25),), (0, 1, 2, 2), 3, budget=1)
    found = BalanceMilp().solve(problem)
    assert found.status is Status.OPTIMAL
    assert problem.objective(found.node_g) == best(problem) == (10.0, 15.0)


@pytest.mark.parametrize(
    ("loads", "homes", "capacity", "costs", "budget", "killed"),
    [
        (
            (1, 12, 5, 3, 18, 22, 0, 3, 6),
            (0, 2, 2, 2, 2, 0, 0, 0, 2),
            (1, 1, 4),
            (6, 19, 6, 11, 16, 15, 9, 7, 18),
            54,
            2,
        ),
        ((14, 14, 2, 2, 1, 10), (0, 2, 3, 0, 1, 1), (2, 1.5, 1, 2), (19, 3, 18, 5, 13, 18), 33, None),
        ((0, 2, 6, 3, 7, 3), (2, 2, 0, 0, 0, 0), (1.5, 1, 1.5), (5, 19, 13, 13, 3, 4), 30, None),
    ],
)
def test_the_search_finds_the_best_where_nodes_and_costs_are_unlike(loads, homes, capacity, costs, budget, killed):
    """The search finds the best for unequal nodes and costs, though a kick may take back all migrations."""
    marked = [node == killed for node in range(len(capacity))]
    problem = balance((loads,), homes, len(capacity), budget, capacity_h=capacity, cost_g=costs, kill_h=marked)
    assert Search().solve(problem).distance == pytest.approx(best(problem)[0])


SEARCH = Search(looks=200)


@settings(deadline=None, max_examples=20)
@given(balances())
def test_marked_nodes_get_empty_in_the_end(problem):
    """Marked nodes get empty in the end, however small the budget, if it pays for any group and there is room."""
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
    """Nodes are added only if balancing is not enough (90 % on one node of two is not), marked ones kept first."""
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
