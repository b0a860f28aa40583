"""Random scenarios over a wide space: any engine, with maps, keyed windows, measured joins, subtasks and sockets.

A model that has seen these can be used without being trained again. Queries are those of Costream's space, changed;
engines are drawn (`random_engine`); rates are set so that the plan's highest utilisation is spread over both sides of
saturation; horizons and time windows are log-uniform. Every other plan is the best of a few by the rate model, as
optimizers ask about such plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optimizers.objectives import at_rate
from optimizers.space import Space, SpacePlans, as_plans
from scenarios.spaces.generator import (
    COSTREAM,
    CPU_PERCENT,
    LATENCY_MS,
    log_uniform,
    random_cluster,
    random_engine,
    random_query,
)
from twin.cluster import Cluster, Host, Numa, Socket
from twin.plan import ExecutionPlan
from twin.query import AnyOperator, Map, Query, TimeWindow, Window, Windowed
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.workload import Poisson, Workload

NEAR_AND_FAR_MS = (0.05, 0.2, *LATENCY_MS)
SPACE = replace(
    COSTREAM,
    aggregate_functions=("min", "max", "mean", "avg", "sum", "count"),
    hosts_range=(2, 8),
    cpu_percent=(*CPU_PERCENT, 1600.0, 3200.0),
    latency_ms=NEAR_AND_FAR_MS,
)
LONGEST_S, SHORTEST_S = 240.0, 0.3
MAPS, MEASURED, SPREAD, SOCKETS = 0.4, 0.3, 0.5, 0.25
"""Shares of filters that become maps, of joins with a measured amplification, of scenarios whose operators may have
subtasks, and of clusters whose hosts have sockets."""
CANDIDATES = 8
PERIODS = 10
ROUNDS = 4
"""Number of rounds that scale rates to a utilisation, as joins make it grow faster than rates."""


def wide_scenario(seed: int, horizon_s: float | None = None) -> Scenario:
    """Draws a scenario; the run uses `seed` as well. horizon_s: of the run; None: log-uniform."""
    rng = random_stream(seed, "wide")
    length_s = log_uniform(rng, SHORTEST_S, LONGEST_S) if horizon_s is None else horizon_s
    query, rates = random_query(SPACE, rng)
    query = Query(operators=tuple(changed(each, rng, length_s) for each in query.operators), streams=query.streams)
    base = Scenario(
        name=f"wide-{seed}",
        query=query,
        cluster=(cluster := drawn_cluster(rng)),
        plan=_replicated(query, cluster, rng),
        workload=Workload(arrivals={name: Poisson(rate_per_s=rate) for name, rate in rates.items()}),
        engine=random_engine(rng),
        run=RunSettings(horizon_s=length_s, period_s=length_s / PERIODS, seed=seed),
    )
    return at_utilisation(base.with_plan(chosen_plan(base, rng)), _utilisation(rng))


def changed(operator: AnyOperator, rng: np.random.Generator, length_s: float) -> AnyOperator:
    """Operator, maybe changed: a filter may become a map, and a join a measured one; a time window is as large a share
    of the run as Costream's is of LONGEST_S. length_s: of the run."""
    if operator.thins and rng.random() < MAPS:
        return Map(name=operator.name, selectivity=log_uniform(rng, 0.2, 3.0))
    if not isinstance(operator, Windowed):
        return operator
    update: dict[str, Any] = {"window": _window(operator.window, length_s)}
    if operator.joins and rng.random() < MEASURED:
        update |= operator.measured_as(log_uniform(rng, 0.01, 2.0))
    return operator.model_copy(update=update)


def _window(window: Window, length_s: float) -> Window:
    if not isinstance(window, TimeWindow):
        return window
    share = length_s / LONGEST_S
    slide_s = None if window.slide_s is None else window.slide_s * share
    return TimeWindow(size_s=window.size_s * share, slide_s=slide_s)


def drawn_cluster(rng: np.random.Generator) -> Cluster:
    """Draws a cluster without links; in some clusters all hosts have sockets."""
    cluster = random_cluster(SPACE, rng)
    if rng.random() >= SOCKETS:
        return cluster
    count, latency_ns = int(rng.choice([2, 4])), log_uniform(rng, 50, 500)
    return Cluster(hosts=tuple(_parted(host, count, latency_ns) for host in cluster.hosts))


def _parted(host: Host, count: int, latency_ns: float) -> Host:
    """Host of `count` equal sockets, all equally far from each other."""
    socket = Socket(cores=max(1, round(host.cpu_percent / 100 / count)))
    far = tuple(tuple(0.0 if i == j else latency_ns for j in range(count)) for i in range(count))
    return host.model_copy(update={"sockets": (socket,) * count, "numa": Numa(latency_ns=far)})


def _replicated(query: Query, cluster: Cluster, rng: np.random.Generator) -> ExecutionPlan:
    """Plan with a number of subtasks for each operator; all are on the first host, as they are placed later."""
    spread = rng.random() < SPREAD
    parallelism = {each.name: 1 + int(rng.integers(4)) * int(spread and rng.random() < 0.5) for each in query.operators}
    return ExecutionPlan(placement={name: (cluster.hosts[0].name,) * count for name, count in parallelism.items()})


def chosen_plan(base: Scenario, rng: np.random.Generator) -> ExecutionPlan:
    """Random plan, or the best of a few by the rate model at a utilisation of 0.5; numbers of subtasks stay."""
    drawn = SpacePlans(base, Space(spread=bool(rng.random() < 0.5))).sample(rng, CANDIDATES)
    plans: Sequence[ExecutionPlan] = as_plans(base, drawn)
    if rng.random() < 0.5:
        return plans[0]
    ordinary = at_utilisation(base.with_plan(plans[0]), 0.5)
    costs = RateModel().predict(ordinary, plans)
    return plans[int(np.lexsort((costs["processing_latency_s"], np.round(costs["backpressured"], 1)))[0])]


def _utilisation(rng: np.random.Generator) -> float:
    """Utilisation of the most loaded resource: in three of five scenarios below 0.8, in others around and above 1."""
    return log_uniform(rng, 0.02, 0.8) if rng.random() < 0.6 else log_uniform(rng, 0.8, 3.0)


def at_utilisation(scenario: Scenario, wanted: float) -> Scenario:
    """Scenario at rates that bring its most loaded resource to about this utilisation, by the rate model."""
    for _ in range(ROUNDS):
        found = float(RateModel().offered(scenario, [scenario.plan])[0].max())
        scenario = at_rate(scenario, (wanted / max(found, 1e-9)) ** 0.8)
    return scenario
