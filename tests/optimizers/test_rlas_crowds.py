"""RLAS where cores are few: what is claimed of an overload, and that operators which are mostly idle share cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizers.interface import Problem, Solution, Status
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from tests.twin.worlds import deployment, sink, source
from twin.rates.model import RateModel
from twin.scenario import Scenario

HOST = {"ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 0.5}
COUNT = {
    "kind": "aggregate", "name": "count", "function": "count", "group_by": "int", "groups": 100, "key_groups": 128,
    "window": {"policy": "time", "size_s": 1}, "service_time_s": 80e-6,
}  # fmt: skip


def row_of(operators: list[dict[str, Any]], rate_per_s: float, hosts: int, **host: Any) -> Scenario:
    """A row of operators behind a source, on task managers of which all but the first are idle."""
    names = [each["name"] for each in operators]
    machines = [HOST | host | {"name": f"tm-{number}"} for number in range(hosts)]
    places = dict.fromkeys(names, ["tm-0"])
    streams = list(zip(names, names[1:], strict=False))
    return Scenario.of(deployment(operators, streams, {names[0]: rate_per_s}, machines, places, engine="flink"))


def counting(hosts: int) -> Scenario:
    """Three cores' worth of work: 9,000 records a second, 100 results a second however many are counted."""
    parse = {"kind": "map", "name": "parse", "selectivity": 2, "service_time_s": 150e-6}
    operators = [source(service_time_s=20e-6), parse, COUNT, sink(service_time_s=40e-6)]
    return row_of(operators, 9000.0, hosts, cpu_percent=140)


def solved(scenario: Scenario, name: str = "rlas", **more: Any) -> Solution:
    asked: Mapping[str, Any] = {"cost_model": RateModel(), "objective": "throughput_per_s", "budget": 1000} | more
    return Planner(OPTIMIZERS[name]).solve(Problem(scenario=scenario, **asked))


def test_of_an_overload_with_windows_no_bound_is_claimed() -> None:
    """All results come out though most records wait, so that results say nothing of what a better plan would do."""
    found = solved(counting(1))
    assert not found.sane and found.objective > 99
    assert found.bound is None and found.status is Status.FEASIBLE
