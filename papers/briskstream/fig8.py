"""BriskStream, Fig. 8: what a tuple's time in word count's operators is spent on, near and far from their producers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from papers.briskstream import against
from papers.briskstream.alone import modelled_ns, simulated_ns
from papers.briskstream.applications import SERVERS, Case
from papers.briskstream.engines import BRISK
from papers.briskstream.published import EXECUTE_OF_STORM, MOST_REMOTE_FACTOR, OTHERS_OF_STORM
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

APPLICATION = "WC"
ENGINES = (BRISK, "flink", "storm")
FARTHEST = 7
"""A socket of either server that is the most hops from socket 0."""

COLUMNS = {
    "server": "server",
    "engine": "engine",
    "operator": "operator",
    "execute_ns": "Execute, simulated (ns)",
    "rma_ns": "RMA at most hops, simulated (ns)",
    "modelled_ns": "RMA at most hops, rate model (ns)",
    "factor": "remote against local",
    "brisk_share": "Execute of brisk against this engine",
}

NOTES = (
    "As in the paper: Execute is the time of a tuple at a busy operator beside its producer (local).",
    "RMA is what a tuple takes more when the operator is as far away as can be (remote).",
    "*Others* (queues, temporary objects, exception checks) is left out, as the twin does not model it apart.",
    "Published times of brisk contain it; nothing within a host is serialised, and batches cost no time.",
    f"The paper's text: a remote round trip takes up to {MOST_REMOTE_FACTOR} times the local one, for parser.",
    f"BriskStream's Execute is {EXECUTE_OF_STORM[0]:.0%} to {EXECUTE_OF_STORM[1]:.0%} of Storm's there.",
    f"Its Others is about {OTHERS_OF_STORM:.0%} of Storm's.",
    "flink and storm are engine profiles: what they charge comes on top of the operator's own time.",
    "storm's costs are those of slow machines, far above what the paper's shares imply on Server A.",
)


def run(workspace: Workspace, _sizes: Sizes) -> Result:
    """All operators of word count but the source, alone, on two sockets, by engine profile."""
    from figures.tuple_times import time_breakdown

    query = Case(APPLICATION).job.query
    operators = [each.name for each in query.topological if query.inputs(each.name)]
    rows = {
        server: [
            _row(workspace, Case(APPLICATION, server, engine=each), name) for each in ENGINES for name in operators
        ]
        for server in SERVERS
    }
    title = "Word count: time per tuple by component, simulated (engines other than brisk modelled)"
    return Result(
        {
            "components": Table(title, COLUMNS, tuple(row for each in rows.values() for row in each)),
            "against": compared(against.fig8([row for each in rows.values() for row in each])),
        },
        {f"server-{name.lower()}": partial(time_breakdown, _drawn(each)) for name, each in rows.items()},
        NOTES,
    )


def _row(workspace: Workspace, case: Case, operator: str) -> dict[str, Any]:
    local, remote = (simulated_ns(workspace, case, operator, socket) for socket in (0, FARTHEST))
    brisk = simulated_ns(workspace, Case(case.application, case.server), operator, 0)
    return {
        "server": case.server,
        "engine": case.engine,
        "operator": operator,
        "execute_ns": local,
        "rma_ns": remote - local,
        "modelled_ns": modelled_ns(case, operator, FARTHEST) - modelled_ns(case, operator, 0),
        "factor": remote / local,
        "brisk_share": brisk / local,
    }


def _drawn(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {"engine": [], "bar": [], "execute_ns": [], "rma_ns": []}
    for row in rows:
        for place, rma_ns in (("local", 0.0), ("remote", max(0.0, row["rma_ns"]))):
            bar = (row["engine"], f"{row['operator']}\n{place}", row["execute_ns"], rma_ns)
            for name, value in zip(table, bar, strict=True):
                table[name].append(value)
    return table


FIG8 = Experiment(
    name="briskstream.fig8",
    source="BriskStream, Fig. 8, Section 6.3",
    summary="what a tuple's time is spent on: execution and remote memory, near and far",
    run=run,
)
