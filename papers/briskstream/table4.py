"""BriskStream, Table 4: the rate model against what happens, on optimised plans for eight sockets."""

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
    plan_of,
    planned,
)
from papers.briskstream.published import TABLE_4
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

PUBLISHED_ON = "A"

COLUMNS = {
    "application": "application",
    "server": "server",
    "replicas": "replicas",
    "simulated_kps": "simulated (K/s)",
    "sustained_kps": "estimated, with backpressure (K/s)",
    "sustained_error": "its relative error",
    "free_kps": "estimated as in the paper, free-running (K/s)",
    "free_error": "its relative error",
    "paper_measured_kps": "paper: measured (K/s)",
    "paper_estimated_kps": "paper: estimated (K/s)",
    "paper_error": "paper: relative error",
}

NOTES = (
    "Execution times are fitted to the paper's *measured* throughputs on Server A, so levels there are no evidence.",
    "Fitted are word count's spout, parser and sink; of the others one scale for all times, to that throughput,",
    "and one for all sizes of tuples, to what RLAS gains over planners that take distances for fixed (Fig. 12).",
    "The relative errors are evidence: model and simulator are given the same times.",
    "With backpressure: the largest load at which nothing has more to do than it can.",
    "Simulated may be above that: queues before slightly slower replicas fill longer than a run lasts.",
    "Free-running: every producer runs on, whatever its consumers can take; no limit of a socket or channel counts.",
    "Neither has queues. In the simulator, operators that all run close to their limit hold each other up.",
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """RLAS's plans of all applications on both servers."""
    rows = tuple(_row(workspace, Case(application, server)) for server in SERVERS for application in APPLICATIONS)
    title = f"Throughput of RLAS's plans on eight sockets: simulated ({sizes.judged} runs each) and estimated"
    return Result({"accuracy": Table(title, COLUMNS, rows), "against": compared(against.table4(rows))}, notes=NOTES)


def _row(workspace: Workspace, case: Case) -> dict[str, Any]:
    plan = plan_of(planned(workspace, case, Rlas()))
    truth = judged(workspace, case, plan)["throughput_per_s"]
    model = estimated(case.job, plan)
    paper = TABLE_4[case.application] if case.server == PUBLISHED_ON else None
    return {
        "application": case.application,
        "server": case.server,
        "replicas": sum(plan.replicas(name) for name in plan.placement),
        "simulated_kps": truth / 1e3,
        "sustained_kps": model["sustained_per_s"] / 1e3,
        "sustained_error": abs(model["sustained_per_s"] / truth - 1.0),
        "free_kps": model["free_per_s"] / 1e3,
        "free_error": abs(model["free_per_s"] / truth - 1.0),
        "paper_measured_kps": paper and paper.measured_kps,
        "paper_estimated_kps": paper and paper.estimated_kps,
        "paper_error": paper and paper.error,
    }


TABLE4 = Experiment(
    name="briskstream.table4",
    source="BriskStream, Table 4, Section 6.2",
    summary="the rate model against the simulator on optimised plans of all four applications",
    run=run,
)
