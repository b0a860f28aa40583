"""Runs one simulator once, in a process of its own: prints its CPU time, peak memory and answer as JSON.

Run: python -m benchmarks.peers.measure SIMULATOR CASE CUSTOMERS SEED
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from pkgutil import resolve_name

SIMULATORS = {
    "SimPy by hand": "benchmarks.peers.by_hand:run",
    "streamtwin": "benchmarks.peers.ours:run",
    "Ciw 3.2.7": "benchmarks.peers.in_ciw:run",
}
"""For each simulator, a function from case, customers and seed to the case's answer."""


def main() -> None:
    """Runs and prints. Imports come before the clock starts, and are of this simulator alone, for its memory."""
    name, case, customers, seed = sys.argv[1:]
    run = resolve_name(SIMULATORS[name])
    run(case, 1000, 0)  # libraries that load on first use
    started_s = time.process_time()
    answer = run(case, int(customers), int(seed))
    cpu_s = time.process_time() - started_s
    print(json.dumps({"cpu_s": cpu_s, "peak_mb": _peak_mb(), "answer": answer}))


def _peak_mb() -> float:
    """Largest resident memory [MB]: VmHWM on Linux, because ru_maxrss would count the parent at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
