"""BriskStream's four applications on parts of the two servers, planned and judged: what its experiments share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.interface import Optimizer, Problem
from optimizers.numa.space import load_bound
from papers.briskstream.published import BRISK, under
from papers.interface import Rows, grid
from papers.workspace import Workspace
from scenarios.files import scenario_file
from scenarios.planning.bench import replicate
from twin.cluster import Cluster, server_a, server_b
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.rates.numa_rates import Fetch, NumaJob, free_running, sustained
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

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
    """Application on the first sockets of a server. engine: if not "brisk", one that `engines.under` models."""

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
