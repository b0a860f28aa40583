"""How near does `staged` come to a search by the simulator alone, and in which share of its CPU seconds?

`python -m benchmarks.staged [--problems N] [--budget N]`: the first problem of each of the suite's families that ask
for a placement. `staged`: milp near the optimum of the rates, ordered by the shipped model, five plans simulated.
`sim`: local search that asks the simulator, as often as the budget allows. All plans of a problem are simulated where
they are no more than --exhaustive; else the best known is the best of both and of 30 more. Each chosen plan is judged
by three runs on random numbers that neither search saw.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.table import print_table
from optimizers.interface import Optimizer, Problem, Solution
from optimizers.local_search import LocalSearch
from optimizers.registry import OPTIMIZERS
from optimizers.space_plans import SpacePlans
from scenarios.planning import planner
from scenarios.planning.bench import Bench
from scenarios.planning.cost_models import cost_model
from scenarios.planning.validation import alternatives
from scenarios.suite.families import Family
from scenarios.suite.members import MEMBERS
from scenarios.suite.registry import FAMILIES
from twin.metrics import CostModel
from twin.simulation import simulate

REFERENCES, REPLICATIONS, SEED = 30, 3, 0
OTHERS = 1000
"""Seed of the runs that judge."""
HEADS = ("problem", "plans", "simulated", "staged", "CPU s", "sim", "CPU s", "share of the time")


def methods() -> dict[str, tuple[Optimizer, CostModel]]:
    """By name: an optimizer, and the model that it asks."""
    staged, sim = cost_model("staged"), cost_model("sim")
    return {"staged": (planner.led(OPTIMIZERS["milp"], staged, None, SEED, 0), staged), "sim": (LocalSearch(), sim)}


def solved(problem: Problem, optimizer: Optimizer) -> tuple[Solution, float]:
    """And the CPU seconds that it took."""
    started_s = time.process_time()
    found = optimizer.solve(problem)
    return found, time.process_time() - started_s


def judged(family: Family, number: int, budget: int, exhaustive: int) -> list[object]:
    """A row: regrets to the best known, and seconds."""
    job = family.member(number)
    found = {
        name: solved(Problem(scenario=job, cost_model=model, seed=SEED, budget=budget, space=family.space), optimizer)
        for name, (optimizer, model) in methods().items()
    }
    bench = Bench(job, "processing_latency_s", simulate, REPLICATIONS, OTHERS)
    bench.simulate(solution.plan for solution, _ in found.values())
    plans = SpacePlans(job, family.space).count
    bench.race(alternatives(job, plans if plans <= exhaustive else REFERENCES, SEED, family.space))
    regrets = {name: bench.regret(solution.plan)[0] for name, (solution, _) in found.items()}
    spent_s = {name: each_s for name, (_, each_s) in found.items()}
    cells = [cell for name in found for cell in (f"{regrets[name]:.2%}", f"{spent_s[name]:.1f}")]
    return [job.name, plans, len(bench), *cells, f"1/{spent_s['sim'] / spent_s['staged']:.0f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's documentation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=1, help="of each family")
    parser.add_argument("--budget", type=int, default=300)
    parser.add_argument("--exhaustive", type=int, default=300)
    parser.add_argument("--families", default=",".join(n for n, each in MEMBERS.items() if each.asks == "placement"))
    given = parser.parse_args(arguments)
    rows: list[list[object]] = []
    for name in given.families.split(","):
        for number in range(given.problems):
            rows.append(judged(FAMILIES[name], number, given.budget, given.exhaustive))
            print(*rows[-1], sep="  ", flush=True)
    print_table(f"staged beside a search by the simulator alone, {given.budget} questions", HEADS, rows)
    for column, name in ((3, "staged"), (5, "sim")):
        shares = [float(str(row[column]).rstrip("%")) for row in rows]
        print(f"  {name}: mean regret {np.mean(shares):.2f} %, worst {np.max(shares):.2f} %")


if __name__ == "__main__":
    main()
