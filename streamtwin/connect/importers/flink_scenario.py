"""Makes a scenario of a running Flink job: an operator or a chain a vertex, at the rates that were read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scenarios.files.documents import CLOSED
from streamtwin.connect.importers.flink_chain import LATE, once, plain_name, watermark_delay_s, without_numbers
from streamtwin.connect.importers.flink_job import FlinkJob, TaskManagers, Vertex
from streamtwin.connect.importers.flink_kinds import Head, kind_of
from streamtwin.connect.importers.flink_readings import (
    LONGEST_S,
    Flow,
    HostUse,
    Part,
    busy_of,
    checkpoints_of,
    flow_of,
    recovery_of,
    uses_of,
)
from twin.chaining import path_to, why_apart
from twin.errors import BadInput
from twin.flink_settings import BACKENDS, as_parts, configured, value
from twin.kinds.registry import BY_KIND, SOURCES
from twin.partitionings import PARTITIONINGS
from twin.scenario import Scenario
from twin.spec import parse
from twin.workload import contiguous

SHIPPING = {
    "FORWARD": "forward",
    "HASH": "hash",
    "REBALANCE": "rebalance",
    "RESCALE": "rescale",
    "BROADCAST": "broadcast",
    "GLOBAL": "global",
}
BANDWIDTH_MBPS, LATENCY_MS = 10_000.0, 0.1
"""Assumed network between machines."""
SLOWED = 0.05
"""Share of its time beyond which a backpressured source delivers less than it is offered."""
UNEVEN = 5.0
"""Number of standard deviations beyond chance from which on inputs of subtasks count as uneven."""
ASSUMED = (
    f"bandwidth_mbps {BANDWIDTH_MBPS:g} and latency_ms {LATENCY_MS:g} of the network are assumed; Flink says neither",
    "arrivals are taken as constant; Flink does not say how they vary",
)
ASSUMED_PER_S = 1000.0
"""Rate of a source of which nothing tells one."""
TTL = "table.exec.state.ttl"
WATERMARKS = "pipeline.auto-watermark-interval"
SET = ("engine.buffer_bytes", "engine.flush_s", "engine.network_memory", "engine.state_backend.kind")
"""Places in a scenario of what an imported job has of its configuration: buffers and where state is."""


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
    timed = {each.id: is_timed(job.vertices, each) for each in job.vertices}
    if not any(timed.values()):
        return _made(job, offered_per_s, timed)
    try:
        return _made(job, offered_per_s, timed)
    except BadInput as error:
        found = _made(job, offered_per_s, dict.fromkeys(timed, False))
        why = (
            f"windows over event time are taken as ones of processing time, as the twin cannot have them here: {error}"
        )
        return replace(found, notes=(*found.notes, why))


def _made(job: FlinkJob, offered_per_s: Mapping[str, float], timed: Mapping[str, bool]) -> ImportedJob:
    flow, names = flow_of(job.vertices), heads_of(job.vertices)
    notes, asks = [*job.notes, *renamed(job.vertices, names)], list[str]()
    named = _parts_named(job.vertices, flow, names)
    operators, streams = list[dict[str, Any]](), list[dict[str, Any]]()
    placement, arrivals = dict[str, list[str]](), dict[str, float]()
    hosts = [machine.name for machine in job.machines]
    places = {each.id: _places(each, hosts, number, notes) for number, each in enumerate(job.vertices)}
    uses = uses_of(job, places, names, notes)
    rows, heads = [], list[dict[str, Any]]()
    for vertex in job.vertices:
        name, parts = names[vertex.id], flow.parts[vertex.id]
        taken = parts[0].sent_per_s if not vertex.inputs else vertex.in_per_s
        if not vertex.inputs:
            arrivals[name] = _offered(name, vertex, taken, offered_per_s, notes, asks)
            taken = offered_per_s.get(name) if taken is None else taken
        inputs = _inputs(vertex, flow, named)
        last = not any(vertex.id in dict(other.inputs) for other in job.vertices)
        head = Head(
            vertex,
            name,
            tuple((each["input"] or each["producer"], rate) for each, rate in inputs),
            parts[0].sent_per_s,
            last,
            timed[vertex.id],
            _state_a_group(vertex, job),
            _ttl_s(job),
            notes,
            asks,
        )
        kind = kind_of(head)
        busy = busy_of(vertex, places[vertex.id], uses)
        size = _record_bytes(vertex)
        heads.append({"name": name, **kind, **_cost(busy, taken), **size})
        own = _behind(parts[1:], parts, named[vertex.id], size) if not BY_KIND[kind["kind"]].is_sink else []
        operators += [heads[-1], *(operator for operator, _ in own)]
        streams += [_stream(vertex, number, each, kind, notes) for number, (each, _) in enumerate(inputs)]
        streams += [{"producer": on, "consumer": each["name"], "partitioning": "forward"} for each, on in own]
        placement |= {each["name"]: places[vertex.id] for each in operators if each["name"] not in placement}
        rows.append(_reading(head, parts[0], taken, arrivals))
    _end(operators, streams, placement)
    notes += _told(job, flow, names)
    unknown = sorted(set(offered_per_s) - set(arrivals))
    if unknown:
        raise BadInput(f"--offered {unknown[0]}: no such source; there are {', '.join(arrivals)}")
    data = {
        "name": re.sub(r"\s+", "-", job.name) or "flink-job",
        "description": _description(job),
        "query": {"operators": _with_watermarks(job, operators), "streams": streams},
        "cluster": {"hosts": [_host(each, uses[each.name]) for each in job.machines]},
        "plan": {"placement": placement},
        "workload": {
            "arrivals": {k: {"law": "constant", "rate_per_s": v} for k, v in arrivals.items()},
            "keys": _keys(job, names, heads, notes),
        },
        "engine": _engine(job, notes),
        **checkpoints_of(job, notes),
    }
    scenario = _chained(parse(Scenario, data, where=job.name), data, job.vertices, flow, named)
    counted = all(row for row in rows)
    rows += [{"host": name, **_of_host(use)} for name, use in uses.items() if _of_host(use)]
    if asks:
        notes.append(f"Flink does not tell, so it is assumed; set what you know (--set): {'; '.join(asks)}")
    return ImportedJob(scenario, tuple(rows) if counted else (), (*notes, *ASSUMED))


# names, streams and chains -------------------------------------------------------------------------------------------


def heads_of(vertices: Sequence[Vertex]) -> dict[str, str]:
    """Unique names of the first operators of vertices, by vertex: of SQL by the planner's word or the table, which are
    the same at each submission; of others from the free text that names the vertex."""
    names = [each.chain[0].name if each.is_planned else plain_name(each.name) for each in vertices]
    return dict(zip((each.id for each in vertices), once(names), strict=True))


def renamed(vertices: tuple[Vertex, ...], names: Mapping[str, str]) -> list[str]:
    """Notes on vertices that share a name, or whose name has letters that names of operators cannot have. Those of SQL
    all have other names."""
    return [
        f"{each.name} is called {names[each.id]}"
        for each in vertices
        if not each.is_planned and (set(names[each.id]) - set(each.name) - {"_"} or not each.name.isascii())
    ]


def _parts_named(vertices: Sequence[Vertex], flow: Flow, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Names of all operators that each vertex becomes, the first one first."""
    inner = [(each, part) for each in vertices for part in flow.parts[each.id][1:]]
    called = [
        each.chain[part.step].name if each.is_planned or not part.is_sink else f"{names[each.id]}#sink"
        for each, part in inner
    ]
    taken = once([*names.values(), *called])[len(names) :]
    found = {each.id: [names[each.id]] for each in vertices}
    for (vertex, _), name in zip(inner, taken, strict=True):
        found[vertex.id].append(name)
    return {key: tuple(each) for key, each in found.items()}


