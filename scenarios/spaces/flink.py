"""Random jobs of Flink over all that composes here: kinds of operators, windows, event time, state, checkpoints, calls.

A job has 1 to 12 sources and up to 40 operators, of all kinds that compose (`scenarios.spaces.any_query`). It runs on
one machine, on equal or unlike machines, or from an edge to a cloud; on Flink, with either state backend, chained or
not, with pauses of garbage collection and buffer debloating, or in some cases on another engine. Arrivals vary and keys
are skewed and drift as in the space `demanding`. Most jobs take checkpoints, of any mode.

How many records a run takes is drawn, and all that happens in it is a share of its length. So the length sets the
rates, by which the rate model brings the dearest resource to the utilisation that is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scenarios.spaces.any_query import (
    Given,
    Parts,
    Shares,
    Table,
    WrittenQuery,
    any_query,
    resolved,
)
from scenarios.spaces.draws import Between, OneOf
from scenarios.spaces.generator import (
    COSTREAM,
    HostTier,
    ParameterSpace,
    log_uniform,
    random_cluster,
    random_engine,
)
from scenarios.spaces.wide import LAWS, PERIODS, varying
from twin.checkpoints import Checkpoints
from twin.cluster import Cluster, Link
from twin.deployment import steady_rates
from twin.key_skew import KeySkew
from twin.kinds.rows import LASTING_S
from twin.plan import ExecutionPlan
from twin.profiles import FLINK, EngineProfile, PerKind, PerType
from twin.query import Query
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.workload import Workload, group_count

RECORDS = (2e3, 2e4)
"""Least and most records into all operators of a run, log-uniform."""
LENGTHS_S = (2.0, 20.0)
"""Shortest and longest run that is aimed at by the work of users' functions, log-uniform."""
BOUNDS_S = (0.5, 100.0)
"""Shortest and longest run, whatever the utilisation asks for."""
MOST_SOURCES, MOST_OPERATORS = 12, 40
FLOW = 4.0
"""Records into all operators over those of the sources, as supposed until the query is drawn."""
UTILISATION = (0.5, 1.25)
PARALLELISM = (1, 1, 1, 2, 2, 3, 4, 8)
OWN_PARALLELISM, CHECKPOINTED, OTHER_ENGINES, SKEWED, DRIFTING, LINKED = 0.3, 0.7, 0.12, 0.5, 0.35, 0.5
"""Shares of the operators with a parallelism of their own, of jobs with checkpoints, of those on other engines, of
keyed operators whose keys are skewed, of these that drift, and of clusters of tiers that have links."""
CANDIDATES = 8
"""Plans of which the one that bears most is taken, in half of the jobs."""
MOST_WORK = 10_000.0
"""Most work of users' functions, over what Flink alone takes for a record."""
RECORD_S = 2e-6
"""CPU of a record in Flink, about, of which own service times are multiples."""
ROUNDS = 2
"""Rounds that set the work of a record, before the length of the run sets the rates."""

# engines -------------------------------------------------------------------------------------------------------------


PAUSES = {"gc_interval_s": Given(Shares(0.02, 0.5)), "gc_pause_s": Given(Shares(5e-4, 1e-2))}
JITTER = {"jitter_scv": Given(Between(0.05, 1.0, log=True), 0.4)}
BUFFERS = {"buffer_debloat": Given(Parts({"target_s": Given(Shares(1e-2, 1e-1))}), 0.3)}
ENGINE: Table = {
    "state_backend": Given(OneOf(("heap", "rocksdb", "rocksdb")), 0.7),
    "window_state": Given(OneOf(("accumulators", "slices", "records"))),
    "chaining": Given(OneOf((True, False))),
    "flush_s": Given(Shares(1e-4, 2e-2)),
    "buffer_bytes": Given(OneOf((32_768, 32_768, 4096))),
    "network_memory": Given(Parts(BUFFERS)),
    "service_scv": Given(Between(0.05, 2.0, log=True)),
    "watermark_interval_s": Given(Shares(1e-3, 2e-2)),
}
"""Fields of Flink's profile that differ between jobs."""


def _engine(rng: np.random.Generator) -> dict[str, Any]:
    """Draws the fields of an engine, without the work of users' functions."""
    if rng.random() < OTHER_ENGINES:
        return random_engine(rng).model_dump(mode="json")
    noise = Parts(PAUSES).draw(rng) if rng.random() < 0.4 else {}
    drawn = {**Parts(ENGINE).draw(rng), "noise": {**noise, **Parts(JITTER).draw(rng)}, "name": "drawn-flink"}
    return {**FLINK.model_dump(mode="json"), **drawn}


