"""Runs an hour of a corpus of Costream's Table II. Run: python -m benchmarks.corpus_fanout [--runs N]

All is in it: starting the session (a JVM), drawing, simulating, traces on disk. Beside it, how much of the cores was
simulation, without the start of the session. On an idle machine.
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

CORE_RUNS_AN_HOUR = 27_500
SHARE = 0.8


def main() -> None:
    """Prints runs, seconds, and the share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1200)
    runs = parser.parse_args().runs
    cores = len(os.sched_getaffinity(0))
    make, spec = corpora.CorpusRecipe(runs, seed=0, space="costream").plan()
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        ready_s = time.monotonic()
        summary = write_corpus(spark, Path(folder) / "corpus", spec, make, simulate)
    share = summary.simulation_cpu_s / summary.wall_s / cores
    row = (runs, summary.failed, ready_s - started_s, summary.wall_s, summary.simulation_cpu_s, share)
    header = ("runs", "failed", "session s", "wall s", "simulation CPU s", "share of cores")
    print_table(f"a corpus on {cores} cores (limit of the share: {SHARE})", header, [row])
    hourly, least = 3600 * runs / (ready_s - started_s + summary.wall_s), cores * CORE_RUNS_AN_HOUR
    print(f"\n{hourly:.0f} runs an hour (limit {least}): {'kept' if hourly >= least else 'NOT KEPT'}")


if __name__ == "__main__":
    main()
