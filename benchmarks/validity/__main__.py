"""Regenerates the validity report. Run: python -m benchmarks.validity [--scale small] [--only theory ...]

Interrupt it at any time; the next call goes on from the cache. `--pin` pins the digests by which tests notice a change
of what simulation computes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.validity import invariants, theory
from benchmarks.validity.invariants import determinism_table, plain_table
from benchmarks.validity.report import Report

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("theory", "plain", "invariants")


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=ROOT / ".validity", help="folder of finished runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "validity.md")
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=SECTIONS, help="which sections")
    parser.add_argument("--pin", action="store_true", help="pin what simulation computes, and stop")
    options = parser.parse_args()
    if options.pin:
        print(invariants.pin())
        return
    report = Report(options.out, options.scale)
    if "theory" in options.only:
        report.theory(theory.examine(options.cache, options.scale))
    if "plain" in options.only:
        report.plain(plain_table(options.scale))
    if "invariants" in options.only:
        report.invariants(determinism_table(options.scale))
    report.write()
    print(options.out)


if __name__ == "__main__":
    main()
