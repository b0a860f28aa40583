"""Tasks that keep up and share cores: how much they slow each other down, against exact runs and in the limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.busy_tasks import busy_tasks
from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.deployment import Deployment
from twin.engine.compute.bunches import bunched_rate
from twin.engine.compute.crowding import calm_rate, crowded_rate, mixed_rate
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

IDEAL = {**HOST, "cpu_percent": 6400, "latency_ms": 0, "bandwidth_mbps": 1e9}


@given(st.floats(0.1, 64.0), st.integers(0, 3), st.floats(0.0, 1.0), st.floats(0.0, 40.0), st.floats(0.0, 1.0))
def test_nobody_is_slowed_where_there_is_a_core_each(
    capacity: float, jobs: int, own: float, others: float, used: float
) -> None:
    rate = crowded_rate(capacity, jobs, own, others, used * capacity)
    assert 0.0 <= rate <= min(1.0, capacity / (jobs + 1)) + 1e-12
    if jobs + others + 1 <= capacity or not others:
        assert rate == min(1.0, capacity / (jobs + 1))


@pytest.mark.parametrize(("cores", "jobs"), [(1.0, 1), (0.5, 2), (2.0, 1), (3.0, 2)])
@pytest.mark.parametrize("own", [0.5, 4.0])
def test_the_rate_is_that_of_a_chain_of_busy_tasks(cores: float, jobs: int, own: float) -> None:
    """The chain solved as linear equations: tasks that begin at their own rates, and share the cores while busy."""
    odds = [own, 0.7, 0.7, 0.7]
    states, chance, rates = busy_tasks(cores, jobs, odds)
    busy, work = chance @ states, (chance * rates) @ states
    expected = work[0] / busy[0]
    assert crowded_rate(cores, jobs, work[0], 3, sum(work[1:])) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("scv", [0.05, 0.25, 1.0])
@pytest.mark.parametrize(("cores", "tasks"), [(4.0, 8), (0.5, 3), (4.0, 5), (4.0, 4)])
def test_tasks_that_begin_together_share_until_the_last_has_ended(cores: float, tasks: int, scv: float) -> None:
    """By hand: gamma-distributed work; with each that ends the others get more."""
    work = np.sort(np.random.default_rng(1).gamma(1 / scv, scv, (4000, tasks)), axis=1)
    steps = np.diff(work, axis=1, prepend=0.0)
    ends = np.cumsum(steps * np.maximum(1 / min(1.0, cores), np.arange(tasks, 0, -1) / cores), axis=1)
    assert bunched_rate(cores, tasks, scv) == pytest.approx(work.sum() / ends.sum(), rel=0.04)


@given(st.integers(2, 16), st.integers(1, 60), st.floats(0.05, 0.9), st.floats(0.0, 0.05), st.integers(0, 2))
def test_more_demand_more_tasks_and_more_jobs_slow_more(
    cores: int, beyond: int, used: float, more: float, jobs: int
) -> None:
    others, demand, own = cores + beyond, used * cores, 0.02
    rate = crowded_rate(cores, jobs, own, others, demand)
    assert crowded_rate(cores, jobs, own, others, demand + more * cores) <= rate + 1e-6
    assert crowded_rate(cores, jobs + 1, own, others, demand) <= rate + 1e-6
    assert rate >= min(1.0, cores / (others + 1 + jobs)) - 1e-9  # never less than if all were always busy


@given(st.floats(0.02, 0.45), st.floats(0.02, 0.45))
def test_of_two_tasks_the_one_that_needs_more_is_slowed_less(one: float, other: float) -> None:
    large, small = max(one, other), min(one, other)
    rate = calm_rate(1.0, large, 1.0, small)
    assert rate >= calm_rate(1.0, small, 1.0, large) - 0.02
    assert rate >= 1.0 - small - 1e-9  # what it would get if it were busy all the time


@given(st.floats(0.01, 0.9), st.floats(0.05, 0.95), st.floats(0.3, 1.0), st.floats(0.1, 0.9))
def test_what_a_task_cannot_do_beside_jobs_it_does_later(own: float, calm: float, rate: float, part: float) -> None:
    """The busy shares of both times together do the work, unless it is too much."""
    beside = part * rate
    busy = own / mixed_rate(own, calm, rate, beside)
    most = calm * rate + (1.0 - calm) * beside
    assert busy == pytest.approx(
        own / most
        if own >= most
        else own * (calm / rate + (1.0 - calm) / beside)
        if own < beside
        else 1.0 - calm + (own - (1.0 - calm) * beside) / rate
    )


def test_unequal_tasks_on_a_core_are_as_busy_as_theory_says() -> None:
    """Two operators in a row, of loads 0.6 and 0.3, on one core: a Markov chain gives busy shares of 0.8545, 0.5545."""
    job = unequal({"q0": 0.6, "q1": 0.3})
    runs = [simulate(Scenario.of(job, RunSettings(horizon_s=120, warmup_s=24, period_s=12, seed=k))) for k in (1, 2, 3)]
    busy = [{each.operator: each.busy for each in run.operators} for run in runs]
    assert np.mean([each["q0"] for each in busy]) == pytest.approx(0.8545, rel=0.05)
    assert np.mean([each["q1"] for each in busy]) == pytest.approx(0.5545, rel=0.05)


def test_beside_an_overloaded_task_a_small_one_is_busy_twice_as_long() -> None:
    """Of two tasks on a core the one that is always busy takes half of it whenever the other works."""
    run = simulate(Scenario.of(unequal({"q0": 1.5, "q1": 0.2}), RunSettings(horizon_s=60, warmup_s=12, period_s=6)))
    busy = {each.operator: each.busy for each in run.operators}
    rate = {each.operator: each.rate_in_per_s for each in run.operators}
    assert busy["q0"] > 0.99
    assert busy["q1"] == pytest.approx(2.0 * 0.2 * rate["q1"] / 1000.0, rel=0.04)


def unequal(loads: dict[str, float]) -> Deployment:
    """Operators in a row with exponential services and these loads, alone on one core, at 1,000 tuples a second."""
    middle = [
        {"kind": "map", "name": name, "service_time_s": load / 1000.0, "service_scv": 1} for name, load in loads.items()
    ]
    hosts = [IDEAL, {**IDEAL, "name": "small", "cpu_percent": 100}]
    engine = STORM.model_copy(update={"serialise_ns_per_byte": 0, "deserialise_ns_per_byte": 0})
    placement = dict.fromkeys(loads, "small")
    return chain(middle, 1000.0, hosts=hosts, placement=placement, engine=engine.model_dump(mode="json"))


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
