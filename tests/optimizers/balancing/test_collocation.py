"""Collocation: groups that exchange much come together, at a known cost in balance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.balancing.albic import Albic, units
from optimizers.balancing.cola import Cola
from optimizers.balancing.joint import Joint
from optimizers.balancing.milp import BalanceMilp
from optimizers.balancing.problem import KeyGroupTraffic, assignment, contracted, partitioned
from optimizers.balancing.search import Search
from papers.albic.synthetic import job, moved
from tests.optimizers.balancing.small import assignments, balance, balances
from twin.errors import BadInput

PAIRED = KeyGroupTraffic([0, 0, 1, 1], [0, 1], [2, 3], [5.0, 4.0])
"""Traffic of groups 0 and 1, each to a group of the next operator; both pairs are outstanding at a score factor of 1.5.
"""


def paired(**more):
    return balance(((10, 10, 10, 10),), (0, 1, 1, 0), **{"traffic": PAIRED, "budget": 1.0} | more)


def small_job(topology="pairs", percent=100.0):
    return job("fig2", topology, percent, seed=0)


def test_albic_brings_the_heaviest_pair_together():
    found = Albic(inner=BalanceMilp(), max_distance=100.0).solve(paired())
    assert found.node_g[0] == found.node_g[2]
    assert len(found.moves) == 1
    assert found.collocation == pytest.approx(100 * 5 / 9)


def test_albic_keeps_together_what_is():
    """ALBIC moves pairs on one node as a whole: with both on node 0, one of them goes."""
    problem = balance(((10, 10, 10, 10),), (0, 0, 0, 0), budget=2, traffic=PAIRED)
    found = Albic(inner=BalanceMilp()).solve(problem)
    assert (found.collocation, found.distance) == (100.0, pytest.approx(0.0))


def test_albic_gives_collocation_up_where_the_load_distance_would_be_too_large():
    found = Albic(inner=BalanceMilp(), max_distance=5.0).solve(paired())
    assert (found.distance, found.moves.size) == (0.0, 0)
    assert found.collocation == 0.0


def test_a_pair_does_not_get_together_on_a_marked_node():
    found = Albic(inner=BalanceMilp(), max_distance=100.0).solve(paired(kill_h=(0, 1)))
    assert not (found.node_g[found.moves] == 1).any()


def test_without_traffic_balance_is_all_there_is():
    for solver in (Albic(inner=BalanceMilp()), Joint(inner=BalanceMilp())):
        assert solver.solve(balance()).distance == BalanceMilp().solve(balance()).distance


def test_units_are_neither_heavier_than_the_limit_nor_dearer_than_the_budget():
    problem = replace(small_job("chain"), home_g=np.zeros(400, dtype=int), budget=6.0)
    traffic = problem.traffic
    every = units(problem, traffic, traffic.outstanding(1.5), limit=15.0)
    assert np.bincount(every).max() <= 6
    assert np.bincount(every, problem.work_g).max() <= 15.0
    assert np.bincount(every).max() > 2


def test_a_unit_that_is_too_heavy_is_split_where_least_is_exchanged():
    """A unit that is too heavy is split where least is exchanged: two circles of four with 10 a pair, and 1 between."""
    ends = [(a, a // 4 * 4 + (a + 1) % 4) for a in range(8)] + [(0, 4)]
    traffic = KeyGroupTraffic([0] * 8, *zip(*ends, strict=True), [10.0] * 8 + [1.0])
    problem = balance(((10,) * 8,), (0,) * 8, budget=8.0, traffic=traffic)
    assert units(problem, traffic, np.ones(9, dtype=bool), limit=40.0).tolist() in (
        [0] * 4 + [1] * 4,
        [1] * 4 + [0] * 4,
    )


@settings(deadline=None, max_examples=40)
@given(balances(kill=False), st.data())
def test_what_holds_for_units_holds_for_groups(problem, data):
    """An assignment of units (groups on one node) is one of groups, with the same distance and cost."""
    label_g = np.array([data.draw(st.integers(0, 1)) for _ in problem.home_g]) + 2 * problem.home_g
    unit_g = np.unique(label_g, return_inverse=True)[1]
    whole = contracted(problem, unit_g, {})
    for node_u in assignments(whole):
        assert not problem.violation(node_u[unit_g])
        assert whole.objective(node_u) == pytest.approx(problem.objective(node_u[unit_g]))
        assert whole.spent(node_u) == pytest.approx(problem.spent(node_u[unit_g]))


def test_where_its_band_cannot_be_had_joint_is_as_even_as_any_assignment():
    rng, out_of_reach = np.random.default_rng(0), 0
    for _ in range(12):
        traffic = KeyGroupTraffic([0, 0, 1, 1, 1], [0, 1], [2, 3], rng.uniform(1, 3, 2))
        more = {"capacity_h": rng.choice([1.0, 1.5, 2.0], 3), "cost_g": rng.integers(1, 4, 5)}
        loads, homes, budget = (rng.uniform(5, 25, 5),), rng.integers(0, 3, 5), float(rng.integers(1, 6))
        problem = balance(loads, homes, 3, budget=budget, traffic=traffic, **more)
        least = min(problem.distance(node_g) for node_g in assignments(problem))
        found = Joint(band=3.0, steps=50, inner=Search(looks=400)).solve(problem)
        assert found.distance <= max(3.0, least) + 1e-6
        assert not problem.violation(found.node_g)
        out_of_reach += least > 3.0
    assert out_of_reach > 3


def test_cola_collocates_everything_and_says_what_it_ignores():
    problem = small_job()
    found = Cola().solve(problem)
    assert found.collocation > 95.0
    assert found.distance <= 10.0
    assert (found.message, found.bound) == ("COLA ignores the budget", 0.0)
    assert found.cost > problem.budget


def test_cola_leaves_marked_nodes():
    problem = replace(small_job(), kill_h=np.arange(20) < 3)
    assert (Cola().solve(problem).node_g >= 3).all()


def test_load_index_falls_with_the_traffic_between_nodes():
    """The load index falls with traffic between nodes: a unit costs 2 of 40 points, and the 5 of a pair save 10."""
    problem = paired(serialising=2.0)
    found = assignment(problem, np.array([1, 1, 1, 0]), 0.0)
    assert found.index == pytest.approx(75.0)


def test_groups_take_their_load_along():
    problem = balance(((30, 10),), (0, 1), capacity_h=(1, 2))
    after = moved(problem, np.array([1, 1]))
    assert after.loads["cpu"].tolist() == [15.0, 10.0]
    assert after.work_g.tolist() == problem.work_g.tolist()


def test_metis_traps():
    """METIS gives no more parts than vertices; weights of 0 and no edges are fine."""
    nothing = KeyGroupTraffic([0] * 4, [], [], []).both_ways
    assert set(partitioned(nothing, np.zeros(4), 9)) == {0, 1, 2, 3}
    assert set(partitioned(nothing, np.zeros(4), 2)) == {0, 1}
    assert partitioned(nothing, np.ones(4), 1).tolist() == [0] * 4
    star = KeyGroupTraffic([0] * 9, [0] * 8, range(1, 9), [1.0] * 8).both_ways
    assert set(partitioned(star, np.zeros(9), 7)) == set(range(7))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Albic(step=0.0),
        lambda: Albic(share=1.5),
        lambda: Joint(band=-1.0),
        lambda: Joint(steps=0),
    ],
)
def test_senseless_settings_are_refused(make):
    with pytest.raises(BadInput):
        make()
