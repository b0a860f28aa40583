"""Links in a tree, links in a ring, and sockets: against every plan under the rate model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from optimizers.interface import Problem, Status
from optimizers.milp.highest_rate import highest_rate
from optimizers.milp.optimizer import Milp
from optimizers.program import ProgramLimits
from optimizers.requirements import at_rate
from optimizers.space import Space
from tests.twin.worlds import deployment, sink, source
from twin.cluster import Link
from twin.rates.model import RateModel
from twin.rates.placements import CountedPlans
from twin.scenario import Scenario

TREE = (("a", "c"), ("b", "c"), ("c", "d"))
RING = (*TREE, ("a", "d"))


def job(rng: np.random.Generator, links: tuple[tuple[str, str], ...], **more: Any) -> Scenario:
    """Two sources, one filtered, joined; four small hosts; service times of a storm-like engine."""
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


def require_best(problem: Problem) -> None:
    """The answer is as good as the best of all plans with one socket an operator, and what is claimed is true."""
    sockets = sum(host.socket_count for host in problem.deployment.cluster.hosts)
    operators = len(problem.deployment.query.operators)
    plans = np.array(list(itertools.product(range(sockets), repeat=operators)))
    costs = problem.cost_model.predict(
        problem.deployment, CountedPlans(problem.deployment, np.eye(sockets, dtype=int)[plans])
    )
    sane = (costs["backpressured"] < 0.5) & (costs["success"] >= 0.5)
    best = float(costs["processing_latency_s"][sane].min())
    found = Milp().solve(problem)
    assert found.sane
    assert found.objective <= best * 1.01
    assert found.bound is None or found.bound <= best * (1.0 + 1e-9)
    assert found.status is not Status.OPTIMAL or found.objective <= best * (1.0 + 1e-5)


@pytest.mark.parametrize("links", [(), TREE, RING], ids=["direct", "tree", "ring"])
@pytest.mark.parametrize("load", [0.3, 0.9])
def test_the_best_plan_on_a_network(links, load):
    for seed in range(3):
        asked = job(np.random.default_rng(seed), links)
        asked = at_rate(asked, highest_rate(asked, Space(), ProgramLimits()).factor * load / 0.99)
        require_best(Problem(scenario=asked, cost_model=RateModel()))


def test_hosts_that_no_route_connects_are_not_mixed():
    asked = job(np.random.default_rng(0), (("a", "b"), ("c", "d")))
    found = Milp().solve(Problem(scenario=asked, cost_model=RateModel()))
    hosts = {place.host for name in found.plan.placement for place in found.plan.locations(name)}
    assert hosts <= {"a", "b"} or hosts <= {"c", "d"}
    assert asked.with_plan(found.plan)
