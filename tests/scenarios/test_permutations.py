"""The order in which a scenario lists its operators, streams and hosts means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.features import FEATURES, raw_rows
from models.graph import JointGraph, joint_graph
from models.job_columns import job_columns
from models.vectors import derived_vector, flat_vector
from optimizers.interface import Problem
from optimizers.planner import Planner
from optimizers.policies.ds2 import Ds2Spec
from optimizers.registry import optimizer_by_name
from scenarios.files import scenario_file
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from tests.optimizers.judged_jobs import ends_apart, small_job
from twin.deployment import Deployment
from twin.metrics import METRICS
from twin.query import Columns, Filter, Query
from twin.rates.model import RateAnswer, RateModel
from twin.rates.numa_rates import NumaJob, sustained
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

FEW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXACT = partial(pytest.approx, rel=1e-9, abs=1e-12, nan_ok=True)
"""Equality up to rounding."""
BY_OPERATOR = ("in_per_s", "out_per_s", "pressure", "offered_pressure", "service_s", "busy_cores", "speed", "age_s")
BY_HOST = ("cpu", "card", "memory")
EVENTFUL = ("failover", "rush-hour-scaling", "smart-grid", "numa-cluster", "advertisement")
"""Library scenarios with failures, scaling, links, sockets and key groups."""


def shuffled(job: Deployment, seed: int) -> Deployment:
    """Deployment with everything that is looked up by its name in another order."""
    rng = np.random.default_rng(seed)

    def mixed(listed: Iterable[Any]) -> tuple[Any, ...]:
        items = tuple(listed)
        return tuple(items[index] for index in rng.permutation(len(items)))

    query, cluster, plan, workload = job.query, job.cluster, job.plan, job.workload
    parts = {name: mixed(getattr(cluster, name)) for name in ("hosts", "links", "switches")}
    return Deployment(
        query=Query(operators=mixed(query.operators), streams=mixed(query.streams)),
        cluster=type(cluster)(**parts),
        plan=type(plan)(placement=dict(mixed(plan.placement.items())), key_groups=plan.key_groups),
        workload=type(workload)(arrivals=dict(mixed(workload.arrivals.items())), keys=workload.keys),
        engine=job.engine,
    )


def renamed(scenario: Scenario, seed: int) -> Scenario:
    """Scenario under other names, listed in another order."""
    document = scenario.model_dump(mode="json")
    query, cluster, workload = document["query"], document["cluster"], document["workload"]
    named = [*query["operators"], *cluster["hosts"]]
    number = np.random.default_rng(seed).permutation(len(named))
    new = {each["name"]: f"n{index}" for each, index in zip(named, number, strict=True)}
    for each in named:
        each["name"] = new[each["name"]]
    query["streams"] = [each | {end: new[each[end]] for end in ("producer", "consumer")} for each in query["streams"]]
    places = {name: [place.host for place in scenario.plan.locations(name)] for name in scenario.plan.placement}
    document["plan"] = {"placement": {new[name]: [new[host] for host in hosts] for name, hosts in places.items()}}
    workload["arrivals"] = {new[name]: law for name, law in workload["arrivals"].items()}
    other = parse(Scenario, document)
    return Scenario.of(shuffled(other.deployment, seed), other.run)


def random_job(seed: int) -> Deployment:
    return random_scenario(SPACES["costream"], seed, RunSettings()).deployment


def rows_of(run: Run) -> dict[tuple[str, int], dict[str, Any]]:
    """Rows of a run's statistics, by component and period."""
    listed: Sequence[dict[str, Any]] = [*run.operator_rows, *run.host_rows]
    return {(row.get("operator", row.get("host")), row["period"]): row for row in listed}


@FEW
@given(seed=st.integers(0, 10**9), order=st.integers(0, 100))
def test_a_run_does_not_know_the_order(seed: int, order: int) -> None:
    """Statistics and metrics of a run do not depend on the order, to the last bit."""
    job, how = random_job(seed), RunSettings(horizon_s=10, period_s=5, seed=seed % 7)
    first, second = (simulate(Scenario.of(each, how)) for each in (job, shuffled(job, order)))
    assert first.metrics == second.metrics
    assert rows_of(first) == rows_of(second)


