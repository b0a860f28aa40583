"""Plans of jobs in which much works together, in the order of predictions: regret after so many runs.

python -m benchmarks.composed [--jobs 24] [--first 1300000] [--model learned] [--keep FOLDER]

Each job is one of the space `flink` that no corpus holds, on several hosts. Its given plan and others drawn at random
are all simulated, twice with seeds that judge, and once with another seed that who searches may see. Ways to order
them: rates at the mean load, rates at each source's peak, the learned model, and chance. Of the first so many plans in
that order, the best in its one run is the answer; regret is what the judges say against the best of all. A plan that
does not keep up where another does counts as `worse`. Objectives: the mean end-to-end latency, and its p99, which rates
order by their mean. Jobs are kept in the folder, so that the command can go on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import print_table
from optimizers.interface import Problem
from optimizers.planner import rates_at
from optimizers.searching import predicted_order
from optimizers.space import ALL_PLANS, SpacePlans, as_plans
from scenarios.planning.cost_models import cost_model
from scenarios.spaces.flink import flink_scenario
from twin.errors import BadInput
from twin.metrics import CostModel
from twin.plan import ExecutionPlan
from twin.randomness import child_seed, random_stream
from twin.scenario import Scenario
from twin.simulation import simulate

OBJECTIVES = ("e2e_latency_s", "e2e_latency_s.p99")
PLANS = 24
"""Plans of a job, the given one among them."""
SPENT = (1, 3, 8)
JUDGES = (101, 102)
SEARCHES = 103
"""Children of a job's seed that are the seeds of the runs that judge, and of those that a search sees."""


def jobs(first: int) -> Iterator[tuple[Scenario, list[ExecutionPlan]]]:
    """Jobs from a seed on that have as many plans as wanted, with these."""
    space = ALL_PLANS.settled(free_subtasks=False)
    for seed in count(first):
        job = flink_scenario(seed)
        if len(job.cluster.hosts) < 2:
            continue
        rng = random_stream(seed, "benchmark")
        try:
            drawn = as_plans(job, SpacePlans(job, space).sample(rng, 4 * PLANS))
            plans = list({str(plan): plan for plan in (job.plan, *drawn)}.values())[:PLANS]
            [job.with_plan(plan) for plan in plans]
        except BadInput:
            continue
        if len(plans) == PLANS:
            yield job, plans


def known(job: Scenario, plans: Sequence[ExecutionPlan], seed: int) -> np.ndarray:
    """[plans, 1 + objectives] whether each does not keep up, and the objectives, in a run with a child seed."""
    job = job.with_run(seed=child_seed(job.run.seed, seed))
    found = [simulate(job.with_plan(plan)).metrics for plan in plans]
    return np.array([[not each.keeps_up, *(each.value(name) for name in OBJECTIVES)] for each in found], float)


def regrets(job: Scenario, plans: Sequence[ExecutionPlan], models: Mapping[str, CostModel]) -> list[dict[str, Any]]:
    """Regret of each way, objective and number of runs; None where the answer is worse in kind than the best."""
    judged = np.mean([known(job, plans, seed) for seed in JUDGES], axis=0)
    seen, rng, rows = known(job, plans, SEARCHES), random_stream(job.run.seed, "chance"), list[dict[str, Any]]()
    for column, objective in enumerate(OBJECTIVES, start=1):
        rank = np.lexsort((judged[:, column], judged[:, 0]))
        best = judged[rank[0]]
        for name, model in (*models.items(), ("chance", None)):
            asked = Problem(scenario=job, cost_model=models["rates"], objective=objective)
            order = rng.permutation(len(plans)) if model is None else predicted_order(asked, [model], list(plans))
            for runs in SPENT:
                first = min(order[:runs], key=lambda row: (seen[row, 0], seen[row, column]))
                worse = judged[first, 0] > best[0]
                regret = None if worse else float(judged[first, column] / best[column] - 1.0)
                rows.append({"way": name, "objective": objective, "runs": runs, "regret": regret})
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--first", type=int, default=1_300_000)
    parser.add_argument("--model", default="learned")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    models: dict[str, CostModel] = {"rates": rates_at("mean"), "rates at peak": rates_at("peak")}
    models["learned"] = cost_model(options.model)
    rows = list[dict[str, Any]]()
    for job, plans in islice(jobs(options.first), options.jobs):
        kept = None if options.keep is None else options.keep / f"{job.name}.json"
        if kept is not None and kept.exists():
            rows += json.loads(kept.read_text())
            continue
        found = regrets(job, plans, models)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found))
        rows += found
    table = []
    for objective in OBJECTIVES:
        for way in dict.fromkeys(row["way"] for row in rows):
            line: list[Any] = [objective, way]
            for runs in SPENT:
                some = [r for r in rows if (r["way"], r["objective"], r["runs"]) == (way, objective, runs)]
                fine = [100.0 * r["regret"] for r in some if r["regret"] is not None]
                line += [f"{np.mean(fine):.1f} / {np.median(fine):.1f} %", len(some) - len(fine)]
            table.append(line)
    heads = [part for runs in SPENT for part in (f"{runs} runs: mean / median", "worse")]
    print_table("regret of the best of the first plans", ["objective", "way", *heads], table)


if __name__ == "__main__":
    main()
