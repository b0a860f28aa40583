"""Everything composes: kinds of operators, times, checkpoints, sinks, engines, failures, changes of the plan, policies.

What is refused under `flink` is refused by Flink as well. Drawn jobs run to their end, where each run is checked by the
laws of conservation, and each window over event time by brute force. What a failure or a restart undoes and takes is
counted again from what the run recorded of sources and sinks, every quarter of a second.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from optimizers.policies import POLICIES as REGISTERED
from twin.errors import BadInput
from twin.kinds.registry import BY_KIND
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

KEYED = {"keys": 30, "key_groups": 16}
WINDOW = {"policy": "time", "size_s": 4}
EVENT = {"time": "event"}
BOUNDS = {"left": "a", "right": "b", "lower_s": -1, "upper_s": 1}
KINDS: dict[str, dict[str, Any]] = {
    "aggregate": {"group_by": "int", "groups": 20, "key_groups": 16, "window": WINDOW},
    "aggregate over event time": {"group_by": "int", "groups": 20, "window": WINDOW | EVENT},
    "session": {"gap_s": 0.5, **KEYED},
    "session over event time": {"gap_s": 0.5, "keys": 30, **EVENT},
    "join": {"selectivity": 0.05, "key_groups": 16, "window": WINDOW},
    "join over event time": {"selectivity": 0.05, "window": WINDOW | EVENT},
    "interval-join": {**BOUNDS, **KEYED},
    "interval-join over event time": {**BOUNDS, "keys": 30, **EVENT},
    "temporal-join": {"side": "b", "key_groups": 16},
    "temporal-join over event time": {"side": "b", **EVENT},
    "keyed-state": KEYED,
    "deduplicate": KEYED,
    "group-aggregate": KEYED,
    "top-n": {**KEYED, "n": 3},
    "over-aggregate": {**KEYED, "rows": 5},
    "regular-join": {"left": "a", "right": "b", **KEYED},
    "compute": {**KEYED, "windows": [{"length_s": 4}]},
    "async": {"latency_s": 0.02},
    "lookup-join": {"latency_s": 0.02, "hit_ratio": 0.5},
    "router": {},
    "map": {"selectivity": 2},
    "filter": {"selectivity": 0.5},
}
TWO_INPUTS = ("join", "interval-join", "temporal-join", "regular-join")
SLACK = {"disorder_s": 0.5, "slack_s": 0.5, "service_time_s": 1e-5}
FAILURE = {"kind": "failure", "at_s": 7.25, "host": "h0", "recover_after_s": 2}
EVENTS: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "a failure": [FAILURE],
    "a lost host": [FAILURE | {"host": "h1", "lost": True}],
    "a scale": [{"kind": "scale", "at_s": 6.75, "operator": "x", "placement": ["h0", "h1", "h3"]}],
    "a scale behind": [{"kind": "scale", "at_s": 6.75, "operator": "behind", "placement": ["h0", "h1", "h3"]}],
    "a move": [{"kind": "migration", "at_s": 6.75, "operator": "x", "subtask": 0, "to": "h3"}],
    "a scale and a failure": [
        {"kind": "scale", "at_s": 3.75, "operator": "x", "placement": ["h0", "h1", "h3"]},
        FAILURE | {"at_s": 9.25},
    ],
}
CHECKPOINTS: dict[str, Any] = {
    "none": None,
    "aligned": {"interval_s": 3, "first_s": 2.5},
    "exactly-once": {"interval_s": 3, "first_s": 2.5, "sinks": "exactly-once"},
    "unaligned": {"interval_s": 3, "first_s": 2.5, "mode": "unaligned", "sinks": "exactly-once"},
}
POLICIES: dict[str, Any] = {"none": None, "autoscaler": {"name": "flink-autoscaler"}}
assert "flink-autoscaler" in REGISTERED


def document(kind: str, behind: bool, events: str, checkpoints: str, engine: str, policy: str) -> dict[str, Any]:
    """Job a [, b] -> x -> [behind, an aggregate over event time] -> out."""
    follows = "behind" if behind else "out"
    name = kind.partition(" ")[0]
    sources = ["a", "b"] if name in TWO_INPUTS else ["a"]
    x = {"kind": name, "name": "x", "service_time_s": 1e-4, **KINDS[kind]}
    if name == "router":
        x["shares"] = {follows: 0.7}
    operators = [*({"kind": "source", "name": each, **SLACK} for each in sources), x]
    streams = [*((each, "x") for each in sources), ("x", follows)]
    placement: dict[str, Any] = {"a": ["h0", "h1"], "b": "h2", "x": ["h0", "h1"], "out": "h2", "behind": ["h0", "h1"]}
    if behind:
        operators.append({"kind": "aggregate", "name": "behind", **KINDS["aggregate over event time"]})
        streams.append(("behind", "out"))
    operators.append({"kind": "sink", "name": "out", "service_time_s": 1e-5})
    host = {"cpu_percent": 400, "ram_mb": 4000, "bandwidth_mbps": 1000, "latency_ms": 0.5}
    return {
        "query": {"operators": operators, "streams": [{"producer": one, "consumer": two} for one, two in streams]},
        "cluster": {"hosts": [{"name": f"h{number}", **host} for number in range(4)]},
        "plan": {"placement": {name: placement[name] for name in (each["name"] for each in operators)}},
        "workload": {"arrivals": {each: {"law": "poisson", "rate_per_s": 60} for each in sources}},
        "engine": engine,
        "events": EVENTS[events],
        "checkpoints": CHECKPOINTS[checkpoints],
        "policy": POLICIES[policy],
        "run": {"horizon_s": 15, "seed": 1},
    }


def every(engine: str) -> Iterator[tuple[str, bool, str, str, str, str]]:
    """All combinations that make sense."""
    for kind, behind, events, checkpoints, policy in product(KINDS, (False, True), EVENTS, CHECKPOINTS, POLICIES):
        if behind or events != "a scale behind":
            yield kind, behind, events, checkpoints, engine, policy


def refusals(engine: str) -> Counter[str]:
    """Words of refusals, and how often each is said."""
    found: Counter[str] = Counter()
    for each in every(engine):
        try:
            parse(Scenario, document(*each))
        except BadInput as error:
            found[str(error).partition("): ")[2] or str(error)] += 1
    return found


def test_every_kind_is_tried() -> None:
    beside = {"source", "kafka-source", "sink", "external-sink", "consolidate"}
    tried = {kind.partition(" ")[0] for kind in KINDS}
    assert tried == set(BY_KIND) - beside, f"add {set(BY_KIND) - beside - tried} to KINDS, in a job of its own"


def test_nothing_is_refused_under_flink() -> None:
    assert not refusals("flink")


def test_what_a_live_change_of_the_plan_cannot_do_is_said_with_the_remedy() -> None:
    """Marks of event time would be overtaken; a restart does it."""
    for words in refusals("storm"):
        assert "move key groups, or scale it" in words or "engine.rescaling=restart" in words


REDEPLOY_S, PERIOD_S = 1.0, 0.25
"""Seconds of a restart beside its state, so that there is a run after it; and of what a run records."""


class Recorded:
    """What a run recorded: records that sources took, and results that the sink showed."""

    def __init__(self, run: Run) -> None:
        rows = [row for row in run.operator_rows if row["kind"] == "source"]
        self.taken = [(row["start_s"], row["end_s"], row["numRecordsIn"]) for row in rows]
        rows = [row for row in run.operator_rows if row["operator"] == "out"]
        self.shown = [(row["start_s"], row["end_s"], row["latencyCount"]) for row in rows]
        checkpoints = [row for row in run.event_rows if row["kind"] == "checkpoint"]
        self.complete = [(e["at_s"], e["end_s"]) for e in checkpoints if e["detail"]["status"] == "completed"]
        self.changes = [row | row["detail"] for row in run.event_rows if row["kind"] != "checkpoint"]


Periods = list[tuple[float, float, int]]


def between(periods: Periods, start_s: float, end_s: float) -> tuple[int, int]:
    """How many were recorded between two times, at least and at most."""
    whole = [n for start, end, n in periods if start >= start_s - 1e-9 and end <= end_s + 1e-9]
    touched = [n for start, end, n in periods if end > start_s + 1e-9 and start < end_s - 1e-9]
    return sum(whole), sum(touched)


def judge(scenario: Scenario, run: Run) -> None:
    """Judges what was undone, came twice, and stood still."""
    seen, spec, events = Recorded(run), scenario.checkpoints, scenario.events
    exactly_once = spec is not None and spec.sinks == "exactly-once"
    ended = [row["end_s"] for row in seen.changes]
    assert len(ended) == len(events) and all(ended)
    for row in seen.changes:
        at_s, end_s = row["at_s"], row["end_s"]
        if row["kind"] == "failure":
            last_s = max([0.0, *(a for a, b in seen.complete if b <= at_s), *(s for s in ended if s <= at_s)])
            assert row["checkpoint_s"] == pytest.approx(last_s, abs=1e-3)  # a savepoint is made a little before the end
            least, most = between(seen.taken, last_s, at_s)
            assert least <= row["replayed"] <= most
            least, most = between(seen.shown, last_s + PERIOD_S, at_s)[0], between(seen.shown, last_s, at_s)[1]
            assert row["duplicates"] == 0 if exactly_once else least <= row["duplicates"] <= most
            assert row["paused_s"] == pytest.approx(2.0 + row.get("fetched_s", 0.0))
        elif scenario.engine.rescaling.how == "restart":
            parts_s = row["drained_s"] + row["saved_s"] + REDEPLOY_S + row["fetched_s"]
            assert row["paused_s"] == pytest.approx(parts_s) and row["duplicates"] == row["replayed"] == 0
        else:
            continue
        assert end_s == pytest.approx(at_s + row["paused_s"])
        assert between(seen.taken, at_s, end_s)[0] == 0
    if exactly_once:
        saved_s = [row["at_s"] + row["drained_s"] + row["saved_s"] for row in seen.changes if "saved_s" in row]
        commits_s = [*(end_s for _, end_s in seen.complete), *ended, *saved_s]
        shown = [(start, end) for start, end, n in seen.shown if n]
        assert all(any(start - 1e-9 <= at_s <= end + 1e-9 for at_s in commits_s) for start, end in shown)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_jobs_keep_the_laws(seed: int) -> None:
    drawn = random.Random(seed)
    while True:
        each = drawn.choice(list(KINDS)), drawn.random() < 0.6, drawn.choice(list(EVENTS))
        engine = "flink" if drawn.random() < 0.7 else "storm"
        rest = drawn.choice(list(CHECKPOINTS)), engine, drawn.choice([*POLICIES, "none", "none"])
        if not each[1] and each[2] == "a scale behind":
            continue
        made = document(*each, *rest)
        try:
            engine_of = parse(Scenario, made).engine
        except BadInput:
            continue
        break
    rescaling = engine_of.rescaling.model_copy(update={"redeploy_s": REDEPLOY_S})
    made["engine"] = engine_of.model_copy(update={"rescaling": rescaling})
    made["run"] = {"horizon_s": 15, "seed": seed, "period_s": 1.0 if made["policy"] else PERIOD_S}
    scenario = parse(Scenario, made)
    run = simulate(scenario)
    assert sum(row["numRecordsIn"] for row in run.operator_rows if row["operator"] == "x") > 100
    if not made["policy"]:
        judge(scenario, run)
