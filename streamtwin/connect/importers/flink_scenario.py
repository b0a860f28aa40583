"""Makes a scenario of a running Flink job: one operator a vertex, at the rates that were read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.files.documents import CLOSED
from streamtwin.connect.importers.flink_cpu import HostUse, busy_of, uses_of
from streamtwin.connect.importers.flink_job import CALLS, FlinkJob, TaskManagers, Vertex
from streamtwin.connect.importers.flink_windows import (
    JOINS,
    SECONDS,
    calls,
    gap_s_in,
    keys_of,
    matching,
    sessions,
    window_in,
)
from twin.errors import BadInput
from twin.keys import contiguous
from twin.kinds.registry import BY_KIND
from twin.profiles import FLINK
from twin.scenario import Scenario
from twin.spec import parse

SHIPPING = {
    "FORWARD": "forward",
    "HASH": "hash",
    "REBALANCE": "rebalance",
    "BROADCAST": "broadcast",
    "GLOBAL": "global",
}
BANDWIDTH_MBPS, LATENCY_MS = 10_000.0, 0.1
"""Assumed network between machines."""
SLOWED = 0.05
"""Share of its time beyond which a backpressured source delivers less than it is offered."""
UNEVEN = 5.0
"""Number of standard deviations beyond chance from which on inputs of replicas count as uneven."""
ONE_FOR_ONE = 0.01
"""Distance to 1 below which a ratio of output to input counts as 1: counters are read at different moments."""
WINDOWS = re.compile("Window|Join|CoGroup")
"""Words in the descriptions of operators that hold records, whatever their inputs."""
UNREAD = "Flink's plan does not tell what it does with keys, windows or several inputs"
ASSUMED = (
    f"bandwidth_mbps {BANDWIDTH_MBPS:g} and latency_ms {LATENCY_MS:g} of the network are assumed; Flink says neither",
    "arrivals are taken as constant; Flink does not say how they vary",
)
BUFFER = "taskmanager.memory.segment-size"
TIMEOUT = "execution.buffer-timeout"
NETWORK_MEMORY = "taskmanager.network.memory."
"""Prefix of options of Flink's configuration whose names and defaults the profile's `network_memory` has."""


@CLOSED
@dataclass(frozen=True, slots=True)
class ImportedJob:
    """The answer of `twin import flink`. readings: rows of one operating point, as `twin calibrate` takes them."""

    scenario: Scenario
    readings: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def scenario_of(job: FlinkJob, offered_per_s: Mapping[str, float]) -> ImportedJob:
    """Scenario of a running Flink job. offered_per_s: rates that arrive at sources, by name, where these are known to

    differ from what the sources deliver. Raises BadInput for names of no source, or a job that makes no valid scenario.
    """
    names = names_of(job.vertices)
    consumers = {each.id: [other for other in job.vertices if each.id in dict(other.inputs)] for each in job.vertices}
    notes = [*job.notes, *renamed(job.vertices, names)]
    operators, streams, placement, arrivals = [], [], {}, {}
    hosts = [machine.name for machine in job.machines]
    places = {each.id: _places(each, hosts, number, notes) for number, each in enumerate(job.vertices)}
    uses = uses_of(job, places, names, notes)
    for vertex in job.vertices:
        name, last = names[vertex.id], not consumers[vertex.id]
        busy = busy_of(vertex, places[vertex.id], uses)
        operators.append({"name": name, **_kind(vertex, job, last, notes), **_cost(vertex, busy)})
        placement[name] = places[vertex.id]
        streams += [_stream(names[producer], name, how, notes) for producer, how in vertex.inputs]
        if not vertex.inputs:
            arrivals[name] = _offered(name, vertex, offered_per_s, notes)
        if last and (not vertex.inputs or not BY_KIND[operators[-1]["kind"]].is_sink):
            _end(name, operators, streams, placement)
    unknown = sorted(set(offered_per_s) - set(arrivals))
    if unknown:
        raise BadInput(f"--offered {unknown[0]}: no such source; there are {', '.join(arrivals)}")
    data = {
        "name": re.sub(r"\s+", "-", job.name) or "flink-job",
        "description": _description(job),
        "query": {"operators": operators, "streams": streams},
        "cluster": {"hosts": [_host(each, uses[each.name]) for each in job.machines]},
        "plan": {"placement": placement},
        "workload": {
            "arrivals": {k: {"law": "constant", "rate_per_s": v} for k, v in arrivals.items()},
            "keys": _keys(job, names, operators, notes),
        },
        "engine": _engine(job),
    }
    rows = [_reading(names[each.id], each, arrivals) for each in job.vertices]
    rows += [{"host": name, **_of_host(use)} for name, use in uses.items() if _of_host(use)]
    return ImportedJob(parse(Scenario, data, where=job.name), tuple(rows), (*notes, *ASSUMED))


def names_of(vertices: tuple[Vertex, ...]) -> dict[str, str]:
    """Unique names of operators, by vertex, from the free text that names vertices."""
    found: dict[str, str] = {}
    for vertex in vertices:
        plain = re.sub(r"\b(Source|[Ss]ink): ", "", vertex.name).replace(" -> ", "-").replace(": ", ".")
        letters = unicodedata.normalize("NFC", plain).replace(" ", "_")
        name = re.sub(r"[^\w.-]+", "", letters).strip("-_.") or "vertex"
        taken = sum(each == name or each.startswith(f"{name}#") for each in found.values())
        found[vertex.id] = f"{name}#{taken + 1}" if taken else name
    return found


def renamed(vertices: tuple[Vertex, ...], names: Mapping[str, str]) -> list[str]:
    """Notes on vertices that share a name, or whose name has letters that names of operators cannot have."""
    return [
        f"{each.name} is called {names[each.id]}"
        for each in vertices
        if set(names[each.id]) - set(each.name) - {"_"} or not each.name.isascii()
    ]


def _kind(vertex: Vertex, job: FlinkJob, last: bool, notes: list[str]) -> dict[str, Any]:
    """Kind of an operator, and the fields that only this kind has."""
    text, ratio = " ".join(vertex.steps), vertex.out_per_s / vertex.in_per_s if vertex.in_per_s else None
    window, gap_s = window_in(text), gap_s_in(text)
    keyed = any(how == "HASH" for _, how in vertex.inputs)
    state = {"key_groups": vertex.key_groups, **_state(job)} if keyed else {}
    if not vertex.inputs:
        if vertex.out_per_s <= 0 and not last:
            raise BadInput(
                f"{vertex.name}: the source has delivered nothing in this time; import the job while it runs"
            )
        return {"kind": "source"}
    if window is not None and JOINS.search(text):
        return {"kind": "join", "window": window, **matching(vertex, job, window, notes)}
    if window is not None:
        slide_s = window.get("slide_s", window["size_s"])
        told = 0 if last else round(vertex.out_per_s * slide_s)
        groups = keys_of(vertex, told, "groups", notes) if keyed else 1
        return {"kind": "aggregate", "window": window, "group_by": "int" if keyed else None, "groups": groups, **state}
    if gap_s is not None:
        return sessions(vertex, gap_s, notes)
    unread = keyed or len(vertex.inputs) > 1 or WINDOWS.search(text) is not None
    if last:
        if unread and len(vertex.steps) > 1:
            notes.append(f"{vertex.name}: {UNREAD}; taken as a sink")
        return {"kind": "sink"}
    if CALLS in vertex.steps:
        return calls(vertex, notes)
    if ratio is None:
        notes.append(f"{vertex.name}: nothing came in, so what leaves it is unknown; taken as one for one")
    if ratio is None or abs(ratio - 1.0) < ONE_FOR_ONE:
        ratio = 1.0
    hashed = all(how == "HASH" for _, how in vertex.inputs)
    kind = "filter" if ratio < 1.0 and not hashed else "map"
    if unread:
        notes.append(f"{vertex.name}: {UNREAD}; taken as a {kind} of selectivity {ratio:.3g}, as at these rates")
    return {"kind": kind, "selectivity": ratio, **(state if hashed else {})}


def _keys(
    job: FlinkJob, names: Mapping[str, str], operators: list[dict[str, Any]], notes: list[str]
) -> dict[str, dict[str, list[float]]]:
    """Shares of key groups where replicas got tuples unevenly: a replica's share, divided by its groups with keys."""
    found = {}
    for vertex, given in zip(job.vertices, (each for each in operators if each["name"] in names.values()), strict=True):
        groups, replicas = given.get("key_groups"), vertex.replicas
        if groups is None or len(vertex.dealt) != replicas or not sum(vertex.dealt):
            continue
        if not _uneven(np.array(vertex.dealt)):
            continue
        owners = np.array(contiguous(groups, replicas))
        filled = parse(BY_KIND[given["kind"]], given).values_by_key_group(groups) > 0
        count = np.bincount(owners, filled, minlength=replicas)
        if any(dealt and not keys for dealt, keys in zip(vertex.dealt, count.tolist(), strict=True)):
            notes.append(
                f"{vertex.name}: its replicas share the input unevenly, in a way that its groups do not explain"
            )
            continue
        shares = np.where(filled, np.array(vertex.dealt)[owners] / np.maximum(count, 1.0)[owners], 0.0)
        found[names[vertex.id]] = {"shares": shares.tolist()}
    return found


