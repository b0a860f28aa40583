"""Joins without windows are planned like any others: by every plan there is, exact searches find the best."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from optimizers.interface import Problem
from optimizers.planner import Planner
from optimizers.registry import optimizer_by_name
from optimizers.space import Space
from tests.twin.worlds import joined
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

KEYED = {"keys": 400, "key_groups": 8, "service_time_s": 5e-4}
JOINS: dict[str, dict[str, Any]] = {
    "regular-join": {"left": "orders", "right": "prices", **KEYED},
    "regular-join of keys that go": {"left": "orders", "right": "prices", "key_records": 5, **KEYED},
    "interval-join": {"left": "orders", "right": "prices", "lower_s": -1.0, "upper_s": 1.0, **KEYED},
    "temporal-join": {"side": "prices", "key_groups": 8, "service_time_s": 5e-4},
}
HOSTS = (
    {"name": "edge", "cpu_percent": 20, "ram_mb": 4000, "bandwidth_mbps": 20, "latency_ms": 8},
    {"name": "fog", "cpu_percent": 100, "ram_mb": 8000, "bandwidth_mbps": 100, "latency_ms": 3},
    {"name": "cloud", "cpu_percent": 400, "ram_mb": 16000, "bandwidth_mbps": 1000, "latency_ms": 1},
)


def job(name: str) -> Scenario:
    """Job of two sources of unlike rates, one at the edge and one in the cloud, a join and a sink."""
    operator = {"kind": name.partition(" ")[0], "name": "join", **JOINS[name]}
    places = dict.fromkeys(("orders", "join", "sink"), "edge") | {"prices": "cloud"}
    made = joined(operator, {"orders": 120.0, "prices": 30.0}, hosts=HOSTS, placement=places)
    return Scenario.of(made, RunSettings(horizon_s=30.0))


@pytest.mark.parametrize("pinned", [(), ("orders", "prices")])
@pytest.mark.parametrize("optimizer", ["milp", "branch-and-bound"])
@pytest.mark.parametrize("name", JOINS)
def test_the_best_of_all_plans_is_found(name: str, optimizer: str, pinned: tuple[str, ...]) -> None:
    """Also where sources stay apart, so that the place of the join is between them."""
    scenario = job(name)
    operators = list(scenario.plan.placement)
    hosts = [host.name for host in scenario.cluster.hosts]
    every = [
        ExecutionPlan(placement=dict(zip(operators, places, strict=True)))
        for places in product(hosts, repeat=len(operators))
    ]
    every = [plan for plan in every if all(plan.placement[each] == scenario.plan.placement[each] for each in pinned)]
    said = RateModel().planning().predict(scenario, every)
    best = min(
        latency
        for latency, behind in zip(said["processing_latency_s"], said["backpressured"], strict=True)
        if behind < 0.5
    )
    space = Space(free_subtasks=False, spread=False, pinned=frozenset(pinned))
    problem = Problem(scenario=scenario, cost_model=RateModel().planning(), space=space, budget=500)
    found = Planner(optimizer_by_name(optimizer), keeps=False).solve(problem)
    assert found.plan is not None
    chosen = RateModel().planning().predict(scenario, [found.plan])["processing_latency_s"][0]
    assert chosen == pytest.approx(best, rel=0.02)