def _inputs(vertex: Vertex, flow: Flow, named: Mapping[str, tuple[str, ...]]) -> list[tuple[dict[str, Any], float]]:
    """Streams into a vertex, with their rates. Several from one operator get names of their own."""
    found = []
    producers = [named[producer][flow.exits[vertex.id, number]] for number, (producer, _) in enumerate(vertex.inputs)]
    for number, producer in enumerate(producers):
        again = producers.count(producer) > 1
        side = (("left", "right") if len(producers) == 2 else range(1, len(producers) + 1))[number] if again else None
        stream = {"producer": producer, "consumer": named[vertex.id][0], "input": None if side is None else str(side)}
        found.append((stream, flow.rates[vertex.id, number]))
    return found


def _stream(
    vertex: Vertex, number: int, stream: dict[str, Any], kind: Mapping[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Stream into a vertex. What keeps keys takes all by key: also what Flink sends to its one subtask (GLOBAL)."""
    how = vertex.inputs[number][1]
    dealt, told = SHIPPING.get(how, "rebalance"), f"{stream['producer']} -> {stream['consumer']}: it ships by"
    if how not in SHIPPING:
        notes.append(f"{told} {how or 'nothing known'}; taken as rebalance")
    by_key = "keys" in kind or "key_groups" in kind or _by_event_time(kind)
    together = PARTITIONINGS[dealt].keeps_keys or PARTITIONINGS[dealt].whole
    if by_key and not together:
        notes.append(f"{told} {how or 'nothing known'}, and its consumer keeps keys; taken as hash")
    return {**stream, "partitioning": "hash" if by_key else dealt}


def _behind(
    parts: Sequence[Part], chain: Sequence[Part], names: Sequence[str], size: Mapping[str, float]
) -> list[tuple[dict[str, Any], str]]:
    """Operators behind the first one of a chain, each with the one that it follows. Their cost is the first one's."""
    found = []
    for number, part in enumerate(parts, start=1):
        before = chain[part.before or 0]
        free: dict[str, Any] = {"name": names[number], "service_time_s": 0.0}
        if part.is_sink:
            found.append((free | {"kind": "sink"}, names[part.before or 0]))
            continue
        ratio = (part.sent_per_s or 0.0) / (before.sent_per_s or 1.0)
        kind = {"kind": "filter" if ratio < 1.0 else "map", "selectivity": ratio}
        found.append(({**free, **kind, **size}, names[part.before or 0]))
    return found


def _chained(
    scenario: Scenario,
    data: dict[str, Any],
    vertices: Sequence[Vertex],
    flow: Flow,
    named: Mapping[str, tuple[str, ...]],
) -> Scenario:
    """Scenario in which what is one task of Flink is a chain, as far as the twin can chain it."""
    query, plan, chains = scenario.query, scenario.plan, []
    there = {each.name for each in query.operators}
    for vertex in vertices:
        names = named[vertex.id]
        chain: tuple[str, ...] = names[:1]
        for part, name in zip(flow.parts[vertex.id][1:], names[1:], strict=True):
            before = names[part.before or 0]
            if name in there and before in chain and not why_apart(query, plan, path_to(query, chain, before), name):
                chain = (*chain, name)
        if len(chain) > 1:
            chains.append(list(chain))
    return parse(Scenario, data | {"plan": data["plan"] | {"fused": chains}}, where=data["name"])


def _told(job: FlinkJob, flow: Flow, names: Mapping[str, str]) -> list[str]:
    """Notes on what counters do not tell apart, on where costs are, and on late records."""
    found = [f"{names[each]}: no counters tell its streams apart; taken as equal" for each in flow.guessed]
    found += [
        f"{names[each]}: counters do not tell which operator of its chain sends to which consumer; see to its streams"
        for each in flow.unplaced
    ]
    split = [names[each.id] for each in job.vertices if len(flow.parts[each.id]) > 1]
    if split:
        found.append(
            f"the cost of a chain is that of its first operator, as Flink measures it as one: {', '.join(split)}"
        )
    for vertex in job.vertices:
        looked_up = next((each for each in vertex.chain[1:] if each.word == "LookupJoin"), None)
        if looked_up is not None:
            found.append(
                f"{names[vertex.id]}: it looks up rows of a table outside; the time of that counts as its cost"
            )
        late = sum(each.counts.get(LATE, 0.0) for each in vertex.chain)
        if late > 0:
            found.append(f"{names[vertex.id]}: {late:,.3g} records/s are late; set the source's disorder_s")
    return found


# event time ----------------------------------------------------------------------------------------------------------


def is_timed(vertices: Sequence[Vertex], vertex: Vertex) -> bool:
    """Whether a vertex of a SQL query works in event time: watermarks come to it, and no time that its windows go by is
    that of processing."""
    above, ahead = {vertex.id: vertex}, [vertex]
    while ahead:
        ids = [producer for producer, _ in ahead.pop().inputs]
        new = [each for each in vertices if each.id in ids and each.id not in above]
        above |= {each.id: each for each in new}
        ahead += new
    texts = [step.text for each in above.values() for step in each.chain]
    if not vertex.inputs or not vertex.is_planned or all(watermark_delay_s(text) is None for text in texts):
        return False
    columns = {found for text in texts for found in re.findall(r"time_col=\[([^\]]*)\]", text)}
    processing = {found for text in texts for found in re.findall(r"PROCTIME\(\) AS (\w+)", text)}
    return not columns & processing


def _by_event_time(kind: Mapping[str, Any]) -> bool:
    """Whether an operator, or its window, goes by event time."""
    return "event" in (kind.get("time"), kind.get("window", {}).get("time"))


def _with_watermarks(job: FlinkJob, operators: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Operators of which sources have the delay and the interval of watermarks, if anything works in event time."""
    if not any(map(_by_event_time, operators)):
        return operators
    every_s = value(job.settings, WATERMARKS)
    interval = {} if every_s is None else {"watermark_interval_s": every_s}
    delays_s = [watermark_delay_s(step.text) for each in job.vertices for step in each.chain]
    slack_s = max((each for each in delays_s if each is not None), default=0.0)
    return [each | {"slack_s": slack_s} | interval if each["kind"] in SOURCES else each for each in operators]


# details -------------------------------------------------------------------------------------------------------------


def _keys(
    job: FlinkJob, names: Mapping[str, str], operators: Sequence[dict[str, Any]], notes: list[str]
) -> dict[str, dict[str, list[float]]]:
    """Shares of key groups where subtasks got records unevenly: a subtask's share, divided by its groups with keys."""
    found = {}
    for vertex, given in zip(job.vertices, operators, strict=True):
        groups, parallelism = given.get("key_groups"), vertex.parallelism
        if groups is None or len(vertex.dealt) != parallelism or not sum(vertex.dealt):
            continue
        if not _uneven(np.array(vertex.dealt)):
            continue
        owners = np.array(contiguous(groups, parallelism))
        filled = parse(BY_KIND[given["kind"]], given).values_by_key_group(groups) > 0
        count = np.bincount(owners, filled, minlength=parallelism)
        if any(dealt and not keys for dealt, keys in zip(vertex.dealt, count.tolist(), strict=True)):
            notes.append(
                f"{vertex.name}: its subtasks share the input unevenly, in a way that its groups do not explain"
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


def _state_a_group(vertex: Vertex, job: FlinkJob) -> float:
    """State of a key group (bytes), by the last checkpoint: that of its vertex, or the job's, divided evenly among the
    key groups of all keyed vertices."""
    if vertex.state_bytes is not None:
        return vertex.state_bytes / vertex.key_groups
    keyed = sum(each.key_groups for each in job.vertices if each.keyed)
    return job.state_bytes / keyed if keyed else 0.0


def _ttl_s(job: FlinkJob) -> float | None:
    """Time to live of the rows of a SQL query (s); None if they stay."""
    ttl_s: float | None = value(job.settings, TTL)
    return ttl_s


def _cost(busy: float | None, taken: float | None) -> dict[str, float]:
    """Service time of a record. busy: sum over subtasks, without waiting for cores. taken: records a second."""
    return {"service_time_s": busy / taken} if busy is not None and taken else {}


def _record_bytes(vertex: Vertex) -> dict[str, float]:
    """Size of the records that leave a vertex."""
    known = vertex.out_per_s > 0 and vertex.out_bytes_per_s > 0
    return {"record_bytes": vertex.out_bytes_per_s / vertex.out_per_s} if known else {}


def _places(vertex: Vertex, hosts: list[str], number: int, notes: list[str]) -> list[str]:
    if len(vertex.hosts) == vertex.parallelism:
        return list(vertex.hosts)
    notes.append(f"{vertex.name}: where its subtasks are is not known; they are dealt to the machines in turn")
    return [hosts[(number + each) % len(hosts)] for each in range(vertex.parallelism)]


def _offered(
    name: str,
    vertex: Vertex,
    taken: float | None,
    offered_per_s: Mapping[str, float],
    notes: list[str],
    asks: list[str],
) -> float:
    """Rate that arrives at a source. taken: what it delivers; None: no counter tells."""
    if name in offered_per_s:
        return offered_per_s[name]
    path = f"workload.arrivals.{name}.rate_per_s"
    if taken is None:
        why = f"nothing of its task crosses a channel; better, import with --offered {name}=RATE"
        asks.append(f"{path}={ASSUMED_PER_S:g} ({why})")
        return ASSUMED_PER_S
    if taken <= 0:
        raise BadInput(f"{vertex.name}: the source has delivered nothing in this time; import the job while it runs")
    if len(vertex.chain) > 1 and vertex.is_planned and not any(each.counts for each in vertex.chain):
        asks.append(f"{path}={taken:,.6g} (records that leave its chain, as its own counters are not in the answers)")
    if (vertex.backpressured or 0.0) > SLOWED:
        notes.append(
            f"{name}: backpressured {vertex.backpressured:.0%} of its time, so more is offered than the "
            f"{taken:,.0f} records/s that it delivers; say how much with --offered {name}=RATE"
        )
    return taken


def _end(operators: list[Any], streams: list[Any], placement: dict[str, list[str]]) -> None:
    """Adds a sink that costs nothing behind each operator that nobody reads: its sink is in its chain."""
    read = {each["producer"] for each in streams}
    for name in [each["name"] for each in operators if not BY_KIND[each["kind"]].is_sink and each["name"] not in read]:
        end = f"{name}#sink"
        streams.append({"producer": name, "consumer": end, "partitioning": "forward"})
        operators.append({"name": end, "kind": "sink", "service_time_s": 0.0})
        placement[end] = placement[name]


def _host(machine: TaskManagers, use: HostUse) -> dict[str, Any]:
    network = {"bandwidth_mbps": BANDWIDTH_MBPS, "latency_ms": LATENCY_MS}
    cpu = {"cpu_percent": 100.0 * (machine.cores + use.asleep), "others_percent": 100.0 * use.others}
    return {"name": machine.name, "ram_mb": machine.ram_mb, **cpu, **network}


def _of_host(use: HostUse) -> dict[str, float]:
    """Readings of a host at this point."""
    others = {"others_percent": 100.0 * use.others} if use.others or use.cpu is not None else {}
    return others if use.cpu is None else {"cpu": use.cpu, **others}


def _engine(job: FlinkJob, notes: list[str]) -> dict[str, Any]:
    """Profile `flink` with the job's own settings of buffers and state, and its recovery."""
    set_ = {path: each for path, each in configured(job.settings).values.items() if path.startswith(SET)}
    own = (job.checkpoint_config and job.checkpoint_config.state_backend) or ""  # a class; the job's goes before
    named = own.removeprefix("Embedded").removesuffix("StateBackend").lower()
    if named in BACKENDS:
        set_["engine.state_backend.kind"] = BACKENDS[named]
    if any(each.is_planned for each in job.vertices):
        set_["engine.rescaling.generated_ids"] = True
    if job.deployed_s is not None:
        set_["engine.rescaling.redeploy_s"] = round(min(job.deployed_s, LONGEST_S), 3)
    return {"profile": "flink", **as_parts(set_).get("engine", {}), **recovery_of(job, notes)}


def _description(job: FlinkJob) -> str:
    chains = "; ".join(without_numbers(each.name) for each in job.vertices if len(each.steps) > 1)
    version = f"Flink {job.version}" if job.version else "Flink"
    return f"Imported from {version}." + (f" Chained: {chains}." if chains else "")


def _reading(head: Head, first: Part, taken: float | None, arrivals: Mapping[str, float]) -> dict[str, Any]:
    """Readings of a vertex, at the first of its operators; none of a source of which no counter tells the rate."""
    vertex = head.vertex
    row: dict[str, Any] = {"operator": head.name}
    if not vertex.inputs:
        if taken is None:
            return {}
        row |= {"offered_per_s": arrivals[head.name]}
    else:
        row |= {"in_per_s": vertex.in_per_s}
    sent = vertex.out_per_s if len(vertex.chain) == 1 and first.sent_per_s is None else first.sent_per_s
    row |= {} if sent is None else {"out_per_s": sent}
    shares = {"busy": vertex.busy, "backpressured": vertex.backpressured}
    row |= {key: min(1.0, value) for key, value in shares.items() if value is not None}
    begins = not vertex.inputs  # of markers, which have no age there
    return row if vertex.marker_s is None or begins else {**row, "marker_s": vertex.marker_s}