def _working(drawn: Mapping[str, Any], length_s: float, work: float) -> EngineProfile:
    """Engine in a run of that length, whose records cost so many times as much, by users' functions."""
    engine = EngineProfile.model_validate(resolved(drawn, length_s, 0.0))
    record_us = {kind: work * micros for kind, micros in engine.record_us.model_dump(exclude_none=True).items()}
    value_us = {kind: work * micros for kind, micros in engine.value_us.model_dump().items()}
    each = {"result_us": work * engine.result_us, "scan_us": work * engine.scan_us}
    return engine.model_copy(update={"record_us": PerKind(**record_us), "value_us": PerType(**value_us), **each})


# clusters ------------------------------------------------------------------------------------------------------------


def _tier(name: str, hosts: tuple[int, int], cores: tuple[int, int], latency_ms: tuple[float, ...]) -> HostTier:
    return HostTier(
        name=name,
        hosts_range=hosts,
        cpu_percent=Between(100.0 * cores[0], 100.0 * cores[1], log=True),
        ram_mb=Between(2000.0 * cores[0], 4000.0 * cores[1], log=True),
        bandwidth_mbps=Between(25.0 * cores[0], 1000.0 * cores[1], log=True),
        latency_ms=latency_ms,
    )


MACHINE = (_tier("server", (1, 1), (2, 64), (0.05,)),)
EQUAL = (_tier("worker", (1, 1), (1, 16), (0.1, 0.5, 1.0)),)
EDGE_TO_CLOUD = (
    _tier("edge", (1, 4), (1, 2), (5.0, 20.0, 50.0)),
    _tier("fog", (1, 3), (2, 8), (2.0, 5.0, 10.0)),
    _tier("cloud", (1, 3), (4, 32), (0.2, 1.0)),
)


def _of_tiers(rng: np.random.Generator, tiers: Sequence[HostTier]) -> Cluster:
    space: ParameterSpace = replace(COSTREAM, tiers=tuple(tiers))
    return random_cluster(space, rng)


def _cluster(rng: np.random.Generator) -> Cluster:
    """One machine, equal ones, unlike ones, or an edge, a fog and a cloud, each equally likely."""
    which = int(rng.integers(4))
    if which == 0:
        return _of_tiers(rng, MACHINE)
    if which == 1:
        (first,) = _of_tiers(rng, EQUAL).hosts
        hosts = (first.model_copy(update={"name": f"worker{number}"}) for number in range(int(rng.integers(2, 9))))
        return Cluster(hosts=tuple(hosts))
    if which == 2:
        return random_cluster(COSTREAM, rng)
    cluster = _of_tiers(rng, EDGE_TO_CLOUD)
    if len(cluster.hosts) == 1 or rng.random() >= LINKED:
        return cluster
    links = []
    for number in range(1, len(cluster.hosts)):  # a line with branches towards the cloud, as hosts are in that order
        near = cluster.hosts[max(0, number - int(rng.integers(1, 3)))]
        links.append(
            Link(
                between=(near.name, cluster.hosts[number].name),
                bandwidth_mbps=near.bandwidth_mbps,
                latency_ms=near.latency_ms,
            )
        )
    return Cluster(hosts=cluster.hosts, links=tuple(links))


# plans ---------------------------------------------------------------------------------------------------------------


def _tied(query: Query) -> list[list[str]]:
    """Operators by groups that have equally many subtasks, as forward streams tie them, in data-flow order."""
    group = {operator.name: [operator.name] for operator in query.topological}
    for operator in query.topological:
        for stream in query.inputs(operator.name):
            one, other = group[stream.producer], group[operator.name]
            if query.partitioning(stream).paired and one is not other:
                one += other
                group |= dict.fromkeys(other, one)
    return list({id(each): each for each in group.values()}.values())


