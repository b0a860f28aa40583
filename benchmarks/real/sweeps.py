"""Our own sweeps of a real Flink: a job of five vertices at several rates, calibrated, simulated, set beside.

    python -m benchmarks.real.sweeps --data DIR

DIR holds CSV files, a row a vertex and operating point: offered_rate_per_s, map_parallelism, vertex,
vertex_parallelism, in_per_s, out_per_s, busy_ms_per_s_accum and backpressured_ms_per_s_accum (sums over the instances).
Each file is a job of its own: source, filter, burn, window of one second over 64 keys, sink. `fit` predicts the points
it was fitted to; `left out` each from the others of its file.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import print_table
from scenarios.calibration.calibrate import calibrate, calibrate_as
from scenarios.calibration.point import Point
from scenarios.calibration.point_files import points_of
from scenarios.calibration.structures import Works
from twin.errors import BadInput
from twin.profiles import FLINK
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

NAMES = ("Source", "filter", "burn", "window", "sink")
SOURCE, BURN = "Source", "burn"
TUPLE_BYTES = 90.0
BUFFERS = {"channel_buffers": 2.0, "gate_buffers": 8.0}
"""Flink's own defaults, as that cluster had them."""


def job(cores: float) -> Scenario:
    """The job, on a machine of so many cores."""
    sized = {"tuple_bytes": TUPLE_BYTES}
    keyed = {"function": "sum", "group_by": "int", "groups": 64, "window": {"policy": "time", "size_s": 1.0}}
    operators = [
        {"name": "Source", "kind": "source", **sized},
        {"name": "filter", "kind": "filter", "selectivity": 0.9, **sized},
        {"name": "burn", "kind": "map", **sized},
        {"name": "window", "kind": "aggregate", **keyed, **sized},
        {"name": "sink", "kind": "sink"},
    ]
    ways = ("forward", "rebalance", "hash", "rebalance")
    host = {"name": "h", "cpu_percent": 100 * cores, "ram_mb": 12_000, "bandwidth_mbps": 10_000, "latency_ms": 0.05}
    data = {
        "query": {
            "operators": operators,
            "streams": [
                {"producer": a, "consumer": b, "partitioning": how}
                for a, b, how in zip(NAMES, NAMES[1:], ways, strict=False)
            ],
        },
        "cluster": {"hosts": [host]},
        "plan": {"placement": dict.fromkeys(NAMES, "h")},
        "workload": {"arrivals": {SOURCE: {"law": "constant", "rate_per_s": 1000}}},
        "engine": FLINK.model_dump(mode="json") | BUFFERS,
        "run": {"horizon_s": 40, "warmup_s": 20},
    }
    return parse(Scenario, data)


def points(path: Path, base: Scenario) -> list[Point]:
    """The operating points of one file."""
    with path.open() as file:
        rows = [_row(row) for row in csv.DictReader(file)]
    return points_of(rows, base, path.name)


def _row(row: dict[str, str]) -> dict[str, object]:
    share = 1000.0 * int(row["vertex_parallelism"])
    found: dict[str, object] = {
        "point": row["offered_rate_per_s"],
        "operator": row["vertex"],
        "out_per_s": float(row["out_per_s"]),
        "busy": min(1.0, float(row["busy_ms_per_s_accum"]) / share),
        "backpressured": min(1.0, float(row["backpressured_ms_per_s_accum"]) / share),
    }
    if row["vertex"] == SOURCE:
        return {**found, "offered_per_s": float(row["offered_rate_per_s"])}
    if row["vertex"] == BURN:
        found["plan.placement.burn"] = f"[{', '.join(['h'] * int(row['vertex_parallelism']))}]"
    return {**found, "in_per_s": float(row["in_per_s"])}


def compared(name: str, how: str, point: Point, applied: Scenario) -> list[object]:
    """A line: measured and simulated rate into the busy vertex, its busy share, and the source's backpressured one."""
    run = {each.operator: each for each in simulate(applied).operators}
    rate, busy, behind = run[BURN].rate_in_per_s, run[BURN].busy, run[SOURCE].backpressured
    measured = point.taken_per_s[BURN]
    return [
        name,
        point.name,
        how,
        f"{measured:.0f}",
        f"{rate / measured - 1:+.1%}",
        f"{100 * (busy - point.busy[BURN]):+.1f}",
        f"{100 * (behind - point.backpressured[SOURCE]):+.1f}",
    ]


def lines(name: str, measured: Sequence[Point]) -> list[list[object]]:
    """Of one file: each point fitted, and left out."""
    found = calibrate(measured)
    table = [compared(name, "fit", each, found.applied(each.scenario)) for each in measured]
    for left_out in measured:
        others = [each for each in measured if each is not left_out]
        try:
            fitted = calibrate_as(others, found, Works(others))
        except BadInput:  # one point of a file of two
            continue
        table.append(compared(name, "left out", left_out, fitted.applied(left_out.scenario)))
    return table


def main() -> None:
    """Prints one table, and its worst errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cores", type=float, default=2.0, help="of the machine")
    given = parser.parse_args()
    base = job(given.cores)
    table = [line for path in sorted(given.data.glob("*.csv")) for line in lines(path.stem, points(path, base))]
    header = ("file", "offered/s", "how", "into burn/s", "rate", "busy (points)", "source backpressured (points)")
    print_table("real Flink, measured against simulated", header, table)
    for how in ("fit", "left out"):
        chosen = [line for line in table if line[2] == how]
        worst = [max(abs(float(str(line[place]).rstrip("%"))) for line in chosen) for place in (4, 5, 6)]
        print(
            f"{how}: largest error of rates {worst[0]:.1f} %, busy {worst[1]:.1f} points, backpressured {worst[2]:.1f}"
        )


if __name__ == "__main__":
    main()
