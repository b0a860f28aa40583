"""Beyond BriskStream: one optimizer over hosts and their sockets together, on a cluster of NUMA machines.

Between machines a record is serialised and crosses a network card; between sockets it is fetched by cache lines.
Compared are planners that see only one of the two: hosts first and sockets as an operating system fills them, one
machine alone, and placements that ignore distances.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optimizers.numa.baselines import FirstFit, spread
from optimizers.numa.rlas import Rlas
from papers.briskstream.applications import measured, plan_of, solved, subtasks_of, with_subtasks
from papers.drawing import lines
from papers.interface import CaseTable, Experiment, Row, Rows, apart, grid
from papers.workspace import Workspace
from scenarios.files import scenario_file
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.numa_rates import NumaJob
from twin.scenario import Scenario

SCENARIO = "numa-cluster"
GIGABITS = (1.0, 2.5, 5.0, 10.0, 25.0)
"""Bandwidths of each machine's network card [Gbit/s]."""

TOGETHER = "RLAS over hosts and sockets"
HOSTS_FIRST = "RLAS over hosts, sockets filled evenly"
ONE_HOST = "RLAS over the sockets of one host"
FIRST_FIT = "first fit, subtasks of RLAS"
ROUND_ROBIN = "round robin, subtasks of RLAS"


def by_planner(workspace: Workspace, gigabits: float, scenario: str = SCENARIO) -> Iterator[Row]:
    """Rows of all planners on one network; the one that sees everything comes first."""
    job = with_network(scenario_file.load(scenario), gigabits)
    best = 0.0
    for planner, plan in plans(workspace, job).items():
        reached = measured(workspace, job.deployment.with_plan(plan), job.run) / 1e3
        best = best or reached
        hosts = {place.host for name in plan.placement for place in plan.locations(name)}
        row = {"planner": planner, "throughput": reached, "share": reached / best}
        yield {**row, "hosts": len(hosts), "replicas": subtasks_of(plan)}


def with_network(scenario: Scenario, gigabits: float) -> Scenario:
    """Scenario whose hosts have cards of that bandwidth."""
    hosts = tuple(host.model_copy(update={"bandwidth_mbps": 1000.0 * gigabits}) for host in scenario.cluster.hosts)
    return Scenario(**{**dict(scenario), "cluster": Cluster(hosts=hosts)})


def plans(workspace: Workspace, scenario: Scenario) -> dict[str, ExecutionPlan]:
    """Plans by planner; the first is the one that sees everything."""
    job, horizon_s = scenario.deployment, scenario.run.horizon_s
    together = plan_of(solved(workspace, job, Rlas(), horizon_s))
    replicated = with_subtasks(job, together)
    return {
        TOGETHER: together,
        HOSTS_FIRST: _filled(job, plan_of(solved(workspace, without_sockets(job), Rlas(), horizon_s)), workspace.seed),
        ONE_HOST: plan_of(solved(workspace, first_host(job), Rlas(), horizon_s)),
        FIRST_FIT: plan_of(solved(workspace, replicated, FirstFit(), horizon_s)),
        ROUND_ROBIN: plan_of(solved(workspace, replicated, FirstFit("round-robin", turn=True), horizon_s)),
    }


def without_sockets(job: Deployment) -> Deployment:
    """Job on machines of one processor each, as a planner of hosts sees them."""
    hosts = tuple(host.model_copy(update={"sockets": (), "numa": None}) for host in job.cluster.hosts)
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=hosts)})


def first_host(job: Deployment) -> Deployment:
    """Job on its first machine alone."""
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=job.cluster.hosts[:1])})


def _filled(job: Deployment, by_host: ExecutionPlan, seed: int) -> ExecutionPlan:
    """Plan over hosts whose subtasks go, on each host, to the socket with the fewest subtasks a core."""
    model = NumaJob(job)
    counts_ol = np.zeros((len(model.operators), len(model.locations)))
    for host in range(len(model.hosts)):
        here = [sum(place.host == model.hosts[host] for place in by_host.locations(name)) for name in model.operators]
        columns = np.flatnonzero(model.host_l == host)
        counts_ol[:, columns] = spread(model.cores_l[columns], np.array(here), random_stream(seed, f"fill-{host}"))
    return model.plan_of(counts_ol)


def shapes(rows: Rows) -> Rows:
    """Compares hosts and sockets planned together with the other planners, beyond the paper."""
    networks = list(dict.fromkeys(row["gigabits"] for row in rows))
    most = [max(row["share"] for row in rows if row["gigabits"] == network) for network in networks]
    best = sum(share <= 1.0 for share in most)
    ours = (
        f"hosts and sockets together: the best on {best} of {len(networks)} networks, else within {max(most) - 1:.0%}"
    )
    return [apart("hosts and sockets at once", "-", ours, "the paper plans the sockets of one host")]


HOSTS = Experiment(
    name="briskstream.hosts",
    source="BriskStream, beyond the paper",
    summary="hosts and sockets planned together, on a cluster of NUMA machines",
    tables={
        "hosts": CaseTable(
            title="Fraud detection on three machines of four sockets: simulated throughput by network",
            columns="""
                gigabits: network card, Gbit/s | planner: plan by | throughput: throughput, K results/s |
                share: of the first's | hosts: hosts used | subtasks
            """,
            cases=grid(gigabits=GIGABITS),
            measure=by_planner,
            shapes=shapes,
        )
    },
    figures={
        "hosts": lines(
            "network card of each machine (Gbit/s)",
            "simulated K results/s",
            x="gigabits",
            y="throughput",
            series="planner",
        )
    },
    notes="- We know of no published system that plans both at once.",
)
