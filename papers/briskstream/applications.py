"""The four applications on parts of the two servers, planned and judged: what BriskStream's experiments share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.interface import Optimizer, Problem
from optimizers.numa.solution import load_bound
from papers.briskstream.engines import BRISK, under
from papers.interface import Rows, grid
from papers.workspace import Workspace
from scenarios.files import scenario_file
from scenarios.planning.simulated_cost import replicate
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.numa import server_a, server_b
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.rates.numa_job import Fetch, NumaJob
from twin.rates.numa_rates import free_running, sustained
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

APPLICATIONS: Mapping[str, str] = {
    "WC": "briskstream-wc",
    "FD": "briskstream-fd",
    "SD": "briskstream-sd",
    "LR": "briskstream-lr",
}
"""By the paper's short names, the library's scenarios."""
SERVERS = {"A": server_a, "B": server_b}
EVERYWHERE = grid(server=SERVERS, application=APPLICATIONS)
"""Cases: all applications on both servers, each on all of its sockets."""
OFFERED = 1.25
"""Sources are offered so much of what all cores together could bear, so that every plan is saturated."""
RUN_SHARES = {"WC": 0.15, "FD": 0.5, "SD": 0.5, "LR": 0.5}
"""Of the library's run of 0.4 s. Word count has a hundred million results a second, ten times as many as the others,
and each is simulated. RLAS's plans on eight sockets have throughputs within 0.5 % of those of longer runs; those of
poor plans of word count, whose channels fill slowly, are up to 2.5 % higher."""


@dataclass(frozen=True, slots=True)
class Case:
    """An application on the first sockets of a server. engine: other than "brisk" as `engines.under` models it."""

    application: str
    server: str = "A"
    sockets: int = 8
    engine: str = BRISK

    @property
    def key(self) -> dict[str, Any]:
        """What decides a run, for `Workspace.cached`."""
        return {"job": self.job.model_dump(mode="json"), "settings": self.settings.model_dump(mode="json")}

    @property
    def scenario(self) -> Scenario:
        """The library's scenario on these sockets, saturated."""
        found = under(scenario_file.load(APPLICATIONS[self.application]), self.engine)
        return on_cluster(found, SERVERS[self.server](self.sockets))

    @property
    def job(self) -> Deployment:
        """What is planned."""
        return self.scenario.deployment

    @property
    def settings(self) -> RunSettings:
        """Of the runs that judge a plan."""
        return part(self.scenario.run, RUN_SHARES[self.application])


def part(run: RunSettings, share: float) -> RunSettings:
    """A run of so much of the seconds."""
    times = {name: share * getattr(run, name) for name in ("horizon_s", "warmup_s", "period_s")}
    return run.model_copy(update=times)


def on_cluster(scenario: Scenario, cluster: Cluster) -> Scenario:
    """The scenario on another machine, one replica each on its first socket, saturated."""
    host = cluster.hosts[0].name
    plan = ExecutionPlan(placement={operator.name: (host,) for operator in scenario.query.operators})
    moved = Scenario(**{**dict(scenario), "cluster": cluster, "plan": plan})
    factor = OFFERED * load_bound(NumaJob(moved.deployment))
    arrivals = {name: law.scaled(factor) for name, law in moved.workload.arrivals.items()}
    return Scenario(**{**dict(moved), "workload": moved.workload.model_copy(update={"arrivals": arrivals})})


def planned(workspace: Workspace, case: Case, optimizer: Optimizer, job: Deployment | None = None) -> dict[str, Any]:
    """An optimizer's plan of a case, as `solved` gives it.

    job: planned instead of the case's own (other profiles, or replicas for those who only place).
    """
    return solved(workspace, case.job if job is None else job, optimizer, case.scenario.run.horizon_s)


def solved(workspace: Workspace, job: Deployment, optimizer: Optimizer, horizon_s: float) -> dict[str, Any]:
    """An optimizer's plan: `placement` as in a plan, `predicted_per_s`, `cpu_s` (of all threads), `weighed`.

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
    """The plan in what `planned` gave."""
    return ExecutionPlan(placement=found["placement"])


def plan_by(workspace: Workspace, case: Case, optimizer: Optimizer, job: Deployment | None = None) -> ExecutionPlan:
    """The plan of `planned`."""
    return plan_of(planned(workspace, case, optimizer, job))


def replicas_of(plan: ExecutionPlan) -> int:
    """Of all operators together."""
    return sum(plan.replicas(name) for name in plan.placement)


def reached_per_s(workspace: Workspace, case: Case, plan: ExecutionPlan, job: Deployment | None = None) -> float:
    """Results a second that a case's plan has in the simulator. job: simulated instead of the case's own (such as
    another machine)."""
    return measured(workspace, (case.job if job is None else job).with_plan(plan), case.settings)


def measured(workspace: Workspace, job: Deployment, settings: RunSettings) -> float:
    """Results a second that a job has in the simulator, over as many runs as the scale says; kept."""
    runs = workspace.sizes.judged
    key = {"job": job.model_dump(mode="json"), "settings": settings.model_dump(mode="json"), "runs": runs}
    return float(
        workspace.cached("briskstream-throughputs", key, lambda: simulated(job, settings, workspace.seed, runs))
    )


def estimated(job: Deployment, plan: ExecutionPlan, fetch: Fetch = "relative") -> dict[str, float]:
    """What the rate model says of a plan, results a second.

    `sustained_per_s` with backpressure; `free_per_s` as the paper estimates it, with producers that run on whatever
    their consumers can take, sockets' limits apart.
    """
    model = NumaJob(job, fetch)
    counts_nol = model.counts_of(plan)[None]
    load = min(1.0, float(sustained(model, counts_nol).load_n[0]))
    return {
        "sustained_per_s": load * model.results_per_s,
        "free_per_s": float(free_running(model, counts_nol).throughput_n[0]),
    }


def most_per_s(job: Deployment) -> float:
    """Results a second if all cores always worked and nothing was ever fetched: no plan reaches more."""
    model = NumaJob(job)
    return load_bound(model) * model.results_per_s


def simulated(job: Deployment, settings: RunSettings, seed: int, runs: int) -> float:
    """Results a second, mean over some runs. A plain function of plain arguments, for other processes."""
    found = replicate(simulate, Scenario.of(job, settings).with_run(seed=seed), runs)
    return sum(metrics.throughput_per_s for metrics in found) / runs


def with_replicas(job: Deployment, plan: ExecutionPlan) -> Deployment:
    """The job whose own plan has as many replicas as another one, all on the first socket: for those who only place."""
    host = job.cluster.hosts[0].name
    counts = {name: plan.replicas(name) for name in plan.placement}
    return job.with_plan(job.plan.with_placement({name: (host,) * count for name, count in counts.items()}))


def on_server(rows: Rows, server: str) -> Rows:
    """Those of one server."""
    return [row for row in rows if row["server"] == server]
