"""Every optimizer on small jobs, against every plan there is: its answers, claims and limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle

import numpy as np
import pytest

from optimizers.interface import Problem, Solution, Status, traits_of
from optimizers.objectives import OBJECTIVES, Requirements, at_rate
from optimizers.planner import Planner
from optimizers.registry import BASELINES, OPTIMIZERS, optimizer_by_name
from optimizers.selection import PREMIUM, SURE, Estimated, estimate, ranks
from optimizers.space import Space, as_plans
from tests.optimizers.conftest import TableModel, diamond, on_first_host, tree
from tests.optimizers.judged_jobs import brute_force, ends_apart, small_job
from twin.errors import BadInput
from twin.metrics import CHECKPOINTS, estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

NAMES = (*sorted(OPTIMIZERS), "fusion+rlas", "fusion+milp")
BEST = {"exhaustive": 1e-9, "local-search": 1e-9, "branch-and-bound": 0.01, "milp": 0.01, "fusion+milp": 0.01}
"""Optimizers that find the best of so few plans, with their relative tolerance."""
SPACES = (
    Space(free_subtasks=False),
    Space(free_subtasks=False, spread=False),
    Space(free_subtasks=False, pinned=frozenset({"s"})),
    Space(free_subtasks=False, allowed={"m": ("b",)}),
    Space(free_subtasks=False, costream_rules=True),
    Space(free_subtasks=False, most_moves=1),
)
SEEDS = (1, 5, 6, 8, 12, 16, 20, 23, 24, 27, 33, 0, 343)
"""Seeds of jobs that have a plan which keeps up, but for the last two: 343 is overloaded by too little to show it."""
REQUIRED = (
    Requirements(),
    Requirements(head_room=0.2),
    Requirements(at_most={"e2e_latency_s": 0.5}),
    Requirements(head_room=0.5, at_most={"processing_latency_s": 0.2}),
)
TIE = {"throughput_per_s": 1e-3}
"""Relative tolerance of a proof, by objective; 1e-5 for latencies."""


@dataclass(frozen=True)
class Case:
    """Problem with its cost model's values of every plan of the space."""

    problem: Problem
    every: Estimated

    def narrowed(self, name: str) -> Case:
        """Case with only the plans that an optimizer keeps to by itself, to which its claims refer."""
        space = self.problem.space
        if traits_of(optimizer_by_name(name)).costream_rules and not space.spread:
            space = replace(space, costream_rules=True)
        elif name == "branch-and-bound":
            space = replace(space, spread=False)
        return self if space == self.problem.space else _judged(replace(self.problem, space=space))

    @property
    def best(self) -> float | None:
        """Objective of the best plan that keeps up and fulfils the requirements, less being better."""
        keys = ranks(self.problem, self.every)
        return min((float(cost) for dropped, _, cost, _ in keys.T if not dropped), default=None)


@cache
def cases() -> tuple[Case, ...]:
    """Plans by hosts and by sockets under the rate model; a tree and a diamond whose plans have random costs."""
    return tuple(_judged(problem) for problem in (*_by_rates(), *_by_table()))


def _judged(problem: Problem) -> Case:
    job = problem.scenario
    every = brute_force(job)
    every = every[problem.space.holds(job, every)]
    return Case(problem, estimate(problem, as_plans(job, every) if len(every) else []))


def _by_rates() -> Iterator[Problem]:
    known = [name for name, each in OBJECTIVES.items() if each.of is not None or estimates(RateModel(), name)]
    objectives = sorted({*known} - {*CHECKPOINTS})[::-1]  # none of the jobs takes any
    asked = zip(cycle(SPACES), cycle(objectives), cycle(REQUIRED), strict=False)
    jobs = [*map(small_job, SEEDS), *(small_job(seed, sockets=2) for seed in range(2))]
    for job, (space, objective, required) in zip(jobs, asked, strict=False):
        yield Problem(
            scenario=job, cost_model=RateModel(), objective=objective, space=space, requirements=required, budget=150
        )
    for job in map(small_job, (6, 8, 24, 32)):  # of which bounds are claimed
        yield Problem(scenario=job, cost_model=RateModel(), space=SPACES[1], budget=150)


def _by_table() -> Iterator[Problem]:
    for query, objective in ((tree(), "processing_latency_s"), (diamond(), "throughput_per_s")):
        job = on_first_host(query, hosts=3)
        space = Space(free_subtasks=False, costream_rules=objective == "throughput_per_s")
        yield Problem(scenario=job, cost_model=TableModel(), objective=objective, space=space, budget=1000)


def solved(name: str, problem: Problem) -> Solution | None:
    """Solution of the problem; None if the optimizer refuses it by name."""
    optimizer = optimizer_by_name(name)
    try:
        return Planner(optimizer, keeps=name not in BASELINES).solve(problem)
    except BadInput as refusal:
        if not any(own in str(refusal) for own in (name, *name.split("+"))):
            raise
        return None


