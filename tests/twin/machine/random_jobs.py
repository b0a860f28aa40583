"""Random scenarios of all the kinds that compiled code knows, small enough for a run to take milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import optimizers.policies  # noqa: F401  (a scenario knows the policies that are imported)
from twin.profiles import STORM
from twin.scenario import Scenario

HERE = Path(__file__).parent
HORIZON_S = 1.5
PARTITIONINGS = ("rebalance", "hash", "forward", "global", "broadcast", "two-choice")
KEEPING = ("failure", "rate-change", "slow-down", "link-degradation", "skew")
Parts = dict[str, Any]
_EVEN: Parts = {"law": "constant", "rate_per_s": 100.0}


def scenario(random: Random, changing: bool) -> Scenario:
    """Random scenario. changing: with events, a policy or checkpoints."""
    made = fitting(_parts, random)
    return _changing(random, made) if changing else made


def fitting(parts: Callable[[Random], Parts], random: Random) -> Scenario:
    """Scenario of random parts; those that do not fit are drawn again."""
    while True:
        drawn = parts(random)
        try:
            return Scenario.model_validate(drawn)
        except ValueError:
            continue


def checkpointed(random: Random) -> Scenario:
    """Random scenario with many checkpoints, and some events that leave all subtasks where they are."""
    while True:
        made = scenario(random, changing=False)
        for _ in range(random.choice([0, 1, 1, 2, 3])):
            event = _event(random, made)
            if event["kind"] in KEEPING:
                made = _with(made, events=[*made.events, event])
        often = {"interval_s": random.choice([0.1, 0.3, 0.8]), "timeout_s": random.choice([0.01, 10.0, 10.0])}
        made = _with(made, checkpoints=_checkpoints(random, made) | often)
        if made.checkpoints is not None:
            return made


def _parts(random: Random) -> Parts:
    operators = _operators(random)
    in_step = random.random() < 0.2  # nothing is random then, so that much happens at once
    if in_step:
        operators = [each | {"service_scv": 0.0} for each in operators]
    chaining = random.random() < 0.25
    streams = _streams(random, operators, line=chaining)
    hosts = _hosts(random)
    placement = _placement(random, operators, streams, hosts, alike=chaining)
    sources = [each["name"] for each in operators if each["kind"].endswith("source")]
    skewed = [each for each in operators if each.get("key_groups") and random.random() < 0.5]
    links, switches = _links(random, hosts)
    for each in streams:
        unequal = len(placement[each["producer"]]) != len(placement[each["consumer"]])
        if each.get("partitioning") == "forward" and unequal:
            each["partitioning"] = "rebalance"
    return {
        "name": "random",
        "query": {"operators": operators, "streams": streams},
        "cluster": {"hosts": hosts, "links": links, "switches": switches},
        "plan": {"placement": placement, "key_groups": _owners(random, operators, placement)},
        "workload": {
            "arrivals": {name: _EVEN if in_step else _law(random) for name in sources},
            "keys": {each["name"]: _skew(random, each["key_groups"]) for each in skewed},
        },
        "engine": _engine(random) | {"chaining": chaining},
        "run": {
            "horizon_s": HORIZON_S,
            "period_s": random.choice([0.2, 0.5, 0.9]),
            "warmup_s": random.choice([0.0, 0.3]),
            "seed": random.randrange(1000),
            "checkpoint_interval_s": random.choice([0.4, 1.1, 10.0]),
            "noise": random.random() < 0.9,
        },
    }


# the query -----------------------------------------------------------------------------------------------------------


def _operators(random: Random) -> list[Parts]:
    """Up to two sources, four operators, two sinks, in an order in which records may flow."""
    sources = [_source(random, f"s{number}") for number in range(random.randint(1, 2))]
    middle = [_middle(random, f"m{number}") for number in range(random.randint(1, 4))]
    sinks = [_sink(random, f"t{number}") for number in range(random.randint(1, 2))]
    return [*sources, *middle, *sinks]


def _source(random: Random, name: str) -> Parts:
    if random.random() < 0.2:
        return {"kind": "kafka-source", "name": name, "partitions": random.randint(1, 6), "service_time_s": 1e-4}
    return {"kind": "source", "name": name, "service_time_s": random.choice([0.0, 1e-4])}


def _sink(random: Random, name: str) -> Parts:
    parts: Parts = {"kind": "sink", "name": name, "service_time_s": random.choice([0.0, 0.0, 3e-4])}
    if random.random() < 0.2:
        limits = [{"rate_per_s": 150.0}, {"capacity": 3}, {"rate_per_s": 300.0, "capacity": 5}]
        parts |= {"kind": "external-sink", "latency_s": 0.01, **random.choice(limits)}
    return parts


SELECTIVITIES = {
    "filter": (0.0, 0.3, 0.7, 1.0),
    "map": (0.5, 1.0, 1.0, 1.5, 3.0),
    "keyed-state": (0.5, 1.0, 2.0),
    "async": (0.5, 1.0, 2.5),
    "lookup-join": (0.0, 1.0, 1.5),
    "temporal-join": (0.5, 1.0, 2.0),
}
KINDS = (*SELECTIVITIES, "map", "aggregate", "aggregate", "join", "router", "session")


def _middle(random: Random, name: str) -> Parts:
    kind = random.choice(KINDS)
    parts: Parts = {"kind": kind, "name": name}
    grouped = kind not in ("filter", "router")
    if random.random() < 0.8:
        parts["service_time_s"] = random.choice([0.0, 1e-4, 2e-3])
    if random.random() < 0.3:
        parts["service_scv"] = random.choice([0.0, 1.0, 4.0])
    if random.random() < 0.2:
        parts["record_bytes"] = random.choice([10, 5000])
    if kind in SELECTIVITIES:
        parts["selectivity"] = random.choice(SELECTIVITIES[kind])
    if kind == "aggregate":
        parts["window"] = _window(random)
        grouped = random.random() < 0.8
        if grouped:
            parts |= {"group_by": "int", "groups": random.choice([1, 3, 50])}
    elif kind == "join":
        parts["window"] = _window(random)
        parts |= random.choice([{"selectivity": 0.02}, {"selectivity": 0.3}, {"amplification": 0.7}])
    elif kind == "session":
        parts |= {"gap_s": random.choice([0.02, 0.2]), "keys": random.choice([20, 500])}
    elif kind == "keyed-state":
        parts |= {"keys": random.choice([20, 500]), "ttl_s": random.choice([None, 0.1, 0.5]), "key_groups": 8}
    elif kind in ("async", "lookup-join"):
        parts |= {"latency_s": random.choice([0.0, 0.01, 0.1]), "latency_scv": random.choice([0.0, 1.0])}
        parts |= {"capacity": random.choice([1, 5, 100]), "ordered": random.random() < 0.5}
        parts["rate_per_s"] = random.choice([None, None, 200.0])
    if kind == "lookup-join":
        parts |= {"hit_ratio": random.choice([0.0, 0.8, 1.0]), "hit_latency_s": random.choice([0.0, 1e-3])}
    if grouped and random.random() < 0.5:
        parts["key_groups"] = random.choice([3, 8, 20])
        parts["state_bytes_per_group"] = random.choice([0, 1000, 100_000])
    return parts


def _window(random: Random) -> Parts:
    return random.choice(
        [
            {"policy": "count", "size_records": 5, "slide_records": 2},
            {"policy": "count", "size_records": 7},
            {"policy": "time", "size_s": 0.2},
            {"policy": "time", "size_s": 0.35, "slide_s": 0.1},
        ]
    )


def _streams(random: Random, operators: list[Parts], line: bool) -> list[Parts]:
    """Streams: each operator takes from some before it; open ends go to the first sink. line: most from just one."""
    names = [each["name"] for each in operators]
    streams: list[tuple[str, str]] = []
    for place, each in enumerate(operators):
        before = [other["name"] for other in operators[:place] if not other["name"].startswith("t")]
        if each["kind"].endswith("source"):
            continue
        least = 2 if each["kind"].endswith("join") and each["kind"] != "lookup-join" else 1
        count = min(len(before), random.choice([least, least, least + 1]))
        producers = before[-least:] if line else random.sample(before, count)
        if each["kind"] == "temporal-join":
            each["side"] = producers[0]
        streams += [(producer, each["name"]) for producer in producers]
    led_on = {producer for producer, _ in streams}
    streams += [(name, "t0") for name in names if name not in led_on and not name.startswith("t")]
    for each in operators:
        if each["kind"] == "router":
            consumers = [consumer for producer, consumer in streams if producer == each["name"]]
            each["shares"] = {name: random.choice([0.2, 0.5, 0.9]) for name in consumers}
    one_queue = [name for name in names if random.random() < 0.1]
    return [_stream(random, *ends) | ({"partitioning": "shared"} if ends[1] in one_queue else {}) for ends in streams]


def _stream(random: Random, producer: str, consumer: str) -> Parts:
    parts: Parts = {"producer": producer, "consumer": consumer}
    if random.random() < 0.5:
        parts["partitioning"] = random.choice(PARTITIONINGS)
    elif random.random() < 0.15:
        spread = {"pattern": "partial-partitioning", "degree": 2, "share": 0.7}
        parts["alignment"] = random.choice(["one-to-one", {"pattern": "partial-merge", "share": 0.5}, spread])
    if random.random() < 0.15:
        parts["overflow"] = "drop"
    return parts


# where it runs -------------------------------------------------------------------------------------------------------


def _hosts(random: Random) -> list[Parts]:
    return [_host(random, name) for name in "abc"[: random.randint(1, 3)]]


def _host(random: Random, name: str) -> Parts:
    parts: Parts = {
        "name": name,
        "cpu_percent": random.choice([50, 100, 150, 400]),
        "ram_mb": random.choice([302, 330, 16_000, 16_000, 16_000]),
        "bandwidth_mbps": random.choice([1, 10, 1000]),
        "latency_ms": random.choice([0, 1, 20]),
    }
    if random.random() < 0.25:
        wide = {"bandwidth_gbps": random.choice([0.001, 10])} if random.random() < 0.3 else {}
        parts["sockets"] = [{"cores": 2, **wide}, {"cores": random.choice([1, 2]), **wide}]
        parts["numa"] = {"latency_ns": [[0, 5000], [9000, 0]]}
        if random.random() < 0.3:
            parts["numa"]["bandwidth_gbps"] = [[0, 0.001], [0.01, 0]]
    if random.random() < 0.25:
        parts["others_percent"] = parts["cpu_percent"] * random.choice([0.1, 0.25, 0.85])
        parts["core_percent"] = random.choice([50, 100, 140])
    return parts


def _links(random: Random, hosts: list[Parts]) -> tuple[list[Parts], list[str]]:
    """Links and switches: none, a line of hosts, or all hosts at one switch."""
    names = [each["name"] for each in hosts]
    how = random.choice(["none", "none", "line", "star"]) if len(names) > 1 else "none"
    ends = {
        "none": [],
        "line": list(pairwise(names)),
        "star": [(name, "switch") for name in names],
    }[how]
    links = [
        {"between": each, "bandwidth_mbps": random.choice([1, 100]), "latency_ms": random.choice([0, 2])}
        for each in ends
    ]
    return links, ["switch"] if how == "star" else []


def _placement(
    random: Random, operators: list[Parts], streams: list[Parts], hosts: list[Parts], alike: bool
) -> dict[str, list[str]]:
    """Random placement. alike: all operators as the first, so that those that may be fused can be."""
    one_host = [each["consumer"] for each in streams if each.get("partitioning") == "shared"]
    found = {
        each["name"]: _places(random, [random.choice(hosts)] if each["name"] in one_host else hosts)
        for each in operators
    }
    return dict.fromkeys(found, found["s0"]) if alike else found


def _places(random: Random, hosts: list[Parts]) -> list[str]:
    places = [each["name"] for each in hosts]
    places += [f"{each['name']}/1" for each in hosts if "sockets" in each]
    return [random.choice(places) for _ in range(random.choice([1, 1, 2, 3]))]


def _owners(random: Random, operators: list[Parts], placement: dict[str, list[str]]) -> dict[str, list[int]]:
    """Owners of the key groups of some operators; every subtask has one."""
    found = {}
    for each in operators:
        groups, parallelism = each.get("key_groups", 0), len(placement[each["name"]])
        if groups >= parallelism and random.random() < 0.3:
            found[each["name"]] = [
                *range(parallelism),
                *(random.randrange(parallelism) for _ in range(groups - parallelism)),
            ]
    return found


# what comes, and what it costs ---------------------------------------------------------------------------------------


def _law(random: Random) -> Parts:
    rate = random.choice([20.0, 100.0, 400.0])
    smooth = {"poisson": random.random() < 0.7}
    return random.choice(
        [
            {"law": "poisson", "rate_per_s": rate},
            {"law": "poisson", "rate_per_s": rate},
            {"law": "constant", "rate_per_s": rate},
            {"law": "bursty", "states": [{"rate_per_s": rate, "mean_s": 0.3}, {"rate_per_s": 0, "mean_s": 0.2}]}
            | smooth,
            {"law": "diurnal", "rate_per_s": rate, "period_s": 1.5} | smooth,
            {"law": "steps", "steps": [{"at_s": 0.2, "rate_per_s": rate}, {"at_s": 1, "rate_per_s": 3}]} | smooth,
            {"law": "spikes", "rate_per_s": rate, "factor": 4, "every_s": 0.7, "duration_s": 0.1} | smooth,
            {"law": "replay", "path": str(HERE / "times.csv"), "rate_factor": random.choice([1.0, 2.0])},
            {"law": "replay", "path": str(HERE / "rates.csv"), "loop": random.random() < 0.5} | smooth,
        ]
    )


def _skew(random: Random, groups: int) -> Parts:
    return random.choice(
        [
            {"zipf": random.choice([0.5, 1.5])},
            {"zipf": 1.0, "drift_every_s": random.choice([0.2, 0.9]), "drift_share": 0.4},
            {"shares": [random.randint(0, 5) for _ in range(groups - 1)] + [1]},
            {"keys": 3 * groups, "zipf": random.choice([0.0, 1.0])},
        ]
    )


def _engine(random: Random) -> Parts:
    changed: Parts = {"channel_records": random.choice([1, 2, 8, 64, 1024])}
    if random.random() < 0.3:
        changed |= {"batch_records": random.choice([2, 5, 100]), "flush_s": random.choice([0.01, 0.2])}
    elif random.random() < 0.3:
        buffers = {
            "buffers_per_channel": random.choice([0, 1, 2]),
            "floating_buffers_per_gate": random.choice([1, 3, 8]),
            "max_buffers_per_channel": random.choice([2, 3, 10]),
        }
        changed |= {"buffer_bytes": random.choice([1, 100, 500, 5000]), "flush_s": random.choice([0.01, 0.2])}
        changed |= {"network_memory": buffers, "channel_records": None}
    if random.random() < 0.2:
        changed["context_switch"] = 0.1
    if random.random() < 0.2:
        changed["memory_factor"] = 2.0
    pauses = {"gc_interval_s": 0.5, "gc_pause_s": 0.05} if random.random() < 0.2 else {}
    jitter = {"jitter_scv": random.choice([0.3, 2.0])} if random.random() < 0.2 else {}
    if random.random() < 0.3:
        restart = {"redeploy_s": random.choice([0.0, 0.05, 0.3]), "state_mbps": random.choice([1, 800])}
        changed["rescaling"] = {"how": random.choice(["restart", "restart", "reactive"]), **restart}
    changed["noise"] = pauses | jitter
    return STORM.model_dump(mode="json") | changed | {"name": "random"}


# what happens to it --------------------------------------------------------------------------------------------------


def _changing(random: Random, made: Scenario) -> Scenario:
    """Scenario with some events, a policy or checkpoints; what does not fit is left out."""
    for _ in range(random.choice([1, 2, 4, 6])):
        made = _with(made, events=[*made.events, _event(random, made)])
    if random.random() < 0.2:
        made = _with(made, checkpoints=_checkpoints(random, made))
    if random.random() < 0.15:
        made = _with(made, policy=random.choice(["relieve", "balance", "ds2", "flux"]))
    return made


def _with(made: Scenario, **more: Any) -> Scenario:
    try:
        return Scenario.model_validate({**dict(made), **more})
    except ValueError:
        return made


def _checkpoints(random: Random, made: Scenario) -> Parts:
    return {
        "interval_s": random.choice([0.3, 0.8]),
        "mode": random.choice(["aligned", "unaligned"]),
        "state": random.choice(["full", "incremental"]),
        "storage": random.choice([None, made.cluster.hosts[0].name]),
        "sinks": random.choice(["at-least-once", "exactly-once"]),
        "failover": random.choice(["region", "full"]),
        "sync_ms": random.choice([0, 5, 100]),
        "timeout_s": random.choice([0.01, 10.0]),
    }


def _event(random: Random, made: Scenario) -> Parts:
    host, operator = random.choice(made.cluster.hosts).name, random.choice(made.query.operators)
    groups, parallelism = getattr(operator, "key_groups", None) or 1, made.plan.parallelism(operator.name)
    some = sorted(random.sample(range(groups), random.randint(1, min(3, groups))))
    kinds: dict[str, Any] = {
        "rate-change": {"source": random.choice(made.query.sources).name, "factor": random.choice([0.3, 1.0, 3.0])},
        "slow-down": {"host": host, "factor": 3.0, "duration_s": random.choice([None, 0.4])},
        "failure": {"host": host, "recover_after_s": random.choice([0.1, 0.5]), "lost": random.random() < 0.4},
        "link-degradation": _degraded(random, made, host),
        "skew": {"operator": operator.name, "key_groups": some, "factor": 5.0, "over_s": random.choice([None, 0.5])},
        "move": {
            "kind": "migration",
            "operator": operator.name,
            "subtask": random.randrange(parallelism),
            "to": random.choice(made.cluster.hosts).name,
        },
        "migration": {
            "operator": operator.name,
            "key_groups": some,
            **random.choice([{"to_subtask": random.randrange(parallelism)}, {"to": host}]),
        },
        "scale": {
            "operator": operator.name,
            "placement": [random.choice(made.cluster.hosts).name for _ in range(random.randint(1, 3))],
        },
    }
    kind = random.choice([*kinds, "move", "migration", "scale", "scale"])
    return {"kind": kind, "at_s": round(random.uniform(0.0, HORIZON_S), 3), **kinds[kind]}


def _degraded(random: Random, made: Scenario, host: str) -> Parts:
    links = made.cluster.links
    what: Parts = {"link": random.choice(links).between} if links and random.random() < 0.7 else {"host": host}
    slower = {"latency_factor": random.choice([0.5, 3.0])} if not links or "link" in what else {}
    return what | slower | {"bandwidth_factor": random.choice([0.2, 4.0]), "duration_s": random.choice([None, 0.6])}
