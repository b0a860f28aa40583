"""Makes a scenario of a running Flink job: one operator a vertex, at the rates that were read."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.calibration.structures import APART, Wanted, in_use, waited
from scenarios.files.documents import CLOSED
from streamtwin.connect.importers.flink_job import CALLS, FlinkJob, TaskManagers, Vertex
from twin.errors import BadInput
from twin.keys import contiguous
from twin.kinds.registry import BY_KIND
from twin.profiles import FLINK
from twin.scenario import Scenario
from twin.spec import parse

# CPU -----------------------------------------------------------------------------------------------------------------
# Splits busy times into CPU and waiting for a core, by host.
#
# A subtask is busy while it computes, while it waits for a core, and while it sleeps or waits for an answer. Thread
# dumps tell the last; JVMs tell the CPU that they used. One point does not tell the CPU that they use without records.


TOLD = 0.1
"""Share of its busy time beyond which a vertex that is asleep is named in a note."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """Use of a host. share: of the time for which subtasks want a core, in which they have one. others: cores that
    other processes use. asleep: mean number of subtasks that are busy without needing a core. cpu: share of the cores
    left by others that was used; None if busy times cannot tell the part of it that records used."""

    share: float = 1.0
    others: float = 0.0
    asleep: float = 0.0
    cpu: float | None = None


def uses_of(
    job: FlinkJob, places: Mapping[str, Sequence[str]], names: Mapping[str, str], notes: list[str]
) -> dict[str, HostUse]:
    """Use of each host, by name. places: by vertex, the host of each of its subtasks. names: by vertex, its name in the
    twin. notes: get words for people."""
    wanted: dict[str, list[Wanted]] = defaultdict(list)
    asleep: dict[str, float] = defaultdict(float)
    unread = {host for vertex in job.vertices if vertex.busy is None for host in places[vertex.id]}
    for vertex in job.vertices:
        for host, count in Counter(places[vertex.id]).items():
            wanted[host].append((count, min(1.0, vertex.busy or 0.0) * (1.0 - vertex.asleep)))
            asleep[host] += count * vertex.asleep if vertex.asleep > TOLD else 0.0
        if vertex.asleep > TOLD:
            notes.append(
                f"{names[vertex.id]}: it sleeps or waits for answers for {vertex.asleep:.0%} of its busy time; its "
                "service time holds that, and as it takes no core, its hosts count as many cores more; for each "
                "subtask that you add to it, give its host another one (cpu_percent)"
            )
    uses = {
        each.name: _use(each, wanted[each.name], asleep[each.name], each.name in unread, notes) for each in job.machines
    }
    if any(use.cpu is not None for use in uses.values()):
        notes.append(
            "what task managers use without records (garbage collection, heartbeats) counts as costs, as one point "
            "cannot tell it; a second one in --points, at half or twice the rate, tells twin calibrate"
        )
    return uses


def busy_of(vertex: Vertex, places: Sequence[str], uses: Mapping[str, HostUse]) -> float | None:
    """Sum of the subtasks' busy shares of time without waiting for a core; None if they were not measured."""
    if vertex.busy is None:
        return None
    return sum(vertex.busy * (vertex.asleep + (1.0 - vertex.asleep) * uses[host].share) for host in places)


def _use(machine: TaskManagers, wanted: Sequence[Wanted], asleep: float, unread: bool, notes: list[str]) -> HostUse:
    demand, cores, used = sum(count * share for count, share in wanted), machine.cores, machine.cpu
    if used is None and demand <= cores:
        return HostUse(asleep=asleep)
    says, left = f"{machine.name}: its subtasks are busy for {demand:.2f} cores", cores
    if used is None:
        notes.append(
            f"{says} of {cores:g}, so they wait for cores: costs are CPU, {in_use(wanted, cores) / demand:.0%} of the "
            "busy times; if they sleep or wait for answers instead, import the running job, whose threads tell"
        )
    elif (found := waited(wanted, cores, used)) is not None:
        left = found
        notes.append(
            f"{says}, {demand / used:.1f} times the {used:.2f} that its JVMs used, so they wait for cores: costs are "
            f"CPU, and others use {cores - left:.2f} of {cores:g} cores (others_percent)"
        )
    share = in_use(wanted, left) / demand if demand > 0 else 1.0
    if used is None or asleep or (unread and used > APART * demand):  # the part that records used is unknown
        return HostUse(share, cores - left, asleep)
    return HostUse(share, cores - left, asleep, min(1.0, used / left))


# windows, sessions and calls -----------------------------------------------------------------------------------------
# Reads windows, sessions and calls of a Flink job from its plan and its readings.


JOINS = re.compile("CoGroup|Join")
"""Words in the descriptions of windows that join; several inputs of other windows are one stream."""
MOST_KEYS = 10**9
SECONDS = {
    name: seconds
    for seconds, names in (
        (1e-9, "ns nano nanosecond"),
        (1e-6, "us µs micro microsecond"),
        (1e-3, "ms milli millisecond"),
        (1.0, "s sec second"),
        (60.0, "m min minute"),
        (3600.0, "h hour"),
        (86400.0, "d day"),
    )
    for name in names.split()
}
"""Units of time, by their names in Flink's plans and configuration (TimeUtils), in the singular."""
TIME = r"\[([^\]]*)\]"
"""A time in the description of a SQL operator."""


