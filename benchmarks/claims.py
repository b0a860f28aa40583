"""What optimizers answer and claim, on random jobs: beside the given plan in runs, beside every plan under the model.

Run: python -m benchmarks.claims [--jobs N] [--first SEED] [--long N] [--minutes M]. Jobs are those of
`benchmarks.claimed_jobs`: on hosts or on sockets, one to three sources, given plans of all kinds. For each job and
optimizer: whether the answer is worse than the given plan in long simulated runs (by more than 2 % and twice the
standard error of the difference of paired runs), and whether status and bound are true under the rate model of every
plan of the space with the given numbers of replicas (of 6,000 at random where there are more) and, where numbers are
free, of 600 with random ones. Then the rate model beside the runs, by quantity. Last, RLAS in long runs beside plans
one change away and random ones, the most promising of each by the rate model. Jobs that are done are kept in .claims/,
so that an interrupted run goes on; any change of an optimizer or of the rate model begins anew."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.claim_checks import LOOKED_AT, SPACES, WORSE, judged, run_long
from benchmarks.kept import ROOT, Kept, OutOfTimeError
from benchmarks.table import print_table

ROWS = ROOT / ".claims" / "rows.jsonl"


def rows_of(kept: Kept, name: str, compute: Any, seeds: range) -> Iterator[list[Any]]:
    """A row a seed, until time is up."""
    for seed in seeds:
        try:
            yield kept.row((name, seed), partial(compute, seed))
        except OutOfTimeError:
            return


def tell_wrong(seed: int, found: dict[str, list[Any]]) -> None:
    """Prints what a job found wrong."""
    for name, row in found.items():
        if row and (row[0] or row[1]):
            print(f"job {seed}, {name}: worse by {row[0]:.1%}; {row[1] or 'nothing false'} ({row[2]})", flush=True)


def answers(found: list[dict[str, list[Any]]]) -> list[list[Any]]:
    """The table's rows, one an optimizer."""
    rows = []
    for name in SPACES:
        each = [row[name] for row in found if row[name]]
        worse, false = [row[0] for row in each], sum(bool(row[1]) for row in each)
        said = ", ".join(f"{count} {status}" for status, count in sorted(Counter(row[2] for row in each).items()))
        rows.append([name, len(each), sum(w > 0 for w in worse), max(worse, default=0.0), false, said])
    return rows


def factors(found: list[dict[str, float]]) -> list[list[Any]]:
    """The table's rows, one a quantity."""
    rows: list[list[Any]] = []
    for name in dict.fromkeys(quantity for each in found for quantity in each):
        each = [row[name] for row in found if name in row]
        mean = "agrees" in name
        rows.append(
            [name, len(each), *([float(np.mean(each)), ""] if mean else np.quantile(each, [0.5, 0.95]).tolist())]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--long", type=int, default=200, metavar="N", help="jobs on sockets whose plans are run long")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no job is begun")
    options = parser.parse_args()
    sources = [path for room in ("optimizers", "twin/rates") for path in (ROOT / room).rglob("*.py")]
    kept = Kept(ROWS, [*sources, *(ROOT / "benchmarks").glob("claim*.py")], options.minutes)
    found, errors = [], []
    for seed, row in enumerate(rows_of(kept, "job", judged, range(options.first, options.first + options.jobs))):
        tell_wrong(options.first + seed, row[0])
        found.append(row[0])
        errors.append(row[1])
    header = ["", "jobs", "worse than given", "by at most", "false claims", "status"]
    print_table("Answers in simulated runs, and claims under the rate model", header, answers(found))
    title = "The rate model beside runs of the given plan: factor, at least 1"
    print_table(title, ["", "jobs", "median", "95 %"], factors(errors))
    gains = []
    for seed, row in enumerate(rows_of(kept, "long", run_long, range(options.first, options.first + options.long))):
        if max(row) > WORSE:
            print(f"job {options.first + seed} on sockets: one change {row[0]:.1%}, at random {row[1]:.1%}", flush=True)
        gains.append(row)
    columns = np.array(gains or np.zeros((0, 2))).T
    names = ("one change", f"the best of {LOOKED_AT} random plans")
    rows = [
        [name, len(each), int((each > WORSE).sum()), float(each.max(initial=0.0))]
        for name, each in zip(names, columns, strict=True)
    ]
    print_table("RLAS in long runs", ["", "jobs", "beat RLAS by more than 2 %", "by at most"], rows)


if __name__ == "__main__":
    main()
