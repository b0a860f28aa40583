"""Nothing moves without gain: the given plan stays unless another is worth it; and traffic of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from optimizers.interface import Problem, Solution, Status
from optimizers.judging import WORTH, better
from optimizers.objectives import Requirements, traffic
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.selection import Estimated, best_first, estimate, ranks
from optimizers.space import Space, as_plans, counts_of
from scenarios.planning.bench import SimulatedCostModel
from tests.optimizers.judged_jobs import brute_force, small_job, spread
from tests.twin.worlds import HOST, dealt, deployment, sink, source
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

FIXED = Space(free_subtasks=False)
FINDING = ("exhaustive", "local-search", "milp")
SEEDS = (1, 5, 6, 8, 12, 16, 20)


def problem(job: Scenario, **more: Any) -> Problem:
    return Problem(**{"scenario": job, "cost_model": RateModel(), "space": FIXED, "budget": 300} | more)


@pytest.mark.parametrize("name", FINDING)
def test_given_plan_stays_unless_another_is_worth_it_and_no_move_of_that_is_in_vain(name: str) -> None:
    stayed = moved = 0
    for job in map(small_job, SEEDS):
        every = as_plans(job, brute_force(job))
        judged = estimate(problem(job), every)
        given = estimate(problem(job), [job.plan])
        best = judged.objective[judged.feasible].min()
        found = Planner(OPTIMIZERS[name]).solve(problem(job))
        if given.feasible[0] and given.objective[0] <= best * (1 + WORTH) and given.backpressured[0] < 0.2:
            assert found.plan == job.plan
            assert "given plan" in found.message and "kept" in found.message
            stayed += 1
        elif name == "exhaustive":
            home, here = counts_of(job, job.plan), counts_of(job, found.plan)
            for o in np.flatnonzero((home != here).any(axis=1)):
                back = here.copy()
                back[o] = home[o]
                worse = estimate(problem(job), as_plans(job, back[None]))
                if not (back == home).all():
                    assert (
                        not worse.feasible[0] or worse.backpressured[0] >= 0.2 or worse.objective[0] > found.objective
                    )
            moved += 1
    assert stayed >= 1 and (moved >= 2 or name != "exhaustive")


class Run:
    """Costs by host of the sink, and their uncertainties."""

    name, replications = "run", 1

    def __init__(self, cost_by_host: Mapping[str, float], error: float) -> None:
        self.cost_by_host, self.error = cost_by_host, error

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Any:
        found = RateModel().predict(scenario, plans)
        cost = np.array([self.cost_by_host[plan.placement["out"][0]] for plan in plans])
        columns = dict(found.by_metric) | {"processing_latency_s": cost, "backpressured": 0 * cost, "success": cost**0}
        return type(found)(columns, np.full(len(plans), self.error))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        return ()


def test_what_a_run_cannot_tell_apart_is_no_reason_to_move() -> None:
    job = spread()  # whose sink is on b
    for error, stays in ((0.0, False), (0.001, False), (0.06, True)):
        by_runs = problem(job, cost_model=Run({"a": 0.9, "b": 1.0}, error))
        assert (Planner(OPTIMIZERS["exhaustive"]).solve(by_runs).plan == job.plan) == stays


@pytest.mark.parametrize(
    ("given_s", "error", "stays"), [(4.0, None, False), (1.005, None, True), (0.5, None, True), (1.3, 0.5, True)]
)
def test_of_equal_prices_a_latency_that_is_worth_it_moves_the_job(given_s, error, stays) -> None:
    job = spread()
    other = job.plan.with_placement({**job.plan.placement, "out": ("a",)})
    ones, errors = np.ones(2), None if error is None else np.full(2, error)
    second = np.array([given_s, 1.0])
    judged = Estimated([job.plan, other], ones, 0 * ones, ones, second=second, error=errors)
    found = Solution.of(judged.candidate(1), Status.FEASIBLE, evaluations=1, started_s=0.0)
    assert (better(problem(job, objective="price"), found, judged).plan == job.plan) == stays


def test_a_single_run_says_how_far_off_it_may_be() -> None:
    job = job_of("in turn").with_run(horizon_s=60, warmup_s=10, period_s=5)
    found = SimulatedCostModel(simulate).predict(job, [job.plan])
    seeds = [simulate(job.with_run(seed=seed)).metrics.value("processing_latency_s") for seed in range(12)]
    assert 0.2 < found.spread[0] / (np.std(seeds, ddof=1) / np.mean(seeds)) < 5


HOSTS = ("a", "b", "c")
LINKS = [{"between": ["a", "b"], "bandwidth_mbps": 1000, "latency_ms": 1},
         {"between": ["b", "c"], "bandwidth_mbps": 1000, "latency_ms": 1}]  # fmt: skip
JOBS: Mapping[str, tuple[dict[str, Any], str | None, bool]] = {
    "in turn": ({"s": "a", "m": {"b": 2}, "k": "c"}, None, False),
    "over two links": ({"s": "a", "m": {"a": 1, "c": 1}, "k": "c"}, None, True),
    "forward": ({"s": ["a", "b"], "m": ["a", "c"], "k": "c"}, "forward", True),
    "copies": ({"s": "a", "m": {"a": 1, "b": 2}, "k": "a"}, "broadcast", False),
    "to the first": ({"s": "b", "m": ["c", "b"], "k": "b"}, "global", True),
}


def job_of(name: str) -> Scenario:
    placement, how, links = JOBS[name]
    operators = [
        source("s", service_time_s=1e-4, record_bytes=200),
        {"kind": "map", "name": "m", "service_time_s": 1e-4, "selectivity": 0.5, "record_bytes": 80},
        sink("k", service_time_s=1e-4),
    ]
    hosts = [HOST | {"name": name, "cpu_percent": 400, "ram_mb": 8000, "bandwidth_mbps": 1000} for name in HOSTS]
    made = dealt(deployment(operators, [("s", "m"), ("m", "k")], {"s": 400}, hosts, placement), m=how)
    cluster = {"hosts": hosts, "links": LINKS} if links else {"hosts": hosts}
    run = {"horizon_s": 60, "warmup_s": 10, "period_s": 5}
    return parse(Scenario, {**dict(made), "cluster": cluster, "run": run})


@pytest.mark.parametrize("name", JOBS)
def test_traffic_is_what_runs_carry_over_links_or_out_of_hosts(name: str) -> None:
    job = job_of(name)
    rows = [row for row in simulate(job).link_rows if row["start_s"] >= 10 - 1e-9]
    links = [row for row in rows if ("->" in row["link"]) == bool(job.cluster.links)]
    measured = sum(row["bytesOut"] for row in links) / 50.0
    assert measured > 0
    assert traffic(job, [job.plan])[0] == pytest.approx(measured, rel=0.05)


def test_traffic_of_many_plans_is_that_of_each() -> None:
    """Traffic of many plans is that of each, whatever their numbers of subtasks and the order of operators."""
    job = job_of("over two links")
    places = [{"s": "a", "m": ("b", "c", "c")[:count], "k": end} for count in (1, 3, 2, 1) for end in "ac"]
    plans = [ExecutionPlan(placement=dict(sorted(each.items(), reverse=bool(n % 2)))) for n, each in enumerate(places)]
    found = traffic(job, plans)
    assert found == pytest.approx([traffic(job, [plan])[0] for plan in plans], rel=1e-12)
    assert len(set(found.round(6))) == 5


@pytest.mark.parametrize("name", FINDING)
def test_least_traffic_that_a_limit_on_latency_allows(name: str) -> None:
    """The answer has the least traffic of all plans within the limit on latency, and of those the lowest latency."""
    for job in map(small_job, SEEDS[:5]):
        fast = estimate(problem(job), every := as_plans(job, brute_force(job)))
        limit_s = float(np.median(fast.objective[fast.feasible]))
        asked = problem(job, objective="traffic_bytes_per_s", requirements=Requirements(at_most={LATENCY: limit_s}))
        judged = estimate(asked, every)
        found = Planner(OPTIMIZERS[name]).solve(asked)
        best = ranks(asked, judged).T[best_first(ranks(asked, judged))[0]]
        assert found.feasible and found.objective <= best[2] * (1 + WORTH) + 1e-9
        assert RateModel().predict(job, [found.plan])[LATENCY][0] <= limit_s


LATENCY = "processing_latency_s"
