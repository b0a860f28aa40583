"""BriskStream's four applications on parts of the two servers, planned and judged: what its experiments share."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.interface import Optimizer, Problem
from optimizers.numa.space import load_bound
from papers.interface import Rows, cells_of, grid
from papers.workspace import Workspace
from scenarios.files import scenario_file
from scenarios.planning.bench import replicate
from twin.cluster import Cluster, server_a, server_b
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.profiles import PROFILES, EngineProfile
from twin.query import AnyOperator, Query
from twin.rates.model import RateModel
from twin.rates.numa_rates import Fetch, NumaJob, free_running, sustained
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

# published numbers ---------------------------------------------------------------------------------------------------
# Published numbers of the BriskStream paper (SIGMOD 2019): its tables, and the numbers in its text.


TABLE_3 = cells_of(
    "paper_measured_ns paper_estimated_ns",
    {
        ("A", "splitter", 0): (1612.8, 1612.8),
        ("A", "splitter", 1): (1666.5, 1991.1),
        ("A", "splitter", 3): (1708.2, 1994.9),
        ("A", "splitter", 4): (2050.6, 2923.7),
        ("A", "splitter", 7): (2371.3, 3196.4),
        ("A", "counter", 0): (612.3, 612.3),
        ("A", "counter", 1): (611.4, 665.2),
        ("A", "counter", 3): (623.1, 665.9),
        ("A", "counter", 4): (889.9, 837.9),
        ("A", "counter", 7): (870.2, 888.4),
    },
)
"""Time T of WC's operators on Server A, by the socket of the operator; its producer is on socket 0."""

TABLE_4 = cells_of(
    "paper_measured_kps paper_estimated_kps paper_error",
    {
        ("A", "WC"): (96390.8, 104843.3, 0.08),
        ("A", "FD"): (7172.5, 8193.9, 0.14),
        ("A", "SD"): (12767.6, 12530.2, 0.02),
        ("A", "LR"): (8738.3, 9298.7, 0.06),
    },
)
"""Throughputs of optimised plans on the eight sockets of Server A."""

TABLE_5_P99_MS = {
    "WC": {"brisk": 21.9, "storm": 37881.3, "flink": 5689.2},
    "FD": {"brisk": 12.5, "storm": 14949.8, "flink": 261.3},
    "SD": {"brisk": 13.5, "storm": 12733.8, "flink": 350.5},
    "LR": {"brisk": 204.8, "storm": 16747.8, "flink": 4886.2},
}
"""Quantiles (99 %) of the end-to-end latency on Server A."""

TABLE_7 = cells_of(
    "paper_kps paper_seconds",
    {
        ("A", 1): (10140.2, 93.4),
        ("A", 3): (10079.5, 48.3),
        ("A", 5): (96390.8, 23.0),
        ("A", 10): (84955.9, 46.5),
        ("A", 15): (77773.6, 45.3),
    },
)
"""Throughput of WC and planning time on Server A by ratio. 10,140.2 and 10,079.5 are a tenth of the trend, as printed.
"""

PERCENTILE = 50.0
"""Percentile of profiled times that instantiates the model (Section 3.1)."""

EXECUTE_OF_STORM, OTHERS_OF_STORM = (0.05, 0.24), 0.10
"""Shares of Storm's execution time and (about) other overhead of WC's operators (Section 6.3 on Fig. 8)."""
MOST_REMOTE_FACTOR = 9.4
"""Ratio, "up to", of the round trip of an operator far from its producer (Section 6.3 on Fig. 8)."""

NEARLY_LINEAR_TO = 4
"""Number of sockets up to which all applications scale "almost linearly" (Section 6.3 on Fig. 9b)."""
WITHOUT_RMA_OF_IDEAL = (0.89, 0.95)
"""Shares of eight times one socket that the plans reach if remote memory costs nothing (Section 6.3 on Fig. 10)."""

