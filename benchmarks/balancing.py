"""Balancing key groups: how far from the bound, in how many CPU seconds; and what collocation costs in balance.

Run: python -m benchmarks.balancing [--clusters N] [--rounds N] [--minutes N] [--page FILE]. First the 48 cells of
ALBIC's Figs. 2 to 4, a row a cell, the worst of some clusters; then clusters far larger than any solver of the full
program can begin with; then rounds of collocating. A few minutes; every row is kept in `.balancing/` as soon as it is
there, so that the same command goes on after Ctrl-C, or after its minutes are over, until a file in
`optimizers/balancing` changes. --page: writes the tables there as well, once all are whole.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.kept import ROOT, Kept, OutOfTimeError
from benchmarks.table import markdown, print_table
from optimizers.balancing.adaptation import rounds
from optimizers.balancing.balance import Balance
from optimizers.balancing.flux import Flux
from optimizers.balancing.search import Search
from papers.albic.clusters import SIZES, cluster
from papers.albic.collocating import WAYS
from papers.albic.grid import BUDGETS, VARIES
from papers.albic.jobs import Topology, drifts, job
from twin.atomic import write_text

LARGE = ((200, 4_000, 40, 100), (200, 4_000, 40, 200), (1_000, 20_000, 40, 500), (1_000, 20_000, 40, 1_000))
"""Nodes, key groups, varies, migrations."""
TOPOLOGIES: tuple[Topology, ...] = ("pairs", "chain")
BALANCE_HEADER = ["nodes", "varies", "migrations", "before", "Flux", "search", "counting bound", "gap", "CPU s"]
COLLOCATING_HEADER = ["operators", "way", "collocation (%)", "highest distance", "migrations a round", "CPU s a round"]
ROWS = ROOT / ".balancing" / "rows.jsonl"

Rows = list[list[Any]]


def judged(problem: Balance) -> list[float]:
    """Distances before, of Flux and of the search; its bound, gap and CPU seconds."""
    began_s = time.process_time()
    found = Search().solve(problem)
    took_s = time.process_time() - began_s
    before, flux = problem.distance(problem.home_g), Flux().solve(problem).distance
    return [before, flux, found.distance, found.bound, found.gap, took_s]


def cell(nodes: int, groups: int, varies: float, budget: float, seeds: Sequence[int]) -> list[Any]:
    """The cluster with the largest gap."""
    found = [judged(cluster(nodes, groups, varies=varies, budget=budget, seed=seed)) for seed in seeds]
    return [nodes, varies, budget, *max(found, key=lambda each: each[4])]


def cells(kept: Kept, clusters: int) -> Iterator[list[Any]]:
    """A row a cell."""
    for (nodes, groups, _), varies, budget in itertools.product(SIZES.values(), VARIES, BUDGETS):
        key = (nodes, groups, varies, budget, clusters)
        yield kept.row(("cell", *key), partial(cell, nodes, groups, varies, budget, range(clusters)))


def large(kept: Kept, _clusters: int) -> Iterator[list[Any]]:
    """A row a cluster."""
    for each in LARGE:
        yield kept.row(("large", *each), partial(cell, *each, range(1)))


def collocating(kept: Kept, count: int) -> Iterator[list[Any]]:
    """Each way, for operators in pairs and in a chain."""
    for topology, way in itertools.product(TOPOLOGIES, WAYS):
        yield kept.row(("collocating", topology, way, count), partial(collocated, topology, way, count))


def collocated(topology: Topology, way: str, count: int) -> list[Any]:
    """A row of rounds in which everything can be collocated."""
    began_s = time.process_time()
    found = [each for _, each in rounds(job("fig3", topology, 100, seed=0), WAYS[way].solve, drifts(count, seed=0))]
    took_s = (time.process_time() - began_s) / count
    moves = sum(len(each.moves) for each in found) / count
    return [topology, way, found[-1].collocation, max(each.distance for each in found), moves, took_s]


def summary(rows: Rows) -> str:
    """Of the cells."""
    above = [row for row in rows if row[5] > row[4]]
    far = [row for row in rows if row[6] >= 0.5 and row[7] > 0.3]
    slowest = max(row[8] for row in rows)
    told = f"above Flux: {len(above)} of {len(rows)}; more than 0.3 above a bound of 0.5 or more: {len(far)}"
    return f"{told}; most CPU seconds: {slowest:.2f}"


def main() -> None:
    """Prints three tables, as far as the minutes last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=3, help="of each cell")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no row is begun")
    parser.add_argument("--page", type=Path, help="a file to write the tables to, in Markdown")
    options = parser.parse_args()
    kept = Kept(ROWS, (ROOT / "optimizers" / "balancing").glob("*.py"), options.minutes)
    parts: list[tuple[str, list[str], Callable[[], Iterator[list[Any]]]]] = [
        ("The cells of Figs. 2 to 4 (percentage points)", BALANCE_HEADER, partial(cells, kept, options.clusters)),
        ("Large clusters", BALANCE_HEADER, partial(large, kept, 1)),
        (f"All one to one, {options.rounds} rounds", COLLOCATING_HEADER, partial(collocating, kept, options.rounds)),
    ]
    page, done = [], True
    for title, header, rows in parts:
        found, whole = as_far_as_time(rows())
        done = done and whole
        print_table(title if whole else f"{title}: not all, run again to go on", header, found)
        page.append(markdown(title, header, found))
        if rows is parts[0][2] and found:
            print(f"\n  {summary(found)}")
            told = summary(found)
            page.append(f"{told[0].upper()}{told[1:]}.")
    if options.page and done:
        said = f"python -m benchmarks.balancing --clusters {options.clusters} --rounds {options.rounds}"
        write_text(options.page, f"# Balancing, measured\n\n`{said}`\n\n" + "\n\n".join(page) + "\n")


def as_far_as_time(rows: Iterator[list[Any]]) -> tuple[Rows, bool]:
    """Rows, and whether these are all."""
    found: Rows = []
    try:
        for row in rows:
            found.append(row)
    except OutOfTimeError:
        return found, False
    return found, True


if __name__ == "__main__":
    main()
