"""Random scenarios with event time and interval joins, small enough for a run to take milliseconds."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.twin.machine import random_jobs as ordinary
from twin.profiles import FLINK
from twin.scenario import Scenario

Parts = dict[str, Any]


def timed_scenario(random: Random, changing: bool) -> Scenario:
    """Random scenario. changing: with events, a policy or checkpoints."""
    made = ordinary.fitting(_parts, random)
    return _changed(random, made) if changing else made


def _changed(random: Random, made: Scenario) -> Scenario:
    """Scenario to which something happens; some key groups move by a strategy."""
    changed = ordinary._changing(random, made)
    timed = [each for each in made.query.operators if each.needs_event_time and getattr(each, "key_groups", None)]
    for _ in range(random.choice([0, 1, 2]) if timed else 0):
        changed = ordinary._with(changed, events=[*changed.events, _moved(random, made, random.choice(timed))])
    return changed


def _moved(random: Random, made: Scenario, operator: Any) -> Parts:
    """Migration of key groups of an operator over event time by a strategy, or a new assignment of all."""
    groups, parallelism = operator.key_groups, made.plan.parallelism(operator.name)
    change: Parts = {"operator": operator.name, "at_s": round(random.uniform(0.0, ordinary.HORIZON_S), 3)}
    change["strategy"] = random.choice([None, "disruptive", "smooth", "instant"])
    if random.random() < 0.3:
        return change | {"kind": "repartition", "owners": [random.randrange(parallelism) for _ in range(groups)]}
    some = sorted(random.sample(range(groups), random.randint(1, groups)))
    to: Parts = random.choice(
        [{"to_subtask": random.randrange(parallelism)}, {"to": random.choice(made.cluster.hosts).name}]
    )
    return change | {"kind": "migration", "key_groups": some} | to


def _parts(random: Random) -> Parts:
    sources = [_source(random, f"s{number}") for number in range(random.randint(1, 2))]
    middle = [each for number in range(random.randint(1, 3)) for each in _middle(random, f"m{number}")]
    sinks = [{"kind": "sink", "name": "t0", "service_time_s": random.choice([0.0, 3e-4])}]
    operators = [*sources, *middle, *sinks]
    chaining = random.random() < 0.3
    streams = _streams(random, operators, line=chaining)
    hosts = ordinary._hosts(random)
    placement = ordinary._placement(random, operators, streams, hosts, alike=chaining)
    links, switches = ordinary._links(random, hosts)
    skewed = [each for each in operators if each.get("key_groups") and random.random() < 0.3]
    engine = ordinary._engine(random) if random.random() < 0.8 else FLINK.model_dump(mode="json")
    return {
        "name": "random",
        "query": {"operators": operators, "streams": streams},
        "cluster": {"hosts": hosts, "links": links, "switches": switches},
        "plan": {"placement": placement, "key_groups": ordinary._owners(random, operators, placement)},
        "workload": {
            "arrivals": {each["name"]: ordinary._law(random) for each in sources},
            "keys": {each["name"]: ordinary._skew(random, each["key_groups"]) for each in skewed},
        },
        "engine": engine | {"chaining": chaining, "name": "random"},
        "run": {
            "horizon_s": ordinary.HORIZON_S,
            "period_s": random.choice([0.2, 0.5, 0.9]),
            "warmup_s": random.choice([0.0, 0.3]),
            "seed": random.randrange(1000),
            "checkpoint_interval_s": random.choice([0.1, 0.4, 10.0]),
            "noise": random.random() < 0.9,
        },
    }


def _source(random: Random, name: str) -> Parts:
    late = random.choice([{}, {"disorder_s": 0.1, "slack_s": 0.1}, {"disorder_s": 0.3}, {"slack_s": 0.05}])
    return {"kind": "source", "name": name, "service_time_s": random.choice([0.0, 1e-4])} | late


WINDOWS = ({"length_s": 0.2}, {"length_s": 0.3, "every_s": 0.1}, {"length_s": 0.4, "start_s": 0.05})


def _middle(random: Random, name: str) -> list[Parts]:
    """One operator, or a compute and the consolidate that merges its partial results."""
    keyed = {"keys": random.choice([5, 40]), "key_groups": random.choice([3, 8])}
    parts: Parts = {"name": name, "service_time_s": random.choice([0.0, 1e-4, 2e-3])}
    state = {"state_bytes_per_key": random.choice([0, 1000])}
    if random.random() < 0.3:
        parts["service_scv"] = random.choice([0.0, 4.0])
    kind = random.choice(["map", "filter", "join", "join", "records", "windows", "windows", "partials", "partials"])
    if kind in ("map", "filter"):
        return [parts | {"kind": kind, "selectivity": random.choice([0.5, 1.0, 1.0] + [2.0] * (kind == "map"))}]
    if kind == "join":
        bounds = random.choice([{"lower_s": -0.1, "upper_s": 0.1}, {"lower_s": 0.02, "upper_s": 0.3}])
        by = random.choice([{"time": "event"}, {}])
        if not by and random.random() < 0.5:
            del keyed["key_groups"]
        return [parts | {"kind": "interval-join", **bounds, **keyed, **by}]
    compute = parts | {"kind": "compute", "execute_time_s": random.choice([0.0, 1e-4]), **keyed, **state}
    if kind == "records":
        return [compute]
    windows = random.sample(WINDOWS, random.randint(1, 2))
    if kind == "windows":
        return [compute | {"windows": windows}]
    sharing = random.choice(["panes", "windows", "auto"])
    merge: Parts = {"kind": "consolidate", "name": f"{name}-merged", "windows": windows, **keyed, **state}
    merge["results_per_key"] = random.choice([1.0, 1.0, 0.3, 2.5])
    together = {"combined": True} if random.random() < 0.2 else {}
    return [compute | {"partial_s": 0.05, "sharing": sharing}, merge | together]


def _streams(random: Random, operators: list[Parts], line: bool) -> list[Parts]:
    """Streams: each operator takes from some before it; open ends go to the sink. line: most from just one."""
    streams: list[tuple[str, str]] = []
    for place, each in enumerate(operators):
        before = [other["name"] for other in operators[:place] if "partial_s" not in other]
        if each["kind"] == "source":
            continue
        if each["kind"] == "consolidate":
            producers = [each["name"].removesuffix("-merged")]
        elif each["kind"] == "sink":
            led_on = {producer for producer, _ in streams}
            producers = [name for name in before if name not in led_on] or before[-1:]
        else:
            count = 2 if each["kind"] == "interval-join" else random.choice([1, 1, 2])
            producers = before[-1:] if line and count == 1 else random.sample(before, min(count, len(before)))
        if each["kind"] == "interval-join" and len(producers) == 2:
            each["left"], each["right"] = random.sample(producers, 2)
        streams += [(producer, each["name"]) for producer in producers]
    late = [each for each in operators if "windows" in each and each["kind"] == "compute"]
    late += [each for each in operators if each.get("time") == "event"]
    if late and random.random() < 0.4:
        one = random.choice(late)
        operators.append({"kind": "sink", "name": "late", "service_time_s": 0.0})
        one["late_to"] = "late"
        streams.append((one["name"], "late"))
    made = [{"producer": producer, "consumer": consumer} for producer, consumer in streams]
    for each in made:
        if random.random() < 0.15:
            each["partitioning"] = random.choice(["rebalance", "hash", "forward", "global", "broadcast"])
        if random.random() < 0.1:
            each["overflow"] = "drop"
    return made
