"""BriskStream, Fig. 3: distribution of operators' execution times, and the percentile to plan with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from optimizers.numa.rlas import Rlas
from papers.briskstream.applications import (
    SERVERS,
    Case,
    estimated,
    on_cluster,
    plan_by,
    reached_per_s,
    subtasks_of,
)
from papers.briskstream.published import PERCENTILE
from papers.drawing import samples
from papers.interface import CaseTable, Experiment, Row, apart, grid
from papers.workspace import Workspace
from streamtwin.connect.profiles import SAMPLES, OperatorProfile, instantiate, profile

PERCENTILES = (10.0, 25.0, PERCENTILE, 75.0, 90.0, 95.0)
APPLICATIONS = ("WC", "FD")


def profiles_of(workspace: Workspace, case: Case) -> dict[str, OperatorProfile]:
    """Profiles by operator; kept in the workspace."""

    def measure() -> dict[str, Any]:
        profiles = profile(case.job, SAMPLES, workspace.seed)
        return {name: found.model_dump(mode="json") for name, found in profiles.items()}

    kept = workspace.cached("briskstream-profiles", {"samples": SAMPLES, **case.key}, measure)
    return {name: OperatorProfile(**found) for name, found in kept.items()}


def times(workspace: Workspace, application: str, sockets: int = 8) -> Iterator[Row]:
    """Execution times of each operator of an application on Server A."""
    for operator, found in profiles_of(workspace, Case(application, sockets=sockets)).items():
        percentiles = {f"p{percentile:g}_ns": found.time_s(percentile) * 1e9 for percentile in PERCENTILES}
        yield {"operator": operator, **percentiles, "mean_ns": found.mean_s * 1e9, "_times_s": found.times_s}


def plans(workspace: Workspace, application: str, sockets: int = 8) -> Iterator[Row]:
    """Plans by percentile of the profile, judged by simulation. The planner sees the job as profiled and saturated by
    that profile; the judge simulates the job itself."""
    case = Case(application, sockets=sockets)
    profiles = profiles_of(workspace, case)
    rows = [_plan(workspace, case, profiles, percentile) for percentile in PERCENTILES]
    usual = rows[PERCENTILES.index(PERCENTILE)]["simulated_kps"]
    return ({**row, "of_median": row["simulated_kps"] / usual} for row in rows)


def _plan(workspace: Workspace, case: Case, profiles: Mapping[str, OperatorProfile], percentile: float) -> Row:
    described = instantiate(case.scenario, profiles, percentile)
    job = on_cluster(described, SERVERS[case.server](case.sockets)).deployment
    plan = plan_by(workspace, case, Rlas(), job)
    predicted, found = estimated(job, plan)["sustained_per_s"], reached_per_s(workspace, case, plan)
    return {
        "percentile": percentile,
        "replicas": subtasks_of(plan),
        "predicted_kps": predicted / 1e3,
        "simulated_kps": found / 1e3,
        "error": abs(predicted / found - 1.0),
    }


FIG3 = Experiment(
    name="briskstream.fig3",
    source="BriskStream, Fig. 3, Section 3.1",
    summary="profiled execution times, and the percentile that the planner is given",
    tables={
        "times": CaseTable(
            title=f"Simulated execution times, {SAMPLES:,} records an operator",
            columns="application | operator | "
            + " | ".join(f"p{percentile:g}_ns: {percentile:g} % (ns)" for percentile in PERCENTILES)
            + " | mean_ns: mean (ns)",
            cases=grid(application=APPLICATIONS),
            measure=times,
        ),
        "percentiles": CaseTable(
            title=("RLAS's plans with profiles on Server A, {judged} simulated runs each"),
            columns="""
                application | percentile | subtasks | predicted_kps: predicted with the profile (K/s) |
                simulated_kps: simulated (K/s) | error: relative error |
                of_median: simulated, 1 = plan of the median
            """,
            cases=grid(application=APPLICATIONS),
            measure=plans,
            shapes=lambda _rows: [apart("percentiles other than 50", "-", "above", "the paper shows the 50th alone")],
        ),
    },
    figures={
        "times": samples("charts.profile_times", name="operator", of="_times_s", only={"application": APPLICATIONS[:1]})
    },
    notes=f"""
- The paper plans with percentile {PERCENTILE:g}, and calls its times stable; it shows no other percentile.
- Simulated times vary as they are told to: Gamma, squared coefficient of variation 0.1, which is assumed.
- Where all times vary alike, a percentile scales all of them by nearly the same factor.
- So it decides what is predicted, and the plan only through what fetching costs beside it.
""",
)
