"""Random scenarios of the wide space, and of the demanding one, which has features of real jobs that steady rates do
not show.

For corpora from which models learn that are used as they are. `scenarios.spaces.registry` has the names of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optimizers.objectives import at_rate
from optimizers.space import Space, SpacePlans, as_plans
from scenarios.spaces.generator import (
    BANDWIDTH_MBPS,
    COSTREAM,
    CPU_PERCENT,
    LATENCY_MS,
    log_uniform,
    random_cluster,
    random_engine,
    random_query,
)
from twin.arrivals.laws import BurstState, Bursty, Constant, Diurnal, Poisson, Spikes
from twin.cluster import Cluster, Host, Link, Numa, Socket
from twin.key_skew import KeySkew
from twin.kinds.basic import AsyncIO
from twin.plan import ExecutionPlan
from twin.profiles import FLINK, STORM, EngineProfile, PerKind
from twin.query import AnyOperator, Map, Query, TimeWindow, Window, Windowed
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.workload import Arrivals, Workload

# the wide space ------------------------------------------------------------------------------------------------------
# A model that has seen these can be used without being trained again. Queries are those of Costream's space, changed;
# engines are drawn (`random_engine`); rates are set so that the plan's highest utilisation is spread over both sides of
# saturation; horizons and time windows are log-uniform. Every other plan is the best of a few by the rate model, as
# optimizers ask about such plans.


NEAR_AND_FAR_MS = (0.05, 0.2, *LATENCY_MS)
"""Latencies of hosts and links: those of Costream's hosts, and shorter ones."""
SPACE = replace(
    COSTREAM,
    aggregate_functions=("min", "max", "mean", "avg", "sum", "count"),
    hosts_range=(2, 8),
    cpu_percent=(*CPU_PERCENT, 1600.0, 3200.0),
    latency_ms=NEAR_AND_FAR_MS,
)
LONGEST_S, SHORTEST_S = 240.0, 0.3
"""Longest and shortest run. A time window is as large a share of its run as Costream's is of the longest."""
MAPS, MEASURED, SPREAD, SOCKETS = 0.4, 0.3, 0.5, 0.25
"""Shares of filters that become maps, of joins with a measured amplification, of scenarios whose operators may have
subtasks, and of clusters whose hosts have sockets."""
CANDIDATES = 8
"""Number of random plans of which a scenario gets one: any, or the best."""
PERIODS = 10
"""Number of periods of a run."""
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
        plan=_few_subtasks(query, cluster, rng),
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


def _few_subtasks(query: Query, cluster: Cluster, rng: np.random.Generator) -> ExecutionPlan:
    """Plan with one to four subtasks of each operator, all on the first host."""
    spread = rng.random() < SPREAD
    parallelism = {each.name: 1 + int(rng.integers(4)) * int(spread and rng.random() < 0.5) for each in query.operators}
    return _on_the_first(cluster, parallelism)


def _on_the_first(cluster: Cluster, parallelism: Mapping[str, int]) -> ExecutionPlan:
    """Plan with all subtasks on the first host, as they are placed later. parallelism: by operator."""
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


# demanding jobs ------------------------------------------------------------------------------------------------------
# They are drawn so that models can learn what steady rates do not show.
#
# Queries and hosts are those of the wide space, made harder: arrivals come in bursts, spikes and waves; keys are skewed
# and drift; hosts are few, far apart behind links, and mostly at a utilisation of 70 to 105 %; calls wait for systems
# outside; operators have up to eight subtasks. A third of the scenarios run on Flink, a third on Storm, the others on a
# random engine. Times of bursts, windows and drifts are shares of the run, whose length follows from its records.


RECORDS = (2e4, 2e5)
"""Least and most records into all operators of a run, log-uniform, so that it is simulated in tenths of a second."""
LENGTHS_S = (2.0, 240.0)
"""Shortest and longest run, whatever number of records was drawn."""
CALLS, SKEWS, DRIFTS, LINKED, CROWDED, STEADY = 0.25, 0.6, 0.35, 0.3, 0.5, 0.25
"""Shares of scenarios with a call, of keyed operators whose keys are skewed, of these that drift, of clusters of three
hosts or more with links, of clusters cut to at most three hosts, and of sources whose rate is steady."""
LAWS = ("constant", "poisson", "diurnal", "spikes", "bursty")
"""Arrival laws that `varying` draws."""
PARALLELISM = (1, 1, 1, 2, 2, 3, 4, 6, 8)
"""Numbers of subtasks, each as likely as it is often here."""
OWN_WORK = (1.0, 100.0)
"""Least and most factor, log-uniform, of a record's cost with users' functions over that of Flink alone."""
MOST_KEY_GROUPS = 128
"""Key groups of an operator, or its groups if these are fewer; Flink's default for few subtasks."""


