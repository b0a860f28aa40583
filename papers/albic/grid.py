"""ALBIC, Figs. 2 to 4: the load distance that a migration budget allows, by cluster, varies and budget."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.bounds import class_bound
from optimizers.balancing.flux import Flux
from optimizers.balancing.interface import Solver
from optimizers.balancing.milp import BalanceMilp
from optimizers.balancing.search import Search
from optimizers.interface import Status
from papers.albic.clusters import PLANNED, SIZES, cluster
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.randomness import child_seed

VARIES = (20, 40, 60, 80)
BUDGETS = (10, 20, 30, 40)
MILP_SECONDS, CLASS_SECONDS = 1.0, 2.0

COLUMNS = {
    "varies": "varies (points)",
    "migrations": "migrations allowed",
    "before": "load distance before",
    "flux": "Flux",
    "best_fit": "Flux, best fit",
    "search": "search",
    "milp": f"MILP, HiGHS {MILP_SECONDS:g} s from the search",
    "bound": "lower bound",
    "gap": "search above the bound",
    "worst_gap": "the same, worst cluster",
    "cpu_s": "search, CPU s",
}
NOTES = (
    "Load distance: the largest deviation of a node from the mean, in percentage points.",
    (
        "Lower bound: the larger of the counting bound and of what HiGHS proves of the class-aggregated relaxation in "
        f"{CLASS_SECONDS:g} s. Where it is small it is weak: the gap is not all the search's."
    ),
    "The paper plots curves without numbers; its finding, that the MILP is never above Flux, can be compared.",
    "CPU seconds, and what HiGHS reaches in its time, differ from machine to machine.",
)


def run(size: str, workspace: Workspace, sizes: Sizes) -> Result:
    """All sixteen cells."""
    rows = list[dict[str, Any]]()
    with workspace.audience.progress("cells") as report:
        for budget, varies in itertools.product(BUDGETS, VARIES):
            rows.append(_row(workspace, size, varies, budget, sizes.judged))
            report(len(rows), len(BUDGETS) * len(VARIES))
    nodes, groups, operators = SIZES[size]
    title = f"{nodes} nodes, {groups} key groups, {operators} operators: load distance, mean of {sizes.judged} clusters"
    figures: dict[str, Callable[[], Any]] = {
        f"migrations-{budget}": partial(_drawn, [row for row in rows if row["migrations"] == budget])
        for budget in BUDGETS
    }
    return Result({"distance": Table(title, COLUMNS, tuple(rows))}, figures, NOTES, about=PLANNED)


def _row(workspace: Workspace, size: str, varies: int, budget: int, clusters: int) -> dict[str, Any]:
    found = []
    for number in range(clusters):
        key = {"size": size, "varies": varies, "budget": budget, "number": number}
        seed = child_seed(workspace.seed, number)
        compute = partial(_judged, size, varies, budget, seed)
        found.append(workspace.cached("albic-grid", key, compute))
    mean = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
    worst = max(each["gap"] for each in found)
    return {"varies": varies, "migrations": budget, **mean, "worst_gap": worst}


def _judged(size: str, varies: int, budget: int, seed: int) -> dict[str, float]:
    nodes, groups, _ = SIZES[size]
    problem = cluster(nodes, groups, varies=varies, budget=budget, seed=seed)
    began_s = time.process_time()
    search = Search().solve(problem)
    cpu_s = time.process_time() - began_s
    proved = search.status is Status.OPTIMAL
    bound = search.bound if proved else max(search.bound, class_bound(problem, seconds=CLASS_SECONDS))
    return {
        "before": problem.distance(problem.home_g),
        "flux": _distance(problem, Flux()),
        "best_fit": _distance(problem, Flux(best_fit=True)),
        "search": search.distance,
        "milp": search.distance if proved else _distance(problem, BalanceMilp(seconds=MILP_SECONDS)),
        "bound": min(bound, search.distance),
        "gap": 0.0 if proved else max(search.distance - bound, 0.0),
        "cpu_s": cpu_s,
    }


def _distance(problem: Balance, solver: Solver) -> float:
    return solver.solve(problem).distance


def _drawn(rows: Sequence[Mapping[str, Any]]) -> Any:
    from figures.lines import lines

    kinds = {"flux": "Flux", "search": "search", "bound": "lower bound"}
    drawn = {
        "series": [name for name in kinds.values() for _ in rows],
        "x": [row["varies"] for _ in kinds for row in rows],
        "y": [row[key] for key in kinds for row in rows],
    }
    return lines(drawn, "varies (percentage points)", "load distance (percentage points)")


FIG2 = Experiment(
    name="albic.fig2",
    source="ALBIC, Fig. 2, Section 5.1",
    summary="load balance under a migration budget, 20 nodes and 400 key groups",
    run=partial(run, "fig2"),
)
FIG3 = Experiment(
    name="albic.fig3",
    source="ALBIC, Fig. 3, Section 5.1",
    summary="load balance under a migration budget, 40 nodes and 800 key groups",
    run=partial(run, "fig3"),
)
FIG4 = Experiment(
    name="albic.fig4",
    source="ALBIC, Fig. 4, Section 5.1",
    summary="load balance under a migration budget, 60 nodes and 1,200 key groups",
    run=partial(run, "fig4"),
)