def window_in(text: str) -> dict[str, Any] | None:
    """Time window in a description; None if there is none."""
    if found := re.search(r"Tumbling\w*TimeWindows\((\d+)", text):
        return {"policy": "time", "size_s": int(found.group(1)) / 1000}
    if found := re.search(r"Sliding\w*TimeWindows\((\d+),\s*(\d+)", text):
        return {"policy": "time", "size_s": int(found.group(1)) / 1000, "slide_s": int(found.group(2)) / 1000}
    if found := re.search(rf"TUMBLE\(.*?size={TIME}", text):
        return {"policy": "time", "size_s": seconds_in(found[1])}
    if found := re.search(rf"HOP\(.*?size={TIME}.*?slide={TIME}", text):
        return {"policy": "time", "size_s": seconds_in(found[1]), "slide_s": seconds_in(found[2])}
    return None


def gap_s_in(text: str) -> float | None:
    """Gap (s) of the session windows in a description; None if there is none."""
    if found := re.search(r"TimeSessionWindows\((\d+)", text):
        return int(found.group(1)) / 1000
    if found := re.search(rf"SESSION\(.*?gap={TIME}", text):
        return seconds_in(found[1])
    return None


def keys_of(vertex: Vertex, told: int, noun: str, notes: list[str]) -> int:
    """Number of keys: `told` by results, but at least the number of subtasks that got records. If results tell nothing
    (0): one a key group, which allows for any shares of the subtasks. noun: for notes.
    """
    fed = sum(each > 0 for each in vertex.dealt)
    if not told:
        notes.append(
            f"{vertex.name}: its results do not say how many {noun} it has; taken as {vertex.key_groups:,}, one a key "
            f"group; set its {noun} if you know them"
        )
    elif told < fed:
        notes.append(
            f"{vertex.name}: its results tell of {told:,} {noun}, but {fed:,} subtasks get records; taken as {fed:,}"
        )
    return max(told, fed) if told else vertex.key_groups


def sessions(vertex: Vertex, gap_s: float, notes: list[str]) -> dict[str, Any]:
    """Session operator with its number of keys, from the share of results: if each of n keys gets in_per_s / n records
    a second at random, a record is the last of its session with probability exp(-gap in_per_s / n).
    """
    ended = vertex.out_per_s / vertex.in_per_s if vertex.in_per_s else 0.0
    keys = MOST_KEYS if ended >= 1 else 0
    if 0 < ended < 1:
        keys = min(MOST_KEYS, round(vertex.in_per_s * gap_s / -math.log(ended)))
    if keys:
        notes.append(
            f"{vertex.name}: Flink does not tell how many keys have sessions; that one record in {1 / ended:.3g} ends "
            f"a session says {keys:,}, if keys are alike and their records come by chance; else set its keys"
        )
    keys = keys_of(vertex, keys, "keys", notes)
    groups = {"key_groups": vertex.key_groups} if keys >= vertex.key_groups else {}
    return {"kind": "session", "gap_s": gap_s, "keys": keys, **groups}


def calls(vertex: Vertex, notes: list[str]) -> dict[str, Any]:
    """Asynchronous call, of which no answer of Flink's tells more."""
    notes.append(
        f"{vertex.name}: Flink tells neither how long a call takes nor how many may wait; taken as 0 s and its default "
        "of 100: set its latency_s, capacity and ordered; its busy time holds waits for a place, so it says no cost"
    )
    return {"kind": "async", "latency_s": 0.0}


def matching(vertex: Vertex, job: FlinkJob, window: dict[str, Any], notes: list[str]) -> dict[str, float]:
    """Selectivity of a join of two streams: the probability that a pair matches; else its output per input."""
    sent_per_s = [each.out_per_s for each in job.vertices if each.id in dict(vertex.inputs)]
    size_s = window["size_s"]
    pairs_per_s = float(np.prod([rate * size_s for rate in sent_per_s])) / window.get("slide_s", size_s)
    if len(sent_per_s) == 2 and 0 < vertex.out_per_s <= pairs_per_s:
        return {"selectivity": vertex.out_per_s / pairs_per_s}
    notes.append(f"{vertex.name}: what matches cannot be read; its results by input are those at these rates")
    return {"amplification": vertex.out_per_s / vertex.in_per_s if vertex.in_per_s else 0.0}


