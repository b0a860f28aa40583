"""Jobs over event time that are rescaled as a whole, again and again and beside failures, through forward streams."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenarios.questions.jobs import host
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

HOSTS = ("tm-1", "tm-2")
TUMBLING = {"policy": "time", "time": "event"}


def branch(random: Random, number: int) -> tuple[list[dict[str, Any]], str]:
    """A source, and what its records pass before they are dealt by key; and the last of these."""
    source = {"name": f"s{number}", "kind": random.choice(["source", "kafka-source"]), "service_time_s": 1e-4}
    source |= {"disorder_s": random.choice([0, 0.2]), "slack_s": 0.2}
    if source["kind"] == "kafka-source":
        source["partitions"] = random.choice([4, 6])
    if random.random() < 0.4:
        source["idle_s"] = random.choice([0.3, 1.0])
    passed = [source, {"name": f"m{number}", "kind": "map", "service_time_s": 2e-4}]
    if random.random() < 0.5:
        passed.append({"name": f"f{number}", "kind": "filter", "selectivity": 0.7, "service_time_s": 1e-4})
    return passed, passed[-1]["name"]


def changes(random: Random, names: list[str]) -> list[dict[str, Any]]:
    """Scalings of the whole job, some of them while an earlier one is under way, and maybe a failure."""
    events, at_s = list[dict[str, Any]](), 3.0
    for _ in range(random.choice([1, 2, 3])):
        at_s += random.uniform(0.2, 4.0)
        places = [random.choice(HOSTS) for _ in range(random.choice([1, 2, 3, 4]))]
        events += [{"kind": "scale", "operator": name, "placement": places, "at_s": at_s} for name in names]
    if random.random() < 0.5:
        lasts_s = random.uniform(0.5, 2.0)
        events.append({"kind": "failure", "host": "tm-1", "at_s": random.uniform(2, 12), "recover_after_s": lasts_s})
    return events


def rescaled(random: Random) -> Scenario:
    """Job of one source or two, with windows by key over event time behind forward streams, under changes."""
    parallelism, size_s = random.choice([1, 2, 3, 4]), random.choice([0.5, 1.0, 2.0])
    branches = [branch(random, number) for number in range(random.choice([1, 2]))]
    window = TUMBLING | {"size_s": size_s} | ({"slide_s": size_s / 2} if random.random() < 0.3 else {})
    keyed = {"name": "agg", "kind": "aggregate", "window": window, "group_by": "int", "groups": 10, "key_groups": 16}
    operators = [each for passed, _ in branches for each in passed] + [keyed, {"name": "out", "kind": "sink"}]
    streams = [
        {"producer": one["name"], "consumer": other["name"], "partitioning": "forward"}
        for passed, _ in branches
        for one, other in pairwise(passed)
    ]
    streams += [{"producer": last, "consumer": "agg", "partitioning": "hash"} for _, last in branches]
    streams.append({"producer": "agg", "consumer": "out", "partitioning": random.choice(["forward", "rebalance"])})
    names = [each["name"] for each in operators]
    data = {
        "name": "rescaled",
        "query": {"operators": operators, "streams": streams},
        "cluster": {"hosts": [host(name) for name in HOSTS]},
        "plan": {"placement": {name: random.choices(HOSTS, k=parallelism) for name in names}, "fused": []},
        "workload": {"arrivals": {passed[0]["name"]: {"law": "poisson", "rate_per_s": 150} for passed, _ in branches}},
        "engine": {
            "profile": "flink",
            "service_scv": 0,
            "flush_s": random.choice([1e-6, 0.1, 0.1, 0.5]),
            "rescaling": {"how": "restart", "redeploy_s": random.choice([0.3, 1.0])},
        },
        "events": changes(random, names),
        "run": {"horizon_s": 20, "warmup_s": 1, "period_s": 1, "seed": random.randrange(1000)},
    }
    return parse(Scenario, data)


def test_changes_that_share_a_restart_are_all_made() -> None:
    """A subtask that is new in a restart hands over to one that is newer still, though no watermark comes meanwhile."""
    given = rescaled(Random(0)).model_dump(mode="json")
    names = [each["name"] for each in given["query"]["operators"]]
    placed = {5.0: ["tm-1", "tm-2"], 8.0: ["tm-2", "tm-2"], 8.1: ["tm-2", "tm-1", "tm-2", "tm-1"]}
    given["plan"]["placement"] = {name: ["tm-1"] for name in names}
    given["engine"]["rescaling"]["redeploy_s"] = 1.0
    given["events"] = [
        {"kind": "scale", "operator": name, "placement": places, "at_s": at_s}
        for at_s, places in placed.items()
        for name in names
    ]
    run = simulate(parse(Scenario, given))
    assert all(row["end_s"] is not None for row in run.event_rows)
    assert max(row["numRecordsOut"] for row in run.operator_rows if row["operator"] == "agg" and row["start_s"] > 15)


@pytest.mark.parametrize("merged", [False, True])
def test_watermarks_in_batches_do_not_hold_a_change_up(merged: bool) -> None:
    """With few records, a batch often holds a watermark alone, for which those that hand their windows over wait."""
    size, keys = {"length_s": 2}, {"keys": 40, "key_groups": 64, "service_time_s": 1e-4}
    parts = {"name": "parts", "kind": "compute", "partial_s": 1, **keys}
    last = {"name": "last", "kind": "consolidate" if merged else "compute", "windows": [size], **keys}
    operators = [{"name": "s", "kind": "source", "slack_s": 0.2}, *([parts] if merged else []), last]
    operators.append({"name": "out", "kind": "sink"})
    names = [each["name"] for each in operators]
    data = {
        "query": {"operators": operators, "streams": [{"producer": a, "consumer": b} for a, b in pairwise(names)]},
        "cluster": {"hosts": [host("tm-1")]},
        "plan": {"placement": dict.fromkeys(names, "tm-1")},
        "workload": {"arrivals": {"s": {"law": "poisson", "rate_per_s": 20}}},
        "engine": "flink",
        "events": [{"kind": "scale", "operator": "last", "placement": {"tm-1": 2}, "at_s": 20}],
        "run": {"horizon_s": 60},
    }
    job = parse(Scenario, data)
    for seed in range(8):
        (row,) = (each for each in simulate(job.with_run(seed=seed)).event_rows if each["kind"] == "scale")
        assert row["end_s"] is not None and row["end_s"] < 35


@pytest.mark.parametrize("seed", range(4))
def test_what_leaving_subtasks_have_left_is_waited_for(seed: int) -> None:
    """After a failure, subtasks that leave with the next restart have much to read again."""
    given = rescaled(Random(seed)).model_dump(mode="json")
    names = [each["name"] for each in given["query"]["operators"]]
    given["plan"]["placement"] = {name: ["tm-2", "tm-1", "tm-2"] for name in names}
    given["events"] = [{"kind": "failure", "host": "tm-1", "at_s": 5.2, "recover_after_s": 1.75}]
    given["events"] += [{"kind": "scale", "operator": name, "placement": ["tm-2"], "at_s": 6.2} for name in names]
    run = simulate(parse(Scenario, given))
    assert not sum(row.get("numLateRecordsDropped", 0) for row in run.operator_rows)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_windows_go_on_and_are_those_of_brute_force(seed: int) -> None:
    """Every run checks its windows itself, and that no record is late which no source has sent late; here each job goes
    on after its last change, too."""
    run = simulate(rescaled(Random(seed)))
    assert all(row["end_s"] is not None for row in run.event_rows if row["kind"] == "scale")
    results = [row["numRecordsOut"] for row in run.operator_rows if row["operator"] == "agg"]
    assert sum(results[-3:]) >= 10
