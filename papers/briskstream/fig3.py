"""BriskStream, Fig. 3: how operators' execution times are distributed, and which percentile to plan with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizers.numa.rlas import Rlas
from papers.briskstream import against
from papers.briskstream.applications import (
    SERVERS,
    Case,
    estimated,
    judged,
    on_cluster,
    plan_of,
    planned,
)
from papers.briskstream.published import PERCENTILE
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from streamtwin.connect.profiling.measuring import SAMPLES, OperatorProfile, instantiate, profile

PERCENTILES = (10.0, 25.0, PERCENTILE, 75.0, 90.0, 95.0)
APPLICATIONS = ("WC", "FD")

PLAN_COLUMNS = {
    "application": "application",
    "percentile": "percentile",
    "replicas": "replicas",
    "predicted_kps": "predicted with the profile (K/s)",
    "simulated_kps": "simulated (K/s)",
    "error": "relative error",
    "of_median": "simulated, 1 = plan of the median",
}

NOTES = (
    f"The paper plans with percentile {PERCENTILE:g}, and calls its times stable; it shows no other percentile.",
    "Simulated times vary as they are told to: Gamma, squared coefficient of variation 0.1, which is assumed.",
    "Where all times vary alike, a percentile scales all of them by nearly the same factor.",
    "So it decides what is predicted, and the plan only through what fetching costs beside it.",
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Profiles of two applications, and RLAS's plans with each percentile on Server A."""
    from figures.distributions import profile_times

    cases = {name: Case(name) for name in APPLICATIONS}
    profiles = {name: _profiles(workspace, case) for name, case in cases.items()}
    times = [
        _times(name, operator, found) for name, operators in profiles.items() for operator, found in operators.items()
    ]
    plans: list[dict[str, Any]] = []
    for name, case in cases.items():
        rows = [_plan(workspace, case, profiles[name], percentile) for percentile in PERCENTILES]
        usual = rows[PERCENTILES.index(PERCENTILE)]["simulated_kps"]
        plans += [{**row, "of_median": row["simulated_kps"] / usual} for row in rows]
    shown = {operator: found.times_s for operator, found in profiles[APPLICATIONS[0]].items()}
    runs = f"{sizes.judged} simulated runs each"
    return Result(
        {
            "times": Table(f"Simulated execution times, {SAMPLES:,} tuples an operator", _time_columns(), tuple(times)),
            "percentiles": Table(f"RLAS's plans with profiles on Server A, {runs}", PLAN_COLUMNS, tuple(plans)),
            "against": compared(against.fig3(plans)),
        },
        {"times": lambda: profile_times(shown)},
        NOTES,
    )


def _time_columns() -> dict[str, str]:
    percentiles = {f"p{each:g}_ns": f"{each:g} % (ns)" for each in PERCENTILES}
    return {"application": "application", "operator": "operator", **percentiles, "mean_ns": "mean (ns)"}


def _profiles(workspace: Workspace, case: Case) -> dict[str, OperatorProfile]:
    def measure() -> dict[str, Any]:
        found = profile(case.job, SAMPLES, workspace.seed)
        return {name: each.model_dump(mode="json") for name, each in found.items()}

    kept = workspace.cached("briskstream-profiles", {"samples": SAMPLES, **case.key}, measure)
    return {name: OperatorProfile(**each) for name, each in kept.items()}


def _times(application: str, operator: str, found: OperatorProfile) -> dict[str, Any]:
    percentiles = {f"p{each:g}_ns": found.time_s(each) * 1e9 for each in PERCENTILES}
    return {"application": application, "operator": operator, **percentiles, "mean_ns": found.mean_s * 1e9}


def _plan(
    workspace: Workspace, case: Case, profiles: Mapping[str, OperatorProfile], percentile: float
) -> dict[str, Any]:
    """The planner sees the job as profiled, saturated by that; the plan is judged under the job itself."""
    described = instantiate(case.scenario, profiles, percentile)
    job = on_cluster(described, SERVERS[case.server](case.sockets)).deployment
    plan = plan_of(planned(workspace, case, Rlas(), job=job))
    predicted = estimated(job, plan)["sustained_per_s"]
    found = judged(workspace, case, plan)["throughput_per_s"]
    return {
        "application": case.application,
        "percentile": percentile,
        "replicas": sum(plan.replicas(name) for name in plan.placement),
        "predicted_kps": predicted / 1e3,
        "simulated_kps": found / 1e3,
        "error": abs(predicted / found - 1.0),
    }


FIG3 = Experiment(
    name="briskstream.fig3",
    source="BriskStream, Fig. 3, Section 3.1",
    summary="profiled execution times, and the percentile that the planner is given",
    run=run,
)
