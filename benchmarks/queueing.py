"""Exact and fast simulation against queueing theory. Run: python -m benchmarks.queueing [--seeds N]

Exact runs should agree with the Pollaczek-Khinchine mean wait within 4 standard errors, fast ones within 7 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.table import print_table
from tests.twin.test_theory import pollaczek_khinchine_s, waits_s

KINDS = {"M/D/1": 0.0, "M/G/1 (scv 0.25)": 0.25, "M/M/1": 1.0}
LOADS = (0.5, 0.8, 0.95)


def row(kind: str, load: float, seeds: int) -> tuple[object, ...]:
    """One line: theory, both means with the deviation in standard errors (exact) and in percent (fast)."""
    scv = KINDS[kind]
    expected = pollaczek_khinchine_s(load, scv)
    exact = waits_s(load, scv, "exact", seeds, tuples=int(8_000 / (1 - load)))
    fast = waits_s(load, scv, "fast", seeds, tuples=240_000)
    error = exact.std(ddof=1) / np.sqrt(seeds)
    fast_error = fast.std(ddof=1) / np.sqrt(seeds)
    return (
        kind,
        load,
        1e3 * expected,
        1e3 * exact.mean(),
        (exact.mean() - expected) / error,
        1e3 * fast.mean(),
        100 * (fast.mean() / expected - 1),
        100 * fast_error / expected,
    )


def main() -> None:
    """Prints the table over kinds and loads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    seeds = parser.parse_args().seeds
    rows = [row(kind, load, seeds) for kind in KINDS for load in LOADS]
    header = ("queue", "load", "theory ms", "exact ms", "off by s.e.", "fast ms", "off by %", "fast s.e. %")
    print_table(f"mean wait at 1,000 tuples/s, {seeds} seeds", header, rows)
    worst_exact, worst_fast = max(abs(float(r[4])) for r in rows), max(abs(float(r[6])) for r in rows)  # type: ignore[arg-type]
    print(f"\nworst: exact {worst_exact:.2f} standard errors (limit 4), fast {worst_fast:.1f} % (limit 7)")


if __name__ == "__main__":
    main()
