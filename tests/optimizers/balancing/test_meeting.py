"""Migrations of a round chosen together: each has the predicted effect, and no assignment is far better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.balancing.collocation import Migrations, Movable, collocated_by_search
from optimizers.balancing.joint import Joint
from optimizers.balancing.objective import CollocationObjective, relieved
from optimizers.balancing.problem import KeyGroupTraffic
from optimizers.balancing.search import Search
from papers.albic.synthetic import job
from tests.optimizers.balancing.small import assignments, balance, balances


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
