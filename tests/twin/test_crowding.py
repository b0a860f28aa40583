"""Tasks that keep up and share cores: how much they slow each other down, against exact runs and in the limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.deployment import Deployment
from twin.engine.compute.collisions import bunched_rate, crowded_rate
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

IDEAL = {**HOST, "cpu_percent": 6400, "latency_ms": 0, "bandwidth_mbps": 1e9}


@given(st.floats(0.1, 64.0), st.floats(1.0, 200.0), st.floats(0.0, 1.0))
def test_nobody_is_slowed_where_there_is_a_core_each(capacity: float, tasks: float, used: float) -> None:
    rate = crowded_rate(capacity, tasks, used * capacity)
    assert 0.0 <= rate <= min(1.0, capacity)
    if tasks <= max(1.0, capacity):
        assert rate == min(1.0, capacity)


@pytest.mark.parametrize("scv", [0.05, 0.25, 1.0])
@pytest.mark.parametrize(("cores", "tasks"), [(4.0, 8), (0.5, 3), (4.0, 5), (4.0, 4)])
def test_tasks_that_begin_together_share_until_the_last_has_ended(cores: float, tasks: int, scv: float) -> None:
    """By hand: gamma-distributed work; with each that ends the others get more."""
    work = np.sort(np.random.default_rng(1).gamma(1 / scv, scv, (4000, tasks)), axis=1)
    steps = np.diff(work, axis=1, prepend=0.0)
    ends = np.cumsum(steps * np.maximum(1 / min(1.0, cores), np.arange(tasks, 0, -1) / cores), axis=1)
    assert bunched_rate(cores, tasks, scv) == pytest.approx(work.sum() / ends.sum(), rel=0.04)


@given(st.integers(2, 16), st.integers(1, 60), st.floats(0.05, 0.95), st.floats(0.0, 0.04))
def test_more_demand_and_more_tasks_slow_more(cores: int, beyond: int, used: float, more: float) -> None:
    tasks, demand = cores + beyond, used * cores
    rate = crowded_rate(cores, tasks, demand)
    assert crowded_rate(cores, tasks, demand + more * cores) <= rate + 1e-9
    assert crowded_rate(cores, tasks + 1, demand) <= rate + 1e-6
    assert rate >= min(1.0, cores / tasks) * 0.5


def shared(replicas: int, operators: int, load: float, cores: float) -> Deployment:
    """A chain of equal operators on a host of few cores, which they load to that share; source and sink elsewhere."""
    rate = 2000.0
    names = [f"q{k}" for k in range(operators)]
    middle = [
        {"kind": "map", "name": name, "service_time_s": load * cores / rate / operators, "service_scv": 1}
        for name in names
    ]
    hosts = [IDEAL, {**IDEAL, "name": "small", "cpu_percent": 100 * cores}]
    engine = STORM.model_copy(update={"serialise_ns_per_byte": 0, "deserialise_ns_per_byte": 0})
    placement = {name: {"small": replicas} for name in names}
    return chain(middle, rate, hosts=hosts, placement=placement, engine=engine.model_dump(mode="json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "operators", "load", "cores"), [(2, 2, 0.8, 2), (4, 3, 0.6, 4), (8, 2, 0.7, 4), (3, 1, 0.85, 2)]
)
def test_busy_shares_are_those_of_exact_runs(replicas: int, operators: int, load: float, cores: int) -> None:
    """Within 2 points or 5 %, and twice the noise of the exact runs."""
    job = shared(replicas, operators, load, cores)
    exact = [_busy(job, RunSettings(horizon_s=6, warmup_s=1.2, period_s=0.6, fidelity="exact", seed=k)) for k in (1, 2)]
    fast = _busy(job, RunSettings(horizon_s=60, warmup_s=12, period_s=6, seed=3))
    expected, noise = float(np.mean(exact)), abs(exact[0] - exact[1])
    assert abs(fast - expected) < max(0.02, 0.05 * expected) + noise


def _busy(job: Deployment, settings: RunSettings) -> float:
    run = simulate(Scenario.of(job, settings))
    return float(np.mean([each.busy for each in run.operators if each.operator.startswith("q")]))


@pytest.mark.parametrize(("load", "says"), [(0.4, ""), (0.67, "a third too low"), (0.9, "twice or half")])
def test_a_fast_run_says_what_it_does_not_resolve_where_tasks_collide(load: float, says: str) -> None:
    """Three replicas on one and a half cores. An exact run resolves it."""
    job, settings = shared(3, 1, load, 1.5), RunSettings(horizon_s=6, warmup_s=1, period_s=1, fidelity="fast")
    warnings = simulate(Scenario.of(job, settings)).warnings
    assert [says in each for each in warnings] == [True] * bool(says)
    if says == "a third too low":
        assert not simulate(Scenario.of(job, settings.model_copy(update={"fidelity": "exact"}))).warnings


def test_what_comes_late_by_the_clock_is_not_older_for_it() -> None:
    """Windows are evaluated long after their ends here, as segments are long, and their results wait for no one."""
    window = {"policy": "time", "size_s": 0.2, "slide_s": 0.2}
    job = deployment(
        [
            source(),
            {"kind": "aggregate", "name": "count", "group_by": "int", "groups": 200, "window": window},
            sink(service_time_s=0.3e-3, service_scv=1.0),
        ],
        [("source", "count"), ("count", "sink")],
        {"source": 800.0},
        hosts=[HOST | {"cpu_percent": 200}],
        placement={"source": ["h"] * 2, "count": ["h"] * 12, "sink": ["h"] * 6},
    )
    brief = RunSettings(horizon_s=6, warmup_s=1, period_s=1, seed=1)
    exact, fast = (
        simulate(Scenario.of(job, brief.model_copy(update=more)))
        for more in ({"fidelity": "exact"}, {"fidelity": "fast", "segments": 120})
    )
    assert fast.metrics.e2e_latency_s is not None
    assert exact.metrics.e2e_latency_s is not None
    assert fast.metrics.e2e_latency_s.mean == pytest.approx(exact.metrics.e2e_latency_s.mean, rel=0.1)
    assert fast.metrics.e2e_latency_s.p95 == pytest.approx(exact.metrics.e2e_latency_s.p95, rel=0.1)
