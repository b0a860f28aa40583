"""BriskStream, Fig. 12: what it costs a planner to take remote memory for always, or never, in the way."""

from __future__ import annotations

from typing import Any

from optimizers.registry import optimizer_by_name
from papers.briskstream import against
from papers.briskstream.applications import APPLICATIONS, SERVERS, Case, judged, plan_of, planned
from papers.briskstream.published import OVER_FIX_L, OVER_FIX_U
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

RLAS = "rlas"
FIXED = {"rlas-fix-l": ("RLAS_fix(L)", OVER_FIX_L), "rlas-fix-u": ("RLAS_fix(U)", OVER_FIX_U)}
"""Optimizer -> the paper's name, and by how much RLAS is better there, least and most of the applications."""

COLUMNS = {
    "application": "application",
    "server": "server",
    "planner": "planner",
    "replicas": "replicas",
    "kps": "simulated (K/s)",
    "improvement": "RLAS is better by",
    "paper": "paper: by (Server A, all applications)",
}

NOTES = (
    (
        "RLAS_fix(L) plans as if every tuple came from the farthest socket, RLAS_fix(U) as if none did; both search "
        "as RLAS does, local search included. All plans are judged in the same simulator, which knows the distances."
    ),
    (
        "Threads beyond the cores of a socket share these without loss in the simulator, whereas the paper blames "
        "interference between them for much of what RLAS_fix(U) loses."
    ),
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All applications on both servers."""
    rows = [
        row for server in SERVERS for application in APPLICATIONS for row in _rows(workspace, Case(application, server))
    ]
    title = f"Throughput of plans by what the planner believes of distances, simulated ({sizes.judged} runs each)"
    return Result(
        {"improvement": Table(title, COLUMNS, tuple(rows)), "against": compared(against.fig12(rows))},
        {"improvement": lambda: _drawn(rows)},
        NOTES,
    )


def _rows(workspace: Workspace, case: Case) -> list[dict[str, Any]]:
    """RLAS first."""
    rows = list[dict[str, Any]]()
    for name in (RLAS, *FIXED):
        plan = plan_of(planned(workspace, case, optimizer_by_name(name)))
        kps = judged(workspace, case, plan)["throughput_per_s"] / 1e3
        label, reported = FIXED.get(name, ("RLAS", None))
        gain = None if reported is None else rows[0]["kps"] / kps - 1.0
        rows.append(
            {
                "application": case.application,
                "server": case.server,
                "planner": label,
                "replicas": sum(plan.replicas(operator) for operator in plan.placement),
                "kps": kps,
                "gain": gain,
                "improvement": None if gain is None else f"{gain:.0%}",
                "paper": None if reported is None else f"{reported[0]:.0%} to {reported[1]:.0%}",
            }
        )
    return rows


def _drawn(rows: list[dict[str, Any]]) -> Any:
    from figures.bars import bars

    ours = {(row["application"], row["server"]): row["kps"] for row in rows if row["improvement"] is None}
    table: dict[str, list[Any]] = {
        "group": [f"{row['application']}\n{row['server']}" for row in rows],
        "series": [row["planner"] for row in rows],
        "value": [row["kps"] / ours[row["application"], row["server"]] for row in rows],
    }
    return bars(table, "simulated throughput, RLAS = 1")


FIG12 = Experiment(
    name="briskstream.fig12",
    source="BriskStream, Fig. 12, Section 6.4",
    summary="what planning by distance gains over fixed capabilities: RLAS, RLAS_fix(L), RLAS_fix(U)",
    run=run,
)
