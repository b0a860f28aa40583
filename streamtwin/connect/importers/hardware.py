"""Makes a host of a tool's report on one machine: sockets are its NUMA nodes that have cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twin.cluster import Cluster
from twin.errors import BadInput
from twin.spec import parse

LOCAL_NS = 90.0
"""Assumed latency of a socket's own memory, where only relative distances are known: servers have 80 to 110."""
NETWORK = {"bandwidth_mbps": 10_000.0, "latency_ms": 0.1}
"""Assumed network of the host: none of these tools reports it."""

Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware of one machine. cores: by socket. ram_mb: of the whole machine. distances: relative, 1 on the diagonal;
    None: not known."""

    cores: tuple[int, ...]
    ram_mb: float
    distances: tuple[tuple[float, ...], ...] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryDistances:
    """Measurements between NUMA nodes, [accessing][memory]; None: not measured."""

    latency_ns: Matrix | None
    bandwidth_gbps: Matrix | None


def relative(values: Matrix, where: str) -> tuple[tuple[float, ...], ...]:
    """Distances relative to the local one. Raises BadInput if a node is nearer to another than to itself."""
    for i, row in enumerate(values):
        if not row[i] > 0 or min(row) < row[i]:
            raise BadInput(f"{where}: node {i} is nearer to another node than to itself; these are no distances")
    return tuple(tuple(value / row[i] for value in row) for i, row in enumerate(values))


def cluster_of(
    machine: Machine, memory: MemoryDistances | None, name: str, core_percent: float
) -> tuple[Cluster, list[str]]:
    """Cluster of one host, and notes on assumptions. core_percent: speed of one core; 100 is a reference core.

    Raises BadInput if the measurements are of a machine with other sockets.
    """
    notes = [*machine.notes, "bandwidth_mbps and latency_ms of the network are assumed; no tool says them"]
    host = {
        "name": name,
        "cpu_percent": core_percent * sum(machine.cores),
        "core_percent": core_percent,
        "ram_mb": machine.ram_mb,
        **NETWORK,
    }
    if len(machine.cores) > 1:
        _check_size(machine, memory)
        local = _local_gbps(memory)
        host["sockets"] = [
            {"cores": cores, **({} if local is None else {"bandwidth_gbps": local[i]})}
            for i, cores in enumerate(machine.cores)
        ]
        host["numa"] = _numa(machine, memory, notes)
    return parse(Cluster, {"hosts": [{k: v for k, v in host.items() if v is not None}]}, "the machine"), notes


def _check_size(machine: Machine, memory: MemoryDistances | None) -> None:
    for what in (memory.latency_ns, memory.bandwidth_gbps) if memory else ():
        if what is not None and len(what) != len(machine.cores):
            raise BadInput(
                f"the measurements are of {len(what)} nodes and the machine has {len(machine.cores)} with cores; "
                "are both of the same machine?"
            )


def _local_gbps(memory: MemoryDistances | None) -> list[float] | None:
    if memory is None or memory.bandwidth_gbps is None:
        return None
    return [row[i] for i, row in enumerate(memory.bandwidth_gbps)]


def _numa(machine: Machine, memory: MemoryDistances | None, notes: list[str]) -> dict[str, Matrix] | None:
    """Latency of a remote cache line beyond a local one (ns), and bandwidth (GB/s), if known: [memory][reader]."""
    latency = memory.latency_ns if memory else None
    if latency is None and machine.distances is not None:
        latency = [[LOCAL_NS * each for each in row] for row in machine.distances]
        notes.append(f"distances are relative; a local access is taken to need {LOCAL_NS:g} ns, measure it with mlc")
    if latency is None:
        notes.append("distances between sockets are not known; they are taken to be equally near")
        return None
    sides = range(len(latency))
    beyond = [[round(max(0.0, latency[to][start] - latency[to][to]), 1) for to in sides] for start in sides]
    found: dict[str, Matrix] = {"latency_ns": beyond}
    if memory is not None and memory.bandwidth_gbps is not None:
        found["bandwidth_gbps"] = [[memory.bandwidth_gbps[to][start] for to in sides] for start in sides]
    return found
