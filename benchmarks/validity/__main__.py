"""Regenerates the validity report. Run: python -m benchmarks.validity [--scale small] [--set dev] ...

Interrupt it at any time; the next call goes on from the cache. `--set dev` prints the comparisons on the development
sets and writes nothing; `--select` runs the rule that chose the seeds again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.table import print_table
from benchmarks.validity.agreement import bias_table, compare, error_table, worst_table
from benchmarks.validity.cases import FAMILIES
from benchmarks.validity.selection import PLACES, chosen, select
from benchmarks.validity.store import Store

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=ROOT / ".validity", help="folder of finished runs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--set", choices=("heldout", "dev"), default="heldout", dest="which")
    parser.add_argument("--only", nargs="*", choices=FAMILIES, default=FAMILIES, help="which comparisons")
    parser.add_argument("--select", action="store_true", help="choose the seeds of all sets again, and stop")
    options = parser.parse_args()
    store = Store(options.cache)
    if options.select:
        for family, which in PLACES:
            if family in options.only:
                select(family, which, store, options.workers)
        return
    for family in options.only:
        found = compare(family, chosen(family, options.which, options.scale), store, options.workers)
        counts = f"{found.rich.sum()} of {len(found.cases)} with enough results, {found.behind.sum()} backpressured"
        for title, table in (
            (f"{family} {options.which}: q-error median / p95 / max; {counts}", error_table(found)),
            ("bias: geometric mean of fast / exact (p95 of q-error)", bias_table(found)),
            ("furthest off: fast / exact (exact / exact)", worst_table(found)),
        ):
            print_table(title, table[0], table[1:])


if __name__ == "__main__":
    main()
