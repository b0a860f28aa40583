"""ALBIC, Figs. 2 to 4: load distance by cluster, `varies` and migration budget."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from optimizers.balancing.flux import Flux
from optimizers.balancing.milp import BalanceMilp
from optimizers.balancing.problem import Balance, Solver
from optimizers.balancing.search import Search
from optimizers.interface import Status
from optimizers.program import Program, ProgramLimits, summed
from papers.albic.clusters import PLANNED, SIZES, cluster
from papers.drawing import lines
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape
from papers.workspace import Workspace
from twin.randomness import child_seed

VARIES = (20, 40, 60, 80)
BUDGETS = (10, 20, 30, 40)
MILP_SECONDS, CLASS_SECONDS = 1.0, 2.0
SLIGHTLY = 0.05
"""Share of the search's gain below which an improvement counts as "only slightly", as the paper calls it."""


def mean_of_clusters(workspace: Workspace, size: str, migrations: int, varies: int) -> Row:
    """Means over the number of clusters of the scale, and the largest gap."""
    clusters = [
        workspace.cached(
            "albic-grid",
            {"size": size, "varies": varies, "budget": migrations, "number": number},
            partial(judged, size, varies, migrations, child_seed(workspace.seed, number)),
        )
        for number in range(workspace.sizes.judged)
    ]
    means = {name: float(np.mean([cluster[name] for cluster in clusters])) for name in clusters[0]}
    return {**means, "worst_gap": max(cluster["gap"] for cluster in clusters)}


def judged(size: str, varies: int, budget: int, seed: int) -> dict[str, float]:
    """Load distances of one cluster by each method, and a lower bound."""
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


def class_bound(balance: Balance, *, classes: int = 20, seconds: float = 10.0) -> float:
    """Lower bound on load distances of clusters too large for the full program, better than the counting bound.

    Groups are sorted by work into classes of about equal size. Each group leaves its node or not; a node receives a
    number of groups of each class. They count as light as the lightest of the class where the load may be too high, and
    as heavy as the heaviest where it may be too low. Without the pairing of origin and destination, HiGHS solves it at
    sizes where the full program does not even start; what it proves holds for the full program. Side constraints are
    relaxed. In percentage points; 0 if HiGHS proves nothing in time.
    """
    groups, nodes = len(balance.home_g), len(balance.capacity_h)
    rank = np.empty(groups, dtype=int)
    rank[np.argsort(balance.work_g, kind="stable")] = np.arange(groups)
    class_g = rank * min(classes, groups) // groups
    count = int(class_g.max()) + 1
    low_c = np.array([balance.work_g[class_g == each].min() for each in range(count)])
    high_c = np.array([balance.work_g[class_g == each].max() for each in range(count)])
    over_h = balance.mean * balance.capacity_h - np.bincount(balance.home_g, balance.work_g, nodes)
    unmarked = np.flatnonzero(~balance.marked_h)
    program = Program()
    leaves = program.variables((groups,), upper=~balance.stays_g, integer=True)
    receives = np.where(balance.marked_h, 0.0, np.inf)[:, None]
    arrives = program.variables((nodes, count), upper=receives, integer=True)
    distance = np.repeat(program.variables((1, 1)), nodes, axis=0)
    leave_h, room_h = summed(balance.home_g, balance.work_g, nodes), balance.capacity_h[:, None]
    program.rows((leaves, summed(class_g, np.ones(groups))), (arrives.T, -1.0), low=0.0, high=0.0)
    program.rows((leaves, -leave_h), (arrives, low_c), (distance, -room_h), high=over_h)
    program.rows(
        (leaves, -leave_h[unmarked]),
        (arrives[unmarked], high_c),
        (distance[unmarked], room_h[unmarked]),
        low=over_h[unmarked],
    )
    if np.isfinite(balance.budget):
        program.row((leaves, balance.costs_g), high=balance.budget)
    program.costs(distance[:1], 1.0)
    bound = program.solve(ProgramLimits(seconds=seconds, gap=1e-6)).bound
    return max(bound, 0.0) if np.isfinite(bound) else 0.0


def _distance(problem: Balance, solver: Solver) -> float:
    return solver.solve(problem).distance


def shapes(rows: Rows) -> Rows:
    """Compares the search with Flux, and with more seconds of solving."""
    below, above = (sum(sign * (row["flux"] - row["search"]) > 0.0 for row in rows) for sign in (1, -1))
    more = max((row["search"] - row["milp"]) / (row["before"] - row["search"]) for row in rows)
    gap_s = max(row["cpu_s"] for row in rows)
    return [
        shape("our search against Flux", "the MILP consistently outperforms it",
              f"below it in {below} of {len(rows)} cells, above it in {above}", below > 0 == above,
              "where the budget binds, both may reach the least possible"),
        shape("seconds of solving", "a few; more improve only slightly",
              f"{gap_s:.2g} s at most; HiGHS then takes off {more:.1%} more at most", more < SLIGHTLY),
    ]  # fmt: skip


def balanced(size: str) -> CaseTable:
    """Table of the sixteen cells of a cluster."""
    nodes, groups, operators = SIZES[size]
    return CaseTable(
        title=lambda workspace: (
            f"{nodes} nodes, {groups} key groups, {operators} operators: load distance, mean of "
            f"{workspace.sizes.judged} clusters"
        ),
        columns=f"""
            varies: varies (points) | migrations: migrations allowed | before: load distance before | flux: Flux |
            best_fit: Flux, best fit | search | milp: MILP, HiGHS {MILP_SECONDS:g} s from the search |
            bound: lower bound | gap: search above the bound | worst_gap: the same, worst cluster |
            cpu_s: search, CPU s
        """,
        cases=grid(size=(size,), migrations=BUDGETS, varies=VARIES),
        measure=mean_of_clusters,
        shapes=shapes,
    )


FIGURES = {
    f"migrations-{budget}": lines(
        "varies (percentage points)",
        "load distance (percentage points)",
        x="varies",
        y={"flux": "Flux", "search": "search", "bound": "lower bound"},
        only={"migrations": [budget]},
    )
    for budget in BUDGETS
}
NOTES = f"""
- Load distance: the largest deviation of a node from the mean, in percentage points.
- Lower bound: the larger of the counting bound and of what HiGHS proves of the class-aggregated relaxation in
  {CLASS_SECONDS:g} s. Where it is small it is weak: the gap is not all the search's.
- The paper plots curves without numbers.
- CPU seconds, and what HiGHS reaches in its time, differ from machine to machine.
"""


def _of_size(size: str) -> dict[str, Any]:
    """Parts that the experiments of all sizes of cluster share."""
    return {"tables": {"distance": balanced(size)}, "figures": FIGURES, "notes": NOTES, "about": PLANNED}


FIG2 = Experiment(
    name="albic.fig2",
    source="ALBIC, Fig. 2, Section 5.1",
    summary="load balance under a migration budget, 20 nodes and 400 key groups",
    **_of_size("fig2"),
)
FIG3 = Experiment(
    name="albic.fig3",
    source="ALBIC, Fig. 3, Section 5.1",
    summary="load balance under a migration budget, 40 nodes and 800 key groups",
    **_of_size("fig3"),
)
FIG4 = Experiment(
    name="albic.fig4",
    source="ALBIC, Fig. 4, Section 5.1",
    summary="load balance under a migration budget, 60 nodes and 1,200 key groups",
    **_of_size("fig4"),
)