def seconds_in(text: str, unit: str | None = None) -> float:
    """Seconds of a time as Flink writes it: `10 s`, `1 d`, `1 h 30 min`, `500 ms`, `PT1M30S`. unit: of a number
    without one. Raises BadInput for any other unit, naming it."""
    iso = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.strip())
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (float(each or 0) for each in iso.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if clock := re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", text.strip()):
        return (int(clock[1]) * 60 + int(clock[2])) * 60 + float(clock[3])
    parts = re.findall(r"(\d+) *([^\W\d]*)", text)
    if not parts or re.sub(r"(\d+) *([^\W\d]*)", "", text).strip():
        raise BadInput(f"Flink's plan or configuration has the time {text!r}; one such as '10 s' or '1 d' is expected")
    found = 0.0
    for number, written in parts:
        name = written.lower() or unit or ""
        if (known := SECONDS.get(name) or SECONDS.get(name.removesuffix("s"))) is None:
            raise BadInput(f"the time {text!r} has the unit {written!r}; known are {', '.join(SECONDS)}")
        found += int(number) * known
    return found


# the scenario --------------------------------------------------------------------------------------------------------


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
BACKENDS = ("state.backend.type", "state.backend")
KINDS_OF_BACKENDS = {"hashmap": "heap", "filesystem": "heap", "jobmanager": "heap", "rocksdb": "rocksdb"}
"""Flink's names of state backends, those of before 1.13 too, by the kinds of the profile."""
NETWORK_MEMORY = "taskmanager.network.memory."
"""Prefix of options of Flink's configuration whose names and defaults the profile's `network_memory` has."""
DEBLOAT = NETWORK_MEMORY + "buffer-debloat."
"""The same of its `buffer_debloat`."""


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
    """Shares of key groups where subtasks got records unevenly: a subtask's share, divided by its groups with keys."""
    found = {}
    for vertex, given in zip(job.vertices, (each for each in operators if each["name"] in names.values()), strict=True):
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


def _state(job: FlinkJob) -> dict[str, float]:
    """State of a key group: the last checkpoint, divided evenly among the key groups of all keyed vertices."""
    keyed = sum(each.key_groups for each in job.vertices if any(how == "HASH" for _, how in each.inputs))
    return {"state_bytes_per_group": job.state_bytes / keyed} if job.state_bytes and keyed else {}


def _cost(vertex: Vertex, busy: float | None) -> dict[str, float]:
    """Service time and size of a record, where they can be read. busy: sum over subtasks, without waiting for cores."""
    taken = vertex.in_per_s if vertex.inputs else vertex.out_per_s
    found = {}
    if busy is not None and taken > 0:
        found["service_time_s"] = busy / taken
    if vertex.out_per_s > 0 and vertex.out_bytes_per_s > 0:
        found["record_bytes"] = vertex.out_bytes_per_s / vertex.out_per_s
    return found


def _places(vertex: Vertex, hosts: list[str], number: int, notes: list[str]) -> list[str]:
    if len(vertex.hosts) == vertex.parallelism:
        return list(vertex.hosts)
    notes.append(f"{vertex.name}: where its subtasks are is not known; they are dealt to the machines in turn")
    return [hosts[(number + each) % len(hosts)] for each in range(vertex.parallelism)]


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
            f"{vertex.out_per_s:,.0f} records/s that it delivers; say how much with --offered {name}=RATE"
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
    numbers = {name: name.replace("_", "-") for name in engine["network_memory"]}
    engine["network_memory"] |= _numbers(job, NETWORK_MEMORY, numbers)
    if job.settings.get(DEBLOAT + "enabled") == "true":
        numbers = {"threshold_percentages": "threshold-percentages", "samples": "samples"}
        times = {name: DEBLOAT + name.removesuffix("_s") for name in ("target_s", "period_s")}
        times_s = {name: _seconds(job, key) for name, key in times.items() if key in job.settings}
        engine["network_memory"]["buffer_debloat"] = _numbers(job, DEBLOAT, numbers) | times_s
    if BUFFER in job.settings:
        engine["buffer_bytes"] = _bytes(job.settings[BUFFER])
    backend = next((job.settings[key] for key in BACKENDS if key in job.settings), None)
    if backend in KINDS_OF_BACKENDS:
        engine["state_backend"] = KINDS_OF_BACKENDS[backend]
    if TIMEOUT in job.settings:
        engine["flush_s"] = max(1e-6, _seconds(job, TIMEOUT))
    return engine


def _numbers(job: FlinkJob, prefix: str, names: Mapping[str, str]) -> dict[str, float]:
    """Those of some options that are set, by key of the profile. names: of options, without their prefix, by key."""
    found = dict[str, float]()
    for name, option in names.items():
        given = job.settings.get(prefix + option)
        try:
            found |= {} if given is None else {name: float(given)}
        except ValueError:
            raise BadInput(f"{prefix + option} is {given!r}; a number is expected") from None
    return found


def _seconds(job: FlinkJob, key: str) -> float:
    try:
        return seconds_in(job.settings[key], "ms")
    except BadInput as error:
        raise BadInput(f"{key}: {error}; a time such as '100 ms' is expected") from None


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
    begins = not vertex.inputs  # of markers, which have no age there
    return row if vertex.marker_s is None or begins else {**row, "marker_s": vertex.marker_s}