@pytest.mark.parametrize("name", EVENTFUL)
def test_nor_does_what_happens_to_it(name: str) -> None:
    scenario = scenario_file.load(name)
    horizon_s = min(scenario.run.horizon_s, 40.0)
    how = scenario.run.model_copy(update={"horizon_s": horizon_s, "warmup_s": 0.0})
    events = [event for event in scenario.events if event.at_s < horizon_s]
    runs = []
    for job in (scenario.deployment, shuffled(scenario.deployment, 1)):
        policy = Ds2Spec().start(job) if name == "rush-hour-scaling" else None
        runs.append(simulate(Scenario.of(job, how, events), policy))
    assert runs[0].metrics == runs[1].metrics
    assert rows_of(runs[0]) == rows_of(runs[1])


@FEW
@given(seed=st.integers(0, 10**9), order=st.integers(0, 100))
def test_the_rate_model_does_not_know_the_order(seed: int, order: int) -> None:
    job = random_job(seed)
    other = shuffled(job, order)
    first, second = (RateModel().answer(each, [each.plan]) for each in (job, other))
    assert by_name(first) == {name: EXACT(values) for name, values in by_name(second).items()}


def by_name(answer: RateAnswer) -> dict[str, list[float]]:
    """Answer of the rate model by operator, host, source, and for the plan."""
    found = {"plan": [float(answer.costs[name][0]) for name in METRICS]}
    for names, kinds in ((answer.operators, BY_OPERATOR), (answer.hosts, BY_HOST), (answer.sources, ("ingested",))):
        for number, name in enumerate(names):
            found[f"{kinds[0]} {name}"] = [float(getattr(answer, kind)[0, number]) for kind in kinds]
    return found


@pytest.mark.parametrize("name", ["briskstream-lr", "numa-cluster"])
def test_nor_does_the_model_of_sockets(name: str) -> None:
    job = scenario_file.load(name).deployment
    loads = []
    for each in (job, shuffled(job, 2)):
        model = NumaJob(each)
        loads.append(float(sustained(model, model.counts_of(each.plan)[None]).load_n[0]))
    assert loads[0] == EXACT(loads[1])


@FEW
@given(seed=st.integers(0, 10**9), order=st.integers(0, 100))
def test_features_do_not_know_the_order(seed: int, order: int) -> None:
    job = random_job(seed)
    seen = []
    for each in (job, shuffled(job, order)):
        columns, answer = job_columns(each), RateModel().answer(each, [each.plan])
        operators = {
            name: raw_rows(FEATURES[kind], columns.operators, [o])[0].tolist()
            for o, (name, kind) in enumerate(zip(columns.names, columns.kinds, strict=True))
        }
        graph = joint_graph(each, columns, answer=answer)
        derived = derived_vector(columns, answer, 240.0)
        seen.append((operators, nodes(graph), list(derived), flat_vector(columns), graph.context))
    first, second = seen
    assert first[0] == {name: EXACT(row) for name, row in second[0].items()}
    for one, other in zip(first[1:], second[1:], strict=True):
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-9, atol=1e-12)


def nodes(graph: JointGraph) -> list[float]:
    """All features of a graph's nodes; hosts, which come in the cluster's order, are sorted."""
    rounded = sorted([round(value, 9) for value in row] for row in graph.hosts)
    return [value for row in (*graph.operators, *rounded) for value in row]


@pytest.mark.parametrize("name", ["exhaustive", "local-search", "milp", "fusion+milp", "rlas", "rlas-placement"])
@pytest.mark.parametrize("objective", ["processing_latency_s", "traffic_bytes_per_s"])
def test_no_optimizer_finds_less_under_other_names_or_in_another_order(name: str, objective: str) -> None:
    for job in (ends_apart(2), ends_apart(3), small_job(5)):
        ways = [job, *(renamed(job, seed) for seed in (0, 3))]
        model = RateModel()
        problems = [Problem(scenario=each, cost_model=model, objective=objective, budget=300) for each in ways]
        first, *others = (Planner(optimizer_by_name(name)).solve(each) for each in problems)
        assert [EXACT(first.objective)] * 2 == [each.objective for each in others]


def test_a_union_has_room_for_the_columns_of_each_input() -> None:
    narrow, wide = Columns(ints=2), Columns(ints=1, strings=3)
    keep = Filter(name="f", selectivity=0.5)
    assert keep.columns_out([narrow, wide]) == keep.columns_out([wide, narrow]) == Columns(ints=2, strings=3)