OVER_FIX_L, OVER_FIX_U = (0.19, 0.39), (1.19, 4.55)
"""Least and largest gains of RLAS over fixed capabilities (Section 6.4 on Fig. 12)."""


# other engines -------------------------------------------------------------------------------------------------------
# BriskStream's applications under other engines: modelled, by engine profiles or by published ratios.


BRISK = "brisk"
STORM_BY_RATIOS = "storm-by-ratios"
WITHOUT_JUMBO = "brisk-without-jumbo"

OTHERS = 0.1
"""Assumed share of BriskStream's time a record that is not function execution but queues, objects, and checks (its Fig.
8 is only drawn). The larger it is, the more jumbo tuples gain."""
STORM_EXECUTES = 1.0 / math.sqrt(math.prod(EXECUTE_OF_STORM))
"""Ratio of Storm's execution time to BriskStream's, for all applications: the middle, on a logarithmic scale, of the
ratios published for word count's operators."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios to BriskStream's times of a record: of execution, and of everything else; each record is sent alone."""

    execute: float
    others: float

    @property
    def factor(self) -> float:
        """Factor on BriskStream's time of a record."""
        return (1.0 - OTHERS) * self.execute + OTHERS * self.others


RATIOS: Mapping[str, Ratios] = {
    STORM_BY_RATIOS: Ratios(STORM_EXECUTES, 1.0 / OTHERS_OF_STORM),
    WITHOUT_JUMBO: Ratios(1.0, 1.0 / OTHERS_OF_STORM),
}
"""Engines that no profile describes. Without jumbo tuples everything but execution costs as in Storm."""


def under(scenario: Scenario, engine: str) -> Scenario:
    """Scenario of the brisk engine under another engine; under brisk itself unchanged.

    An operator's time of a record is the profile's cost of its kind and values on top of the operator's own time, which
    is BriskStream's and contains next to no engine; sizes of records stay. Runs take longer in proportion, so that as
    many records pass.
    """
    if engine == BRISK:
        return scenario
    if engine in RATIOS:
        return _by_ratio(scenario, RATIOS[engine].factor)
    profile = PROFILES[engine]
    query, before = scenario.query, scenario.engine
    slower = _work_s(query, profile, before) / _work_s(query, None, before)
    operators = tuple(
        each.__class__(
            **{
                **dict(each),
                "service_time_s": _charged_s(query, profile, each.name) + before.service_s(query, each),
                "record_bytes": before.output_bytes(query, each.name),
            }
        )
        for each in query.operators
    )
    return _slowed(scenario, operators, profile, slower)


def _by_ratio(scenario: Scenario, factor: float) -> Scenario:
    """Scenario with all times multiplied and every record sent alone; the rest of the profile is brisk's."""
    query, before = scenario.query, scenario.engine
    operators = tuple(
        each.__class__(**{**dict(each), "service_time_s": factor * before.service_s(query, each)})
        for each in query.operators
    )
    alone = before.model_copy(update={"batch_records": 1, "buffer_bytes": None, "flush_s": None})
    return _slowed(scenario, operators, alone, factor)


def _slowed(scenario: Scenario, operators: tuple[AnyOperator, ...], engine: EngineProfile, slower: float) -> Scenario:
    run = scenario.run
    longer = {name: getattr(run, name) * slower for name in ("horizon_s", "warmup_s", "period_s")}
    return Scenario(
        **{
            **dict(scenario),
            "query": Query(operators=operators, streams=scenario.query.streams),
            "engine": engine,
            "run": RunSettings(**{**dict(run), **longer}),
        }
    )


def _charged_s(query: Query, profile: EngineProfile, name: str) -> float:
    """Time that a profile charges for an operator without a time of its own."""
    bare = query.operator(name)
    return profile.service_s(query, bare.__class__(**{**dict(bare), "service_time_s": None}))


