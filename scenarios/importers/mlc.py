"""A machine with sockets from what Intel's Memory Latency Checker prints (`mlc --latency_matrix --bandwidth_matrix`).

Its rows are the sockets that read, its columns the sockets whose memory is read. Idle latencies hold the local access
too, which is part of an operator's service times; so a remote cache line costs what it takes beyond a local one.
"""

from __future__ import annotations

import re
from pathlib import Path

from scenarios.files.scenario_file import read_text
from twin.cluster import Cluster
from twin.errors import BadInput
from twin.spec import parse

_TITLE = re.compile(r"latenc|bandwidth", re.IGNORECASE)
_ROW = re.compile(r"^\s*(\d+)((?:\s+\d+(?:\.\d+)?)+)\s*$")
MEGA_A_GIGA = 1000.0
"""It counts in megabytes a second."""


def read_mlc(path: Path, *, name: str, cores: int, clock_ghz: float | None, ram_mb: float) -> Cluster:
    """One host of as many sockets as the file has, each with `cores` reference cores.

    Raises BadInput if the file has no square matrix of latencies, or one of bandwidths of another size.
    """
    found = matrices(read_text(path), str(path))
    if "latency" not in found:
        raise BadInput(f"{path}: no matrix of latencies; give the output of: mlc --latency_matrix")
    latency, bandwidth = found["latency"], found.get("bandwidth")
    count = len(latency)
    sockets = [
        {"cores": cores, "clock_ghz": clock_ghz, "bandwidth_gbps": None if bandwidth is None else bandwidth[i][i]}
        for i in range(count)
    ]
    host = {
        "name": name,
        "cpu_percent": 100.0 * count * cores,
        "ram_mb": ram_mb,
        "bandwidth_mbps": 10_000.0,
        "latency_ms": 0.1,
        "sockets": sockets,
        "numa": {
            "latency_ns": beyond_local(latency),
            "bandwidth_gbps": None if bandwidth is None else turned(bandwidth),
        },
    }
    return parse(Cluster, {"hosts": [host]}, str(path))


def matrices(text: str, where: str) -> dict[str, list[list[float]]]:
    """Those of `latency` (ns) and `bandwidth` (GB/s), by reader, then by memory. Raises BadInput for one that is not
    square, or rows that do not count from 0."""
    found: dict[str, list[list[float]]] = {}
    what = ""
    for number, line in enumerate(text.splitlines(), 1):
        if title := _TITLE.search(line):
            what = "latency" if title.group().lower() == "latenc" else "bandwidth"
        elif what and (row := _ROW.match(line)):
            rows = found.setdefault(what, [])
            if int(row.group(1)) != len(rows):
                raise BadInput(
                    f"{where}: line {number}: row {row.group(1)} where {len(rows)} comes; give one run of mlc"
                )
            scale = 1.0 if what == "latency" else MEGA_A_GIGA
            rows.append([float(each) / scale for each in row.group(2).split()])
    for name, rows in found.items():
        if any(len(row) != len(rows) for row in rows) or len(rows) != len(next(iter(found.values()))):
            raise BadInput(f"{where}: the matrix of {name} is not square, or of another size; give whole tables")
    return found


def beyond_local(latency: list[list[float]]) -> list[list[float]]:
    """What a line from socket i's memory costs socket j beyond one of its own; 0 on the diagonal."""
    return turned([[max(0.0, ns - row[reader]) for ns in row] for reader, row in enumerate(latency)])


def turned(matrix: list[list[float]]) -> list[list[float]]:
    """By memory, then by reader."""
    return [list(column) for column in zip(*matrix, strict=True)]
