"""Costream, Fig. 9: speed-up of results under a chosen placement over the heuristic one.

For each query type fresh random queries are planned by every planner, and every plan is judged by the simulator with
the same random numbers (other seeds than those that any planner saw). The reference is the best of all chosen plans
and some random ones: clean runs first, then backpressured, then failed ones, and by Lp among equals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optimizers.interface import Problem
from optimizers.rules import PlacementSpace
from papers.costream import planners
from papers.drawing import columns
from papers.interface import CaseTable, Experiment, Row, Rows, apart, grid, shape, span
from papers.running import kept
from papers.sizes import EVALUATION_SEED, Sizes, main_corpus
from papers.workspace import Workspace
from scenarios.planning.bench import PlanBench, PlanOutcome
from scenarios.spaces.generator import COSTREAM, random_scenario
from twin.randomness import child_seed, random_stream
from twin.rates.seats import Placements
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

TYPES = {"linear": 1, "2-way join": 2, "3-way join": 3}
"""Number of sources of each query type."""
JUDGED = 3
"""Number of simulated runs of each plan."""
REFERENCES = 20
"""Number of random plans judged beside the chosen ones."""
RESAMPLES = 2000
NO_GAIN = 1.01
"""Speed-up from which on a plan counts as faster."""


def placed(workspace: Workspace) -> Iterator[Row]:
    """Rows, one for each query type and planner, all types last; plans and judges those that are not kept."""
    sizes = workspace.sizes
    decided = planners.key_of(workspace, sizes) | {"judged": JUDGED, "references": REFERENCES}
    cases = grid(name=TYPES, index=range(sizes.queries))
    workspace.audience.stage(f"planning {len(cases)} queries and simulating the plans; Ctrl-C keeps what is finished")
    found = kept(
        workspace, "fig9", judge, cases, lambda: {"sizes": sizes, "models": planners.learned(workspace, sizes)}, decided
    )
    for name in TYPES:
        mine = [judged for case, judged in zip(cases, found, strict=True) if case["name"] == name]
        yield from rows_of(name, mine, workspace.seed)
    yield from rows_of("all", found, workspace.seed)


def query(name: str, index: int, seed: int, settings: RunSettings) -> Scenario:
    """Query number `index` of a type; none is in the training corpus."""
    space = replace(COSTREAM, sources={TYPES[name]: 1})
    return random_scenario(space, child_seed(seed + EVALUATION_SEED, index), settings)


def judge(name: str, index: int, seed: int, sizes: Sizes, models: planners.Models) -> dict[str, Any]:
    """Outcomes of one query, as plain values: of each planner's plan in the simulator, and of the best known plan."""
    scenario = query(name, index, seed, RunSettings(horizon_s=sizes.horizon_s))
    bench = PlanBench(scenario, planners.OBJECTIVE, simulate, JUDGED, scenario.run.seed)
    chosen: dict[str, Any] = {}
    for planner, optimizer in planners.planners(models, scenario.run.seed, sizes.candidates).items():
        problem = Problem(scenario=scenario, cost_model=models.ours, seed=scenario.run.seed, space=planners.RULED)
        solution = optimizer.solve(problem)
        bench.simulate([solution.plan])
        found = {"plan_s": solution.seconds, "evaluations": solution.evaluations}
        chosen[planner] = plain(bench.outcome(solution.plan)) | found
    space = PlacementSpace(scenario.query, scenario.cluster)
    bench.simulate(Placements(scenario, space.sample(random_stream(scenario.run.seed, "references"), REFERENCES)))
    return {"chosen": chosen, "best": plain(bench.best), "known": len(bench), "placements": space.count}


def plain(outcome: PlanOutcome) -> dict[str, Any]:
    """Outcome as JSON values; None for the latency where nothing arrived."""
    level, mean_s = outcome.rank
    return {
        "lp_s": mean_s if np.isfinite(mean_s) else None,
        "level": level,
        "backpressured": outcome.backpressured,
        "success": outcome.success,
    }


def rows_of(name: str, queries: Sequence[Mapping[str, Any]], seed: int) -> Iterator[Row]:
    """Rows of one query type, one for each planner."""
    rng = random_stream(seed, f"fig9-{name}")
    picks = rng.integers(len(queries), size=(RESAMPLES, len(queries)))
    for planner in queries[0]["chosen"]:
        mine = [each["chosen"][planner] for each in queries]
        speed = np.array([speed_up(each["chosen"][planners.HEURISTIC], each["chosen"][planner]) for each in queries])
        regret = np.array([regret_of(each["chosen"][planner], each["best"]) for each in queries])
        row = {
            "type": name,
            "planner": planner,
            "queries": len(queries),
            "worse": float(np.mean(np.isinf(regret))),
            "backpressured": float(np.mean([each["backpressured"] for each in mine])),
            "failed": float(np.mean([not each["success"] for each in mine])),
            "plan_s": float(np.median([each["plan_s"] for each in mine])),
            "evaluations": float(np.median([each["evaluations"] for each in mine])),
        }
        clean = np.where(np.isinf(regret), np.nan, regret)
        row |= _interval("speed_up", speed, picks, median) | _interval("regret", regret, picks, median)
        yield row | _interval("regret_mean", clean, picks, mean)