def demanding_scenario(seed: int, horizon_s: float | None = None) -> Scenario:
    """Draws a scenario; the run uses `seed` as well. horizon_s: of the run; None: by the number of its records."""
    rng = random_stream(seed, "demanding")
    drawn, rates = random_query(SPACE, rng)
    length_s = log_uniform(rng, 10.0, 100.0) if horizon_s is None else horizon_s
    query = _harder(drawn, rng, length_s)
    cluster = _cluster(rng)
    base = Scenario(
        name=f"demanding-{seed}",
        query=query,
        cluster=cluster,
        plan=_many_subtasks(query, cluster, rng),
        workload=Workload(arrivals={name: Poisson(rate_per_s=rate) for name, rate in rates.items()}),
        engine=_engine(rng),
        run=RunSettings(horizon_s=length_s, period_s=length_s / PERIODS, seed=seed),
    )
    wanted, records = _high_utilisation(rng), log_uniform(rng, *RECORDS)
    steady = at_utilisation(base.with_plan(chosen_plan(base, rng)), wanted)
    if horizon_s is None:
        steady = _taking(steady, records, wanted)
    return _unsteady(steady, rng)


def _harder(query: Query, rng: np.random.Generator, length_s: float) -> Query:
    """Query with maps, measured joins and windows as in the wide space; a filter or map may become a call, and keys may
    be grouped."""
    operators = [changed(each, rng, length_s) for each in query.operators]
    replaceable = [number for number, each in enumerate(query.operators) if each.thins]
    if replaceable and rng.random() < CALLS:
        number = int(rng.choice(replaceable))
        operators[number] = _call(operators[number].name, rng, length_s)
    return Query(operators=tuple(_keyed(each, rng) for each in operators), streams=query.streams)


def _call(name: str, rng: np.random.Generator, length_s: float) -> AsyncIO:
    return AsyncIO(
        name=name,
        latency_s=length_s * log_uniform(rng, 1e-5, 3e-3),
        latency_scv=log_uniform(rng, 0.05, 4.0),
        capacity=round(log_uniform(rng, 2, 500)),
        ordered=bool(rng.random() < 0.5),
    )


def _keyed(operator: AnyOperator, rng: np.random.Generator) -> AnyOperator:
    """Operator with key groups, if it is drawn so: a join, or an aggregate with at least as many groups as subtasks may
    be."""
    groups = MOST_KEY_GROUPS if operator.joins else getattr(operator, "groups", 1)
    if groups < max(PARALLELISM) or rng.random() >= SKEWS:
        return operator
    return operator.model_copy(update={"key_groups": min(groups, MOST_KEY_GROUPS)})


def _cluster(rng: np.random.Generator) -> Cluster:
    """Cluster as in the wide space, maybe cut to few hosts. Links, if any, join each host to the one before or to
    another."""
    cluster = drawn_cluster(rng)
    hosts = cluster.hosts[: int(rng.integers(1, 4))] if rng.random() < CROWDED else cluster.hosts
    if len(hosts) < 3 or rng.random() >= LINKED:
        return Cluster(hosts=hosts)
    joined = [number - 1 if rng.random() < 0.7 else int(rng.integers(number)) for number in range(1, len(hosts))]
    links = tuple(
        Link(
            between=(hosts[earlier].name, hosts[number].name),
            bandwidth_mbps=float(rng.choice(BANDWIDTH_MBPS)),
            latency_ms=float(rng.choice(NEAR_AND_FAR_MS)),
        )
        for number, earlier in enumerate(joined, start=1)
    )
    return Cluster(hosts=hosts, links=links)


def _many_subtasks(query: Query, cluster: Cluster, rng: np.random.Generator) -> ExecutionPlan:
    """Plan with up to eight subtasks of each operator, all on the first host."""
    return _on_the_first(cluster, {each.name: int(rng.choice(PARALLELISM)) for each in query.operators})


def _engine(rng: np.random.Generator) -> EngineProfile:
    which = int(rng.integers(3))
    if which == 0:
        return STORM
    if which == 1:
        return random_engine(rng)
    work = log_uniform(rng, *OWN_WORK)
    record_us = {kind: work * micros for kind, micros in FLINK.record_us.model_dump(exclude_none=True).items()}
    return FLINK.model_copy(update={"name": "worked-flink", "record_us": PerKind(**record_us)})


def _high_utilisation(rng: np.random.Generator) -> float:
    """Utilisation of the most loaded resource at mean rates: in seven of ten scenarios near 1, in the others lower."""
    return float(rng.uniform(0.7, 1.05)) if rng.random() < 0.7 else log_uniform(rng, 0.15, 0.7)


