"""Speed against peers, as ratios, with memory and error beside them. Run: python -m benchmarks.peers [--rounds N]

Simulators take turns within each round, so that a disturbance of the machine meets all of them; the best CPU time of
the rounds counts. Ciw is in the optional group `peers` (pip install -c constraints.txt -e '.[peers]'). YAFS is left
out: the package index offers no release of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict

import numpy as np

from benchmarks.peers import in_ciw
from benchmarks.peers.cases import CASES, SIMULATORS, expected
from benchmarks.table import print_table

LIMITS = (
    ("streamtwin", "Ciw 3.2.7", 30.0),
    ("streamtwin", "SimPy by hand", 10.0),
)
"""Least ratios of speeds of the first simulator to the second, in every case."""


def main() -> None:
    """Prints a table for each case, and the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of the customers, to try it out")
    options = parser.parse_args()
    speeds: dict[tuple[str, str], float] = {}
    for case in CASES:
        speeds |= _table(case, options.rounds, options.share)
    if not in_ciw.installed():
        print("\nCiw is not installed: pip install -c constraints.txt -e '.[peers]'")
    print()
    for first, second, least in LIMITS:
        for case in CASES:
            if (second, case) in speeds:
                ratio = speeds[first, case] / speeds[second, case]
                word = "kept" if ratio >= least else "NOT KEPT"
                print(f"{CASES[case].name}: {first} is {ratio:.2f} x {second} (limit {least:g}): {word}")


def _table(case: str, rounds: int, share: float) -> dict[tuple[str, str], float]:
    names = [name for name in SIMULATORS if "Ciw" not in name or in_ciw.installed()]
    customers = int(share * CASES[case].customers)
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for seed in range(rounds):
        for name in names:
            found[name].append(_run(name, case, customers, seed))
    speeds = {name: customers / min(each["cpu_s"] for each in runs) for name, runs in found.items()}
    theory, rows = expected(case), []
    for name, runs in found.items():
        answers = np.array([each["answer"] for each in runs])
        mean, error = float(answers.mean()), float(answers.std(ddof=1) / np.sqrt(rounds)) if rounds > 1 else np.nan
        speed, peak_mb = speeds[name], max(each["peak_mb"] for each in runs)
        off = 100 * (mean / theory - 1), 100 * error / theory
        rows.append((name, customers, speed, speed / speeds["SimPy by hand"], peak_mb, mean, *off))
    model = CASES[case]
    header = ("simulator", model.what, f"{model.what}/CPU s", "ratio", "peak MB", model.answer, "off by %", "s.e. %")
    print_table(f"{model.name}; {rounds} rounds; in theory {theory:.4g}", header, rows)
    return {(name, case): speed for name, speed in speeds.items()}


def _run(name: str, case: str, customers: int, seed: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.peers.cases", name, case, str(customers), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
