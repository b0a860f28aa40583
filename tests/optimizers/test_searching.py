"""Search with runs in the loop, on a bench whose costs are known: its answers are those of brute force."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.interface import Problem
from optimizers.local_search import changes_of
from optimizers.rules import distinct
from optimizers.searching import Budget, Judged, Search, Searched, emptied_of, in_turns, interval, small_changes
from optimizers.space import Space, SpacePlans, as_plans, counts_of
from tests.optimizers.conftest import TableModel, cluster, tree
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.workload import Poisson, Workload

SPACE = Space(free_subtasks=False, pinned=frozenset({"a", "b"}))


@dataclass(frozen=True)
class Run:
    value: float
    missed: float = 0.0
    cpu_s: float = 0.1


@dataclass
class Table:
    """Bench of known costs, between 0 and 1, with noise that is common to all plans of a run, and noise of each."""

    truth: TableModel
    scenario: Scenario
    noise: float = 0.0
    made: list[tuple[str, int]] = field(default_factory=list)
    sides: list[int] = field(default_factory=list)

    def __call__(self, wanted: Sequence[tuple[ExecutionPlan, int]], at_once: int) -> Iterator[Run]:
        for row, (plan, number) in enumerate(wanted):
            self.sides.append(len(wanted[row : row + at_once]))
            self.made.append((str(plan.placement), number))
            yield self.run(plan, number)

    def run(self, plan: ExecutionPlan, number: int) -> Run:
        cost, missed = self.cost(plan)
        own = random_stream(number, str(plan.placement)).normal() if self.noise else 0.0
        return Run(cost * math.exp(self.noise * own) * (1.0 + number % 3), missed)

    def cost(self, plan: ExecutionPlan) -> tuple[float, float]:
        found = self.truth.predict(self.scenario, [plan])
        broken = found["backpressured"][0] >= 0.5 or found["success"][0] < 0.5
        return float(found["processing_latency_s"][0]), float(broken) * float(found["backpressured"][0] + 0.1)

    def judged(self, runs: Sequence[Run]) -> Judged:
        missed = np.mean([each.missed for each in runs])
        return Judged(float(np.mean([each.value for each in runs])), float(missed))


def job(hosts: int = 3) -> Scenario:
    places = {each.name: "host0" for each in tree().operators}
    names = [each.name for each in cluster(hosts).hosts]
    plan = ExecutionPlan(placement=dict.fromkeys(places, (names[0],)))
    workload = Workload(arrivals={name: Poisson(rate_per_s=10) for name in ("a", "b")})
    return Scenario(query=tree(), cluster=cluster(hosts), plan=plan, workload=workload)


def searched(bench: Table, budget: Budget, seed: int = 0, at_once: int = 1, **more: object) -> Searched[Run]:
    problem = Problem(scenario=bench.scenario, cost_model=TableModel(0.0), seed=seed, space=SPACE)
    drawn = SpacePlans(problem.deployment, SPACE).draws(random_stream(seed, "starts"), 4)
    plans = [bench.scenario.plan, *as_plans(problem.deployment, drawn)]
    starts = {f"start {number}": plan for number, plan in enumerate(plans)}
    made = Search(problem, [TableModel(0.3)], bench, budget, sign=1.0, at_once=at_once, **more)
    return made.run(starts)


def rank(bench: Table, plan: ExecutionPlan) -> tuple[bool, float, float]:
    cost, missed = bench.cost(plan)
    return missed > 0.0, missed, cost


def every_plan(scenario: Scenario) -> list[ExecutionPlan]:
    return list(as_plans(scenario, SpacePlans(scenario, SPACE).all()))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("broken", [0.0, 0.3, 1.0])
def test_with_enough_runs_it_finds_the_best_of_all_plans(seed: int, broken: float) -> None:
    """Plans within a hundredth of the given one are not worth the moves."""
    bench = Table(TableModel(broken, name=f"table {seed}"), job())
    found = searched(bench, Budget(runs=400), seed)
    best = min(rank(bench, each) for each in every_plan(bench.scenario))
    mine = rank(bench, found.best.plan)
    stays = found.best.plan == bench.scenario.plan and mine[2] <= 1.01 * best[2]
    assert found.whole and (mine == best or stays)
    assert len(found.tried) == len(distinct(bench.scenario, every_plan(bench.scenario)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("runs", [1, 2, 5, 12, 30])
def test_it_keeps_its_budget_and_is_no_worse_than_any_start_that_was_run(seed: int, runs: int) -> None:
    bench = Table(TableModel(0.2), job(4))
    found = searched(bench, Budget(runs=runs), seed)
    assert found.runs == len(bench.made) <= runs
    began = [each for each in found.tried if each.found_by.startswith("start")]
    assert found.best.found_by == "start 0" or all(
        rank(bench, found.best.plan) <= rank(bench, each.plan) for each in began
    )
    ranks = [each.best for each in found.path if each.feasible]
    assert [each.runs for each in found.path] == sorted(each.runs for each in found.path)
    assert found.best.plan in [each.plan for each in found.tried] and len(ranks) <= len(found.path)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(3, 40))
def test_the_answer_does_not_depend_on_how_many_runs_are_made_side_by_side(seed: int, at_once: int, runs: int) -> None:
    alone, together = (Table(TableModel(0.2), job(4), noise=0.2) for _ in range(2))
    one = searched(alone, Budget(runs=runs), seed)
    other = searched(together, Budget(runs=runs), seed, at_once=at_once)
    assert (one.best.plan, one.path, one.runs) == (other.best.plan, other.path, other.runs)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_near_means_that_no_small_change_is_better(seed: int) -> None:
    bench = Table(TableModel(0.2), job(4))
    for runs in (10, 40, 90):
        found = searched(bench, Budget(runs=runs), seed)
        changed = small_changes(Problem(scenario=bench.scenario, cost_model=TableModel(), space=SPACE))
        near = np.stack(changed(counts_of(bench.scenario, found.best.plan)))
        plans = as_plans(bench.scenario, near[SPACE.holds(bench.scenario, near)])
        ran = {str(each.plan.placement) for each in found.tried}
        known = all(str(each.placement) in ran for each in plans)
        better = [each for each in plans if rank(bench, each) < rank(bench, found.best.plan)]
        if found.nothing_near:
            assert not better or found.best.plan == bench.scenario.plan
        elif known:
            assert better or found.best.plan == bench.scenario.plan


def test_a_plan_that_leads_has_more_runs_and_luck_in_one_does_not_decide() -> None:
    """Under noise of 30 % the answers of twenty searches are in the best tenth on average; chance picks the median."""
    places, most = [], 0
    for seed in range(20):
        bench = Table(TableModel(0.0), job(), noise=0.3)
        found = searched(bench, Budget(runs=60), seed)
        ordered = sorted(rank(bench, each) for each in every_plan(bench.scenario))
        places.append(ordered.index(rank(bench, found.best.plan)) / len(ordered))
        most = max(most, max(len(each.runs) for each in found.tried[1:]))
        assert len(found.best.runs) >= 2
    assert np.mean(places) < 0.1 and most > 1


def test_cpu_seconds_end_a_search_and_what_is_spent_beside_counts() -> None:
    bench = Table(TableModel(0.0), job(4))
    assert searched(bench, Budget(cpu_s=2.05)).runs == 21
    assert searched(Table(TableModel(0.0), job(4)), Budget(cpu_s=2.05), beside_s=lambda: 1.0).runs == 11
    for wrong in ({}, {"runs": 0}, {"cpu_s": -1.0}, {"cpu_s": math.inf}, {"runs": 3, "cpu_s": 1.0}):
        with pytest.raises(BadInput, match="a budget is a number of CPU seconds above 0, such as 20"):
            Budget(**wrong)


def test_first_runs_of_each_plan_are_as_many_as_asked_for() -> None:
    bench = Table(TableModel(0.0), job(4))
    found = searched(bench, Budget(runs=20), first=2)
    assert all(len(each.runs) >= 2 for each in found.tried) and found.runs <= 21


def test_the_given_plan_stays_unless_something_is_worth_its_moves() -> None:
    class Level(Table):
        def cost(self, plan: ExecutionPlan) -> tuple[float, float]:
            return (1.0 if plan == self.scenario.plan else self.other), 0.0

    for other, stays in ((0.995, True), (0.9, False), (1.1, True)):
        bench = Level(TableModel(0.0), job())
        bench.other = other
        assert (searched(bench, Budget(runs=30)).best.plan == bench.scenario.plan) == stays


def test_it_stops_when_asked_with_the_best_so_far() -> None:
    bench = Table(TableModel(0.0), job(4))
    problem = Problem(scenario=bench.scenario, cost_model=TableModel(0.0), space=SPACE)
    problem = replace(problem, stopped=lambda: len(bench.made) >= 7)
    found = Search(problem, [TableModel()], bench, Budget(runs=100), sign=1.0).run({"as given": bench.scenario.plan})
    assert found.runs == 7 and not found.whole


def test_predictions_take_turns() -> None:
    assert in_turns([[0, 1, 2, 3], [3, 0, 2, 1]]) == [0, 3, 1, 2]
    assert in_turns([[2], []]) == [2]


def test_a_host_may_become_free_in_one_change() -> None:
    problem = Problem(scenario=job(3), cost_model=TableModel(), space=SPACE)
    counts_ol = counts_of(problem.scenario, problem.scenario.plan)
    spread = counts_ol.copy()
    order = [each.name for each in problem.scenario.query.topological]
    for name in ("f", "j", "s"):
        spread[order.index(name)] = np.eye(spread.shape[1], dtype=int)[1]
    freed = [each for each in emptied_of(problem)(spread) if not each[:, 1].any()]
    assert freed and all((each.sum(axis=1) == spread.sum(axis=1)).all() for each in freed)
    assert all((each[order.index("a")] == counts_ol[order.index("a")]).all() for each in freed), "pinned"
    alone = {each.tobytes() for each in changes_of(problem, pairs=False)(spread)}
    assert {each.tobytes() for each in small_changes(problem)(spread)} >= alone - {spread.tobytes()}


def test_the_interval_of_a_mean_is_students_and_that_of_a_latency_is_above_0() -> None:
    bench, values = Table(TableModel(), job()), np.array([1.0, -2.0, 4.0, -3.0, -2.5])
    low, high = interval(bench, [Run(value) for value in values]) or (0.0, 0.0)
    half = 2.776 * values.std(ddof=1) / math.sqrt(5)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), rel=1e-3)
    low, high = interval(bench, [Run(0.001), Run(5.0)]) or (0.0, 0.0)
    assert 0.0 < low < 2.5005 < high
    close = interval(bench, [Run(value) for value in 100 + values]) or (0.0, 0.0)
    assert close == pytest.approx((100 + values.mean() - half, 100 + values.mean() + half), rel=2e-3)
    assert interval(bench, [Run(1.0)]) is None and interval(bench, [Run(1.0), Run(math.inf)]) is None


def test_the_leader_gets_more_runs_on_the_way_and_a_challenger_must_beat_it_in_all() -> None:
    bench = Table(TableModel(0.0), job(4), noise=0.3)
    found = searched(bench, Budget(runs=40))
    numbers = [number for _, number in bench.made[:30]]
    assert any(numbers), "before the last runs"
    assert len(found.best.runs) >= max(len(each.runs) for each in found.tried) - 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("runs", range(2, 30, 3))
def test_whenever_the_budget_ends_nobody_with_as_many_runs_beats_the_answer(seed: int, runs: int) -> None:
    """In the runs that both have; the given plan may stay, within a hundredth."""
    bench = Table(TableModel(0.1), job(4), noise=0.3)
    found = searched(bench, Budget(runs=runs), seed)
    best = found.best
    for other in found.tried[1:]:
        if len(other.runs) >= len(best.runs):
            mine, theirs = (bench.judged(each.runs[: len(best.runs)]).rank(1.0) for each in (best, other))
            assert mine <= theirs or found.stayed


def test_a_given_plan_outside_of_the_space_is_simulated_and_not_chosen() -> None:
    bench = Table(TableModel(0.0), job())
    space = replace(SPACE, allowed={"f": ("h1", "h2")})
    problem = Problem(scenario=bench.scenario, cost_model=TableModel(), space=space)
    for runs in (1, 5, 60):
        made = Search(problem, [TableModel()], bench, Budget(runs=runs + 1), sign=1.0, exchange=False)
        found = made.run({"as given": bench.scenario.plan})
        assert found.best.plan != bench.scenario.plan and space.includes(bench.scenario, found.best.plan)
        assert bench.scenario.plan in [each.plan for each in found.tried]


def test_a_space_without_plans_is_refused() -> None:
    bench = Table(TableModel(0.0), job())
    space = replace(SPACE, allowed={"f": ("h1",)}, most_moves=0)
    problem = Problem(scenario=bench.scenario, cost_model=TableModel(), space=space)
    with pytest.raises(BadInput, match="there are plans without"):
        Search(problem, [TableModel()], bench, Budget(runs=5), sign=1.0).run({"as given": bench.scenario.plan})


@pytest.mark.parametrize("free", [True, False])
def test_all_plans_are_claimed_only_where_all_were_listed(free: bool) -> None:
    bench = Table(TableModel(0.0), job(5))
    problem = Problem(scenario=bench.scenario, cost_model=TableModel(), space=replace(SPACE, free_subtasks=free))
    found = Search(problem, [TableModel()], bench, Budget(runs=700), sign=1.0).run({"given": bench.scenario.plan})
    assert not free or not found.whole
    if found.whole:
        assert len(found.tried) == len(distinct(bench.scenario, every_plan(bench.scenario)))


def test_equal_hosts_are_told_apart_for_who_asks_about_one() -> None:
    bench = Table(TableModel(0.0), job(3))
    same = bench.scenario.model_copy(
        update={"cluster": bench.scenario.cluster.model_copy(
            update={"hosts": tuple(bench.scenario.cluster.hosts[0].model_copy(update={"name": f"h{n}"})
                                   for n in range(3))})}
    )  # fmt: skip
    bench.scenario = same
    problem = Problem(scenario=same, cost_model=TableModel(), space=SPACE)
    count = {}
    for exchange in (True, False):
        made = Search(problem, [TableModel()], bench, Budget(runs=300), sign=1.0, exchange=exchange)
        count[exchange] = len(made.run({"as given": same.plan}).tried)
    assert count[False] == len(every_plan(same)) > count[True] == len(distinct(same, every_plan(same)))


def test_what_no_run_tells_is_the_last_whatever_is_better() -> None:
    for sign in (1.0, -1.0):
        assert Judged(math.inf).rank(sign) > Judged(5.0).rank(sign) > Judged(5.0 - sign).rank(sign)


def test_a_promise_that_few_unlucky_runs_break_is_asked_about_again() -> None:
    """Each plan but the given one keeps the promise of 1 on average, and breaks it in its first two runs; the more its
    table says, the dearer it is."""

    class Promise(Table):
        def run(self, plan: ExecutionPlan, number: int) -> Run:
            given = plan == self.scenario.plan
            return Run(2.0 if given else 0.0 if number < 2 else -1.0, cpu_s=self.cost(plan)[0] + 5.0 * given)

        def judged(self, runs: Sequence[Run]) -> Judged:
            late = 1.05 + float(np.mean([each.value for each in runs])) if runs[0].value < 2.0 else 0.5
            return Judged(runs[0].cpu_s, 0.2 * max(0.0, late - 1.0))

    bench = Promise(TableModel(0.0), job())
    found = searched(bench, Budget(runs=40))
    assert bench.judged(found.best.runs).missed == 0.0 and found.best.plan != bench.scenario.plan


@pytest.mark.parametrize("runs", [8, 20, 60])
def test_of_two_plans_the_one_that_fails_less_often_is_the_answer(runs: int) -> None:
    """Every third run of each plan but one fails, which is too seldom to count as missed; the others tell that the
    plans that fail are a little better. The given plan is one of these."""

    class Failing(Table):
        def run(self, plan: ExecutionPlan, number: int) -> Run:
            sure = plan == self.sure
            return Run(1.1 if sure else 1.0, cpu_s=0.0 if sure else float(number % 3 == 0))

        def judged(self, runs: Sequence[Run]) -> Judged:
            return Judged(runs[0].value, failed=float(np.mean([each.cpu_s for each in runs])))

    bench = Failing(TableModel(0.0), job())
    bench.sure = every_plan(bench.scenario)[-1]
    assert bench.sure != bench.scenario.plan
    problem = Problem(scenario=bench.scenario, cost_model=TableModel(), space=SPACE)
    made = Search(problem, [TableModel()], bench, Budget(runs=runs), sign=1.0)
    found = made.run({"as given": bench.scenario.plan, "sure": bench.sure})
    assert found.best.plan == bench.sure and not found.stayed
