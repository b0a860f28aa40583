"""What the features are read from: everything known about an operator or a host before the job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.physics import NO_HOST_STATE, NO_OPERATOR_STATE, HostState, OperatorState
from twin.cluster import Host
from twin.deployment import Deployment
from twin.job import Component, Job, compile
from twin.kinds.flow import OperatorRates
from twin.plan import ExecutionPlan
from twin.query import AnyOperator, Columns
from twin.rates.placements import Placements


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """One operator of a query: its spec, its tuples, and its steady flow if all sources keep up.

    width_in: values in an incoming tuple, averaged over the inputs. bytes_in, service_s: of an incoming tuple, averaged
    by the inputs' rates. bytes_out: size of an outgoing tuple.
    cpu_cores: reference cores the nominal flow needs. state_mb: heap its window takes.
    service_scv, credits, context_switch: the engine's, for it; batch_tuples: that leave together; flush_s: at the
    latest, 0 if each leaves at once.
    physics: its state under the deployment's plan by the rate model; all zeros if nobody asked for it.
    """

    spec: AnyOperator
    width_in: float
    columns_out: Columns
    rates: OperatorRates
    bytes_in: float
    bytes_out: float
    service_s: float
    cpu_cores: float
    state_mb: float
    replicas: int
    service_scv: float
    credits: float
    batch_tuples: float
    flush_s: float
    context_switch: float
    physics: OperatorState = NO_OPERATOR_STATE

    @property
    def selectivity(self) -> float:
        """Per Costream, Definitions 6 to 8; output per input tuple where an operator has no such definition."""
        return self.spec.selectivity_at(self.rates)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host under one plan. The loads are shares of its CPU, outgoing bandwidth and RAM taken by the nominal flow;
    `tasks` is the number of replicas that it carries. physics: by the rate model; zeros if nobody asked for it."""

    spec: Host
    cpu_load: float = 0.0
    network_load: float = 0.0
    memory_load: float = 0.0
    tasks: float = 0.0
    physics: HostState = NO_HOST_STATE


LOADS = ("cpu_load", "network_load", "memory_load", "tasks")
"""The facts of a host that depend on the plan."""


def operator_facts(deployment: Deployment) -> list[OperatorFacts]:
    """The facts of all operators, in data-flow order."""
    job = compile(deployment).apart
    sent_per_s = {name: each.out_per_s for name, each in job.rates.items()}
    return [_facts(job, component, sent_per_s) for component in job.components]


def _facts(job: Job, component: Component, sent_per_s: Mapping[str, float]) -> OperatorFacts:
    query, engine, operator = job.query, job.engine, component.operator
    rates = job.rates[operator.name]
    inputs = [query.columns_out[name] for name in query.feeds(operator.name)]
    service_s = engine.service_s(query, operator, sent_per_s)
    bytes_in = engine.input_bytes(query, operator.name, sent_per_s)
    scans_per_s = rates.fires_per_s * rates.window_tuples
    results_s = rates.out_per_s * component.result_s
    return OperatorFacts(
        spec=operator,
        width_in=sum(columns.width for columns in inputs) / len(inputs),
        columns_out=query.columns_out[operator.name],
        rates=rates,
        bytes_in=bytes_in,
        bytes_out=component.bytes_out,
        service_s=service_s,
        cpu_cores=rates.in_per_s * service_s + scans_per_s * component.scan_s + results_s,
        state_mb=rates.state_tuples * bytes_in * engine.memory.object_overhead / 1e6,
        replicas=component.replicas,
        service_scv=engine.service_scv_of(operator),
        credits=engine.channel_tuples,
        batch_tuples=engine.batch_of(component.bytes_out),
        flush_s=engine.flush_s or 0.0,
        context_switch=engine.context_switch,
    )


def replica_counts(deployment: Deployment, plans: Sequence[ExecutionPlan]) -> np.ndarray:
    """Replicas [plans, operators in data-flow order, hosts]. Raises KeyError for an unplaced operator or host."""
    host_of = {host.name: index for index, host in enumerate(deployment.cluster.hosts)}
    names = [operator.name for operator in deployment.query.topological]
    if isinstance(plans, Placements):
        return plans.replica_counts(names)
    counts_PxOxH = np.zeros((len(plans), len(names), len(host_of)), np.float32)
    for p, plan in enumerate(plans):
        for o, name in enumerate(names):
            for place in plan.locations(name):
                counts_PxOxH[p, o, host_of[place.host]] += 1
    return counts_PxOxH


def host_loads(
    deployment: Deployment, operators: Sequence[OperatorFacts], host_N: np.ndarray, counts_NxO: np.ndarray
) -> np.ndarray:
    """The plan-dependent facts [N, 4], in the order of LOADS, of N hosts that carry so many replicas of each operator.

    host_N: indices into the cluster's hosts. An operator's work, state and traffic are taken as spread evenly over its
    replicas, and every replica as sending to all replicas of its consumers, so the share that leaves a host is one
    minus the consumer's share on it.
    """
    share_NxO = counts_NxO / np.array([each.replicas for each in operators])
    engine, hosts = deployment.engine, deployment.cluster.hosts
    index = {each.spec.name: o for o, each in enumerate(operators)}
    bytes_N = np.zeros(len(host_N))
    for stream in deployment.query.streams:
        u, v = index[stream.producer], index[stream.consumer]
        rate = operators[u].rates.out_per_s * operators[u].bytes_out
        bytes_N += rate * share_NxO[:, u] * (1 - share_NxO[:, v])
    cpu_N = share_NxO @ np.array([each.cpu_cores for each in operators])
    state_N = share_NxO @ np.array([each.state_mb for each in operators])
    cores_N = np.array([host.cpu_percent / 100 for host in hosts])[host_N]
    bandwidth_N = np.array([host.bandwidth_mbps * 1e6 / 8 for host in hosts])[host_N]
    ram_N = np.array([host.ram_mb for host in hosts])[host_N]
    loads = (cpu_N / cores_N, bytes_N / bandwidth_N, (engine.memory.base_mb + state_N) / ram_N)
    return np.stack([*loads, counts_NxO.sum(axis=1)], axis=1)
