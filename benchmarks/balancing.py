"""Balancing key groups: how far from the bound, in how many CPU seconds; and what collocation costs in balance.

Run: python -m benchmarks.balancing [--clusters N] [--rounds N]. First the 48 cells of ALBIC's Figs. 2 to 4, a row a
cell, the worst of some clusters; then clusters far larger than any solver of the full program can begin with; then
rounds of collocating.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator

from benchmarks.table import print_table
from optimizers.balancing.adaptation import rounds
from optimizers.balancing.balance import Balance
from optimizers.balancing.flux import Flux
from optimizers.balancing.search import Search
from scenarios.experiments.albic.clusters import SIZES, cluster
from scenarios.experiments.albic.collocating import WAYS
from scenarios.experiments.albic.grid import BUDGETS, VARIES
from scenarios.experiments.albic.jobs import drifts, job

LARGE = ((200, 4_000, 40, 100), (200, 4_000, 40, 200), (1_000, 20_000, 40, 500), (1_000, 20_000, 40, 1_000))
"""Nodes, key groups, varies, migrations."""
BALANCE_HEADER = ["nodes", "varies", "migrations", "before", "Flux", "search", "counting bound", "gap", "CPU s"]


def judged(problem: Balance) -> list[float]:
    """Distances before, of Flux and of the search; its bound, gap and CPU seconds."""
    began_s = time.process_time()
    found = Search().solve(problem)
    took_s = time.process_time() - began_s
    before, flux = problem.distance(problem.home_g), Flux().solve(problem).distance
    return [before, flux, found.distance, found.bound, found.gap, took_s]


def cells(clusters: int) -> Iterator[list[object]]:
    """Of each cell the cluster with the largest gap."""
    for (nodes, groups, _), varies, budget in itertools.product(SIZES.values(), VARIES, BUDGETS):
        found = [judged(cluster(nodes, groups, varies=varies, budget=budget, seed=seed)) for seed in range(clusters)]
        yield [nodes, varies, budget, *max(found, key=lambda each: each[4])]


def collocating(count: int) -> Iterator[list[object]]:
    """Each way, for operators in pairs and in a chain."""
    for topology, (name, way) in itertools.product(("pairs", "chain"), WAYS.items()):
        began_s = time.process_time()
        found = [each for _, each in rounds(job("fig3", topology, 100, seed=0), way.solve, drifts(count, seed=0))]  # type: ignore[arg-type]
        took_s = (time.process_time() - began_s) / count
        moves = sum(len(each.moves) for each in found) / count
        yield [topology, name, found[-1].collocation, max(each.distance for each in found), moves, took_s]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1, help="of each cell")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    rows = list(cells(arguments.clusters))
    print_table("The cells of Figs. 2 to 4 (percentage points)", BALANCE_HEADER, rows)
    above = [row for row in rows if row[5] > row[4]]  # type: ignore[operator]
    far = [row for row in rows if row[6] >= 0.5 and row[7] > 0.3]  # type: ignore[operator]
    print(f"\n  above Flux: {len(above)} of {len(rows)}; more than 0.3 above a bound of 0.5 or more: {len(far)}")
    large = [
        [nodes, varies, budget, *judged(cluster(nodes, groups, varies=varies, budget=budget, seed=0))]
        for nodes, groups, varies, budget in LARGE
    ]
    print_table("Large clusters", BALANCE_HEADER, large)
    header = ["operators", "way", "collocation (%)", "highest distance", "migrations a round", "CPU s a round"]
    print_table(f"All one to one, {arguments.rounds} rounds", header, list(collocating(arguments.rounds)))


if __name__ == "__main__":
    main()
