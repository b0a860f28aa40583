"""Programs against every plan of small jobs: their best is the best, and their bounds hold."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from optimizers.interface import Problem, Solution, Status
from optimizers.milp.optimizer import Milp, highest_rate
from optimizers.milp.placing import Placing
from optimizers.objectives import Requirements, at_rate
from optimizers.program import ProgramLimits, ProgramOutcome
from optimizers.rules import PlacementSpace
from optimizers.space import Space
from scenarios.spaces.generator import COSTREAM, random_scenario
from tests.optimizers.judged_jobs import hosts_of
from tests.optimizers.milp.jobs import jobs
from tests.twin.worlds import deployment, sink, source
from twin.cluster import Link
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.rates.seats import CountedPlans, Placements
from twin.scenario import RunSettings, Scenario

HOSTS = [
    {"name": "slow", "cpu_percent": 60, "latency_ms": 2},
    {"name": "edge", "cpu_percent": 100, "latency_ms": 5},
    {"name": "cloud", "cpu_percent": 400, "latency_ms": 20},
]
WINDOW = {"policy": "time", "size_s": 1.0}
COUNTED = {"name": "count", "kind": "aggregate", "function": "sum", "group_by": "string", "groups": 300}
JOINED = {"name": "match", "kind": "join", "window": WINDOW, "selectivity": 0.0005}


def work(name: str, cost_s: float = 2e-4, kind: str = "map", **more: object) -> dict[str, object]:
    return {"name": name, "kind": kind, "service_time_s": cost_s, **more}


def job(operators: list[dict[str, object]], streams: list[tuple[str, str]], engine: str = "storm") -> Scenario:
    sources = [str(each["name"]) for each in operators if each["kind"] == "source"]
    hosts = [{"ram_mb": 8000, "bandwidth_mbps": 100, **each} for each in HOSTS]
    every = [*operators, {"name": "sink", "kind": "sink"}]
    places = {str(each["name"]): "cloud" for each in every}
    return Scenario.of(deployment(every, streams, dict.fromkeys(sources, 600.0), hosts, places, engine))


SOURCE = work("a", 1e-5, "source", columns={"ints": 3, "strings": 2})
OTHER = {**SOURCE, "name": "b"}
GROUPED = {**COUNTED, "window": WINDOW}
BY_COUNT = {**COUNTED, "window": {"policy": "count", "size_records": 500}}
THINNED = work("thin", kind="filter", selectivity=0.5)
PATH = [("a", "count"), ("count", "thin"), ("thin", "shape"), ("shape", "sink")]
JOBS = {
    "a window, and three that follow": job([SOURCE, GROUPED, THINNED, work("shape", 4e-4)], PATH),
    "by count": job([SOURCE, BY_COUNT, THINNED, work("shape", 1e-3)], PATH),
    "the second is the slower one": job([SOURCE, GROUPED, THINNED, work("shape", 2e-3)], PATH),
    "two sources and what follows their join": job(
        [SOURCE, OTHER, JOINED, THINNED],
        [("a", "match"), ("b", "match"), ("match", "thin"), ("thin", "sink")],
    ),
    "fused": job([SOURCE, GROUPED, THINNED, work("shape", 4e-4)], PATH, engine="flink"),
}


def require_best(problem: Problem) -> Solution:
    """Checks that the answer is as good as the best plan with one socket an operator, and that its claims hold."""
    sockets = sum(host.socket_count for host in problem.deployment.cluster.hosts)
    operators = len(problem.deployment.query.operators)
    plans = np.array(list(itertools.product(range(sockets), repeat=operators)))
    costs = problem.cost_model.predict(
        problem.deployment, CountedPlans(problem.deployment, np.eye(sockets, dtype=int)[plans])
    )
    feasible = (costs["backpressured"] < 0.5) & (costs["success"] >= 0.5)
    best = float(costs["processing_latency_s"][feasible].min())
    found = Milp().solve(problem)
    assert found.feasible
    assert found.objective <= best * 1.01
    assert found.bound is None or found.bound <= best * (1.0 + 1e-9)
    assert found.status is not Status.OPTIMAL or found.objective <= best * (1.0 + 1e-5)
    return found


@pytest.mark.parametrize("name", JOBS)
def test_what_is_called_optimal_is_and_what_is_called_a_bound_bounds(name: str) -> None:
    found = require_best(Problem(scenario=JOBS[name], cost_model=RateModel()))
    assert name == "fused" or found.bound is not None


@pytest.mark.parametrize("name", [name for name in JOBS if name != "fused"])
def test_the_program_never_costs_a_plan_more_than_the_rate_model(name: str) -> None:
    """The program's cost of a plan is at most the rate model's, plan by plan: each is all that a space allows."""
    scenario = JOBS[name]
    plans = np.array(list(itertools.product(range(len(HOSTS)), repeat=len(scenario.query.operators))))
    some = plans[np.random.default_rng(0).choice(len(plans), 15, replace=False)]
    costs = RateModel().predict(scenario, Placements(scenario, some))
    coefficients, judged = PlacementCoefficients.of(scenario), 0
    for hosts, latency_s, pressed in zip(some, costs["processing_latency_s"], costs["backpressured"], strict=True):
        names = [each.name for each in scenario.query.operators]
        only = {name: (HOSTS[host]["name"],) for name, host in zip(names, hosts, strict=True)}
        found = Placing(coefficients, Space(allowed=only), "bound").solve()
        if found.counts_ol is not None and pressed < 1e-3:
            assert found.cost <= latency_s * (1.0 + 1e-9)
            judged += 1
    assert judged >= 3


ROOM = Requirements(head_room=0.05)
SEEDS = range(40)


@pytest.mark.slow
def test_the_fewest_hosts_of_all_plans():
    compared = 0
    for job in jobs(SEEDS):
        problem = Problem(scenario=job.deployment, cost_model=RateModel(), space=job.space, requirements=ROOM)
        found, bears = Milp(goal="hosts").solve(problem), job.feasible(1.05)
        if not bears.any():
            assert "no plan was found" in found.message
            continue
        assert found.status is not Status.INFEASIBLE
        ahead = RateModel().predict(at_rate(job.deployment, 1.05), [found.plan])
        assert ahead["backpressured"][0] < 0.5 <= ahead["success"][0]
        assert len(hosts_of(found.plan)) == job.hosts_used[bears].min(), job.seed
        compared += 1
    assert compared >= 8


def test_the_highest_rate_of_all_plans():
    """Some plan is feasible at the highest rate, and none 3 % above (up to a utilisation of 1.01 a plan counts as
    feasible)."""
    compared = 0
    for job in jobs(SEEDS):
        factor = highest_rate(job.deployment, job.space, ProgramLimits()).factor
        calm = not PlacementCoefficients.of(at_rate(job.deployment, factor * 1.03)).bursty if factor else False
        if not calm:
            continue
        assert (job.costs(factor)["backpressured"] < 0.5).any(), job.seed
        assert not (job.costs(factor * 1.03)["backpressured"] < 0.5).any(), job.seed
        compared += 1
    assert compared > 8


def test_programs_hold_as_many_plans_as_the_rules():
    """A program has as many plans as Costream's rules allow: they are excluded one by one, until none is left."""
    compared = 0
    for seed in range(60):
        scenario = random_scenario(COSTREAM, seed, RunSettings())
        space = PlacementSpace(scenario.query, scenario.cluster)
        if not 2 <= space.count <= 25:
            continue
        job = at_rate(scenario.deployment, 1e-4)  # so that the rules alone decide
        program = Placing(PlacementCoefficients.of(job), Space(costream_rules=True), "balanced")
        count = 0
        while (found := program.solve()).outcome is not ProgramOutcome.INFEASIBLE:
            assert found.counts_ol is not None
            program.exclude(found.counts_ol)
            count += 1
            assert count <= space.count
        assert count == space.count, seed
        compared += 1
    assert compared >= 3


