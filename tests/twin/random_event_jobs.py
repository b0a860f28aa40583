"""Random jobs with windows over event time, and their changes: migrations, scalings, splits, failures."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from tests.twin.event_jobs import KEYED, compute, consolidate, job, sink, source
from twin.profiles import STORM
from twin.scenario import Scenario
from twin.spec import parse

GROUPS = [0, 1, 2, 3]
HOSTS = ["h0", "h1", "h2", "ends"]
ANY, RIGID = ["instant", "disruptive", "smooth"], ["disruptive", "smooth"]
Change = dict[str, Any]


def event_time_scenario(random: Random, rate_per_s: float | None = None) -> Scenario:
    """Scenario source -> pass (a map) -> compute -> merge -> sink, or a compute that emits its own windows."""
    together = random.random() < 0.25  # at first
    own = not together and random.random() < 0.2
    late = random.choice([{}, {"disorder_s": 0.4, "slack_s": 0.4}, {"disorder_s": 1.5}])
    state = {"state_bytes_per_key": random.choice([100.0, 1e6, 1e7])}
    rate_per_s = rate_per_s or random.choice([60.0, 300.0])
    busy = {"service_time_s": random.choice([1e-4, 0.03])} if rate_per_s < 100.0 else {}
    if own:
        middle = [compute(windows=[{"length_s": 2, "every_s": 1}, {"length_s": 1.5}], **state, **busy)]
        changes = [_moved(random, "compute", RIGID) for _ in range(random.randint(1, 4))]
    else:
        sharing = random.choice(["panes", "windows", "auto"])
        middle = [compute(sharing=sharing, **state, **busy), consolidate(combined=together, **state)]
        changes = _course(random, together) if together or random.random() < 0.4 else _apart(random)
    if random.random() < 0.5:
        changes += _failures(random, changes)
    return job(
        [source(**late), {"kind": "map", "name": "pass", "service_time_s": 1e-4}, *middle, sink()],
        rate_per_s=rate_per_s,
        events=changes,
        placement={"pass": ["h0", "h1"]},
        engine=_engine(random),
        checkpoint_interval_s=random.choice([0.1, 1.0, 5.0]),
        seed=random.randrange(1000),
    )


def _engine(random: Random) -> Change:
    """Engine in which records wait in batches, or behind full channels, and punctuations with them."""
    batches = {"batch_records": 20, "flush_s": 0.2} if random.random() < 0.3 else {}
    more = {"name": "other", "channel_records": random.choice([1, 4, 1024])}
    return STORM.model_dump(mode="json") | more | batches


def _at_s(random: Random) -> float:
    return round(random.uniform(0.2, 7.0), 3)


def _moved(random: Random, operator: str, strategies: list[str]) -> Change:
    """Migration of some key groups to one subtask, or a new assignment of all."""
    change = {"operator": operator, "at_s": _at_s(random), "strategy": random.choice(strategies)}
    if random.random() < 0.7:
        groups = sorted(random.sample(GROUPS, random.randint(1, 4)))
        return change | {"kind": "migration", "key_groups": groups, "to_subtask": random.randrange(3)}
    return change | {"kind": "repartition", "owners": [random.randrange(3) for _ in GROUPS]}


def _apart(random: Random) -> list[Change]:
    """Changes of two components, whose subtasks come and go as well."""
    changes = [_moved(random, random.choice(["compute", "merge"]), ANY) for _ in range(random.randint(1, 6))]
    for operator in ("pass", "compute", "merge"):
        if random.random() < 0.3:
            places = random.choices(HOSTS, k=random.randint(1, 4))
            changes.append({"kind": "scale", "operator": operator, "at_s": _at_s(random), "placement": places})
    return changes


def _course(random: Random, together: bool) -> list[Change]:
    """Changes of one component that is split and combined in turn, and moved as each form admits."""
    changes: list[Change] = []
    for at_s in sorted(_at_s(random) for _ in range(random.randint(2, 6))):
        if random.random() < 0.5:
            changes.append(_moved(random, "compute", RIGID if together else ANY) | {"at_s": at_s})
            continue
        owners = {"kind": "split", "owners": [random.randrange(3) for _ in GROUPS]}
        change = owners if together else {"kind": "combine", "strategy": random.choice(RIGID)}
        changes.append({**change, "operator": "merge", "at_s": at_s})
        together = not together
    return changes


def _failures(random: Random, changes: list[Change]) -> list[Change]:
    """Failures at or soon after the moment of a change."""
    return [
        {
            "kind": "failure",
            "host": random.choice(HOSTS),
            "at_s": round(random.choice(changes)["at_s"] + random.choice([0.0, 0.003, 0.06, 0.3, 1.2]), 3),
            "recover_after_s": random.choice([0.001, 0.4, 1.5]),
        }
        for _ in range(random.randint(1, 3))
    ]


def checkpointed_scenario(random: Random) -> Scenario:
    """Scenario under load, with checkpoints that cost something and failures: one or two sources, whose records take
    other times to come, then windows of their own, or partial results that are merged, or an interval join."""
    late = random.choice([{}, {"disorder_s": 0.4, "slack_s": 0.4}, {"disorder_s": 1.0}])
    sources = ["left", "right"] if random.random() < 0.6 else ["left"]
    rate_per_s = random.choice([50.0, 150.0])
    busy_s = random.choice([1e-4, 0.5, 1.1]) * 3 / (rate_per_s * len(sources))  # of the three subtasks
    busy = {"service_time_s": round(busy_s, 6)}
    shape = random.choice(["own", "merged", "join"] if len(sources) == 2 else ["own", "merged"])
    if shape == "own":
        middle = [compute(windows=[{"length_s": 2, "every_s": 1}, {"length_s": 1.5}], **busy)]
    elif shape == "merged":
        together = random.random() < 0.4
        middle = [compute(sharing=random.choice(["panes", "windows"]), **busy), consolidate(combined=together)]
    else:
        sides = {"left": "pass", "right": "right", "lower_s": -0.2, "upper_s": 0.6}
        middle = [{"kind": "interval-join", "name": "compute", "time": "event", **sides, **KEYED, **busy}]
    operators = [*(source(name, **late) for name in sources), {"kind": "map", "name": "pass", "service_time_s": 1e-4}]
    names = [each["name"] for each in [*middle, sink()]]
    streams = [("left", "pass"), *((name, "compute") for name in ["pass", *sources[1:]]), *pairwise(names)]
    checkpoints = {
        "interval_s": random.choice([0.1, 0.5, 2.0]),
        "mode": random.choice(["aligned", "unaligned"]),
        "sinks": random.choice(["at-least-once", "exactly-once"]),
        "failover": random.choice(["region", "full"]),
        "state": random.choice(["full", "incremental"]),
        "sync_ms": random.choice([0.0, 1.0, 20.0]),
        "storage_mbps": random.choice([None, 10.0]),
    }
    if checkpoints["mode"] == "unaligned" and random.random() < 0.5:
        checkpoints["aligned_timeout_s"] = random.choice([0.01, 0.1])
    if checkpoints["mode"] == "aligned" and random.random() < 0.3:
        checkpoints["concurrent"] = 3
    scenario = job(
        [*operators, *middle, sink()],
        streams,
        rate_per_s=rate_per_s,
        placement={"pass": ["h0", "h1"]} | ({"right": "h2"} if len(sources) == 2 else {}),
        events=[
            {
                "kind": "failure",
                "host": random.choice(HOSTS),
                "at_s": round(random.uniform(0.3, 8.0), 3),
                "recover_after_s": random.choice([0.001, 0.4, 1.5]),
            }
            for _ in range(random.randint(1, 3))
        ],
        engine=_engine(random) if random.random() < 0.5 else _buffers(random),
        seed=random.randrange(1000),
    )
    return parse(Scenario, dict(scenario) | {"checkpoints": checkpoints})


def _buffers(random: Random) -> Change:
    """Engine with few network buffers, of few records each."""
    memory = {"buffers_per_channel": 1, "floating_buffers_per_gate": random.choice([1, 8])}
    few = {"network_memory": memory, "buffer_bytes": random.choice([60.0, 300.0]), "flush_s": 0.05}
    return STORM.model_dump(mode="json") | few | {"name": "buffers", "channel_records": None}