def _plans(rng: np.random.Generator, query: Query, cluster: Cluster) -> Iterator[ExecutionPlan]:
    """Draws plans without end, of which each has its own numbers of subtasks.

    Half of them are as Flink deploys a job: subtask k of each operator is in slot k, and slots are dealt to machines in
    turn. In the others each operator, with those that forward streams tie to it, is on some hosts.
    """
    groups, hosts = _tied(query), [host.name for host in cluster.hosts]
    while True:
        usual = int(rng.choice(PARALLELISM))
        counts = [int(rng.choice(PARALLELISM)) if rng.random() < OWN_PARALLELISM else usual for _ in groups]
        in_slots, machines = rng.random() < 0.5, _some(rng, hosts)
        placement: dict[str, tuple[str, ...]] = {}
        for names, count in zip(groups, counts, strict=True):
            on = machines if in_slots else _some(rng, hosts)
            count = min([count, *(group_count(query, name, count) or count for name in names)])
            places = tuple(on[number % len(on)] for number in range(count))
            placement |= dict.fromkeys(names, places)
        yield ExecutionPlan(placement=placement)


def _some(rng: np.random.Generator, hosts: Sequence[str]) -> list[str]:
    """Some of the hosts, at least one, in any order."""
    return [str(each) for each in rng.permutation(list(hosts))[: int(rng.integers(1, len(hosts) + 1))]]


# checkpoints ---------------------------------------------------------------------------------------------------------


CHECKPOINTS: Table = {
    "interval_s": Given(Shares(0.04, 0.3)),
    "mode": Given(OneOf(("aligned", "unaligned"))),
    "aligned_timeout_s": Given(Between(0.01, 1.0, log=True), 0.25),
    "state": Given(OneOf(("full", "incremental"))),
    "storage_mbps": Given(Between(50.0, 2000.0, log=True), 0.5),
    "sync_ms": Given(Between(0.1, 20.0, log=True), 0.5),
    "async_ms": Given(Between(1.0, 500.0, log=True), 0.5),
    "min_pause_s": Given(Shares(0.01, 0.05), 0.25),
    "sinks": Given(OneOf(("at-least-once", "exactly-once"))),
    "failover": Given(OneOf(("region", "full"))),
}
"""Fields of checkpoints, of which some refuse each other, or the job."""
TRIES = 12


