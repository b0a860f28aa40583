"""`milp` and branch and bound on jobs of many operators and hosts, and on small ones against every plan: their plans
are no worse than those of others, and their bounds hold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from optimizers.interface import USUAL_S, Problem, Solution, Status
from optimizers.milp.moving import Quick, descents
from optimizers.registry import OPTIMIZERS
from optimizers.selection import estimate
from optimizers.space import Space, as_plans, counts_of
from tests.optimizers.judged_jobs import asked, small_job
from tests.optimizers.large_jobs import large_job
from tests.optimizers.test_stopping import Counting
from twin.rates.coefficients import PlacementCoefficients
from twin.scenario import Scenario

Of = tuple[int, int, int, int | None, float]
"""Operators, hosts, seed, kinds of hosts and load of a job."""
TOGETHER = Space(spread=False, free_subtasks=False)
SMALL: list[Of] = [(4, 4, seed, kinds, load) for seed in range(4) for kinds, load in ((2, 0.3), (None, 1.0))]


def problem_of(job: Scenario, **more: Any) -> Problem:
    return asked(job, **{"space": TOGETHER, **more})


@cache
def best_of_all(of: Of) -> float:
    """Latency of the best of all plans that put each operator on one host, infinite if none keeps up."""
    operators, hosts, seed, kinds, load = of
    job = large_job(operators, hosts, seed, kinds=kinds, load=load)
    place_no = np.array(list(product(range(hosts), repeat=operators)))
    found = estimate(problem_of(job), as_plans(job, np.eye(hosts, dtype=np.int64)[place_no]))
    return float(found.objective[found.feasible].min(initial=np.inf))


@cache
def solved(name: str, of: Of, budget: int = 1000) -> Solution:
    operators, hosts, seed, kinds, load = of
    return OPTIMIZERS[name].solve(problem_of(large_job(operators, hosts, seed, kinds=kinds, load=load), budget=budget))


@pytest.mark.parametrize("name", ["milp", "branch-and-bound"])
@pytest.mark.parametrize("of", SMALL)
def test_no_plan_of_all_is_better_than_a_bound(name: str, of: Of) -> None:
    best, found = best_of_all(of), solved(name, of)
    assert np.isfinite(best) and found.feasible
    assert found.objective <= best * 1.01
    assert found.bound is None or found.bound <= best * (1.0 + 1e-9)
    assert found.status is not Status.OPTIMAL or found.objective <= best * (1.0 + 1e-5)


@pytest.mark.parametrize("of", [*SMALL[::2], (8, 26, 0, 4, 1.0), (8, 26, 1, None, 0.5)])
@pytest.mark.parametrize("budget", [1, 100])
def test_branch_and_bound_is_never_worse_than_milp(of: Of, budget: int) -> None:
    milp, tree = (solved(name, of, budget) for name in ("milp", "branch-and-bound"))
    assert tree.feasible >= milp.feasible
    assert tree.objective <= milp.objective * (1.0 + 1e-12)
    assert milp.bound is None or (tree.bound is not None and tree.bound >= milp.bound * (1.0 - 1e-9))
    assert tree.evaluations <= budget


@pytest.mark.parametrize("objective", ["throughput_per_s", "e2e_latency_s", "traffic_bytes_per_s"])
@pytest.mark.parametrize("seed", [1, 6, 8, 23])
def test_nor_by_any_other_objective(objective: str, seed: int) -> None:
    problem = problem_of(small_job(seed), objective=objective, budget=100)
    milp, tree = (OPTIMIZERS[name].solve(problem) for name in ("milp", "branch-and-bound"))
    assert tree.feasible >= milp.feasible
    assert problem.sign * tree.objective <= problem.sign * milp.objective + 1e-9 * abs(milp.objective)


@pytest.mark.parametrize("kinds", [4, None])
def test_at_size_there_is_a_bound_and_a_plan_as_good_as_any(kinds: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what programs with integers are solved for, and below."""
    job = large_job(8, 60, 1, kinds=kinds)
    monkeypatch.setattr("optimizers.milp.optimizer.HUGE", 300)
    monkeypatch.setattr("optimizers.milp.placing.HUGE", 300)
    problem = problem_of(job, budget=200)
    found, climbed = OPTIMIZERS["milp"].solve(problem), OPTIMIZERS["local-search"].solve(problem)
    given = estimate(problem, [job.plan]).candidate(0)
    assert found.feasible and found.objective <= min(given.objective, climbed.objective)
    assert found.bound is not None and 0.0 < found.bound <= found.objective
    assert found.objective > 0 and found.evaluations <= 200
    assert OPTIMIZERS["milp"].solve(problem).plan == found.plan, "the same problem gives the same plan"


def test_time_that_is_up_is_said_and_a_model_that_takes_long_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    job = large_job(12, 40, 0)
    problem = problem_of(job)
    assert problem.within_usual().seconds == USUAL_S
    assert replace(problem, seconds=5.0).within_usual().seconds == 5.0
    assert replace(problem, cost_model=Counting()).within_usual().seconds is None
    monkeypatch.setattr("optimizers.interface.USUAL_S", 1e-3)
    given = estimate(problem, [job.plan]).candidate(0)
    for name in ("milp", "branch-and-bound"):
        found = OPTIMIZERS[name].solve(problem)
        assert "time was up" in found.message and found.status is Status.FEASIBLE
        assert found.objective <= given.objective
        assert found.bound is None or found.bound <= found.objective


@pytest.mark.parametrize("seed", range(3))
def test_a_quick_move_changes_the_quick_estimate_by_what_it_says(seed: int) -> None:
    job = large_job(9, 7, seed, kinds=None)
    quick = Quick.of(PlacementCoefficients.of(job), TOGETHER, end_to_end=bool(seed % 2))
    place_o = counts_of(job, job.plan).argmax(axis=1)
    change_ol = quick.moves(place_o)
    for o, socket in product(range(9), range(7)):
        moved = place_o.copy()
        moved[o] = socket
        if socket == place_o[o]:
            assert np.isinf(change_ol[o, socket])
            continue
        assert change_ol[o, socket] == pytest.approx(quick.cost(moved) - quick.cost(place_o), rel=1e-6, abs=1e-9)


def test_quick_moves_keep_to_the_space() -> None:
    job = large_job(9, 7, 0)
    first, *_, last = (each.name for each in job.query.topological)
    space = replace(TOGETHER, pinned=frozenset({last}), allowed={first: ("h0", "h1", "h2", "h3")})
    quick = Quick.of(PlacementCoefficients.of(job), space, end_to_end=False)
    given = counts_of(job, job.plan).argmax(axis=1)
    assert all(
        quick.allowed_ol[np.arange(9), place_o].all()
        for place_o in descents(quick, [given], np.random.default_rng(0), asked(job).deadline())
    )
