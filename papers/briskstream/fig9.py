"""BriskStream, Fig. 9: what more sockets bring, by engine (a) and by application (b)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from optimizers.numa.baselines import Spread
from optimizers.numa.rlas import Rlas
from papers.briskstream import against
from papers.briskstream.applications import (
    APPLICATIONS,
    SERVERS,
    Case,
    judged,
    most_per_s,
    plan_of,
    planned,
    sized,
    with_replicas,
)
from papers.briskstream.engines import BRISK
from papers.briskstream.published import NEARLY_LINEAR_TO
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.plan import ExecutionPlan

SOCKETS = (1, 2, 4, 8)
ENGINES = (BRISK, "storm", "flink")
OF_ENGINES = "LR"
"""The application that the paper shows engines with."""
BLIND = Rlas(fetch="never")
"""Chooses the replicas of engines that know nothing of sockets."""

COLUMNS = {
    "application": "application",
    "server": "server",
    "engine": "engine",
    "sockets": "sockets",
    "replicas": "replicas",
    "simulated_kps": "simulated (K/s)",
    "speed_up": "against one socket",
    "efficiency": "of linear",
    "of_cores": "of all cores busy, nothing fetched",
}

NOTES = (
    f"The paper draws its Fig. 9; its text says almost linear up to {NEARLY_LINEAR_TO} sockets for all applications.",
    "Beyond, it says, scalability is poor, because remote memory is about twice as far across trays.",
    "BriskStream's plans are RLAS's for so many sockets: a replica a core, but for those that need little of one.",
    "Replicas are whole: many operators fit one socket's cores badly, and more sockets may be better than linear.",
    "The last column is free of that.",
    "For storm and flink a planner blind to distances chooses the replicas, which then go to sockets as an OS does.",
    "These two are engine profiles, not systems: what they charge a tuple comes on top of the operator's own time.",
    "Locks, threads that wander, and garbage collection across sockets are not modelled.",
    "So a line of theirs that is straighter than the paper's is no evidence.",
    "The more an engine charges for a tuple, the less distance matters.",
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All applications on one to eight sockets of both servers, and one of them under each engine on Server A."""
    from figures.lines import scalability

    ours = {
        server: [row for name in APPLICATIONS for row in _rows(workspace, Case(name, server))] for server in SERVERS
    }
    engines = [row for name in ENGINES for row in _rows(workspace, Case(OF_ENGINES, engine=name))]
    runs = f"{sizes.judged} simulated runs each"
    return Result(
        {
            "engines": Table(f"{OF_ENGINES} by engine profile (modelled) on Server A, {runs}", COLUMNS, tuple(engines)),
            "applications": Table(
                f"RLAS's plans, {runs}", COLUMNS, tuple(row for rows in ours.values() for row in rows)
            ),
            "against": compared(against.fig9([row for rows in ours.values() for row in rows])),
        },
        {f"server-{name.lower()}": partial(scalability, _drawn(rows, "application")) for name, rows in ours.items()}
        | {"engines": lambda: scalability(_drawn(engines, "engine"))},
        NOTES,
    )


def _rows(workspace: Workspace, whole: Case) -> Iterator[dict[str, Any]]:
    one: float | None = None
    for sockets in SOCKETS:
        case = sized(whole, sockets)
        plan = plan_as_engine(workspace, case)
        found = judged(workspace, case, plan)["throughput_per_s"]
        one = found if one is None else one
        yield {
            "application": case.application,
            "server": case.server,
            "engine": case.engine,
            "sockets": sockets,
            "replicas": sum(plan.replicas(name) for name in plan.placement),
            "simulated_kps": found / 1e3,
            "speed_up": found / one,
            "efficiency": found / one * SOCKETS[0] / sockets,
            "of_cores": found / most_per_s(case.job),
        }


def plan_as_engine(workspace: Workspace, case: Case) -> ExecutionPlan:
    """RLAS's plan under BriskStream; under others replicas chosen blind to distances, spread as an OS does."""
    if case.engine == BRISK:
        return plan_of(planned(workspace, case, Rlas()))
    replicas = with_replicas(case.job, plan_of(planned(workspace, case, BLIND)))
    return plan_of(planned(workspace, case, Spread(), replicas))


def _drawn(rows: Sequence[dict[str, Any]], series: str) -> dict[str, list[Any]]:
    return {
        name: [row[key] for row in rows]
        for name, key in (("series", series), ("sockets", "sockets"), ("speed_up", "speed_up"))
    }


FIG9 = Experiment(
    name="briskstream.fig9",
    source="BriskStream, Fig. 9, Section 6.3",
    summary="scalability from one to eight sockets, of all applications and of three engine profiles",
    run=run,
)