def _work_s(query: Query, profile: EngineProfile | None, before: EngineProfile) -> float:
    """Time of one record in all operators, one after the other."""
    own_s = sum(before.service_s(query, each) for each in query.operators)
    return own_s + (0.0 if profile is None else sum(_charged_s(query, profile, each.name) for each in query.operators))


# applications --------------------------------------------------------------------------------------------------------
# The four applications on parts of the two servers: planned by an optimizer, judged by runs.


APPLICATIONS: Mapping[str, str] = {
    "WC": "briskstream-wc",
    "FD": "briskstream-fd",
    "SD": "briskstream-sd",
    "LR": "briskstream-lr",
}
"""Scenarios of the library by the paper's short names."""
SERVERS = {"A": server_a, "B": server_b}
EVERYWHERE = grid(server=SERVERS, application=APPLICATIONS)
"""Cases of all applications on both servers, each on all of its sockets."""
OFFERED = 1.25
"""Ratio of the offered load to what all cores together could bear, so that every plan is saturated."""
RUN_SHARES = {"WC": 0.15, "FD": 0.5, "SD": 0.5, "LR": 0.5}
"""Shares of the library's run of 0.4 s that are simulated. Word count has a hundred million results a second, ten times
as many as the others, and each is simulated. RLAS's plans on eight sockets have throughputs within 0.5 % of those of
longer runs; those of poor plans of word count, whose channels fill slowly, are up to 2.5 % higher."""


@dataclass(frozen=True, slots=True)
class Case:
    """Application on the first sockets of a server. engine: if not "brisk", one that `under` models."""

    application: str
    server: str = "A"
    sockets: int = 8
    engine: str = BRISK

    @property
    def key(self) -> dict[str, Any]:
        """Everything that decides a run, for `Workspace.cached`."""
        return {"job": self.job.model_dump(mode="json"), "settings": self.settings.model_dump(mode="json")}

    @property
    def scenario(self) -> Scenario:
        """Scenario of the library on these sockets, saturated."""
        found = under(scenario_file.load(APPLICATIONS[self.application]), self.engine)
        return on_cluster(found, SERVERS[self.server](self.sockets))

    @property
    def job(self) -> Deployment:
        """Deployment that is planned."""
        return self.scenario.deployment

    @property
    def settings(self) -> RunSettings:
        """Settings of the runs that judge a plan."""
        return part(self.scenario.run, RUN_SHARES[self.application])


def part(run: RunSettings, share: float) -> RunSettings:
    """Settings with a share of the times of a run."""
    times = {name: share * getattr(run, name) for name in ("horizon_s", "warmup_s", "period_s")}
    return run.model_copy(update=times)


def on_cluster(scenario: Scenario, cluster: Cluster) -> Scenario:
    """Scenario on another machine, with one subtask of each operator on its first socket, saturated."""
    host = cluster.hosts[0].name
    plan = ExecutionPlan(placement={operator.name: (host,) for operator in scenario.query.operators})
    moved = Scenario(**{**dict(scenario), "cluster": cluster, "plan": plan})
    factor = OFFERED * load_bound(NumaJob(moved.deployment))
    arrivals = {name: law.scaled(factor) for name, law in moved.workload.arrivals.items()}
    return Scenario(**{**dict(moved), "workload": moved.workload.model_copy(update={"arrivals": arrivals})})


def planned(workspace: Workspace, case: Case, optimizer: Optimizer, job: Deployment | None = None) -> dict[str, Any]:
    """Plan of a case by an optimizer, as `solved` gives it.

    job: planned instead of the case's own (other profiles, or subtasks for optimizers that only place).
    """
    return solved(workspace, case.job if job is None else job, optimizer, case.scenario.run.horizon_s)


