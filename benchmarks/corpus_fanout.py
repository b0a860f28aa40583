"""How much of the cores a corpus spends in simulation. Run: python -m benchmarks.corpus_fanout [--runs N]

The limit to reach is 80 % of all cores over 500 runs of Costream's Table II, traces on disk included; the time to
start the session (a JVM) is printed beside it, not in it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.table import print_table
from scenarios.learning import corpora
from spark.corpus import write_corpus
from spark.session import session
from twin.simulation import simulate


def main() -> None:
    """Prints runs, seconds, and the share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    cores = len(os.sched_getaffinity(0))
    make, spec = corpora.plan(runs=runs, seed=0, space=None, scenario=None, horizon_s=None)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        ready_s = time.monotonic()
        summary = write_corpus(spark, Path(folder) / "corpus", spec, make, simulate)
    share = summary.simulation_cpu_s / summary.wall_s / cores
    row = (runs, summary.failed, ready_s - started_s, summary.wall_s, summary.simulation_cpu_s, share)
    header = ("runs", "failed", "session s", "wall s", "simulation CPU s", "share of cores")
    print_table(f"fan-out on {cores} cores (limit: 0.8)", header, [row])
    print(f"\n{3600 * runs / summary.wall_s:.0f} runs an hour")


if __name__ == "__main__":
    main()
