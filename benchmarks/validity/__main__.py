"""Regenerates the validity report. Run: python -m benchmarks.validity [--scale small] [--only theory ...]

Interrupt it at any time; the next call goes on from the cache. `--set dev` prints the comparisons on the development
sets and writes nothing; `--exact-only` makes the exact runs that are missing, cheapest first, which is nearly all the
work, and can go on in the background; `--pin` pins the digests by which tests notice a change of what exact simulation
computes; `--select` runs the rule that chose the seeds again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.table import print_table
from benchmarks.validity import pins, published, theory
from benchmarks.validity.agreement import Comparison, compare
from benchmarks.validity.agreement_tables import (
    bias_table,
    default_table,
    error_table,
    length_table,
    worst_table,
)
from benchmarks.validity.busy import busy_table, default_busy_table, worst_busy_table
from benchmarks.validity.cases import FAMILIES
from benchmarks.validity.invariants import determinism_table
from benchmarks.validity.laws import LAWS, laws_of
from benchmarks.validity.report import Report
from benchmarks.validity.runs import run_all
from benchmarks.validity.selection import PLACES, chosen, exact_jobs, select
from benchmarks.validity.store import EXACT, Store

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("theory", *FAMILIES, "published", "invariants")


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=ROOT / ".validity", help="folder of finished runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "validity.md")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--theory-scale", choices=("small", "full"), help="of theory, if not that of the rest")
    parser.add_argument("--set", choices=("heldout", "dev"), default="heldout", dest="which")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=SECTIONS, help="which sections")
    parser.add_argument("--exact-only", action="store_true", help="make the exact runs that are missing, and stop")
    parser.add_argument(
        "--without", nargs="*", choices=LAWS, default=(), help="with --exact-only: no runs that depend on these laws"
    )
    parser.add_argument("--pin", action="store_true", help="pin what exact simulation computes, and stop")
    parser.add_argument("--select", action="store_true", help="choose the seeds of all sets again, and stop")
    options = parser.parse_args()
    if options.pin:
        print(pins.pin())
        return
    store = Store(options.cache, EXACT)
    families = [family for family in FAMILIES if family in options.only]
    if options.select:
        for family, which in PLACES:
            if family in families:
                select(family, which, store, options.workers)
    elif options.exact_only:
        _run_exactly(options, families, store)
    elif options.which == "dev":
        for family in families:
            _show(compare(family, "dev", chosen(family, "dev", options.scale), store, options.workers))
    else:
        _write(options, families, store)


def _run_exactly(options: argparse.Namespace, families: list[str], store: Store) -> None:
    which, scale = options.which, options.scale
    jobs = [job for family in families for job in exact_jobs(which, chosen(family, which, scale))]
    if which == "heldout" and "theory" in options.only:
        jobs += theory.jobs(options.theory_scale or scale, "exact")
    if which == "heldout" and "published" in options.only and published.can_place_on_server_a():
        jobs += [job for (_, _, fidelity), job in published.jobs().items() if fidelity == "exact"]
    jobs = [job for job in jobs if not set(options.without) & set(laws_of(job.deployment))]
    run_all(jobs, store, options.workers, "exact runs")
    print(f"{len(jobs)} exact runs are in the store")


def _write(options: argparse.Namespace, families: list[str], store: Store) -> None:
    report, scale, workers = Report(options.out, options.scale), options.scale, options.workers
    if "theory" in options.only:
        seeds = options.theory_scale or scale
        report.theory(theory.examine(store, workers, seeds), theory.SEEDS[seeds])
    for family in families:
        report.comparison(compare(family, "heldout", chosen(family, "heldout", scale), store, workers))
    if "published" in options.only and published.can_place_on_server_a():
        report.distances(published.distances(store, workers))
    if "invariants" in options.only:
        report.invariants(determinism_table(scale), store.used)
    report.write()
    print(options.out)


def _show(found: Comparison) -> None:
    counts = f"{found.rich.sum()} of {len(found.cases)} with enough results, {found.behind.sum()} backpressured"
    at_length, by_default = found.at_length(), found.by_default()
    length = [] if at_length is None else [("fast runs of 240 s, where they keep up", length_table(at_length))]
    for title, table in (
        (f"{found.family}: q-error median / p95 / max; {counts}", error_table(found)),
        *([] if by_default is None else [("runs by default", default_table(by_default))]),
        *([] if by_default is None else [("runs by default: shares of time", default_busy_table(by_default))]),
        *length,
        ("shares of time: operators within the limit; points off, p95 / max", busy_table(found)),
        ("furthest off with a share of time", worst_busy_table(found)),
        ("bias: geometric mean of fast / exact (p95 of q-error)", bias_table(found)),
        ("furthest off: fast / exact (exact / exact)", worst_table(found)),
    ):
        print_table(title, table[0], table[1:])


if __name__ == "__main__":
    main()
