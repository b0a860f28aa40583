"""BriskStream, Fig. 15: which sockets fetch from which under RLAS's plan of word count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from optimizers.numa.rlas import Rlas
from papers.briskstream.applications import SERVERS, Case, on_server, plan_by
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape
from papers.workspace import Workspace
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.rates.numa_rates import NumaJob, sustained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APPLICATION = "WC"


def by_producer(workspace: Workspace, server: str, sockets: int = 8) -> Iterator[Row]:
    """Rows, one for each socket of the producer. Nothing is simulated."""
    case = Case(APPLICATION, server, sockets)
    cores = fetching(case.job, plan_by(workspace, case, Rlas()))
    for socket, fetched in enumerate(cores):
        yield {
            "producer": f"S{socket}",
            "consumers": ", ".join(f"{each:.2f}" for each in fetched),
            "cores": fetched.tolist(),
            "sum": float(fetched.sum()),
            "share": float(fetched.sum() / max(cores.sum(), 1e-300)),
        }


def fetching(job: Deployment, plan: ExecutionPlan) -> np.ndarray:
    """[L, L] reference cores busy with fetching, by socket of the producer and of the consumer."""
    model = NumaJob(job)
    counts_ol = model.counts_of(plan)
    load = min(1.0, float(sustained(model, counts_ol[None]).load_n[0]))
    share_ol = counts_ol / counts_ol.sum(axis=1, keepdims=True)
    made_si, taken_sj = share_ol[model.producer_s], share_ol[model.consumer_s]
    return np.asarray(load * np.einsum("s,si,sj,sij->ij", model.rate_s, made_si, taken_sj, model.fetch_sij))


def shapes(rows: Rows) -> Rows:
    """Compares the sockets from which records are fetched."""
    found: list[Row] = []
    for server, paper in (("A", "from one socket, mostly"), ("B", "from all much more uniformly")):
        shares = [row["share"] for row in on_server(rows, server)]
        if shares:
            same = max(shares) > 0.5 if server == "A" else max(shares) < 2.0 / len(shares)
            text = f"at most {max(shares):.0%} from one of {len(shares)}"
            why = "they come from where RLAS puts the splitters, whose words are most of the records"
            found.append(shape(f"Server {server}: from where records are fetched", paper, text, same, why))
    return found


def _matrices(tables: Mapping[str, Rows]) -> Figure:
    from figures.charts import matrices

    rows = tables["fetching"]
    by_server = {server: np.array([row["cores"] for row in on_server(rows, server)]) for server in SERVERS}
    titles = {f"Server {server}": cores for server, cores in by_server.items() if cores.size}
    return matrices(titles, "socket of the producer", "socket of the consumer", "cores that fetch")


FIG15 = Experiment(
    name="briskstream.fig15",
    source="BriskStream, Fig. 15, Section 6.4",
    summary="communication between sockets under RLAS's plan of word count, on both servers",
    tables={
        "fetching": CaseTable(
            title=f"Fetching between sockets under RLAS's plan of {APPLICATION} (modelled, simulated machine)",
            columns="""
                server | producer: from socket | consumers: cores that fetch from it, by socket of the consumer |
                sum: together | share: of all fetching
            """,
            cases=grid(server=SERVERS),
            measure=by_producer,
            shapes=shapes,
        )
    },
    figures={"matrices": _matrices},
    notes="""
- Modelled: rates of the streams between two sockets times Tf (equation 2), at the load that the plan sustains, in
  reference cores of Server A. The plan's throughput is judged in the simulator elsewhere.
- The paper draws these without naming figures: on Server A most requests come from one socket, S0; on Server B they
  are spread evenly.
""",
)
