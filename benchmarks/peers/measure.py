"""One run of one simulator, in a process of its own: prints its CPU time, peak memory and answer as JSON.

Run: python -m benchmarks.peers.measure SIMULATOR CASE CUSTOMERS SEED
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

Simulator = Callable[[str, int, int], float]


def _kernel() -> Simulator:
    from benchmarks.peers import ours

    return ours.run


def _engine() -> Simulator:
    from benchmarks.peers import ours

    return ours.run_in_engine


def _by_hand() -> Simulator:
    from benchmarks.peers import by_hand

    return by_hand.run


def _ciw() -> Simulator:
    from benchmarks.peers import in_ciw

    return in_ciw.run


SIMULATORS: dict[str, Callable[[], Simulator]] = {
    "SimPy by hand": _by_hand,
    "kernel": _kernel,
    "engine": _engine,
    "Ciw 3.2.7": _ciw,
}


def main() -> None:
    """Imports before the clock starts; what is imported for one simulator does not weigh on another's memory."""
    name, case, customers, seed = sys.argv[1:]
    run = SIMULATORS[name]()
    run(case, 1000, 0)  # libraries that load on first use
    started_s = time.process_time()
    answer = run(case, int(customers), int(seed))
    cpu_s = time.process_time() - started_s
    print(json.dumps({"cpu_s": cpu_s, "peak_mb": _peak_mb(), "answer": answer}))


def _peak_mb() -> float:
    """Largest resident memory. By Linux's VmHWM where there is one: ru_maxrss would count the parent at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
