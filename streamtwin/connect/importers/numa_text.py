"""What `numactl --hardware` and Intel's `mlc` print."""

from __future__ import annotations

import re

from streamtwin.connect.importers.hardware import Machine, MemoryDistances, relative
from twin.errors import BadInput

MLC_PARTS = {"latency": "idle latencies", "bandwidth": "Memory Bandwidths between nodes"}


def read_numactl(text: str, where: str, threads_per_core: int) -> Machine:
    """threads_per_core: it lists processing units alone. Raises BadInput if it is something else, or cut off."""
    cpus = {int(n): _units(listed, where) for n, listed in re.findall(r"^node (\d+) cpus:([\d\s,-]*)$", text, re.M)}
    sizes = {int(n): float(mb) for n, mb in re.findall(r"^node (\d+) size:\s*(\d+) MB", text, re.M)}
    if not cpus or not sizes:
        raise BadInput(f"{where} is not what 'numactl --hardware' prints; it has no lines such as 'node 0 cpus: 0 1'")
    chosen = [node for node in sorted(cpus) if cpus[node]]
    odd = [node for node in chosen if cpus[node] % threads_per_core]
    if odd:
        raise BadInput(
            f"{where}: node {odd[0]} has {cpus[odd[0]]} units, no multiple of --threads-per-core {threads_per_core}"
        )
    _, _, table = text.partition("node distances:")
    rows = _matrix(table, r"\s*(\d+):\s+([\d\s]+)$")
    order = sorted(rows)
    if rows and (any(len(row) != len(rows) for row in rows.values()) or not set(chosen) <= set(rows)):
        raise BadInput(f"{where}: the table of distances is not {len(cpus)} x {len(cpus)}; print it again")
    alone = len(cpus) - len(chosen)
    notes = [f"{alone} of {len(cpus)} NUMA nodes have memory alone; left out"] if alone else []
    if threads_per_core == 1:
        notes.append("processing units count as cores; say --threads-per-core 2 where cores have two")
    distances = [[rows[i][order.index(j)] for j in chosen] for i in chosen] if rows else None
    return Machine(
        cores=tuple(cpus[node] // threads_per_core for node in chosen),
        ram_mb=sum(sizes.values()) * 1.048576,
        distances=relative(distances, where) if distances else None,
        notes=tuple(notes),
    )


def _units(listed: str, where: str) -> int:
    """How many processing units a list such as '0 1 2 3', or '0-3', names."""
    ends = [re.fullmatch(r"(\d+)(?:-(\d+))?", each) for each in re.split(r"[\s,]+", listed.strip()) if each]
    if None in ends:
        raise BadInput(f"{where}: {listed.strip()!r} is no list of processing units; print it again")
    return sum(int(each[2] or each[1]) - int(each[1]) + 1 for each in ends if each is not None)


def read_mlc(text: str, where: str) -> MemoryDistances:
    """Idle latencies and bandwidths between nodes. Raises BadInput if there is neither, or a table is not square."""
    found = {name: _mlc_table(text, heading, where) for name, heading in MLC_PARTS.items()}
    if not any(found.values()):
        raise BadInput(f"{where} is not what 'mlc --latency_matrix' or 'mlc --bandwidth_matrix' prints; no table in it")
    bandwidth = found["bandwidth"]
    return MemoryDistances(
        latency_ns=found["latency"],
        bandwidth_gbps=None if bandwidth is None else [[value / 1000 for value in row] for row in bandwidth],
    )


def _mlc_table(text: str, heading: str, where: str) -> list[list[float]] | None:
    """Rows are of nodes with cores; columns of others, which have memory alone, are left out."""
    _, present, rest = text.partition(heading)
    if not present:
        return None
    header = re.search(r"^\s*Numa node((?:\s+\d+)+)\s*$", rest, re.M | re.I)
    if header is None:
        raise BadInput(f"{where}: no table of NUMA nodes below {heading!r}; print it again")
    columns = [int(each) for each in header.group(1).split()]
    rows = _matrix(rest[header.end() :], r"\s*(\d+)\s+(\d+(?:\.\d+)?(?:\s+\d+(?:\.\d+)?)*)\s*$")
    if not rows or any(len(row) != len(columns) for row in rows.values()) or not set(rows) <= set(columns):
        raise BadInput(f"{where}: the table below {heading!r} is cut off; print it again")
    return [[rows[i][columns.index(j)] for j in sorted(rows)] for i in sorted(rows)]


def _matrix(text: str, line: str) -> dict[int, list[float]]:
    """Rows by number, until the first line that is none."""
    rows: dict[int, list[float]] = {}
    for each in text.splitlines():
        found = re.match(line, each)
        if found:
            rows[int(found.group(1))] = [float(value) for value in found.group(2).split()]
        elif rows:
            break
    return rows