def _uneven(dealt: np.ndarray) -> bool:
    """Whether counts are uneven, by Pearson's chi-square, whose mean is the count's length less 1, its variance twice
    that."""
    mean, free = dealt.mean(), len(dealt) - 1
    return bool(((dealt - mean) ** 2).sum() / mean > free + UNEVEN * (2 * free) ** 0.5)


def _state(job: FlinkJob) -> dict[str, float]:
    """State of a key group: the last checkpoint, divided evenly among the key groups of all keyed vertices."""
    keyed = sum(each.key_groups for each in job.vertices if any(how == "HASH" for _, how in each.inputs))
    return {"state_bytes_per_group": job.state_bytes / keyed} if job.state_bytes and keyed else {}


def _cost(vertex: Vertex, busy: float | None) -> dict[str, float]:
    """Service time and size of a tuple, where they can be read. busy: sum over subtasks, without waiting for cores."""
    taken = vertex.in_per_s if vertex.inputs else vertex.out_per_s
    found = {}
    if busy is not None and taken > 0:
        found["service_time_s"] = busy / taken
    if vertex.out_per_s > 0 and vertex.out_bytes_per_s > 0:
        found["tuple_bytes"] = vertex.out_bytes_per_s / vertex.out_per_s
    return found


def _places(vertex: Vertex, hosts: list[str], number: int, notes: list[str]) -> list[str]:
    if len(vertex.hosts) == vertex.replicas:
        return list(vertex.hosts)
    notes.append(f"{vertex.name}: where its subtasks are is not known; they are dealt to the machines in turn")
    return [hosts[(number + each) % len(hosts)] for each in range(vertex.replicas)]


