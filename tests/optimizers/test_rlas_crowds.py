"""RLAS where cores are few: its claims for an overload, and mostly idle operators that share cores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from optimizers.interface import Problem, Solution, Status
from optimizers.numa.rlas import Rlas
from optimizers.planner import Planner
from optimizers.registry import optimizer_by_name
from scenarios.planning.planner import in_slots
from tests.optimizers.numa_jobs import deployment as on_sockets
from tests.twin.worlds import deployment, sink, source
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

HOST = {"ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 0.5}
COUNT = {
    "kind": "aggregate", "name": "count", "function": "count", "group_by": "int", "groups": 100, "key_groups": 128,
    "window": {"policy": "time", "size_s": 1}, "service_time_s": 80e-6,
}  # fmt: skip


def row_of(operators: list[dict[str, Any]], rate_per_s: float, hosts: int, **host: Any) -> Scenario:
    """Row of operators behind a source, on task managers of which all but the first are idle."""
    names = [each["name"] for each in operators]
    machines = [HOST | host | {"name": f"tm-{number}"} for number in range(hosts)]
    places = {name: ["tm-0"] for name in names}
    streams = list(pairwise(names))
    return Scenario.of(deployment(operators, streams, {names[0]: rate_per_s}, machines, places, engine="flink"))


def counting(hosts: int) -> Scenario:
    """Job with three cores of work: 9,000 records a second, and 100 results a second however many are counted."""
    parse = {"kind": "map", "name": "parse", "selectivity": 2, "service_time_s": 150e-6}
    operators = [source(service_time_s=20e-6), parse, COUNT, sink(service_time_s=40e-6)]
    return row_of(operators, 9000.0, hosts, cpu_percent=140)


def solved(scenario: Scenario, name: str = "rlas", **more: Any) -> Solution:
    asked: Mapping[str, Any] = {"cost_model": RateModel(), "objective": "throughput_per_s", "budget": 1000} | more
    return Planner(optimizer_by_name(name)).solve(Problem(scenario=scenario, **asked))


def test_of_an_overload_with_windows_no_bound_is_claimed() -> None:
    """For an overload with windows no bound is claimed: all results come out though most records wait."""
    found = solved(counting(1))
    assert not found.feasible and found.objective > 99
    assert found.bound is None and found.status is Status.FEASIBLE


def test_what_is_idle_shares_cores_in_slots() -> None:
    """Idle operators share cores in slots: four of each keep up in runs, where one each would not."""
    job = counting(4)
    found = solved(job)
    assert in_slots(job, found.plan) is not None
    assert found.feasible and sum(found.plan.parallelism(each) for each in found.plan.placement) > 4
    assert not simulate(job.with_run(horizon_s=30, warmup_s=10).with_plan(found.plan)).metrics.backpressured
    work = {"kind": "map", "name": "work", "service_time_s": 220e-6}
    ends = source(service_time_s=100e-6), sink(service_time_s=100e-6)
    two = row_of([ends[0], work, ends[1]], 4000.0, 2, cpu_percent=100)
    assert solved(two).feasible  # two of each, on two cores


@pytest.mark.parametrize("name", ["rlas", "fusion+rlas"])
def test_moves_are_taken_back_only_to_what_slots_hold(name: str) -> None:
    job = counting(4).with_run(horizon_s=40, warmup_s=10, seed=1)
    for number, percent in enumerate((200, 200, 200, 400)):
        job = job.with_set(f"cluster.hosts.tm-{number}.cpu_percent", percent)
    found = solved(job, name).plan
    assert found != job.plan and in_slots(job, found) is not None


def test_what_is_idle_shares_cores_of_sockets() -> None:
    """Source and sink, which need half a core each for three subtasks between them, share cores of a socket."""
    far = [[0.0, 500.0], [500.0, 0.0]]
    job = Scenario.of(on_sockets([2.0, 10.0, 2.0], [(0, 1), (1, 2)], [2, 2], far, rate_per_s=1e6))
    job = job.with_run(horizon_s=0.3, warmup_s=0.1, period_s=0.1)
    asked = Problem(scenario=job, cost_model=RateModel(), objective="throughput_per_s")
    capped, found = (Planner(Rlas(sharing=sharing)).solve(asked).plan for sharing in (False, True))
    assert capped.parallelism("op1") == 2 and found.parallelism("op1") == 3
    bears = [simulate(job.with_plan(plan)).metrics.throughput_per_s for plan in (capped, found)]
    assert bears[1] > 1.2 * bears[0]
    assert optimizer_by_name("rlas") == Rlas(sharing=True)
