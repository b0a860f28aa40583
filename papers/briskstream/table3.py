"""BriskStream, Table 3: what a tuple takes word count's splitter and counter, by distance from the producer."""

from __future__ import annotations

from typing import Any

from papers.briskstream import against
from papers.briskstream.alone import modelled_ns, simulated_ns
from papers.briskstream.applications import Case
from papers.briskstream.published import TABLE_3
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.numa import hops_a, hops_b

CASE, OTHER = Case("WC"), Case("WC", "B")
ON_THE_OTHER = (0, 1, 2, 4)
"""Sockets of Server B at zero to three hops from the first. The paper has measured Server A alone."""

COLUMNS = {
    "operator": "operator",
    "server": "server",
    "sockets": "from - to",
    "hops": "hops",
    "paper_measured_ns": "paper: measured (ns)",
    "paper_estimated_ns": "paper: estimated (ns)",
    "modelled_ns": "rate model (ns)",
    "simulated_ns": "simulated (ns)",
    "of_estimated": "simulated against paper's estimate",
    "of_measured": "simulated against paper's measurement",
    "paper_error": "paper: estimate against measurement",
}

NOTES = (
    "Fitted: the local times are the paper's; what a cache line costs by hops is what its *estimates* imply.",
    "That is 119, 171, 404 and 479 ns. One value a hop serves both operators.",
    "Like the paper's estimates, ours are above its measurements across trays, most of all for the splitter.",
    "The paper names the hardware prefetcher as the reason, which neither has.",
    "Simulated is one operator that is always busy, with its input on socket 0.",
    "Server B's clock is faster; its cost of a cache line is its published latency, less that of a local access.",
)


def run(workspace: Workspace, _sizes: Sizes) -> Result:
    """The operator on five sockets, everything before it on socket 0."""
    from figures.tuple_times import numa_times

    rows = [_compared(workspace, operator, socket) for operator, published in TABLE_3.items() for socket in published]
    others = [_row(workspace, OTHER, operator, socket) for operator in TABLE_3 for socket in ON_THE_OTHER]
    drawn: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in ("operator", "sockets")}
    for name, key in (
        ("measured", "paper_measured_ns"),
        ("estimated", "paper_estimated_ns"),
        ("simulated", "simulated_ns"),
    ):
        drawn[name] = [row[key] for row in rows]
    title = "Time per tuple by NUMA distance, simulated (each operator alone is busy), modelled, published"
    tables = {"times": Table(title, COLUMNS, (*rows, *others)), "against": compared(against.table3([*rows, *others]))}
    return Result(tables, {"times": lambda: numa_times(drawn)}, NOTES)


def _compared(workspace: Workspace, operator: str, socket: int) -> dict[str, Any]:
    row, paper = _row(workspace, CASE, operator, socket), TABLE_3[operator][socket]
    return row | {
        "paper_measured_ns": paper.measured_ns,
        "paper_estimated_ns": paper.estimated_ns,
        "of_estimated": row["simulated_ns"] / paper.estimated_ns - 1.0,
        "of_measured": row["simulated_ns"] / paper.measured_ns - 1.0,
        "paper_error": paper.estimated_ns / paper.measured_ns - 1.0,
    }


def _row(workspace: Workspace, case: Case, operator: str, socket: int) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | {
        "operator": operator,
        "server": case.server,
        "sockets": f"S0 - S{socket}",
        "hops": (hops_a if case.server == "A" else hops_b)(0, socket),
        "modelled_ns": modelled_ns(case, operator, socket),
        "simulated_ns": simulated_ns(workspace, case, operator, socket),
    }


TABLE3 = Experiment(
    name="briskstream.table3",
    source="BriskStream, Table 3, Section 6.2",
    summary="time per tuple of word count's splitter and counter by NUMA distance",
    run=run,
)
