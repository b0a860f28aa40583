"""Hosts that other processes use (`others_percent`), and the worth of their cores (`core_percent`)."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.measures import measures
from scenarios.questions.kept import RunOutcome
from scenarios.questions.resources import binding, resources
from tests.twin.machine.runs import same_however
from tests.twin.worlds import HOST, chain
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

SERVICE_S = 4e-3
SETTINGS = RunSettings(horizon_s=40, warmup_s=10, period_s=5, seed=3)


def job(rate: float, parallelism: int, scv: float = 0.0, **host: Any) -> Scenario:
    """Job source -> work -> sink, the work on a host of its own."""
    work = {"kind": "map", "name": "work", "service_time_s": SERVICE_S, "service_scv": scv}
    hosts = [HOST, {**HOST, "name": "shared", "cpu_percent": 200, **host}]
    made: Deployment = chain([work], rate, hosts=hosts, placement={"work": {"shared": parallelism}})
    return Scenario.of(made, SETTINGS)


def delivered(scenario: Scenario) -> tuple[float, float]:
    """Results a second, simulated and predicted."""
    answer = RateModel().answer(scenario, [scenario.plan])
    return simulate(scenario).metrics.throughput_per_s, float(answer.in_per_s[0, answer.operators.index("sink")])


@pytest.mark.parametrize("others", [50, 100, 170])
@pytest.mark.parametrize("parallelism", [1, 4])
def test_busy_subtasks_share_what_others_leave(others: float, parallelism: int) -> None:
    """Busy subtasks share what others leave of two cores; a subtask never gets more than one."""
    cores = min(2 - others / 100, parallelism)
    run, predicted = delivered(job(2000, parallelism, others_percent=others))
    assert run == pytest.approx(cores / SERVICE_S, rel=0.01)
    assert predicted == pytest.approx(cores / SERVICE_S, rel=0.01)


@pytest.mark.parametrize("others", [60, 150])
def test_it_is_a_host_of_fewer_cores_to_the_last_bit(others: float) -> None:
    shared = same_however(job(100, 3, scv=1.0, others_percent=others))
    small = same_however(job(100, 3, scv=1.0, cpu_percent=200 - others))
    for table in ("operator_rows", "host_rows", "subtask_rows"):
        assert getattr(shared, table) == getattr(small, table)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_waits_for_a_core_are_busy_times_but_no_cpu(load: float) -> None:
    """With half a core a subtask is busy for twice the CPU time that its records take."""
    run = simulate(job(load / 2 / SERVICE_S, 1, others_percent=150))
    work = next(each for each in run.operators if each.operator == "work")
    host = next(each for each in run.hosts if each.host == "shared")
    assert work.busy == pytest.approx(load, rel=0.03)
    assert host.cpu == pytest.approx(load, rel=0.03), "of the half core that is left"


@pytest.mark.parametrize(("core", "parallelism"), [(70, 1), (140, 1), (140, 2), (50, 3)])
def test_a_subtask_is_as_fast_as_the_clock_of_its_core(core: float, parallelism: int) -> None:
    scenario = job(5000, parallelism, cpu_percent=4 * core, core_percent=core)
    run, predicted = delivered(scenario)
    assert run == pytest.approx(parallelism * core / 100 / SERVICE_S, rel=0.01)
    assert predicted == pytest.approx(run, rel=0.01)
    same_however(scenario)


@pytest.mark.parametrize("others", [50, 350])
def test_others_take_cores_of_any_clock(others: float) -> None:
    """Others take reference cores of any clock: four subtasks share the rest of four cores of 1.5 each."""
    run, predicted = delivered(job(5000, 4, cpu_percent=600, core_percent=150, others_percent=others))
    assert run == pytest.approx((6 - others / 100) / SERVICE_S, rel=0.01)
    assert predicted == pytest.approx(run, rel=0.01)


def test_others_use_all_sockets_alike() -> None:
    sockets = [{"cores": 1, "clock_ghz": 3}, {"cores": 1, "clock_ghz": 1}]
    host = job(1, 1, sockets=sockets, others_percent=100).cluster.host("shared")
    assert [host.socket_capacity(each) for each in (0, 1)] == [0.75, 0.25]
    assert [host.core_speed(each) for each in (0, 1)] == [1.5, 0.5], "a core stays as fast as it is"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"others_percent": 200}, "others_percent 200 leaves nothing of cpu_percent 200; give less"),
        ({"sockets": [{"cores": 2, "clock_ghz": 2}], "core_percent": 50}, "clock_ghz, which says core_percent"),
        ({"core_percent": 0}, "core_percent"),
    ],
)
def test_what_makes_no_host_is_refused(host: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        job(1, 1, **host)


def test_what_binds_says_that_others_use_a_part_of_it() -> None:
    scenario = job(2000, 4, others_percent=150)
    words = binding(resources(scenario, [RunOutcome(measures(simulate(scenario)))]), scenario)
    assert "CPU of shared (100% of the 0.5 of 2 cores that others leave)" in words