def speed_up(heuristic: Mapping[str, Any], chosen: Mapping[str, Any]) -> float:
    """Ratio of Lp under the heuristic's plan to Lp under the chosen one; 1 if neither plan has results."""
    if chosen["lp_s"] is None:
        return 1.0 if heuristic["lp_s"] is None else 0.0
    return np.inf if heuristic["lp_s"] is None else heuristic["lp_s"] / chosen["lp_s"]


def regret_of(chosen: Mapping[str, Any], best: Mapping[str, Any]) -> float:
    """Relative distance of Lp to the best, infinite across levels; 0 if even the best has no results."""
    if chosen["level"] != best["level"] or (chosen["lp_s"] is None) != (best["lp_s"] is None):
        return np.inf
    return 0.0 if best["lp_s"] is None else max(0.0, chosen["lp_s"] / best["lp_s"] - 1.0)


def median(values: np.ndarray) -> np.ndarray:
    """Median along the last axis; the lower of the middle two, since their mean may be infinite."""
    return np.sort(values, axis=-1)[..., (values.shape[-1] - 1) // 2]


def mean(values: np.ndarray) -> np.ndarray:
    """Mean of the known values along the last axis; NaN if none is known."""
    known = ~np.isnan(values)
    return np.where(known, values, 0.0).sum(axis=-1) / np.where(known.any(axis=-1), known.sum(axis=-1), np.nan)


def _interval(
    name: str, values: np.ndarray, picks: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> dict[str, float | None]:
    resampled = statistic(values[picks])
    resampled = np.sort(resampled[~np.isnan(resampled)])
    ends = [None, None]
    if len(resampled):
        ends = [resampled[round(share * (len(resampled) - 1))] for share in (0.025, 0.975)]
    found = {name: statistic(values), f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return {key: float(value) if value is not None and np.isfinite(value) else None for key, value in found.items()}


def shapes(rows: Rows) -> Rows:
    """Compares speed-ups. rows: of all query types, one for each planner."""
    by = {(row["type"], row["planner"]): row["speed_up"] for row in rows if row["type"] != "all"}
    types = list(dict.fromkeys(name for name, _ in by))
    ours, flat = ([_number(by.get((name, planner))) for name in types] for planner in (planners.PAPER, planners.FLAT))
    against = ", ".join(f"{mine:.3g} against {other:.3g}" for mine, other in zip(ours, flat, strict=True))
    more = all(mine > other for mine, other in zip(ours, flat, strict=True))
    heuristic = {row["type"]: row["regret"] for row in rows if row["planner"] == planners.HEURISTIC}
    near = [heuristic[name] for name, mine in zip(types, ours, strict=True) if mine <= NO_GAIN and heuristic.get(name)]
    why = f"where not, the heuristic's plans are {span(near, '.1%')} from the best known at the median" if near else ""
    gains = f"{sum(each > NO_GAIN for each in ours)} of {len(ours)}: {', '.join(f'{each:.3g}' for each in ours)}"
    return [
        shape("faster than the heuristic's by Costream's network", "all types", gains, min(ours) > NO_GAIN, why),
        shape("and than those by Flat Vector", "all types", against, more),
        shape("linear queries gain the most", "yes, 21.3", f"{ours[0]:.3g} of {max(ours):.3g}", ours[0] == max(ours)),
        apart("how many times faster", "4.89 to 21.3", span(ours, ".3g"), "measured on Storm, on another cluster"),
    ]


def _number(value: float | None) -> float:
    """Number, infinite where the heuristic's plans have no results."""
    return float("inf") if value is None else value


FIG9 = Experiment(
    name="costream.fig9",
    source="Costream, Fig. 9, Exp. 2a",
    summary="speed-up of chosen placements over the heuristic, and regret to the best known",
    tables={
        "placement": CaseTable(
            title=(
                "Placement of {queries} queries a type: speed-up in Lp over the heuristic, regret to the best known"
            ),
            columns="""
                type: query type | planner: plan by | queries | speed_up: median speed-up | speed_up_low: 95 % from |
                speed_up_high: to | paper | regret: median regret | regret_low: 95 % from | regret_high: to |
                regret_mean: mean regret of equally clean plans | regret_mean_low: 95 % from | regret_mean_high: to |
                worse: share backpressured or failed where the best is not | backpressured: share backpressured |
                failed: share failed | plan_s: median seconds to plan | evaluations: median plans estimated
            """,
            measure=placed,
            published={("linear", planners.PAPER): 21.34, ("linear", planners.FLAT): 4.89},  # medians, Section VII-B
            by=("type", "planner"),
            shapes=shapes,
        )
    },
    figures={
        "speed_up": columns(
            "plans.speed_ups",
            only={"type": TYPES},
            type="type",
            planner="planner",
            speed_up="speed_up",
            speed_up_low="speed_up_low",
            speed_up_high="speed_up_high",
        )
    },
    notes="""
- Speed-up: simulated Lp under the heuristic's plan over that under the chosen plan; 0 where only the chosen one has
  no results, infinite (shown empty) where only the heuristic's has none.
- Regret: Lp over the best known plan's, minus 1; infinite where the plan is backpressured or fails and the best known
  is not or does not. The mean is over the others.
- Flat Vector sees which hosts are used and what leaves them, not which operator is where.
- Intervals are bootstrapped over the queries.
""",
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
