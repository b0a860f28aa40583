"""BriskStream, Fig. 16: what each of its ideas adds, one after the other."""

from __future__ import annotations

from typing import Any

from optimizers.registry import optimizer_by_name
from papers.briskstream import against
from papers.briskstream.applications import APPLICATIONS, SERVERS, Case, judged, plan_of, planned
from papers.briskstream.engines import BRISK, OTHERS, RATIOS, STORM_BY_RATIOS, WITHOUT_JUMBO
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

STEPS = {
    "Simple": (STORM_BY_RATIOS, "rlas-fix-l"),
    "-Instr.footprint": (WITHOUT_JUMBO, "rlas-fix-l"),
    "+JumboTuple": (BRISK, "rlas-fix-l"),
    "+RLAS": (BRISK, "rlas"),
}
"""By the paper's names: engine and optimizer."""

COLUMNS = {
    "application": "application",
    "server": "server",
    "step": "system",
    "kps": "simulated (K/s)",
    "gain": "times the step before",
    "of_simple": "times Simple",
}

NOTES = (
    "The paper draws this without naming figures: jumbo tuples are important, RLAS critical.",
    (
        f"Modelled: Simple has BriskStream's times a tuple multiplied by {RATIOS[STORM_BY_RATIOS].factor:.3g}, from "
        "the ratios that Section 6.3 gives for word count (function execution 5 to 24 % of Storm's, of which the "
        "middle; other overhead about 10 %), for all applications."
    ),
    (
        "-Instr.footprint executes as BriskStream does but pays Storm's other overhead: times "
        f"{RATIOS[WITHOUT_JUMBO].factor:.3g}. That takes such overhead for {OTHERS:.0%} of BriskStream's time a tuple, "
        "which is assumed: the two middle steps are as good as this assumption."
    ),
    (
        "Both send each tuple alone, so that a fetch fills no whole cache lines. Storm's threads, acknowledgements and "
        "garbage are not modelled beyond these times."
    ),
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All applications on both servers."""
    rows = [row for server in SERVERS for application in APPLICATIONS for row in _rows(workspace, application, server)]
    title = f"Throughput with ever more of BriskStream's ideas, simulated ({sizes.judged} runs each), modelled costs"
    tables = {"factors": Table(title, COLUMNS, tuple(rows)), "against": compared(against.fig16(rows))}
    return Result(tables, {"factors": lambda: _drawn(rows)}, NOTES)


def _rows(workspace: Workspace, application: str, server: str) -> list[dict[str, Any]]:
    kps = list[float]()
    for engine, optimizer in STEPS.values():
        case = Case(application, server, engine=engine)
        plan = plan_of(planned(workspace, case, optimizer_by_name(optimizer)))
        kps.append(judged(workspace, case, plan)["throughput_per_s"] / 1e3)
    return [
        {
            "application": application,
            "server": server,
            "step": step,
            "kps": each,
            "gain": None if before is None else each / before,
            "of_simple": each / kps[0],
        }
        for step, each, before in zip(STEPS, kps, [None, *kps[:-1]], strict=True)
    ]


def _drawn(rows: list[dict[str, Any]]) -> Any:
    from figures.bars import bars

    table: dict[str, list[Any]] = {
        "group": [f"{row['application']}\n{row['server']}" for row in rows],
        "series": [row["step"] for row in rows],
        "value": [row["of_simple"] for row in rows],
    }
    return bars(table, "simulated throughput, Simple = 1")


FIG16 = Experiment(
    name="briskstream.fig16",
    source="BriskStream, Fig. 16, Section 6.5",
    summary="factor analysis: instruction footprint, jumbo tuples, RLAS (modelled)",
    run=run,
)
