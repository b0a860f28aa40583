"""How near to a learned model's own optimum do searches get with 30 and with 100 questions? Fresh random jobs.

`python -m benchmarks.driving`: jobs of Costream's space under its rules, with 30 to 12,000 plans, some of which are
sane by the model. Regret is to the exhaustive optimum *under the model*, of the whole latency, and of what placement
can change of it (windows are seconds that none changes). Whether such plans are good is for `twin benchmark`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.table import print_table
from optimizers.interface import Optimizer, Problem
from optimizers.milp.ages import fixed_s
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.sampling import Exhaustive
from optimizers.space import Space
from optimizers.space_plans import SpacePlans
from scenarios.planning.cost_models import cost_model
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.parameter_space import COSTREAM
from twin.metrics import CostModel
from twin.rates.coefficients import PlacementCoefficients
from twin.scenario import RunSettings, Scenario

RULED = Space(costream_rules=True)
FIRST_SEED = 70_000
PLANS = (30, 12_000)
BUDGETS = (30, 100)
LEAST = 0.01
"""Of the best latency, which placement is taken to change at least: a learned model may be below the windows' part."""


def methods() -> dict[str, Optimizer]:
    """By name as the table shows it."""
    found = {f"{name}, free": OPTIMIZERS[name] for name in ("costream", "local-search", "milp")}
    return {**found, "milp, calibrated": Planner(OPTIMIZERS["milp"], keeps=False, drive="calibrated")}


def jobs(count: int, model: CostModel) -> Iterator[tuple[Problem, float]]:
    """Problems with the objective of their exhaustive optimum."""
    seed, found = FIRST_SEED, 0
    while found < count:
        job: Scenario = random_scenario(COSTREAM, seed, RunSettings())
        plans = SpacePlans(job, RULED)
        seed += 1
        if PLANS[0] <= plans.count <= PLANS[1] and plans.exact:
            problem = Problem(scenario=job, cost_model=model, space=RULED)
            best = Exhaustive().solve(problem)
            if best.sane:
                found += 1
                yield problem, best.objective


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--cost-model", default="learned")
    given = parser.parse_args(arguments)
    model = cost_model(given.cost_model)
    regrets: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for problem, best in jobs(given.jobs, model):
        changes = max(best - fixed_s(PlacementCoefficients.of(problem.deployment)), LEAST * best)
        for name, optimizer in methods().items():
            for budget in BUDGETS:
                started_s = time.process_time()
                found = optimizer.solve(replace(problem, budget=budget))
                spent_s = time.process_time() - started_s
                cost = found.objective if found.sane else np.inf
                regrets.setdefault((name, budget), []).append((cost / best - 1, (cost - best) / changes, spent_s))
    rows = []
    for (name, budget), each in regrets.items():
        whole, part, spent = np.array(each).T
        sane = np.isfinite(whole)
        shares = [f"{value:.2%}" for value in (whole[sane].mean(), np.quantile(whole[sane], 0.9), part[sane].mean())]
        rows.append([name, budget, f"{(whole < 1e-6).mean():.0%}", *shares, int((~sane).sum()), f"{spent.mean():.2f}"])
    heads = ("search", "questions", "optimal", "regret, mean", "90 %", "of what changes, mean", "not sane", "CPU s")
    print_table(f"regret under {model.name}, {given.jobs} jobs", heads, rows)


if __name__ == "__main__":
    main()