TREE = (("a", "c"), ("b", "c"), ("c", "d"))
RING = (*TREE, ("a", "d"))


def networked(rng: np.random.Generator, links: tuple[tuple[str, str], ...], **more: Any) -> Scenario:
    """Job of two sources, one filtered, joined; four small hosts; service times of a storm-like engine."""
    hosts = [
        {
            "name": name,
            "cpu_percent": float(rng.choice([50, 100, 300])),
            "ram_mb": 16_000,
            "bandwidth_mbps": float(rng.choice([10, 100])),
            "latency_ms": float(rng.choice([1, 10])),
            **more,
        }
        for name in "abcd"
    ]
    operators = [
        source("s", service_time_s=1e-4, columns={"ints": 4}),
        source("t", service_time_s=2e-4),
        {"kind": "filter", "name": "f", "selectivity": 0.5, "service_time_s": 5e-4},
        {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 0.2}, "selectivity": 0.01},
        sink("k", service_time_s=1e-4),
    ]
    made = deployment(
        operators,
        [("s", "f"), ("f", "j"), ("t", "j"), ("j", "k")],
        {"s": 300.0, "t": 100.0},
        hosts,
        dict.fromkeys("stfjk", "a"),
    )
    wires = tuple(
        Link(between=ends, bandwidth_mbps=float(rng.choice([2, 10])), latency_ms=float(rng.choice([1, 5, 20])))
        for ends in links
    )
    cluster = made.cluster.model_copy(update={"links": wires})
    return Scenario(name="job", **{**dict(made), "cluster": cluster})


@pytest.mark.parametrize("links", [(), TREE, RING], ids=["direct", "tree", "ring"])
@pytest.mark.parametrize("load", [0.3, 0.9])
def test_the_best_plan_on_a_network(links, load):
    for seed in range(3):
        asked = networked(np.random.default_rng(seed), links)
        asked = at_rate(asked, highest_rate(asked, Space(), ProgramLimits()).factor * load / 0.99)
        require_best(Problem(scenario=asked, cost_model=RateModel()))


def test_hosts_that_no_route_connects_are_not_mixed():
    asked = networked(np.random.default_rng(0), (("a", "b"), ("c", "d")))
    found = Milp().solve(Problem(scenario=asked, cost_model=RateModel()))
    hosts = {place.host for name in found.plan.placement for place in found.plan.locations(name)}
    assert hosts <= {"a", "b"} or hosts <= {"c", "d"}
    assert asked.with_plan(found.plan)
