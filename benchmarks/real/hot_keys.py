"""Hot replicas of real Flink runs (ZeroTune's graphs): the busiest one's input, measured and by Flink's hashing.

    python -m benchmarks.real.hot_keys --data DIR

DIR holds `.graph` files. Judged are joins and aggregates of which about as many replicas reported as get any key: of
the others it is not known whether silent replicas got tuples. Nothing is fitted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.table import print_table
from streamtwin.connect.importers.graph_text import parse_graph
from streamtwin.connect.importers.run_keys import KEY_FIELDS, KEYS
from streamtwin.connect.importers.run_records import OperatorRecord, read_records
from twin.flink_keys import default_key_groups
from twin.keys import contiguous

REPORTED = (0.9, 1.1)
"""Of the replicas that get a key."""


def share_r(operator: OperatorRecord) -> np.ndarray:
    """What each replica gets of an operator's input. [replicas]"""
    keys, replicas = operator.fields.choice(KEY_FIELDS[operator.kind], KEYS), operator.parallelism
    groups = default_key_groups(replicas)
    return np.bincount(contiguous(groups, replicas), keys.by_group(groups), minlength=replicas)


def main() -> None:
    """One table: by how much the busiest replica gets more than the mean, and how far off that is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    files = sorted(parser.parse_args().data.rglob("*.graph"))
    runs = [read_records(parse_graph(file.read_text(encoding="utf-8"), str(file)), str(file)) for file in files]
    pairs = []
    for operator in (each for run in runs for each in run.operators if each.kind in KEY_FIELDS):
        share, took = share_r(operator), np.array([report.in_per_s or 0.0 for report in operator.reports])
        told = len(took) / np.count_nonzero(share)
        if operator.parallelism > 1 and REPORTED[0] <= told <= REPORTED[1] and took.sum() > 0:
            pairs.append((share.max() * operator.parallelism, took.max() / took.sum() * operator.parallelism))
    hashed, measured = np.array(pairs).T
    lines = [["measured", f"{np.median(measured):.2f}", ""]]
    for name, said in (("dealt evenly", np.ones_like(measured)), ("by Flink's hashing", hashed)):
        off = np.maximum(said / measured, measured / said)
        lines.append([name, f"{np.median(said):.2f}", "/".join(f"{each:.2f}" for each in np.quantile(off, [0.5, 0.9]))])
    header = ("busiest replica", "of the mean, median", "q-error, median/90 %")
    print_table(f"{len(pairs)} operators of {len(runs)} runs", header, lines)


if __name__ == "__main__":
    main()
