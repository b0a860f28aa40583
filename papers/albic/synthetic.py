"""ALBIC on synthetic clusters (Sections 5.1 to 5.3): balance (Figs. 2 to 4), scale-in (5), and collocation (10, 11)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from optimizers.balancing.albic import Albic, planned
from optimizers.balancing.joint import Joint
from optimizers.balancing.problem import Assignment, Balance, KeyGroupTraffic, Solver, assignment
from optimizers.balancing.search import Flux, Search, drained
from optimizers.balancing.solvers import BalanceMilp, Cola
from optimizers.interface import Status
from optimizers.program import Program, ProgramLimits, summed
from papers.interface import CaseTable, Experiment, Row, Rows, grid, lines, shape, span
from papers.workspace import Workspace
from twin.errors import BadInput
from twin.randomness import child_seed, random_stream

# clusters ------------------------------------------------------------------------------------------------------------
# Synthetic clusters of ALBIC's Sections 5.1 and 5.3: key groups of about equal load, on unequal nodes.
#
# Choices that the paper leaves open: `varies` is in percentage points of a node; half of the adjusted nodes get half
# of it more, half get half of it less; a random half to all of a node's groups carry that, in proportion to their
# load.


SIZES: Mapping[str, tuple[int, int, int]] = {"fig2": (20, 400, 10), "fig3": (40, 800, 20), "fig4": (60, 1200, 30)}
"""Nodes, key groups and operators of each figure."""
MEAN_LOAD = 60.0
"""Mean load of a node in percent, such that a `varies` of 80 stays between 0 and 100."""
JITTER = 0.05
"""Largest relative deviation of a group's load, either way."""
PLANNED = "Every figure of ours is of plans for synthetic loads, computed; nothing here is simulated, or of a cluster."
"""Statement on what the figures of these experiments are of."""
ADJUSTED = 0.2
"""Share of the nodes whose load is adjusted."""


