"""Tests of solvers that bring traffic together: ALBIC, COLA, and collocation and balance at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.balancing.albic import Albic, units
from optimizers.balancing.collocation import Migrations, Movable, collocated_by_search
from optimizers.balancing.joint import CollocationObjective, Joint, relieved
from optimizers.balancing.problem import KeyGroupTraffic, assignment, contracted, partitioned
from optimizers.balancing.search import Search
from optimizers.balancing.solvers import BalanceMilp, Cola
from papers.albic.synthetic import job, moved
from tests.optimizers.balancing.small import assignments, balance, balances
from twin.errors import BadInput

# collocation ---------------------------------------------------------------------------------------------------------
# Collocation: groups that exchange much come together, at a known cost in balance.


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


# migrations together -------------------------------------------------------------------------------------------------
# Migrations of a round chosen together: each has the predicted effect, and no assignment is far better.


def small(seed: int, serialising: float = 0.0, **more):
    """Problem with three groups of an operator, each with a mate in the next one, on three nodes."""
    rng = np.random.default_rng(seed)
    traffic = KeyGroupTraffic([0, 0, 0, 1, 1, 1], [0, 1, 2], [3, 4, 5], rng.uniform(1.0, 3.0, 3))
    loads = (rng.uniform(8, 15, 6),)
    given = {"budget": 3, "traffic": traffic, "serialising": serialising} | more
    return balance(loads, rng.integers(0, 3, 6), 3, **given)


def worth_of(problem, band=2.0) -> CollocationObjective:
    return CollocationObjective(problem, problem.traffic, np.ones(len(problem.traffic.rate_e), bool), band)


@pytest.mark.parametrize("serialising", [0.0, 2.0])
def test_deviations_are_those_of_the_loads_that_there_will_be(serialising):
    problem = small(1, serialising)
    worth = worth_of(problem)
    for node_g in assignments(problem):
        assert worth.deviation_h(node_g) == pytest.approx(relieved(problem, node_g).deviation_h(node_g))


@pytest.mark.parametrize("serialising", [0.0, 2.0])
def test_each_migration_changes_the_value_as_it_is_said_to(serialising):
    """A migration changes the value as predicted, exactly but for the mean, which counts in first order."""
    for seed in range(5):
        problem = small(seed, serialising)
        worth, rows = worth_of(problem, band=1e-9 if not serialising else 200.0), Movable.of(np.arange(6))
        there = Migrations(worth, rows, problem.home_g, np.zeros(6, bool))
        assert len(there.row_m) == 6 * 2
        before = worth.value(problem.home_g)
        for each, change in enumerate(there.change_m):
            after_g = problem.home_g.copy()
            after_g[rows[there.row_m[each]]] = there.to_m[each]
            assert worth.value(after_g) - before == pytest.approx(change)


def test_two_migrations_change_what_both_do():
    problem = replace(small(3), traffic=KeyGroupTraffic([0] * 6, [0, 1], [3, 4], [1.0, 1.0]))
    worth, rows = worth_of(problem), Movable.of(np.arange(6))
    there = Migrations(worth, rows, problem.home_g, np.zeros(6, bool))
    pairs, changes = there.pairs(np.arange(len(there.row_m)), 1000)
    assert pairs.shape[1] > 30
    for (one, other), change in zip(pairs.T, changes, strict=True):
        groups = there.row_m[one], there.row_m[other]
        if {(0, 3), (1, 4)} & {groups, groups[::-1]}:
            continue  # they exchange traffic with each other
        after_g = problem.home_g.copy()
        after_g[groups[0]], after_g[groups[1]] = there.to_m[one], there.to_m[other]
        assert worth.value(after_g) - worth.value(problem.home_g) == pytest.approx(change)


@pytest.mark.parametrize(("serialising", "worse"), [(0.0, 1e-6), (2.0, 0.25)])
def test_no_assignment_is_better_in_small(serialising, worse):
    """The search finds the best of all assignments: in the band where any is, then with the most traffic together.
    Where loads change with it, a quarter of a pair may be missing: three groups may have to go at once."""
    for seed in range(8):
        problem = small(seed, serialising)
        band = min(relieved(problem, node_g).distance(node_g) for node_g in assignments(problem)) + 4.0
        worth = worth_of(problem, band)
        found = collocated_by_search(problem, problem.traffic, worth.hot_e, np.arange(6), band=band, steps=150)
        best = min(assignments(problem), key=worth.rank)
        assert not worth.rank(found)[0]
        assert worth.value(best) - 1e-9 <= worth.value(found) <= worth.value(best) + worse


def test_nothing_goes_to_a_marked_node_nor_beyond_memory_or_budget():
    for seed in range(5):
        problem = small(seed, kill_h=(0, 0, 1), state_g=np.ones(6), memory_h=np.full(3, 3.0), budget=4)
        worth = worth_of(problem)
        node_g = collocated_by_search(problem, problem.traffic, worth.hot_e, np.arange(6), band=2.0, steps=60)
        assert not problem.violation(node_g)


def test_groups_that_may_not_move_stay():
    problem = small(2, fixed_g=np.array([1, 0, 0, 1, 0, 0]))
    worth = worth_of(problem)
    node_g = collocated_by_search(problem, problem.traffic, worth.hot_e, np.arange(6), band=50.0, steps=40)
    assert (node_g[[0, 3]] == problem.home_g[[0, 3]]).all()


def test_it_gives_one_answer_whatever_the_clock_says():
    problem = replace(job("fig2", "pairs", 100.0, seed=0), serialising=0.5)
    one, other = (Joint(steps=12, inner=Search(looks=50)).solve(problem) for _ in range(2))
    assert (one.node_g == other.node_g).all()


def test_a_load_that_falls_as_traffic_comes_together_keeps_the_band_all_the_way():
    """Loads stay in the band until all traffic is together, though half of the work is serialising."""
    rng = np.random.default_rng(0)
    mates, count, nodes = np.arange(30), 30, 6
    traffic = KeyGroupTraffic(np.repeat([0, 1], count), mates, mates + count, np.full(count, 2.0))
    home = np.concatenate([mates % nodes, (mates + 1) % nodes])
    problem = balance((rng.uniform(4, 8, 2 * count),), home, nodes, budget=6, traffic=traffic, serialising=1.5)
    solver, distances, moved = Joint(band=3.0, steps=40, inner=Search(looks=50, band=3.0)), [], []
    for _ in range(10):
        found = solver.solve(problem)
        after = relieved(problem, found.node_g)
        distances.append(after.distance(found.node_g))
        moved.append(len(found.moves))
        problem = replace(after, home_g=found.node_g)
    assert problem.traffic.factor(problem.home_g) > 90.0
    assert max(distances[2:]) <= 3.0 + 1e-6
    assert max(moved) <= 6


@settings(deadline=None, max_examples=25)
@given(balances(), st.data())
def test_whatever_is_asked_there_is_an_answer_that_keeps_the_rules(problem, data):
    """All problems get a valid answer: marked nodes, no load, no budget, states that fit nowhere, any traffic."""
    groups, nodes = len(problem.home_g), len(problem.capacity_h)
    ends = st.tuples(st.integers(0, groups - 1), st.integers(0, groups - 1)).filter(lambda pair: pair[0] != pair[1])
    pairs = data.draw(st.lists(ends, max_size=5, unique=True)) if groups > 1 else []
    rates = [data.draw(st.sampled_from([0.0, 1.0, 50.0])) for _ in pairs]
    traffic = KeyGroupTraffic(np.arange(groups) % 2, [one for one, _ in pairs], [other for _, other in pairs], rates)
    hard = replace(
        problem,
        traffic=traffic,
        serialising=data.draw(st.sampled_from([0.0, 0.5])),
        state_g=np.array([data.draw(st.sampled_from([0.0, 1.0, 1e6])) for _ in range(groups)]),
        memory_h=np.full(nodes, 10.0),
    )
    found = Joint(steps=5, inner=Search(looks=20)).solve(hard)
    assert not hard.violation(found.node_g)
    assert np.isfinite(found.distance)