def _stream(producer: str, consumer: str, how: str, notes: list[str]) -> dict[str, str]:
    if how not in SHIPPING:
        notes.append(f"{producer} -> {consumer}: it ships by {how or 'nothing known'}; taken as rebalance")
    return {"producer": producer, "consumer": consumer, "partitioning": SHIPPING.get(how, "rebalance")}


def _offered(name: str, vertex: Vertex, offered_per_s: Mapping[str, float], notes: list[str]) -> float:
    if name in offered_per_s:
        return offered_per_s[name]
    if (vertex.backpressured or 0.0) > SLOWED:
        notes.append(
            f"{name}: backpressured {vertex.backpressured:.0%} of its time, so more is offered than the "
            f"{vertex.out_per_s:,.0f} tuples/s that it delivers; say how much with --offered {name}=RATE"
        )
    return max(vertex.out_per_s, 1e-6)


def _end(name: str, operators: list[Any], streams: list[Any], placement: dict[str, list[str]]) -> None:
    """Adds a sink that costs nothing, for a last vertex that has its sink in its chain."""
    end = f"{name}#sink"
    operators.append({"name": end, "kind": "sink", "service_time_s": 0.0})
    streams.append({"producer": name, "consumer": end, "partitioning": "forward"})
    placement[end] = placement[name]


def _host(machine: TaskManagers, use: HostUse) -> dict[str, Any]:
    network = {"bandwidth_mbps": BANDWIDTH_MBPS, "latency_ms": LATENCY_MS}
    cpu = {"cpu_percent": 100.0 * (machine.cores + use.asleep), "others_percent": 100.0 * use.others}
    return {"name": machine.name, "ram_mb": machine.ram_mb, **cpu, **network}


def _of_host(use: HostUse) -> dict[str, float]:
    """Readings of a host at this point."""
    others = {"others_percent": 100.0 * use.others} if use.others or use.cpu is not None else {}
    return others if use.cpu is None else {"cpu": use.cpu, **others}


def _engine(job: FlinkJob) -> dict[str, Any]:
    """Profile `flink` with the job's own settings of buffers."""
    engine = FLINK.model_dump(mode="json")
    for name in engine["network_memory"]:
        key = NETWORK_MEMORY + name.replace("_", "-")
        if key in job.settings:
            try:
                engine["network_memory"][name] = float(job.settings[key])
            except ValueError:
                raise BadInput(f"{key} is {job.settings[key]!r}; a number of buffers is expected") from None
    if BUFFER in job.settings:
        engine["buffer_bytes"] = _bytes(job.settings[BUFFER])
    if TIMEOUT in job.settings:
        found = re.fullmatch(r"(\d+) ?(ms|s|min)?", job.settings[TIMEOUT])
        if found is None:
            raise BadInput(f"{TIMEOUT} is {job.settings[TIMEOUT]!r}; a time such as '100 ms' is expected")
        engine["flush_s"] = max(1e-6, int(found.group(1)) * SECONDS[found.group(2) or "ms"])
    return engine


def _bytes(text: str) -> float:
    found = re.fullmatch(r"(\d+) ?(b|kb|mb|bytes)?", text.lower())
    if found is None:
        raise BadInput(f"{BUFFER} is {text!r}; a size such as '32kb' is expected")
    return float(found.group(1)) * {"kb": 1024, "mb": 1024**2}.get(found.group(2) or "", 1)


def _description(job: FlinkJob) -> str:
    chains = "; ".join(each.name for each in job.vertices if len(each.steps) > 1)
    version = f"Flink {job.version}" if job.version else "Flink"
    return f"Imported from {version}." + (f" Chained: {chains}." if chains else "")


def _reading(name: str, vertex: Vertex, arrivals: Mapping[str, float]) -> dict[str, Any]:
    row: dict[str, Any] = {"operator": name, "in_per_s": vertex.in_per_s, "out_per_s": vertex.out_per_s}
    if name in arrivals:
        row = {"operator": name, "offered_per_s": arrivals[name], "out_per_s": vertex.out_per_s}
    shares = {"busy": vertex.busy, "backpressured": vertex.backpressured}
    row |= {key: min(1.0, value) for key, value in shares.items() if value is not None}
    return row if vertex.marker_s is None else {**row, "marker_s": vertex.marker_s}
