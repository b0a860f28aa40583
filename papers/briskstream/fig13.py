"""BriskStream, Fig. 13: placement strategies, each with the replicas that RLAS chose."""

from __future__ import annotations

from typing import Any

from optimizers.registry import optimizer_by_name
from papers.briskstream import against
from papers.briskstream.applications import (
    APPLICATIONS,
    SERVERS,
    Case,
    judged,
    plan_of,
    planned,
    with_replicas,
)
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

RLAS = "rlas"
STRATEGIES = {"first-fit": "FF", "round-robin": "RR", "spread": "OS"}
"""Optimizer -> the paper's name (Table 6)."""

COLUMNS = {
    "application": "application",
    "server": "server",
    "strategy": "placement",
    "kps": "simulated (K/s)",
    "of_rlas": "simulated, of RLAS",
    "estimated_of_rlas": "estimated, of RLAS",
}

NOTES = (
    "The paper draws these without naming figures: RLAS is the best on both servers, by more on Server B.",
    (
        "FF takes the largest load at which it finds room for all replicas, in steps of a tenth. The paper's relaxes "
        "its constraints in a way that is not described, and often oversubscribes a few sockets; this one does not."
    ),
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All applications on both servers, normalised to RLAS."""
    rows = [
        row for server in SERVERS for application in APPLICATIONS for row in _rows(workspace, Case(application, server))
    ]
    title = f"Throughput by placement, with RLAS's replicas, simulated ({sizes.judged} runs each)"
    return Result(
        {"placements": Table(title, COLUMNS, tuple(rows)), "against": compared(against.fig13(rows))},
        {f"server-{server.lower()}": lambda server=server: _drawn(rows, server) for server in SERVERS},  # type: ignore[misc]
        NOTES,
    )


def _rows(workspace: Workspace, case: Case) -> list[dict[str, Any]]:
    """RLAS first."""
    best = planned(workspace, case, optimizer_by_name(RLAS))
    job = with_replicas(case.job, plan_of(best))
    found = {"RLAS": best}
    found |= {label: planned(workspace, case, optimizer_by_name(name), job) for name, label in STRATEGIES.items()}
    per_s = {label: judged(workspace, case, plan_of(each))["throughput_per_s"] for label, each in found.items()}
    return [
        {
            "application": case.application,
            "server": case.server,
            "strategy": label,
            "kps": per_s[label] / 1e3,
            "of_rlas": per_s[label] / per_s["RLAS"],
            "estimated_of_rlas": found[label]["predicted_per_s"] / best["predicted_per_s"],
        }
        for label in found
    ]


def _drawn(rows: list[dict[str, Any]], server: str) -> Any:
    from figures.bars import bars

    there = [row for row in rows if row["server"] == server]
    table = {
        "group": [row["application"] for row in there],
        "series": [row["strategy"] for row in there],
        "value": [row["of_rlas"] for row in there],
    }
    return bars(table, f"simulated, on Server {server}, RLAS = 1")


FIG13 = Experiment(
    name="briskstream.fig13",
    source="BriskStream, Fig. 13 and Table 6, Section 6.4",
    summary="placement strategies under the same replication: RLAS, FF, RR, OS",
    run=run,
)