@cache
def answers(name: str) -> tuple[tuple[Case, Solution | None], ...]:
    """Answers to every problem that has a plan."""
    return tuple((case, solved(name, case.problem)) for case in cases() if len(case.every.plans))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_answered_and_claimed_is_true_of_every_plan(name: str) -> None:
    told = [(case.narrowed(name), found) for case, found in answers(name) if found is not None]
    for own, found in told:
        _check_answer(name, own, found)
        if traits_of(optimizer_by_name(name)).by_objective:
            _check_claims(own, found)
    assert len(told) >= (len(cases()) // 4 if name != "random-sockets" else 1)


def _check_answer(name: str, case: Case, found: Solution) -> None:
    """Checks that the answer fits, is in the space, has the model's value, and is the best or no worse than the given
    plan."""
    problem, job = case.problem, case.problem.scenario
    assert job.with_plan(found.plan).plan == found.plan
    assert name in BASELINES or problem.space.includes(job, found.plan) or found.plan == job.plan
    if name not in BASELINES:
        _check_space(problem.space, job, found.plan)
    given, mine = ranks(problem, judged := estimate(problem, [job.plan, found.plan])).T
    assert found.objective == pytest.approx(judged.objective[1], rel=1e-9)
    if not traits_of(optimizer_by_name(name)).by_objective:
        return
    assert found.feasible == (mine[0] == 0.0)
    if name not in BASELINES and problem.space.includes(job, job.plan):
        dearer = PREMIUM * abs(given[2]) if judged.backpressured[0] >= SURE else 0.0
        assert (*mine[:2], mine[2] - dearer) <= tuple(given)
    if name in BEST and case.best is not None and isinstance(problem.cost_model, RateModel):
        assert mine[0] == 0.0 and mine[2] <= case.best + max(BEST[name], PREMIUM) * abs(case.best)
    if found.feasible and problem.requirements.head_room:
        ahead = problem.cost_model.predict(at_rate(job, problem.requirements.factor), [found.plan])
        assert ahead["backpressured"][0] < 0.5 <= ahead["success"][0]
    for latency, most_s in problem.requirements.at_most.items():
        assert not found.feasible or problem.cost_model.predict(job, [found.plan])[latency][0] <= most_s


def _check_space(space: Space, job: Scenario, plan: ExecutionPlan) -> None:
    """Checks a plan against the space, without the space's own code."""
    moved = {each for each in plan.placement if sorted(plan.placement[each]) != sorted(job.plan.placement[each])}
    assert not moved & space.pinned
    assert space.most_moves is None or len(moved) <= space.most_moves
    assert {each.host for name in space.allowed for each in plan.locations(name)} <= {*sum(space.allowed.values(), ())}
    assert space.spread is not False or all(len({*plan.locations(each)}) == 1 for each in moved)
    assert all(plan.parallelism(each) == job.plan.parallelism(each) for each in plan.placement)


def _check_claims(case: Case, found: Solution) -> None:
    """Checks status and bound against every plan."""
    sign, best = case.problem.sign, case.best
    close = TIE.get(case.problem.objective, 1e-5)
    if found.status is Status.OPTIMAL:
        assert best is not None and found.feasible and sign * found.objective <= best + close * abs(best)
    if found.status is Status.INFEASIBLE:
        assert best is None
    if found.bound is not None and best is not None:
        assert sign * found.bound <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("name", [*BEST, "rlas", "rlas-placement"])
@pytest.mark.parametrize("hosts", [2, 3])
def test_everything_may_go_to_one_host_at_once(name: str, hosts: int) -> None:
    job = ends_apart(hosts)
    found = solved(name, Problem(scenario=job, cost_model=RateModel(), objective="traffic_bytes_per_s"))
    assert found is not None and found.objective == 0.0 and found.feasible


@pytest.mark.parametrize("name", NAMES)
def test_the_same_problem_gives_the_same_plan(name: str) -> None:
    for case, first in answers(name)[::5]:
        again = solved(name, case.problem)
        assert (first is None) == (again is None)
        if first is not None and again is not None:
            assert (first.plan, first.objective) == (again.plan, again.objective)
            assert first.alternatives == again.alternatives


def test_so_few_plans_are_all_listed_and_what_there_is_not_is_refused() -> None:
    """The exhaustive optimizer proves what brute force finds, and refuses a space without a plan."""
    proved = [case for case in cases() if case.best is not None]
    assert len(proved) > 6
    for case in proved:
        found = OPTIMIZERS["exhaustive"].solve(case.problem)
        assert found.status is Status.OPTIMAL and case.problem.sign * found.objective == pytest.approx(
            case.best, rel=1e-12
        )
        assert np.isfinite(found.objective) and found.bound == found.objective
    for case in (case for case in cases() if not len(case.every.plans)):
        for name in ("local-search", "exhaustive", "milp"):
            with pytest.raises(BadInput):
                Planner(OPTIMIZERS[name]).solve(case.problem)