def solved(workspace: Workspace, job: Deployment, optimizer: Optimizer, horizon_s: float) -> dict[str, Any]:
    """Plan by an optimizer: `placement` as in a plan, `predicted_per_s`, `cpu_s` (of all threads), `weighed`.

    Kept in the workspace.
    """

    def solve() -> dict[str, Any]:
        scenario = Scenario.of(job).with_run(horizon_s=horizon_s)
        problem = Problem(scenario=scenario, cost_model=RateModel(), objective="throughput_per_s", seed=workspace.seed)
        started_s = time.process_time()
        found = optimizer.solve(problem)
        return {
            "cpu_s": time.process_time() - started_s,
            "placement": found.plan.model_dump(mode="json")["placement"],
            "predicted_per_s": found.objective,
            "weighed": found.weighed,
        }

    key = {"optimizer": repr(optimizer), "job": job.model_dump(mode="json"), "horizon_s": horizon_s}
    return dict(workspace.cached("briskstream-plans", key, solve))


def plan_of(found: Mapping[str, Any]) -> ExecutionPlan:
    """Execution plan in a result of `planned`."""
    return ExecutionPlan(placement=found["placement"])


def plan_by(workspace: Workspace, case: Case, optimizer: Optimizer, job: Deployment | None = None) -> ExecutionPlan:
    """Execution plan of a case by an optimizer."""
    return plan_of(planned(workspace, case, optimizer, job))


def subtasks_of(plan: ExecutionPlan) -> int:
    """Number of subtasks of all operators."""
    return sum(plan.parallelism(name) for name in plan.placement)


def reached_per_s(workspace: Workspace, case: Case, plan: ExecutionPlan, job: Deployment | None = None) -> float:
    """Simulated results a second of a case under a plan. job: simulated instead of the case's own (such as on another
    machine)."""
    return measured(workspace, (case.job if job is None else job).with_plan(plan), case.settings)


def measured(workspace: Workspace, job: Deployment, settings: RunSettings) -> float:
    """Simulated results a second of a job, over as many runs as the scale says; kept in the workspace."""
    runs = workspace.sizes.judged
    key = {"job": job.model_dump(mode="json"), "settings": settings.model_dump(mode="json"), "runs": runs}
    return float(
        workspace.cached("briskstream-throughputs", key, lambda: simulated(job, settings, workspace.seed, runs))
    )


def estimated(job: Deployment, plan: ExecutionPlan, fetch: Fetch = "relative") -> dict[str, float]:
    """Results a second of a plan by the rate model.

    `sustained_per_s` is with backpressure; `free_per_s` is as the paper estimates it, with producers that run on
    whatever their consumers can take, and without limits of sockets.
    """
    model = NumaJob(job, fetch)
    counts_nol = model.counts_of(plan)[None]
    load = min(1.0, float(sustained(model, counts_nol).load_n[0]))
    return {
        "sustained_per_s": load * model.results_per_s,
        "free_per_s": float(free_running(model, counts_nol).throughput_n[0]),
    }


def most_per_s(job: Deployment) -> float:
    """Upper bound of results a second: all cores always work and nothing is ever fetched."""
    model = NumaJob(job)
    return load_bound(model) * model.results_per_s


def simulated(job: Deployment, settings: RunSettings, seed: int, runs: int) -> float:
    """Mean of results a second over some runs. A plain function of plain arguments, for other processes."""
    found = replicate(simulate, Scenario.of(job, settings).with_run(seed=seed), runs)
    return sum(metrics.throughput_per_s for metrics in found) / runs


def with_subtasks(job: Deployment, plan: ExecutionPlan) -> Deployment:
    """Job with the subtasks of a plan, all on the first socket, for optimizers that only place."""
    host = job.cluster.hosts[0].name
    counts = {name: plan.parallelism(name) for name in plan.placement}
    return job.with_plan(job.plan.with_placement({name: (host,) * count for name, count in counts.items()}))


def on_server(rows: Rows, server: str) -> Rows:
    """Rows of one server."""
    return [row for row in rows if row["server"] == server]
