"""ALBIC, Fig. 5: scale-in as part of balancing, against scale-in first and balancing after it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from optimizers.balancing.adaptation import planned
from optimizers.balancing.problem import Assignment, Balance, Solver, assignment
from optimizers.balancing.search import Search, drained
from papers.albic.clusters import PLANNED, SIZES, cluster, moved
from papers.drawing import lines
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape, span
from papers.workspace import Workspace
from twin.randomness import random_stream

MARKED, BUDGET, FULL = 10, 20, 100.0
ROUNDS = 15
BAND = 2.0
OVERLOADED = (1, 5)
SEARCH = Search(looks=800, band=BAND)
KINDS = {"integrated": "integrated", "separate": "scale-in first"}
MUCH, SIMILAR = 0.5, 1.5
"""Ratios to scale-in first that count as "much" less load distance, and as "a similar time period": the paper's figure
has no numbers."""


def start(overloaded: int, seed: int) -> Balance:
    """Largest cluster with equal loads, with marked nodes and others at 100 %."""
    nodes, groups, _ = SIZES["fig4"]
    balance = cluster(nodes, groups, varies=0, budget=BUDGET, seed=seed)
    chosen = random_stream(seed, "albic.fig5").permutation(nodes)
    kill_h = np.isin(np.arange(nodes), chosen[:MARKED])
    factor_h = np.ones(nodes)
    full = chosen[MARKED : MARKED + overloaded]
    factor_h[full] = FULL / balance.load_h(balance.home_g)[full]
    loads = {name: load_g * factor_h[balance.home_g] for name, load_g in balance.loads.items()}
    return replace(balance, loads=loads, kill_h=kill_h)


def course(overloaded: int, kind: str, seed: int) -> dict[str, list[float]]:
    """Load distance, highest load and key groups on marked nodes by round; the first is before anything is done."""
    balance = start(overloaded, seed)
    told: dict[str, list[float]] = {"distance": [], "most": [], "waiting": []}
    stalled = False
    for _ in range(ROUNDS + 1):
        waiting = int(balance.marked_h[balance.home_g].sum())
        told["distance"].append(balance.distance(balance.home_g))
        told["most"].append(float(balance.load_h(balance.home_g).max()))
        told["waiting"].append(waiting)
        plan = _plan(balance, kind, stalled=stalled)
        stalled = int(balance.marked_h[plan.node_g].sum()) == waiting
        balance = moved(balance, plan.node_g)
    return told


def _plan(balance: Balance, kind: str, *, stalled: bool) -> Assignment:
    return separately(balance, SEARCH) if kind == "separate" else planned(balance, SEARCH, stalled=stalled)


def separately(balance: Balance, solver: Solver) -> Assignment:
    """Assignment by scale-in that is not integrated (Fig. 5): as long as a marked node has key groups, all of the
    budget empties it; load is balanced only then."""
    if not balance.marked_h[balance.home_g].any():
        return solver.solve(balance)
    return assignment(balance, drained(balance, balance.home_g), 0.0)


def measured(workspace: Workspace, overloaded: int, kind: str) -> Row:
    """Rounds until scale-in is done, and load distances until then."""
    found = workspace.measured("albic-fig5", course, overloaded=overloaded, kind=kind)
    return {
        "kind": KINDS[kind],
        "tolerable": _first(np.array(found["distance"]) < 5.0),
        "mean": float(np.mean(found["distance"][1:])),
        "most": found["most"][1],
        "rounds": _first(np.array(found["waiting"]) == 0),
        "_distance_by_round": found["distance"],
    }


def _first(there: np.ndarray) -> int | None:
    """First round from which on the condition always holds; None if there is none."""
    last = np.flatnonzero(~there).max(initial=-1) + 1
    return int(last) if last < len(there) else None


def shapes(rows: Rows) -> Rows:
    """Compares how fast the load is even, and how long scale-in takes; infinitely long if it never ends."""

    def both(key: str) -> list[list[float]]:
        return [
            [math.inf if row[key] is None else row[key] for row in rows if row["kind"] == kind]
            for kind in KINDS.values()
        ]

    even, mean, done = both("tolerable"), both("mean"), both("rounds")
    shares = [one / other for one, other in zip(*mean, strict=True)]
    sooner = all(one < other for one, other in zip(*even, strict=True))
    similar = all(one <= SIMILAR * other for one, other in zip(*done, strict=True))
    return [
        shape("integrated: a good load distance", "much faster than scale-in first",
              f"after {span(even[0])} rounds for {span(even[1])}; {span(shares)} of its load distance till the end",
              sooner and max(shares) <= MUCH, "good: below 5 points"),
        shape("integrated: scaled in", "within a similar time", f"after {span(done[0])} rounds for {span(done[1])}",
              similar, f"up to {SIMILAR:g} times counts: migrations that balance empty no node"),
    ]  # fmt: skip


FIG5 = Experiment(
    name="albic.fig5",
    source="ALBIC, Fig. 5, Section 5.1",
    summary="scale-in integrated with balancing, against scale-in first",
    tables={
        "scale-in": CaseTable(
            title="Scale-in of 10 of 60 nodes, 1,200 key groups",
            columns="""
                overloaded: nodes at 100 % | kind: scale-in | tolerable: rounds until the load distance is below 5 |
                mean: mean load distance over the rounds | most: highest load of a node after round 1 (%) |
                rounds: rounds until scaled in
            """,
            cases=grid(overloaded=OVERLOADED, kind=KINDS),
            measure=measured,
            shapes=shapes,
        )
    },
    figures={
        f"overloaded-{count}": lines(
            "round",
            "load distance (percentage points)",
            y="_distance_by_round",
            series="kind",
            only={"overloaded": [count]},
            first=0,
        )
        for count in OVERLOADED
    },
    notes=f"""
- {MARKED} nodes of mean load are marked for removal, {BUDGET} migrations a round, {ROUNDS} rounds; loads stay.
- Load distance: of unmarked nodes from the mean that they will have, of marked ones only if they are above it.
- The budget needs ten rounds at least: 200 key groups on marked nodes, 20 a round. Scale-in first takes just these;
  the integrated one spends some of the budget on other nodes.
- The integrated one lessens deviations of more than {BAND:g} points, and empties marked nodes with the rest of the
  budget. Without a band the last key groups stay for long, as they hardly matter to the load distance.
- Key groups cannot be divided, so that one may fit nowhere without a larger load distance; a round that moves none
  off the marked nodes is followed by one that does, whatever the distance.
""",
    about=PLANNED,
)
