"""BriskStream's applications: their published numbers, by the rate model and the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from twin.cluster import server_a, server_b
from twin.deployment import nominal_rates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

CORES = 144
THROUGHPUT = {"wc": 96_390.8e3, "fd": 7172.5e3, "sd": 12_767.6e3, "lr": 8738.3e3}
"""Published results a second on Server A, Table 4."""
RESULTS_PER_INPUT = {"wc": 10.0, "fd": 1.0, "sd": 1.0, "lr": 3 * 0.98857}

applications = pytest.mark.parametrize("name", THROUGHPUT)


def load(name: str) -> Scenario:
    return scenario_file.load(f"briskstream-{name}")


def thinned(scenario: Scenario) -> Scenario:
    """Scenario with two subtasks of each operator, on sockets 0 and 4, and few enough records for these."""
    plan = ExecutionPlan(placement={each.name: ("server", "server/4") for each in scenario.query.operators})
    return set_value(scenario.with_plan(plan), "workload.arrivals.spout.rate_per_s=50000")


@applications
def test_the_published_throughput_takes_half_of_the_cores_or_more_and_more_is_offered(name: str) -> None:
    scenario = load(name)
    rates = nominal_rates(scenario.query, scenario.workload.arrivals)
    results_per_s = rates["sink"].in_per_s
    assert results_per_s / rates["spout"].in_per_s == pytest.approx(RESULTS_PER_INPUT[name])
    cores = sum(rates[each.name].in_per_s * each.service_time_s for each in scenario.query.operators)
    assert 0.5 * CORES < cores * THROUGHPUT[name] / results_per_s < CORES
    assert cores > 1.3 * CORES


@pytest.mark.slow
@applications
def test_the_simulator_and_the_rate_model_agree_where_nothing_is_saturated(name: str) -> None:
    """Simulator and rate model agree below saturation, also for operators without results or with several inputs."""
    scenario = thinned(load(name))
    predicted = RateModel().predict(scenario, [scenario.plan])
    metrics = simulate(scenario).metrics
    expected = 50_000 * RESULTS_PER_INPUT[name]
    assert metrics.throughput_per_s == pytest.approx(expected, rel=0.02)
    assert predicted["throughput_per_s"][0] == pytest.approx(expected, rel=0.02)
    assert np.isfinite(predicted["processing_latency_s"][0]) and metrics.processing_latency_s is not None


@applications
def test_one_word_makes_it_the_other_server(name: str) -> None:
    scenario = load(name)
    assert scenario.cluster == server_a()
    other = set_value(scenario, "cluster=server-b")
    assert other.cluster == server_b() and other.plan == scenario.plan
    assert "cluster: server-b\n" in scenario_file.dump(other)
