"""The XML of hwloc's `lstopo`, versions 1 and 2: NUMA nodes by the cores that their sets of CPUs cover."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from streamtwin.connect.importers.hardware import Machine, relative
from twin.errors import BadInput

MEGA = 1e6


@dataclass(frozen=True, slots=True)
class _Node:
    number: int
    cpus: int
    memory_bytes: float


def read_lstopo(text: str, where: str) -> Machine:
    """Raises BadInput if it is no XML, or that of another tool."""
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
    for node in with_cores:  # of several memories at the same cores the first
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
    """A set of CPUs, as the bits of a number: 32-bit words, highest first."""
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
    """Between the chosen nodes, over the local one; None if it says nothing."""
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
