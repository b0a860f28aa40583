"""Makes a host of a tool's report on one machine: `lstopo`, `numactl` or Intel's Memory Latency Checker."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from twin.cluster import Cluster
from twin.errors import BadInput
from twin.spec import parse

# hosts ---------------------------------------------------------------------------------------------------------------
# Makes a host of a tool's report on one machine: sockets are its NUMA nodes that have cores.


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


# reports of tools ----------------------------------------------------------------------------------------------------
# Reads reports on a machine: of hwloc's `lstopo` (XML of versions 1 and 2), `numactl --hardware`, Intel's `mlc`.


MEGA = 1e6


@dataclass(frozen=True, slots=True)
class _Node:
    number: int
    cpus: int
    memory_bytes: float


def read_lstopo(text: str, where: str) -> Machine:
    """Machine in the XML of `lstopo`. Raises BadInput if the text is no XML, or that of another tool."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise BadInput(f"{where} is no XML ({error}); write it with: lstopo --of xml FILE") from None
    if root.tag != "topology":
        raise BadInput(f"{where} is XML of another tool (<{root.tag}>); write it with: lstopo --of xml FILE")
    try:
        return _machine(root, where)
    except (ValueError, OverflowError) as error:
        raise (
            error if isinstance(error, BadInput) else BadInput(f"{where} is damaged ({error}); write it again")
        ) from None


def _machine(root: ET.Element, where: str) -> Machine:
    objects = list(root.iter("object"))
    cores = [_bits(each) for each in objects if each.get("type") == "Core"]
    notes = []
    if not cores:
        cores = [_bits(each) for each in objects if each.get("type") == "PU"]
        notes.append("it lists no cores; each processing unit counts as one")
    if not cores:
        raise BadInput(f"{where} lists no cores; write it with: lstopo --of xml FILE")
    nodes = [_node(each) for each in objects if each.get("type") == "NUMANode"]
    with_cores = [node for node in nodes if any(core & node.cpus for core in cores)]
    if len(with_cores) < len(nodes):
        notes.append(f"{len(nodes) - len(with_cores)} of {len(nodes)} NUMA nodes have memory alone; left out")
    seen: dict[int, _Node] = {}
    for node in with_cores:  # the first, if the same cores have several memories
        seen.setdefault(node.cpus, node)
    chosen = list(seen.values())
    memory = sum(node.memory_bytes for node in nodes) or _total(objects)
    if not memory:
        raise BadInput(f"{where} does not say how much memory there is (local_memory); write it on the machine itself")
    return Machine(
        cores=tuple(sum(bool(core & node.cpus) for core in cores) for node in chosen) or (len(cores),),
        ram_mb=memory / MEGA,
        distances=_distances(root, nodes, chosen, where),
        notes=tuple(notes),
    )


def _bits(element: ET.Element) -> int:
    """Set of CPUs as the bits of a number, from 32-bit words, highest first."""
    found = 0
    for word in (element.get("cpuset") or "0x0").split(","):
        found = found << 32 | int(word or "0", 16)
    return found


def _node(element: ET.Element) -> _Node:
    return _Node(int(element.get("os_index", "0")), _bits(element), float(element.get("local_memory", "0")))


def _total(objects: list[ET.Element]) -> float:
    return sum(float(each.get("local_memory", "0")) for each in objects)


def _distances(
    root: ET.Element, nodes: list[_Node], chosen: list[_Node], where: str
) -> tuple[tuple[float, ...], ...] | None:
    """Distances between the chosen nodes, relative to the local one; None if the report has none."""
    found = next((each for each in root.iter("distances2") if each.get("type") == "NUMANode"), None)
    if found is not None:
        order = _numbers(found, "indexes")
        values = _numbers(found, "u64values")
        known = [node.number for node in nodes]
        numbers = [int(each) for each in order] if found.get("indexing") == "os" else known
    else:
        old = next((each for each in root.iter("distances") if int(each.get("nbobjs", "0")) == len(nodes)), None)
        if old is None or not nodes:
            return None
        values, numbers = (
            [float(each.get("value", "0")) for each in old.iter("latency")],
            [node.number for node in nodes],
        )
    size = len(numbers)
    if len(values) != size * size:
        raise BadInput(f"{where}: {len(values)} distances for {size} NUMA nodes; the file is damaged, write it again")
    places = [numbers.index(node.number) for node in chosen if node.number in numbers]
    if len(places) < len(chosen):
        return None
    return relative([[values[i * size + j] for j in places] for i in places], where)


def _numbers(element: ET.Element, tag: str) -> list[float]:
    return [float(each) for part in element.iter(tag) for each in re.findall(r"\d+(?:\.\d+)?", part.text or "")]


MLC_PARTS = {"latency": "idle latencies", "bandwidth": "Memory Bandwidths between nodes"}


def read_numactl(text: str, where: str, threads_per_core: int) -> Machine:
    """Machine in the output of `numactl --hardware`, which lists processing units, not cores. threads_per_core: units
    of a core. Raises BadInput if the text is something else, or cut off."""
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
    """Number of processing units in a list such as '0 1 2 3', or '0-3'."""
    ends = [re.fullmatch(r"(\d+)(?:-(\d+))?", each) for each in re.split(r"[\s,]+", listed.strip()) if each]
    if None in ends:
        raise BadInput(f"{where}: {listed.strip()!r} is no list of processing units; print it again")
    return sum(int(each[2] or each[1]) - int(each[1]) + 1 for each in ends if each is not None)


def read_mlc(text: str, where: str) -> MemoryDistances:
    """Idle latencies and bandwidths in output of `mlc`. Raises BadInput if there is neither, or a table is cut off."""
    found = {name: _mlc_table(text, heading, where) for name, heading in MLC_PARTS.items()}
    if not any(found.values()):
        raise BadInput(f"{where} is not what 'mlc --latency_matrix' or 'mlc --bandwidth_matrix' prints; no table in it")
    bandwidth = found["bandwidth"]
    return MemoryDistances(
        latency_ns=found["latency"],
        bandwidth_gbps=None if bandwidth is None else [[value / 1000 for value in row] for row in bandwidth],
    )


def _mlc_table(text: str, heading: str, where: str) -> list[list[float]] | None:
    """Square table between nodes with cores; columns of nodes with memory alone are left out. None if it is absent."""
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
    """Rows of a matrix by number, until the first line that is no row."""
    rows: dict[int, list[float]] = {}
    for each in text.splitlines():
        found = re.match(line, each)
        if found:
            rows[int(found.group(1))] = [float(value) for value in found.group(2).split()]
        elif rows:
            break
    return rows
