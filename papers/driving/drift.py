"""Latency over the best known when the load drifts away from what a plan was chosen for, with policies and without.

The jobs are those of the suite's family `changing-load`. The best known at any time is the lowest latency of all runs:
of the same plan with and without policies, and of plans made for each of the loads to come, with one to MOST subtasks
of the costly operator. None of the latter knows when the load changes, but each knows how high it gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizers.objectives import at_rate
from papers.interface import CaseTable, Experiment, Row, Rows, column_of, grid
from papers.running import kept
from papers.workspace import Workspace
from scenarios.questions.policies_compared import judged
from scenarios.suite import MEMBERS, changing
from twin.control import policy_spec
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("ds2", "flink-autoscaler")
FOR_NOW, FOR_THE_PEAK = "chosen for the first load", "chosen for the highest load"
COSTLY, MOST = "enrich", 4
SLOW = 1.5
"""Least ratio of latency to the best known in a period that counts as behind."""


def drifting(workspace: Workspace) -> Iterator[Row]:
    """Rows, one for each way, over at most `sizes.queries` jobs and `sizes.judged` runs of each."""
    sizes = workspace.sizes
    cases = grid(job=MEMBERS["changing-load"].seeds[: sizes.queries], run=range(sizes.judged))
    found: Sequence[Mapping[str, Any]] = kept(workspace, "drift", courses, cases)
    at_s = np.array(found[0]["at_s"])
    after = np.array([at_s > course["changes_s"][0] for course in found])
    last = np.broadcast_to(at_s > 0.75 * at_s[-1], after.shape)
    for way in found[0]["ways"]:
        ratios, parallelism = (
            np.array([course["ways"][way][key] for course in found]) for key in ("over_best", "replicas")
        )
        yield {
            "way": way,
            **{name: _mean(ratios[part]) for name, part in (("calm", ~after), ("after", after), ("last", last))},
            "behind": float(100.0 * (ratios > SLOW).mean()),
            "replicas": float(parallelism.mean()),
            "_at_s": at_s.tolist(),
            "_over_best_by_period": np.exp(np.log(ratios).mean(axis=0)).tolist(),
            "_subtasks_by_period": parallelism.mean(axis=0).tolist(),
        }


def courses(job: int, run: int, seed: int) -> dict[str, Any]:
    """Latency over the best known, and subtasks, by way and period, of one job of the suite. run: its number."""
    scenario = changing(job)
    found = {way: _course(planned, child_seed(seed, run)) for way, planned in ways(scenario)}
    latencies = np.array([course["latency"] for course in found.values()])
    best = np.nanmin(latencies, axis=0)
    told = [FOR_NOW, *POLICIES, FOR_THE_PEAK]
    return {
        "at_s": next(iter(found.values()))["at_s"],
        "changes_s": [event.at_s for event in scenario.events],
        "ways": {
            way: {"over_best": (np.array(found[way]["latency"]) / best).tolist(), "replicas": found[way]["replicas"]}
            for way in told
        },
    }


def ways(job: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yields the job under each plan and policy, including those that only serve to find the best."""
    calm = job.model_copy(update={"events": ()})
    loads = sorted({1.0, *(getattr(event, "factor", 1.0) for event in job.events)})
    chosen = {load: {count: _chosen(at_rate(calm, load), count) for count in range(1, MOST + 1)} for load in loads}
    now = job.with_plan(chosen[1.0][1])
    yield FOR_NOW, now
    for name in POLICIES:
        yield name, now.with_policy(policy_spec(name))
    needed = next((count for count in chosen[loads[-1]] if _bears(at_rate(calm, loads[-1]), count)), MOST)
    yield FOR_THE_PEAK, job.with_plan(chosen[loads[-1]][needed])
    for load, plans in chosen.items():
        for count, plan in plans.items():
            yield f"load {load:g}, {count} subtasks", job.with_plan(plan)


def _chosen(job: Scenario, count: int) -> ExecutionPlan:
    """Plan with `count` subtasks of the costly operator."""
    from scenarios.planning.planner import optimize

    places = {**job.plan.placement, COSTLY: job.plan.placement[COSTLY] * count}
    return optimize(job.with_plan(job.plan.with_placement(places)), "milp", "learned", estimates=300).plan


def _bears(job: Scenario, count: int) -> bool:
    """Whether `count` subtasks of the costly operator have head room."""
    spec = next(each for each in job.query.operators if each.name == COSTLY)
    (law,) = job.workload.arrivals.values()
    return law.mean_rate_per_s * float(spec.service_time_s or 0.0) <= 0.8 * count


def _course(job: Scenario, seed: int) -> dict[str, list[float]]:
    """Latency and subtasks of each period after the warm-up."""
    made = judged(job, seed, None).course or {}
    after = [number for number, at_s in enumerate(made["at_s"]) if at_s > job.run.warmup_s]
    latency = np.array([made["latency"][number] for number in after], float)
    for number in np.flatnonzero(~np.isfinite(latency)):
        latency[number] = np.nanmax(latency[: number + 1], initial=job.run.period_s)
    return {
        "at_s": [made["at_s"][number] for number in after],
        "latency": latency.tolist(),
        "replicas": [made["subtasks"][number] for number in after],
    }


def _mean(ratios: np.ndarray) -> float:
    return float(np.exp(np.log(ratios).mean()))


def _over_time(tables: Mapping[str, Rows]) -> Figure:
    from figures.answers import over_time

    panels = {"latency over the best": "_over_best_by_period", "replicas": "_subtasks_by_period"}
    points = [
        {"panel": panel, "series": row["way"], "x": at_s, "mean": value, "half_width": float("nan")}
        for panel, key in panels.items()
        for row in tables["drift"]
        for at_s, value in zip(row["_at_s"], row[key], strict=True)
    ]
    return over_time(column_of(points, "panel", "series", "x", "mean", "half_width"))


DRIFT = Experiment(
    name="driving.drift",
    source="a what-if of ours",
    summary="latency over the best known while the load drifts away from the plan, with policies and without",
    tables={
        "drift": CaseTable(
            title=lambda workspace: (
                "Latency over the best known, "
                f"{len(MEMBERS['changing-load'].seeds[: workspace.sizes.queries])} jobs whose load changes"
            ),
            columns=f"""
                way: plan | calm: before the first change | after: after it | last: in the last quarter |
                behind: periods above {SLOW:g} (%) | subtasks: subtasks, mean
            """,
            measure=drifting,
        )
    },
    figures={"drift": _over_time},
    notes="""
- Latency is the 99 % of a period's end-to-end latencies, over the lowest that any run of the same job and random
  numbers had in that period; geometric means over jobs, runs and periods after the warm-up. A period without results
  counts as the worst before it.
- The plans are chosen by milp with the shipped learned model, near the optimum of the rates; a policy begins with the
  plan that was chosen for the first load.
""",
)
