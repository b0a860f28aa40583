"""BriskStream, Table 7: what placing several replicas together (compression) does to the plan and to planning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from optimizers.numa.rlas import Rlas
from optimizers.numa.tree import Heuristics
from papers.briskstream import against
from papers.briskstream.applications import Case, estimated, judged, plan_of, planned
from papers.briskstream.published import TABLE_7
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.rates.numa_job import NumaJob

CASES = (Case("WC"), Case("WC", "B"))
PLANNERS = {"as published": Rlas(improve=False), "with local search": Rlas()}

COLUMNS = {
    "server": "server",
    "planner": "RLAS",
    "ratio": "r",
    "replicas": "replicas",
    "simulated_kps": "simulated (K/s)",
    "sustained_kps": "estimated (K/s)",
    "seconds": "planning (CPU s, one core)",
    "weighed": "placements weighed",
    "paper_kps": "paper: throughput (K/s)",
    "paper_seconds": "paper: planning (s)",
}

NOTES = (
    "Planning is the whole optimisation, scaling included: seconds of CPU of one process on the machine at hand.",
    "Both planners look at a limited number of nodes for each placement; the paper's has no such limit.",
    "So a smaller r costs less here than in the paper. With local search, the ratio only decides where that begins.",
    "No more replicas are placed together than a socket has cores: 8 on Server B.",
    "The paper's throughputs for r = 1 and 3 are as printed; they are a tenth of what the others suggest.",
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Word count on the eight sockets of both servers, by compression ratio, with and without local search."""
    rows = tuple(
        _row(workspace, case, name, ratio)
        for case in CASES
        for name in PLANNERS
        for ratio in TABLE_7
        if ratio <= NumaJob(case.job).cores_l.max()
    )
    title = f"Word count on eight sockets by compression ratio: simulated ({sizes.judged} runs each)"
    return Result({"ratios": Table(title, COLUMNS, rows), "against": compared(against.table7(rows))}, notes=NOTES)


def _row(workspace: Workspace, case: Case, name: str, ratio: int) -> dict[str, Any]:
    found = planned(workspace, case, replace(PLANNERS[name], heuristics=Heuristics(ratio=ratio)))
    plan = plan_of(found)
    paper = TABLE_7[ratio] if case.server == "A" else None
    return {
        "server": case.server,
        "planner": name,
        "ratio": ratio,
        "replicas": sum(plan.replicas(each) for each in plan.placement),
        "simulated_kps": judged(workspace, case, plan)["throughput_per_s"] / 1e3,
        "sustained_kps": estimated(case.job, plan)["sustained_per_s"] / 1e3,
        "seconds": found["cpu_s"],
        "weighed": found["weighed"],
        "paper_kps": paper.throughput_kps if paper else None,
        "paper_seconds": paper.seconds if paper else None,
    }


TABLE7 = Experiment(
    name="briskstream.table7",
    source="BriskStream, Table 7, Section 6.4",
    summary="compression ratio: throughput of the plan and time of planning",
    run=run,
)
