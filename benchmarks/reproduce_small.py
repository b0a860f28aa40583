"""How long `twin reproduce EXPERIMENT --scale small` takes, experiment after experiment in one workspace.

Run: python -m benchmarks.reproduce_small [EXPERIMENT ...]. The first one simulates the main corpus, and trains what the
others share with it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import print_table
from papers.registry import chosen


def measure(names: Sequence[str]) -> list[tuple[str, float]]:
    """Each experiment's name, and the wall seconds of its command."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        places = ("--out", str(Path(folder) / "out"), "--work", str(Path(folder) / "work"))
        for experiment in chosen(names or ["all"]):
            command = [sys.executable, "-m", "streamtwin.cli.app", "reproduce", experiment.name, *places]
            started_s = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            rows.append((experiment.name, time.monotonic() - started_s))
    return rows


if __name__ == "__main__":
    print_table("published experiments, small", ("experiment", "wall s"), measure(sys.argv[1:]))
