"""BriskStream, Fig. 10: what eight sockets fall short of eight times one, and how much of that distance explains."""

from __future__ import annotations

from typing import Any

from optimizers.numa.rlas import Rlas
from papers.briskstream import against
from papers.briskstream.applications import (
    APPLICATIONS,
    SERVERS,
    Case,
    estimated,
    judged,
    most_per_s,
    plan_of,
    planned,
    sized,
)
from papers.briskstream.published import WITHOUT_RMA_OF_IDEAL
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.cluster import Cluster
from twin.deployment import Deployment

COLUMNS = {
    "application": "application",
    "server": "server",
    "simulated_kps": "simulated (K/s)",
    "without_kps": "W/o rma, simulated (K/s)",
    "modelled_kps": "W/o rma, rate model (K/s)",
    "ideal_kps": "ideal: 8 x one socket, simulated (K/s)",
    "of_ideal": "simulated of ideal",
    "without_of_ideal": "W/o rma of ideal",
    "paper_without_of_ideal": "paper: W/o rma of ideal",
    "of_cores": "simulated of all cores busy, nothing fetched",
    "without_of_cores": "W/o rma of the same",
}

NOTES = (
    "W/o rma: the same plan where fetching from another socket takes no time. Bandwidths between sockets stay.",
    "The paper has W/o rma from its model; here it is simulated as well.",
    "Ideal: eight times what RLAS's plan for one socket reaches.",
    "Replicas are whole: they fit the cores of one socket less well than those of eight, so ideal may be exceeded.",
    "The last columns compare with what no plan can exceed: all cores at work, nothing fetched.",
    "The plan stays that for the machine with distances; without these it is no longer the best one.",
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All applications on both servers."""
    from figures.bars import bars

    rows = [_row(workspace, Case(name, server)) for server in SERVERS for name in APPLICATIONS]
    kinds = {"of_ideal": "simulated", "without_of_ideal": "W/o rma, simulated"}
    drawn = {
        "group": [f"{row['application']}\n{row['server']}" for row in rows for _ in kinds],
        "series": [name for _ in rows for name in kinds.values()],
        "value": [row[key] for row in rows for key in kinds],
    }
    title = f"Gaps to ideal on eight sockets, {sizes.judged} simulated runs each"
    tables = {"gaps": Table(title, COLUMNS, tuple(rows)), "against": compared(against.fig10(rows))}
    return Result(tables, {"gaps": lambda: bars(drawn, "share of ideal")}, NOTES)


def _row(workspace: Workspace, case: Case) -> dict[str, Any]:
    single = sized(case, 1)
    plan, one = (plan_of(planned(workspace, each, Rlas())) for each in (case, single))
    found = judged(workspace, case, plan)["throughput_per_s"]
    ideal = case.sockets * judged(workspace, single, one)["throughput_per_s"]
    without = judged(workspace, case, plan, without_rma(case.job))["throughput_per_s"]
    most = most_per_s(case.job)
    return {
        "application": case.application,
        "server": case.server,
        "simulated_kps": found / 1e3,
        "without_kps": without / 1e3,
        "modelled_kps": estimated(case.job, plan, fetch="never")["sustained_per_s"] / 1e3,
        "ideal_kps": ideal / 1e3,
        "of_ideal": found / ideal,
        "without_of_ideal": without / ideal,
        "paper_without_of_ideal": " to ".join(map(str, WITHOUT_RMA_OF_IDEAL)) if case.server == "A" else None,
        "of_cores": found / most,
        "without_of_cores": without / most,
    }


def without_rma(job: Deployment) -> Deployment:
    """The same machine, but a remote cache line is as near as a local one."""
    (host,) = job.cluster.hosts
    assert host.numa is not None
    zeros = tuple((0.0,) * host.socket_count for _ in range(host.socket_count))
    near = host.model_copy(update={"numa": host.numa.model_copy(update={"latency_ns": zeros})})
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=(near,))})


FIG10 = Experiment(
    name="briskstream.fig10",
    source="BriskStream, Fig. 10, Section 6.3",
    summary="gap to eight times one socket, with and without the cost of remote memory",
    run=run,
)