def _taking(scenario: Scenario, records: float, wanted: float) -> Scenario:
    """Scenario whose run takes about so many records; windows and waits are as large shares of it as before. wanted:
    utilisation, which is set anew, as windows cost by their length."""
    per_s = float(RateModel().answer(scenario, [scenario.plan]).in_per_s.sum())
    length_s = float(np.clip(records / per_s, *LENGTHS_S))
    factor = length_s / scenario.run.horizon_s
    operators = tuple(_stretched(each, factor) for each in scenario.query.operators)
    run = scenario.run.model_copy(update={"horizon_s": length_s, "period_s": length_s / PERIODS})
    query = scenario.query.model_copy(update={"operators": operators})
    return at_utilisation(Scenario(**{**dict(scenario), "query": query, "run": run}), wanted)


def _stretched(operator: AnyOperator, factor: float) -> AnyOperator:
    """Operator with its time window and its wait for answers `factor` times as long."""
    update: dict[str, Any] = {}
    if (window := getattr(operator, "window", None)) is not None and window.policy == "time":
        slide_s = None if window.slide_s is None else window.slide_s * factor
        update["window"] = window.model_copy(update={"size_s": window.size_s * factor, "slide_s": slide_s})
    if (latency_s := getattr(operator, "latency_s", None)) is not None:
        update["latency_s"] = latency_s * factor
    return operator.model_copy(update=update)


def _unsteady(scenario: Scenario, rng: np.random.Generator) -> Scenario:
    """Scenario with arrivals that vary around the same means, and with keys that are not equally frequent."""
    length_s = scenario.run.horizon_s
    arrivals = {name: _arrivals(law.mean_rate_per_s, length_s, rng) for name, law in scenario.workload.arrivals.items()}
    keyed = [each.name for each in scenario.query.operators if getattr(each, "key_groups", None)]
    workload = Workload(arrivals=arrivals, keys={name: _skew(length_s, rng) for name in keyed})
    return Scenario(**{**dict(scenario), "workload": workload})


def _skew(length_s: float, rng: np.random.Generator) -> KeySkew:
    drift_every_s = length_s * log_uniform(rng, 0.02, 0.3) if rng.random() < DRIFTS else None
    return KeySkew(zipf=float(rng.uniform(0.1, 1.6)), drift_every_s=drift_every_s)


def _arrivals(rate_per_s: float, length_s: float, rng: np.random.Generator) -> Arrivals:
    """Arrival law with a mean of `rate_per_s`: steady, a wave, or peaks of 1.2 to 8 times the mean, which take 5 to 50
    % of the time and last up to 5 % of the run each."""
    kind = rng.random()
    ends = ((STEADY, "poisson"), (STEADY + 0.15, "diurnal"), (STEADY + 0.3, "spikes"), (1.0, "bursty"))
    return varying(next(law for end, law in ends if kind < end), rate_per_s, length_s, rng)


def varying(law: str, rate_per_s: float, length_s: float, rng: np.random.Generator) -> Arrivals:
    """Arrival law of that name with a mean of `rate_per_s`; LAWS has all names. Its other numbers are drawn: waves, or
    peaks of 1.2 to 8 times the mean, which take 5 to 50 % of the time and last up to 5 % of the run each."""
    if law == "constant":
        return Constant(rate_per_s=rate_per_s)
    if law == "poisson":
        return Poisson(rate_per_s=rate_per_s)
    if law == "diurnal":
        amplitude, period_s = float(rng.uniform(0.2, 1.0)), length_s * log_uniform(rng, 0.05, 0.5)
        return Diurnal(rate_per_s=rate_per_s, amplitude=amplitude, period_s=period_s, phase=float(rng.random()))
    share = log_uniform(rng, 0.05, 0.5)
    peak = log_uniform(rng, 1.2, min(8.0, 0.98 / share))
    burst_s = max(1e-3, length_s * min(log_uniform(rng, 3e-4, 0.05), share / 10))
    quiet_s = max(1e-3, burst_s * (1 - share) / share)
    low = rate_per_s * (1 - share * peak) / (1 - share)
    if law == "spikes":
        return Spikes(
            rate_per_s=low,
            factor=peak * rate_per_s / low,
            every_s=burst_s + quiet_s,
            duration_s=burst_s,
            random=bool(rng.random() < 0.5),
        )
    states = (BurstState(rate_per_s=low, mean_s=quiet_s), BurstState(rate_per_s=peak * rate_per_s, mean_s=burst_s))
    return Bursty(states=states)
