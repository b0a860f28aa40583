"""A compiled job says what its deployment says, once: by number, as places, with what tuples cost."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.files import scenario_file
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from twin.deployment import Deployment
from twin.flow import nominal_rates
from twin.guards.effort import estimate
from twin.job import Job, compile
from twin.plan import Location
from twin.query import Query
from twin.rates.numa_job import NumaJob
from twin.scenario import RunSettings, Scenario


def listed_otherwise(deployment: Deployment, seed: int) -> Deployment:
    """The same deployment, its operators and streams listed in another order."""
    shuffled = random.Random(seed)
    operators, streams = list(deployment.query.operators), list(deployment.query.streams)
    shuffled.shuffle(operators)
    shuffled.shuffle(streams)
    return Deployment(**{**dict(deployment), "query": Query(operators=tuple(operators), streams=tuple(streams))})


def told(job: Job) -> list[object]:
    """All of a job but the deployment that it was made of."""
    return [[dataclasses.astuple(each) for each in part] for part in (job.components, job.edges)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_a_job_agrees_with_its_deployment(seed: int) -> None:
    deployment = random_scenario(SPACES["costream"], seed, RunSettings()).deployment
    query, engine, job = deployment.query, deployment.engine, compile(deployment)
    assert [each.operators for each in job.components] == [(operator,) for operator in query.topological]
    assert [each.stream for each in job.edges] == list(query.streams_by_name)
    for component in job.components:
        name, operator = component.name, component.operator
        assert [each.stream for each in job.inputs(name)] == list(query.inputs(name))
        assert [each.stream for each in job.outputs(name)] == list(query.outputs(name))
        assert component.places == deployment.plan.locations(name)
        assert component.service_s == engine.service_s(query, operator)
        assert component.bytes_out == engine.output_bytes(query, name)
        assert all(
            each.service_s == engine.service_s_of(query, operator, each.stream.producer) for each in job.inputs(name)
        )
    for each in job.edges:
        assert each.ends == (job.components[each.producer].name, job.components[each.consumer].name)
        assert each.how is query.partitioning(each.stream)
        assert each.producer < each.consumer, "components are in data-flow order"
    assert [each.name for each in job.sources] == [each.name for each in query.sources]
    assert job.rates == nominal_rates(query, deployment.workload.arrivals)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 99))
def test_nothing_depends_on_the_order_in_which_operators_are_listed(seed: int, order: int) -> None:
    deployment = random_scenario(SPACES["costream"], seed, RunSettings()).deployment
    other = listed_otherwise(deployment, order)
    assert told(compile(deployment)) == told(compile(other))
    assert estimate(Scenario.of(deployment)).services == pytest.approx(estimate(Scenario.of(other)).services)


def test_places_are_places() -> None:
    job = compile(scenario_file.load("briskstream-wc"))
    component = max(job.components, key=lambda each: each.replicas)
    assert all(isinstance(place, Location) for place in component.places)
    assert component.at.total() == component.on.total() == component.replicas
    assert set(component.on) == {place.host for place in component.places}


def test_a_job_is_compiled_once_and_frozen() -> None:
    """What takes a deployment takes a job, and rates are solved when they are first asked for, once."""
    deployment = scenario_file.load("smart-grid").deployment
    job = compile(deployment)
    assert compile(job) is job
    assert job.rates is job.rates
    assert estimate(Scenario.of(deployment), job) == estimate(Scenario.of(deployment))
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.edges = ()  # type: ignore[misc]
    with pytest.raises(KeyError):
        job.component("nobody")


def test_distances_of_sockets_are_those_of_the_cluster() -> None:
    """The model of sustained loads reads them off the rate model's; here each pair by itself."""
    job = compile(scenario_file.load("briskstream-wc"))
    found, hosts = NumaJob(job), job.deployment.cluster.hosts
    for i, start in enumerate(found.locations):
        for j, end in enumerate(found.locations):
            host = hosts[found.host_l[i]]
            if i == j or start.host != end.host:
                continue
            line_s = host.socket_latency_s(start.socket, end.socket) * host.core_speed(end.socket)
            fetch_s = [job.engine.lines_of(each.bytes_each) * line_s for each in job.edges]
            assert found.fetch_sij[:, i, j] == pytest.approx(fetch_s, rel=1e-12)
            if host.numa is not None and host.numa.bandwidth_gbps is not None:
                assert found.channel_ij[i, j] == host.numa.bandwidth_gbps[start.socket][end.socket] * 1e9
        own = hosts[found.host_l[i]].sockets[start.socket]
        assert found.memory_l[i] == (float("inf") if own.bandwidth_gbps is None else own.bandwidth_gbps * 1e9)
