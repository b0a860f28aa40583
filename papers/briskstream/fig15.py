"""BriskStream, Fig. 15: which sockets fetch from which under RLAS's plan of word count."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizers.registry import optimizer_by_name
from papers.briskstream import against
from papers.briskstream.applications import SERVERS, Case, plan_of, planned
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.rates.numa_job import NumaJob
from twin.rates.numa_rates import sustained

APPLICATION = "WC"

COLUMNS = {
    "server": "server",
    "producer": "from socket",
    "consumers": "cores that fetch from it, by socket of the consumer",
    "sum": "together",
    "share": "of all fetching",
}

NOTES = (
    (
        "Modelled: rates of the streams between two sockets times Tf (equation 2), at the load that the plan sustains, "
        "in reference cores of Server A. The plan's throughput is judged in the simulator elsewhere."
    ),
    (
        "The paper draws these without naming figures: on Server A most requests come from one socket, S0; on Server B "
        "they are spread evenly."
    ),
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Word count on both servers. sizes: not asked for; nothing is simulated."""
    del sizes
    cores = dict[str, np.ndarray]()
    for server in SERVERS:
        case = Case(APPLICATION, server)
        cores[server] = fetching(case.job, plan_of(planned(workspace, case, optimizer_by_name("rlas"))))
    rows = [
        {
            "server": server,
            "producer": f"S{i}",
            "consumers": ", ".join(f"{each:.2f}" for each in row),
            "cores": row.tolist(),
            "sum": float(row.sum()),
            "share": float(row.sum() / max(cores_ij.sum(), 1e-300)),
        }
        for server, cores_ij in cores.items()
        for i, row in enumerate(cores_ij)
    ]
    title = f"Fetching between sockets under RLAS's plan of {APPLICATION} (modelled, simulated machine)"
    tables = {"fetching": Table(title, COLUMNS, tuple(rows)), "against": compared(against.fig15(rows))}
    return Result(tables, {"matrices": lambda: _drawn(cores)}, NOTES)


def fetching(job: Deployment, plan: ExecutionPlan) -> np.ndarray:
    """Reference cores busy with fetching, by socket of the producer and of the consumer. [l, l]"""
    model = NumaJob(job)
    counts_ol = model.counts_of(plan)
    load = min(1.0, float(sustained(model, counts_ol[None]).load_n[0]))
    share_ol = counts_ol / counts_ol.sum(axis=1, keepdims=True)
    made_si, taken_sj = share_ol[model.producer_s], share_ol[model.consumer_s]
    return np.asarray(load * np.einsum("s,si,sj,sij->ij", model.rate_s, made_si, taken_sj, model.fetch_sij))


def _drawn(cores: dict[str, np.ndarray]) -> Any:
    from figures.matrices import matrices

    titles = {f"Server {server}": cores_ij for server, cores_ij in cores.items()}
    return matrices(titles, "socket of the producer", "socket of the consumer", "cores that fetch")


FIG15 = Experiment(
    name="briskstream.fig15",
    source="BriskStream, Fig. 15, Section 6.4",
    summary="communication between sockets under RLAS's plan of word count, on both servers",
    run=run,
)
