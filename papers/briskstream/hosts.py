"""Beyond BriskStream: the same optimizer over hosts and their sockets together, on a cluster of NUMA machines.

Between machines a tuple is serialised and crosses a network card; between sockets it is fetched by cache lines. Those
who see only one of the two are compared with: hosts first and sockets as an operating system fills them, one machine
alone, and placements that weigh no distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizers.numa.baselines import FirstFit, spread
from optimizers.numa.rlas import Rlas
from papers.briskstream import against
from papers.briskstream.applications import measured, plan_of, solved, with_replicas
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from scenarios.files import scenario_file
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.randomness import stream
from twin.rates.numa_job import NumaJob
from twin.scenario import Scenario

SCENARIO = "numa-cluster"
GIGABITS = (1.0, 2.5, 5.0, 10.0, 25.0)
"""Of each machine's network card, a second."""

TOGETHER = "RLAS over hosts and sockets"
HOSTS_FIRST = "RLAS over hosts, sockets filled evenly"
ONE_HOST = "RLAS over the sockets of one host"
FIRST_FIT = "first fit, replicas of RLAS"
ROUND_ROBIN = "round robin, replicas of RLAS"


def run(workspace: Workspace, _sizes: Sizes) -> Result:
    """Plans and simulates for each network."""
    from figures.lines import lines

    base = scenario_file.load(SCENARIO)
    rows: list[dict[str, Any]] = []
    for gigabits in GIGABITS:
        scenario = with_network(base, gigabits)
        job, best = scenario.deployment, None
        for planner, found in plans(workspace, scenario).items():
            judged = measured(workspace, job.with_plan(found), scenario.run)
            reached = judged["throughput_per_s"] / 1e3
            best = best or reached
            used = len({place.host for name in found.placement for place in found.locations(name)})
            replicas = sum(len(places) for places in found.placement.values())
            row = {"gigabits": gigabits, "planner": planner, "throughput": reached, "share": reached / best}
            rows.append(row | {"hosts": used, "replicas": replicas})
    columns = {
        "gigabits": "network card, Gbit/s",
        "planner": "plan by",
        "throughput": "throughput, K results/s",
        "share": "of the first's",
        "hosts": "hosts used",
        "replicas": "replicas",
    }
    title = "Fraud detection on three machines of four sockets: simulated throughput by network"
    drawn = {
        key: [row[name] for row in rows]
        for key, name in (("series", "planner"), ("x", "gigabits"), ("y", "throughput"))
    }
    figures = {"hosts": lambda: lines(drawn, "network card of each machine (Gbit/s)", "simulated K results/s")}
    return Result(
        {"hosts": Table(title, columns, tuple(rows)), "against": compared(against.hosts(rows))},
        figures,
        ("We know of no published system that plans both at once.",),
    )


def with_network(scenario: Scenario, gigabits: float) -> Scenario:
    """The scenario whose hosts have cards of that bandwidth."""
    hosts = tuple(host.model_copy(update={"bandwidth_mbps": 1000.0 * gigabits}) for host in scenario.cluster.hosts)
    return Scenario(**{**dict(scenario), "cluster": Cluster(hosts=hosts)})


def plans(workspace: Workspace, scenario: Scenario) -> dict[str, ExecutionPlan]:
    """By planner; the first is the one that sees everything."""
    job, horizon_s = scenario.deployment, scenario.run.horizon_s
    together = plan_of(solved(workspace, job, Rlas(), horizon_s))
    replicated = with_replicas(job, together)
    return {
        TOGETHER: together,
        HOSTS_FIRST: _filled(job, plan_of(solved(workspace, without_sockets(job), Rlas(), horizon_s)), workspace.seed),
        ONE_HOST: plan_of(solved(workspace, first_host(job), Rlas(), horizon_s)),
        FIRST_FIT: plan_of(solved(workspace, replicated, FirstFit(), horizon_s)),
        ROUND_ROBIN: plan_of(solved(workspace, replicated, FirstFit("round-robin", turn=True), horizon_s)),
    }


def without_sockets(job: Deployment) -> Deployment:
    """Each machine one processor: what a planner of hosts sees."""
    hosts = tuple(host.model_copy(update={"sockets": (), "numa": None}) for host in job.cluster.hosts)
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=hosts)})


def first_host(job: Deployment) -> Deployment:
    """The job on its first machine alone."""
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=job.cluster.hosts[:1])})


def _filled(job: Deployment, by_host: ExecutionPlan, seed: int) -> ExecutionPlan:
    """A plan over hosts whose replicas go, on each host, to the socket where the fewest are, a core."""
    model = NumaJob(job)
    counts_ol = np.zeros((len(model.operators), len(model.locations)))
    for host in range(len(model.hosts)):
        here = [sum(place.host == model.hosts[host] for place in by_host.locations(name)) for name in model.operators]
        columns = np.flatnonzero(model.host_l == host)
        counts_ol[:, columns] = spread(model.cores_l[columns], np.array(here), stream(seed, f"fill-{host}"))
    return model.plan_of(counts_ol)


HOSTS = Experiment(
    name="briskstream.hosts",
    source="BriskStream, beyond the paper",
    summary="hosts and sockets planned together, on a cluster of NUMA machines",
    run=run,
)