# jobs ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """Job whose run may be of any length. shares: of the records that each source gets. keys: of skewed operators, the
    exponent, and the share of the run from one drift to the next (None: no drift). laws: of arrivals, by source, with
    the seed of their other numbers. work: of a record, over what the engine alone takes."""

    seed: int
    query: WrittenQuery
    cluster: Cluster
    engine: Mapping[str, Any]
    shares: Mapping[str, float]
    laws: Mapping[str, str]
    records: float
    work: float = 1.0
    plan: ExecutionPlan | None = None
    keys: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    checkpoints: Mapping[str, Any] | None = None

    def scenario(self, length_s: float) -> Scenario:
        """The job in a run of that length. Raises ValueError if it is not valid."""
        query = self.query.query(length_s, self.work * RECORD_S)
        first = self.cluster.hosts[0].name
        plan = self.plan or ExecutionPlan(placement={each.name: (first,) for each in query.operators})
        arrivals = {}
        for source in query.sources:
            rng = random_stream(self.seed, f"arrivals of {source.name}")
            rate_per_s = self.shares[source.name] * self.records / length_s
            arrivals[source.name] = varying(self.laws[source.name], rate_per_s, length_s, rng)
        keys = {
            name: KeySkew(zipf=zipf, drift_every_s=None if drift is None else drift * length_s)
            for name, (zipf, drift) in self.keys.items()
        }
        checkpoints = None
        if self.checkpoints is not None:
            checkpoints = Checkpoints.model_validate(resolved(self.checkpoints, length_s, 0.0))
        return Scenario(
            name=f"flink-{self.seed}",
            query=query,
            cluster=self.cluster,
            plan=plan,
            workload=Workload(arrivals=arrivals, keys=keys),
            engine=_working(self.engine, length_s, self.work),
            run=RunSettings(horizon_s=length_s, period_s=length_s / PERIODS, seed=self.seed),
            checkpoints=checkpoints,
        )


def flink_scenario(seed: int, horizon_s: float | None = None) -> Scenario:
    """Draws a scenario; the run uses `seed` as well. horizon_s: of the run; None: by the number of its records and the
    utilisation."""
    rng = random_stream(seed, "flink")
    job = _drawn(rng, seed)
    length_s = log_uniform(rng, *LENGTHS_S) if horizon_s is None else horizon_s
    job = _planned(rng, job, length_s)
    wanted = float(rng.uniform(*UTILISATION))
    for _ in range(ROUNDS):  # at first, what does not work with the CPU may be the dearest
        more = wanted / utilisation(job.scenario(length_s))
        job = replace(job, work=float(np.clip(job.work * more, 1.0, MOST_WORK)))
    found = utilisation(job.scenario(length_s))
    if horizon_s is None:
        return job.scenario(float(np.clip(length_s * found / wanted, *BOUNDS_S)))
    return replace(job, records=job.records * wanted / found).scenario(length_s)


def _drawn(rng: np.random.Generator, seed: int) -> _Job:
    """Draws a job without a plan, and without what depends on it."""
    sources = round(log_uniform(rng, 0.51, MOST_SOURCES + 0.49))
    operators = round(log_uniform(rng, sources + 2, MOST_OPERATORS))
    names = [f"source-{number}" for number in range(sources)]
    weights = np.exp(rng.uniform(np.log(0.1), 0.0, sources))
    shares = dict(zip(names, (weights / weights.sum()).tolist(), strict=True))
    laws = {name: str(rng.choice(LAWS)) for name in names}
    wanted = log_uniform(rng, *RECORDS)
    supposed = wanted / FLOW
    query = any_query(rng, shares, operators, supposed)
    per_s = {name: share * supposed / LASTING_S for name, share in shares.items()}
    taken = sum(each.in_per_s for each in steady_rates(query.query(LASTING_S, 0.0), per_s).values()) * LASTING_S
    records = supposed * wanted / taken
    return _Job(seed, query, _cluster(rng), _engine(rng), shares, laws, records)


def _planned(rng: np.random.Generator, job: _Job, length_s: float) -> _Job:
    """The job with a plan and skewed keys, and maybe with checkpoints."""
    job = _accepted(job, length_s, lambda: _placed(rng, job, length_s))
    if rng.random() >= CHECKPOINTED:
        return job
    return _accepted(job, length_s, lambda: {"checkpoints": _checkpoints(rng, job)})


def _accepted(job: _Job, length_s: float, draw: Callable[[], Mapping[str, Any]]) -> _Job:
    """The job with the first parts drawn that it takes; as it is if it takes none: without a plan, one subtask each on
    the first host."""
    for _ in range(TRIES):
        try:
            tried = replace(job, **draw())
            tried.scenario(length_s)
        except ValueError:
            continue
        return tried
    return job


def _placed(rng: np.random.Generator, job: _Job, length_s: float) -> dict[str, Any]:
    """Draws a plan, or several, of which it takes the one that bears most by the rate model, as a planner would; and
    how skewed keys are."""
    query = job.query.query(length_s, RECORD_S)
    drawn = _plans(rng, query, job.cluster)
    plans = [next(drawn) for _ in range(CANDIDATES if rng.random() < 0.5 else 1)]
    plan = plans[0] if len(plans) == 1 else plans[int(_utilisations(job.scenario(length_s), plans).argmin())]
    keyed = [each.name for each in query.operators if group_count(query, each.name, plan.parallelism(each.name))]
    keys = {
        name: (float(rng.uniform(0.1, 1.4)), log_uniform(rng, 0.02, 0.3) if rng.random() < DRIFTING else None)
        for name in keyed
        if rng.random() < SKEWED
    }
    return {"plan": plan, "keys": keys}


def _checkpoints(rng: np.random.Generator, job: _Job) -> dict[str, Any]:
    """Draws checkpoints: incremental ones where state is stored alone, as in Flink; a third of them go to a host."""
    found = Parts(CHECKPOINTS).draw(rng)
    if not EngineProfile.model_validate(resolved(job.engine, 1.0, 0.0)).stores:
        del found["state"]
    if rng.random() < 1 / 3:
        found["storage"] = str(rng.choice([host.name for host in job.cluster.hosts]))
    return found


def utilisation(scenario: Scenario) -> float:
    """Utilisation of the dearest operator, stream or host of a scenario."""
    return float(_utilisations(scenario, [scenario.plan])[0])


def _utilisations(scenario: Scenario, plans: Sequence[ExecutionPlan]) -> np.ndarray:
    """Utilisation of the dearest operator, stream or host under each plan at mean rates, by the rate model, if all
    sources keep up. [P]"""
    pressure_po, cpu_ph = RateModel().offered(scenario, plans)
    return np.maximum(np.maximum(pressure_po.max(axis=1), cpu_ph.max(axis=1)), 1e-9)
