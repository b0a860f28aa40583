"""Limits on quantiles of latencies, judged by runs: answers keep them, on the cheapest hosts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from optimizers.interface import Candidate, Problem, Status
from optimizers.objectives import Requirements
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.selection import Estimated, choose
from optimizers.space import Space
from scenarios.planning.cost_models import cost_model
from scenarios.planning.planner import optimize
from tests.optimizers.judged_jobs import hosts_of, spread
from tests.twin.worlds import deployment, sink, source
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

P99 = "e2e_latency_s.p99"


def farm(*, work_s: float, rate_per_s: float, hosts: int, parallelism: int, scv: float = 1.0) -> Scenario:
    """Job of a map with some subtasks, whose hosts are of one core each; source and sink take next to nothing."""
    operators = [
        source("s", service_time_s=1e-6),
        {"kind": "map", "name": "m", "service_time_s": work_s, "service_scv": scv},
        sink("k", service_time_s=1e-6),
    ]
    names = [f"h{number}" for number in range(hosts)]
    host = {"cpu_percent": 100, "ram_mb": 8000, "bandwidth_mbps": 10_000, "latency_ms": 0.1}
    machines = [host | {"name": name} for name in names]
    placement = {"s": "h0", "m": [names[n % hosts] for n in range(parallelism)], "k": "h0"}
    job = deployment(operators, [("s", "m"), ("m", "k")], {"s": rate_per_s}, machines, placement)
    return Scenario.of(job, RunSettings(horizon_s=60, warmup_s=10, period_s=10, seed=3))


def p99_s(job: Scenario, plan: ExecutionPlan) -> float:
    return simulate(job.with_plan(plan)).metrics.value(P99)


def evenly(job: Scenario, hosts: tuple[str, ...]) -> ExecutionPlan:
    parallelism = job.plan.parallelism("m")
    spread_m = [hosts[number % len(hosts)] for number in range(parallelism)]
    return ExecutionPlan(placement={"s": hosts[:1], "m": tuple(spread_m), "k": hosts[:1]})


JOBS = {
    "slack": (farm(work_s=0.01, rate_per_s=60, hosts=3, parallelism=3), 1.0),
    "one host waits too long": (farm(work_s=0.01, rate_per_s=75, hosts=3, parallelism=2), 0.15),
    "two hosts wait too long": (farm(work_s=0.02, rate_per_s=80, hosts=4, parallelism=4), 0.22),
    "short services": (farm(work_s=0.002, rate_per_s=420, hosts=3, parallelism=3), 0.03),
    "services alike": (farm(work_s=0.01, rate_per_s=78, hosts=3, parallelism=3, scv=0.0), 0.06),
}


@pytest.mark.parametrize("name", JOBS)
def test_cheapest_hosts_for_a_quantile_are_confirmed_by_runs_and_no_fewer_do(name: str) -> None:
    """Hosts keep the limit in runs, and no even plan on fewer hosts does."""
    job, limit_s = JOBS[name]
    required = Requirements(head_room=0.0, at_most={P99: limit_s})
    space = Space(free_subtasks=False)
    found = optimize(job, objective="price", budget="16runs", space=space, requirements=required)
    used = hosts_of(found.plan)
    assert found.feasible and found.objective == len(used)
    assert np.mean([p99_s(job.with_run(seed=seed), found.plan) for seed in (11, 12)]) <= 1.25 * limit_s
    names = [host.name for host in job.cluster.hosts]
    fewer = [evenly(job, names_) for names_ in combinations(names, len(used) - 1)][:1] if len(used) > 1 else []
    assert all(np.mean([p99_s(job.with_run(seed=seed), plan) for seed in (11, 12)]) > limit_s for plan in fewer)


def test_a_cost_model_that_cannot_say_refuses_in_one_line_and_the_simulator_says() -> None:
    job = spread().with_run(horizon_s=20, warmup_s=4, period_s=4)
    required = Requirements(at_most={P99: 10.0})
    for name in ("local-search", "milp", "exhaustive"):
        asked = Problem(scenario=job, cost_model=RateModel(), requirements=required, budget=5)
        with pytest.raises(BadInput, match=rf"rates' does not predict {P99}; .*--budget 20 .*trained on it"):
            Planner(OPTIMIZERS[name]).solve(asked)
    assert optimize(job, requirements=required, budget="4runs").feasible
    for name in ("sim", "staged"):
        with pytest.raises(BadInput, match=rf"'{name}': runs judge plans with a budget: give --budget 20 "):
            cost_model(name)


def test_high_quantiles_limit_the_mean_of_who_knows_no_quantiles() -> None:
    required = Requirements(at_most={P99: 0.5, "e2e_latency_s": 0.2, "processing_latency_s.p50": 0.1})
    assert required.as_known_to(RateModel()).at_most == {"e2e_latency_s": 0.2}
    assert Requirements(at_most={P99: 0.1}).as_known_to(RateModel()).at_most == {"e2e_latency_s": 0.1}
    with pytest.raises(BadInput, match=r"did you mean 'e2e_latency_s\.p99'"):
        Requirements(at_most={"e2e_latency.p99": 1.0})


def test_a_plan_that_is_likely_to_fail_is_not_chosen_for_its_objective() -> None:
    job = spread()
    problem = Problem(scenario=job, cost_model=RateModel())
    plans = [ExecutionPlan(placement={"a": host}) for host in ("risky", "safe", "riskier")]
    for success, best in (((0.3, 0.9, 0.2), "safe"), ((0.3, 0.1, 0.2), "risky"), ((0.9, 0.9, 0.9), "riskier")):
        found = Estimated(plans, np.array([2.0, 3.0, 1.0]), np.zeros(3), np.array(success))
        chosen = choose(problem, found, evaluations=1, started_s=0.0, complete=True)
        assert chosen.plan.placement["a"] == (best,)
        assert chosen.feasible == (max(success) > 0.5) == (chosen.status == "optimal")
    assert not Candidate(job.plan, 1.0, 0.0, 0.4).feasible and Candidate(job.plan, 1.0, 0.0, 0.6).feasible


class Learned(RateModel):
    """Rate model that says how far off it may be."""

    def interval(self, scenario: Scenario, plans: Sequence[ExecutionPlan], metric: str) -> None:
        del scenario, plans, metric


def test_nothing_is_claimed_of_all_plans_by_a_model_that_may_be_off() -> None:
    job = spread()
    for model, claims in ((RateModel(), True), (Learned(), False)):
        found = OPTIMIZERS["exhaustive"].solve(Problem(scenario=job, cost_model=model, budget=10**5))
        assert (found.status is not Status.FEASIBLE) == (found.bound is not None) == claims