def cluster(nodes: int, groups: int, *, varies: float, budget: float, seed: int) -> Balance:
    """Balancing problem with as many key groups on each node; the budget counts migrations. Raises BadInput unless
    groups are a multiple of nodes and 0 <= varies <= 80."""
    if groups % nodes or not 0.0 <= varies <= 2.0 * min(MEAN_LOAD, 100.0 - MEAN_LOAD):
        raise BadInput(f"groups must be a multiple of nodes and varies from 0 to 80, got {groups}, {nodes}, {varies}")
    each, rng = groups // nodes, random_stream(seed, f"albic.cluster/{nodes}")
    load_hk = MEAN_LOAD / each * (1.0 + rng.uniform(-JITTER, JITTER, (nodes, each)))
    adjusted = rng.choice(nodes, 2 * max(1, round(ADJUSTED * nodes / 2)), replace=False)
    for place, node in enumerate(adjusted):
        some = rng.choice(each, rng.integers((each + 1) // 2, each + 1), replace=False)
        sign = 1.0 if place % 2 else -1.0
        load_hk[node, some] *= max(0.0, 1.0 + sign * 0.5 * varies / load_hk[node, some].sum())
    home_g = np.repeat(np.arange(nodes), each)
    return Balance(loads={"cpu": load_hk.ravel()}, home_g=home_g, capacity_h=np.ones(nodes), budget=budget)


# jobs ----------------------------------------------------------------------------------------------------------------
# Synthetic jobs of ALBIC's Section 5.3: a share of the key groups communicates one to one, the others with all.
#
# Choices that the paper leaves open: the share is of upstream groups; each sends one unit a second; operators form
# disjoint pairs, or one chain; groups start on random nodes, as many on each; before each round the loads of a fifth
# of the nodes change by up to 2 % either way, all groups of a node alike.


Topology = Literal["pairs", "chain"]
BUDGET, VARIES, DRIFT, DRIFTING = 20, 20, 0.02, 0.2


def job(size: str, topology: Topology, percent: float, seed: int) -> Balance:
    """Balancing problem with traffic. percent: of the upstream groups that send to one group alone."""
    nodes, groups, operators = SIZES[size]
    balance = cluster(nodes, groups, varies=VARIES, budget=BUDGET, seed=seed)
    place = random_stream(seed, f"albic.job/{size}").permutation(groups)  # neighbours are random, loads of nodes stay
    traffic = _traffic(groups, operators, topology, percent, seed)
    home_g, load_g = np.empty_like(balance.home_g), np.empty(groups)
    home_g[place], load_g[place] = balance.home_g, balance.work_g
    return replace(balance, home_g=home_g, loads={"cpu": load_g}, traffic=traffic)


def _traffic(groups: int, operators: int, topology: Topology, percent: float, seed: int) -> KeyGroupTraffic:
    operator_g = np.arange(groups) * operators // groups
    links = list(pairwise(range(operators)))[:: 2 if topology == "pairs" else 1]
    rng = random_stream(seed, f"albic.traffic/{topology}/{percent}")
    parts = []
    for upstream, downstream in links:
        senders, receivers = (np.flatnonzero(operator_g == each) for each in (upstream, downstream))
        alone = rng.permutation(len(senders)) < round(percent / 100.0 * len(senders))
        matrix = np.diag(alone.astype(float)) + np.outer(~alone, np.full(len(receivers), 1.0 / len(receivers)))
        sender, receiver = np.nonzero(matrix)
        parts.append((senders[sender], rng.permutation(receivers)[receiver], matrix[sender, receiver]))
    sender_e, receiver_e, rate_e = (np.concatenate(column) for column in zip(*parts, strict=True))
    return KeyGroupTraffic(operator_g, sender_e, receiver_e, rate_e)


def drifts(rounds: int, seed: int) -> Iterator[Callable[[Balance], Balance]]:
    """Yields for each round a function that changes loads."""
    rng = random_stream(seed, "albic.drift")
    for _ in range(rounds):
        yield lambda balance: _drifted(balance, rng)


def _drifted(balance: Balance, rng: np.random.Generator) -> Balance:
    nodes = len(balance.capacity_h)
    factor_h = np.ones(nodes)
    some = rng.choice(nodes, round(DRIFTING * nodes), replace=False)
    factor_h[some] += rng.uniform(-DRIFT, DRIFT, len(some))
    return replace(balance, loads={name: load_g * factor_h[balance.home_g] for name, load_g in balance.loads.items()})


def by_round(
    start: Balance, plan: Callable[[Balance], Assignment], drifts: Iterable[Callable[[Balance], Balance]]
) -> Iterator[tuple[Balance, Assignment]]:
    """Yields the balancing problem and its plan by round: loads drift, a plan is made and applied."""
    balance = start
    for drift in drifts:
        balance = drift(balance)
        found = plan(balance)
        yield balance, found
        balance = moved(balance, found.node_g)


def moved(balance: Balance, node_g: np.ndarray) -> Balance:
    """Balancing problem of the next round: groups are on their new nodes, and loads are in percent of those."""
    loads = {name: balance.work(name) / balance.capacity_h[node_g] for name in balance.loads}
    return replace(balance, home_g=node_g, loads=loads)


# balance: Figs. 2 to 4 -----------------------------------------------------------------------------------------------
# Load distance by cluster, `varies` and migration budget.


DEVIATIONS = (20, 40, 60, 80)
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


def balance_shapes(rows: Rows) -> Rows:
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
        cases=grid(size=(size,), migrations=BUDGETS, varies=DEVIATIONS),
        measure=mean_of_clusters,
        shapes=balance_shapes,
    )


BALANCE_FIGURES = {
    f"migrations-{budget}": lines(
        "varies (percentage points)",
        "load distance (percentage points)",
        x="varies",
        y={"flux": "Flux", "search": "search", "bound": "lower bound"},
        only={"migrations": [budget]},
    )
    for budget in BUDGETS
}
BALANCE_NOTES = f"""
- Load distance: the largest deviation of a node from the mean, in percentage points.
- Lower bound: the larger of the counting bound and of what HiGHS proves of the class-aggregated relaxation in
  {CLASS_SECONDS:g} s. Where it is small it is weak: the gap is not all the search's.
- The paper plots curves without numbers.
- CPU seconds, and what HiGHS reaches in its time, differ from machine to machine.
"""


def _of_size(size: str) -> dict[str, Any]:
    """Parts that the experiments of all sizes of cluster share."""
    return {
        "tables": {"distance": balanced(size)},
        "figures": BALANCE_FIGURES,
        "notes": BALANCE_NOTES,
        "about": PLANNED,
    }


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


# scale-in: Fig. 5 ----------------------------------------------------------------------------------------------------
# Scale-in as part of balancing, against scale-in first and balancing after it.


MARKED, FULL = 10, 100.0
SCALING_ROUNDS = 15
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


def scaling_course(overloaded: int, kind: str, seed: int) -> dict[str, list[float]]:
    """Load distance, highest load and key groups on marked nodes by round; the first is before anything is done."""
    balance = start(overloaded, seed)
    told: dict[str, list[float]] = {"distance": [], "most": [], "waiting": []}
    stalled = False
    for _ in range(SCALING_ROUNDS + 1):
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


def scaled_in(workspace: Workspace, overloaded: int, kind: str) -> Row:
    """Rounds until scale-in is done, and load distances until then."""
    found = workspace.measured("albic-fig5", scaling_course, overloaded=overloaded, kind=kind)
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


def scaling_shapes(rows: Rows) -> Rows:
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
            measure=scaled_in,
            shapes=scaling_shapes,
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
- {MARKED} nodes of mean load are marked for removal, {BUDGET} migrations a round, {SCALING_ROUNDS} rounds; loads stay.
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


# collocation: Figs. 10 and 11 ----------------------------------------------------------------------------------------
# Collocation and load distance by round, against COLA, by the share that can be collocated and by size of the cluster.


WAYS: Mapping[str, Solver] = {
    "ALBIC, one pair a round": Albic(),
    "ALBIC, pairs for 60 % of the budget": Albic(share=0.6),
    "ALBIC, pairs for 90 % of the budget": Albic(share=0.9),
    "joint (ours)": Joint(),
    "COLA": Cola(),
}
ALBICS = tuple(way for way in WAYS if way.startswith("ALBIC"))
TOPOLOGIES: tuple[Topology, ...] = get_args(Topology)
ROUNDS = 40
TOLD = (1, 5, 10, 20, 40)
"""Rounds after which the collocation factor is reported."""


def collocated(
    workspace: Workspace, topology: Topology, size: str, percent: int, way: str, rounds: int = ROUNDS
) -> Row:
    """Summary of all rounds of one way. percent: as in `job`."""
    case = {"topology": topology, "size": size, "percent": percent, "way": way, "rounds": rounds}
    found = workspace.measured("albic-collocation", collocation_course, **case)
    return {
        "nodes": SIZES[size][0],
        **{f"after_{number}": found["collocation"][number - 1] for number in TOLD if number <= rounds},
        "mean": float(np.mean(found["distance"])),
        "most": max(found["distance"]),
        "last": float(np.mean(found["distance"][-10:])),
        "migrations": float(np.mean(found["migrations"])),
    }


def collocation_course(
    topology: Topology, size: str, percent: float, way: str, rounds: int, seed: int
) -> dict[str, list[float]]:
    """Collocation factor, load distance and migrations by round."""
    start = job(size, topology, percent, seed)
    steps = [step for _, step in by_round(start, WAYS[way].solve, drifts(rounds, seed))]
    return {
        "collocation": [float(step.collocation or 0.0) for step in steps],
        "distance": [step.distance for step in steps],
        "migrations": [float(len(step.moves)) for step in steps],
    }


def collocation_shapes(rows: Rows) -> Rows:
    """Compares ALBIC with COLA, job by job: as published, and with several pairs a round."""
    by = {tuple(row[key] for key in ("topology", "nodes", "percent", "way")): row for row in rows}
    jobs = list(dict.fromkeys(key[:-1] for key in by))
    colas = [by[*job, "COLA"] for job in jobs]
    found = []
    for way in ALBICS:
        ours = [by[*job, way] for job in jobs]
        evener = sum(row["mean"] < cola["mean"] for row, cola in zip(ours, colas, strict=True))
        more = [row["after_40"] - cola["after_40"] for row, cola in zip(ours, colas, strict=True)]
        found += [
            shape(f"{way}: load distance", "smaller than COLA's", f"in {evener} of {len(jobs)} jobs",
                  evener == len(jobs)),
            shape(f"{way}: collocation", "above COLA's by up to ten percent", f"by {span(more, '+.1f')}",
                  min(more) >= 0.0 < max(more),
                  f"COLA moves {span([row['migrations'] for row in colas], '.0f')} groups a round for {BUDGET}, and "
                  "collocates some of the even traffic"),
        ]  # fmt: skip
    return found


AFTER = " | ".join(f"after_{number}: collocation after round {number} (%)" for number in TOLD)
COLLOCATION_COLUMNS = f"""
    topology: operators | way | {AFTER} |
    mean: load distance, mean | most: load distance, highest | last: load distance, last 10 rounds |
    migrations: migrations a round
"""
COLLOCATION_NOTES = """
- Collocation factor: traffic that stays on a node, of all traffic, the even traffic included; a few percent of that
  are on one node by chance.
- 20 migrations a round; COLA plans from scratch and cannot be held to that. It is told the present nodes, so that it
  moves as little as possible.
- ALBIC as published brings one pair a round together, which takes hundreds of rounds here.
"""

FIG10 = Experiment(
    name="albic.fig10",
    source="ALBIC, Fig. 10, Section 5.3",
    summary="collocation and load distance of ALBIC, COLA and the joint search, by what can be collocated",
    tables={
        "collocation": CaseTable(
            title="40 nodes, 800 key groups, 20 operators: collocation and load distance over 40 rounds",
            columns="percent: one-to-one (%) |" + COLLOCATION_COLUMNS,
            cases=grid(topology=TOPOLOGIES, size=("fig3",), percent=(0, 25, 50, 75, 100), way=WAYS),
            measure=collocated,
            shapes=collocation_shapes,
        )
    },
    figures={
        f"{quantity}-{topology}": lines(
            "key groups with one-to-one communication (%)",
            label,
            x="percent",
            y=key,
            series="way",
            only={"topology": [topology]},
        )
        for topology in TOPOLOGIES
        for quantity, key, label in (
            ("collocation", "after_40", "collocation, round 40 (%)"),
            ("distance", "last", "load distance, last 10 rounds"),
        )
    },
    notes=COLLOCATION_NOTES,
    about=PLANNED,
)
FIG11 = Experiment(
    name="albic.fig11",
    source="ALBIC, Fig. 11, Section 5.3",
    summary="collocation and load distance of ALBIC, COLA and the joint search, by size of the cluster",
    tables={
        "sizes": CaseTable(
            title="Half of the key groups with one-to-one communication: collocation and load distance over 40 rounds",
            columns="nodes |" + COLLOCATION_COLUMNS,
            cases=grid(topology=TOPOLOGIES, size=SIZES, percent=(50,), way=WAYS),
            measure=collocated,
            shapes=collocation_shapes,
        )
    },
    figures={
        "collocation-pairs": lines(
            "nodes", "collocation, round 40 (%)", x="nodes", y="after_40", series="way", only={"topology": ["pairs"]}
        )
    },
    notes=COLLOCATION_NOTES + "- Twenty migrations a round are ever fewer of the key groups as clusters grow.",
    about=PLANNED,
)
