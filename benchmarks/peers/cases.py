"""Cases of the comparison, and one run of one simulator in a process of its own: CPU time, memory and answer as JSON.

Run: python -m benchmarks.peers.cases SIMULATOR CASE CUSTOMERS SEED
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

# cases ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """Model that all simulators run. what: its customers. answer: what is computed. rate: customers a second."""

    name: str
    what: str
    answer: str
    rate: float
    customers: int


LOSS_SERVERS, LOSS_PLACES, LOSS_RATE = 3, 10, 2.0
"""M/M/3/10: three servers of rate 1, ten customers at most in all; one who finds ten there is lost."""

TANDEM_RATE, TANDEM_SERVICES_S, TANDEM_PLACES = 1.0, (0.7, 0.6), 4
"""Two exponential servers with four places between them; a customer who cannot move on blocks the first server."""

PIPELINE_RATE, PIPELINE_SERVICE_S, PIPELINE_PLACES = 1e5, 5e-6, 1024
"""Pipeline source -> map -> sink: the map takes 5 microseconds (exponential) a record, so its load is 0.5."""

CASES = {
    "loss": Case("A: M/M/3/10 with loss", "customers", "mean wait [s]", LOSS_RATE, 100_000),
    "tandem": Case("B: blocking tandem", "customers", "mean sojourn [s]", TANDEM_RATE, 50_000),
    "pipeline": Case("C: source-map-sink at 100,000 records/s", "records", "mean sojourn [us]", PIPELINE_RATE, 100_000),
}


def expected(case: str) -> float:
    """Analytic value of the case's answer."""
    from benchmarks.validity import oracles  # heavy: would count as every simulator's memory

    if case == "loss":
        return oracles.loss_m_m_c_k(LOSS_SERVERS, LOSS_PLACES, LOSS_RATE, 1.0)[1]
    if case == "tandem":
        first, second = TANDEM_SERVICES_S
        return oracles.sojourn_blocking_tandem(TANDEM_RATE, (1 / first, 1 / second), TANDEM_PLACES)
    return 1e6 * oracles.sojourn_processor_sharing(PIPELINE_RATE * PIPELINE_SERVICE_S, PIPELINE_SERVICE_S)


# one run -------------------------------------------------------------------------------------------------------------


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
