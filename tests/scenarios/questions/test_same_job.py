"""The same job, written in another way: predictions of questions, and runs, are the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenarios.executing import Processes
from scenarios.measures import condition, measures
from scenarios.planning.planner import optimize
from scenarios.questions.bench import Bench
from scenarios.questions.capacity import CapacityQuestion, capacity
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import knob
from scenarios.questions.prediction import PredictedLimit, measures_predicted
from scenarios.questions.resources import binding, limits, resources
from streamtwin.answers.verdict import verdict
from tests.scenarios.questions.jobs import SILENT, host
from tests.twin import worlds
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

FEW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENGINE = STORM.model_copy(
    update={
        "name": "free",
        "serialise_ns_per_byte": 0.0,
        "deserialise_ns_per_byte": 0.0,
        "flush_s": None,
        "result_us": 0.0,
        "scan_us": 0.0,
    }
)
PER_S = 200.0
PRECISION = 0.04
"""Precision of limits; the brackets of predictions are a quarter of it."""
Parts = dict[str, Any]
OWN: dict[str, Parts] = {
    "map": {},
    "filter": {"selectivity": 0.5},
    "aggregate": {"window": {"policy": "time", "size_s": 0.5}, "group_by": "int", "groups": 10},
    "keyed-state": {"keys": 500, "key_groups": 8},
}
"""Keys of an operator by its kind."""


def job(random: Random, way: str = "hash") -> Parts:
    """Row of operators on two hosts with cores for all. way: in which the source's records are dealt."""
    names = [f"m{number}" for number in range(random.randint(1, 3))]
    rows: list[Parts] = [{"kind": "source", "name": "s", "service_time_s": 0.0}]
    parallelism = {"s": 1, "out": 1} | {name: random.choice([1, 1, 2, 3]) for name in names}
    for name in names:
        kind = random.choice(list(OWN))
        own = OWN[kind]
        work_s = random.uniform(0.1, 0.9) * parallelism[name] / PER_S
        rows.append({"kind": kind, "name": name, "service_time_s": work_s, "service_scv": 0.5} | own)
    rows.append({"kind": "sink", "name": "out", "service_time_s": 0.0})
    ends = [each["name"] for each in rows]
    streams = [{"producer": a, "consumer": b, "partitioning": "hash"} for a, b in pairwise(ends)]
    streams[0]["partitioning"] = way
    hosts = [host(name, 16, ram_mb=64_000, bandwidth_mbps=10_000_000, latency_ms=0) for name in ("big", "other")]
    return {
        "name": "job",
        "query": {"operators": rows, "streams": streams},
        "cluster": {"hosts": hosts},
        "plan": {
            "placement": {name: [random.choice(["big", "other"])] * count for name, count in parallelism.items()},
        },
        "workload": {"arrivals": {"s": {"law": "poisson", "rate_per_s": PER_S}}},
        "engine": ENGINE.model_dump(mode="json"),
        "run": {"horizon_s": 60, "warmup_s": 10, "period_s": 1},
    }


def renamed(parts: Parts, random: Random) -> Parts:
    """Job with other names, listed in another order."""
    rows, hosts = parts["query"]["operators"], parts["cluster"]["hosts"]
    new = {each["name"]: f"x{number}" for number, each in enumerate(random.sample([*rows, *hosts], len(rows + hosts)))}
    streams = [each | {end: new[each[end]] for end in ("producer", "consumer")} for each in parts["query"]["streams"]]
    placement = {new[name]: [new[place] for place in places] for name, places in parts["plan"]["placement"].items()}
    chains = [[new[name] for name in chain] for chain in parts["plan"].get("fused", ())]
    again = [[each | {"name": new[each["name"]]} for each in random.sample(some, len(some))] for some in (rows, hosts)]
    return parts | {
        "query": {"operators": again[0], "streams": random.sample(streams, len(streams))},
        "cluster": {"hosts": again[1]},
        "plan": {"placement": placement, "fused": chains},
        "workload": {"arrivals": {new[name]: law for name, law in parts["workload"]["arrivals"].items()}},
    }


def halved(parts: Parts, _random: Random) -> Parts:
    """Job in which two hosts with half the cores and memory each stand for one, and share its subtasks in turn."""
    whole, *others = parts["cluster"]["hosts"]
    half = {name: whole[name] / 2 for name in ("cpu_percent", "ram_mb")}
    halves = [whole | half | {"name": name} for name in ("left", "right")]
    count, placement = 0, dict[str, list[str]]()
    for name, places in parts["plan"]["placement"].items():
        placement[name] = []
        for place in places:
            count += place == whole["name"]
            placement[name].append(("left", "right")[count % 2] if place == whole["name"] else place)
    return parts | {"cluster": {"hosts": [*halves, *others]}, "plan": parts["plan"] | {"placement": placement}}


def two_sources(parts: Parts, _random: Random) -> Parts:
    """Job with two sources of half the rate for one; together they are Poisson again."""
    (source, *rows), (first, *streams) = parts["query"]["operators"], parts["query"]["streams"]
    law = {"law": "poisson", "rate_per_s": parts["workload"]["arrivals"]["s"]["rate_per_s"] / 2}
    placement = parts["plan"]["placement"]
    return parts | {
        "query": {
            "operators": [source, source | {"name": "t"}, *rows],
            "streams": [first, first | {"producer": "t"}, *streams],
        },
        "plan": parts["plan"] | {"placement": placement | {"t": placement["s"]}},
        "workload": {"arrivals": {"s": law, "t": law}},
    }


def chained(parts: Parts, random: Random) -> Parts:
    """Job in which an operator that does nothing is put behind one of its own, or before one without keys, and chained
    to it."""
    rows, streams, plan = parts["query"]["operators"], parts["query"]["streams"], parts["plan"]
    kinds = {each["name"]: each["kind"] for each in rows[:-1]}
    middle = random.choice(list(kinds))
    before = random.random() < 0.5 and kinds[middle] in ("map", "filter")
    idle = {"kind": "map", "name": "idle", "service_time_s": 0.0, "service_scv": 0.0}
    end = "consumer" if before else "producer"
    moved = [each | {end: "idle"} if each[end] == middle else each for each in streams]
    group = ["idle", middle] if before else [middle, "idle"]
    between = {"producer": group[0], "consumer": group[1], "partitioning": "forward"}
    places = plan["placement"] | {"idle": plan["placement"][middle]}
    return parts | {
        "query": {"operators": [*rows, idle], "streams": [*moved, between]},
        "plan": plan | {"placement": places, "fused": [*plan.get("fused", []), group]},
    }


WAYS: list[Callable[[Parts, Random], Parts]] = [renamed, halved, two_sources, chained]


def limit(scenario: Scenario, find: Any, of: str) -> PredictedLimit:
    term = condition("not backpressured", scenario)
    question = CapacityQuestion(find, knob(of, f"--find-{find}"), term, precision=PRECISION)
    with Bench(Processes(1)) as bench:
        return capacity(scenario, question, bench, 1, SILENT, prove=False).predicted


def scenarios(seed: int, how: Callable[[Parts, Random], Parts]) -> tuple[Scenario, Scenario]:
    random = Random(seed)
    parts = job(random)
    return parse(Scenario, parts), parse(Scenario, how(parts, random))


@pytest.mark.parametrize("how", WAYS, ids=lambda how: how.__name__)
@FEW
@given(seed=st.integers(0, 10**9))
def test_what_is_predicted_of_a_job_does_not_depend_on_how_it_is_written(
    how: Callable[[Parts, Random], Parts], seed: int
) -> None:
    """Measures, and the load that a job bears in runs of a day, are those of the same job, written otherwise."""
    one, other = scenarios(seed, how)
    loads = [limit(each, "max", "load") for each in (one, other)]
    bears = loads[0].in_long_runs
    assert bears is not None and bears == pytest.approx(loads[1].in_long_runs, rel=PRECISION / 4)
    figures = [measures_predicted(each) for each in (one, other)]
    same = ("throughput_per_s", "e2e_latency_s.mean", "backpressured", "success", "crashed")
    if figures[0]["backpressured"] < 0.5 and bears > 1.1:
        for name in same:
            assert figures[0][name] == pytest.approx(figures[1][name], rel=1e-4), name


@pytest.mark.parametrize("how", [renamed, halved, chained], ids=lambda how: how.__name__)
def test_runs_do_not_depend_on_how_a_job_is_written(how: Callable[[Parts, Random], Parts]) -> None:
    """Runs of the same job, written otherwise, have as many results, and within errors of the same age."""
    pairs = []
    for seed in range(6):
        both = [each.with_run(seed=seed) for each in scenarios(seed, how)]
        pairs.append([simulate(each).metrics.value("e2e_latency_s") for each in both])
    differences = np.log(np.array(pairs)[:, 0] / np.array(pairs)[:, 1])
    assert abs(differences.mean()) < 4.0 * max(differences.std(ddof=1) / np.sqrt(len(pairs)), 1e-6)


# a source that is chained to an operator before the bottleneck -------------------------------------------------------


def readers(per_s: float = 1000.0, work: int = 2, chain: bool = True) -> Scenario:
    """Two readers, each with a parser, deal to subtasks of 1 ms a record."""
    rows = [
        {"kind": "source", "name": "src", "service_time_s": 4e-5, "record_bytes": 300},
        {"kind": "map", "name": "parse", "service_time_s": 1e-4, "record_bytes": 300},
        {"kind": "map", "name": "work", "service_time_s": 1e-3, "record_bytes": 200},
        {"kind": "sink", "name": "out", "service_time_s": 1e-5},
    ]
    streams = [
        {"producer": "src", "consumer": "parse", "partitioning": "forward"},
        {"producer": "parse", "consumer": "work", "partitioning": "rebalance"},
        {"producer": "work", "consumer": "out"},
    ]
    hosts = [host(name, 4) for name in ("a", "b")]
    both = ["a", "b"]
    placement = {"src": both, "parse": both, "work": [both[number % 2] for number in range(work)], "out": "b"}
    return parse(
        Scenario,
        {
            "name": "readers",
            "query": {"operators": rows, "streams": streams},
            "cluster": {"hosts": hosts},
            "plan": {"placement": placement, "fused": [["src", "parse"]] if chain else []},
            "workload": {"arrivals": {"src": {"law": "poisson", "rate_per_s": per_s}}},
            "engine": "flink",
            "run": {"horizon_s": 120, "warmup_s": 20},
        },
    )


@pytest.mark.parametrize("chain", [True, False])
def test_a_chained_source_bears_what_the_operators_behind_it_do(chain: bool) -> None:
    """Two subtasks of 1.008 ms, with serialisation, bear 1,990 a second, with a tolerated 1 %; 5,500 a second take 6,
    and more than 14,000 a second no number, as the readers bear no more."""
    work_s = 1e-3 + 0.5 * (300 + 200) * 4e-9  # half of the records and results go to the other host
    found = limit(readers(chain=chain), "max", "load")
    assert found.in_long_runs == pytest.approx(2 / work_s / 0.99 / 1000, rel=PRECISION / 4)
    assert found.value is not None and found.value < 1.05 * 2 / work_s / 0.99 / 1000
    assert found.binds.startswith("operator work on a, b")
    fewest = limit(readers(5500.0, chain=chain), "min", "subtasks of work")
    assert (fewest.status, fewest.value) == ("found", 6)
    if chain:
        none = limit(readers(16_000.0, work=20), "min", "subtasks of work")
        assert none.status == "never" and "operator src + parse on a, b (100% busy)" in none.binds


@pytest.mark.parametrize("chain", [True, False])
def test_a_plan_for_a_chained_source_keeps_up_as_predicted(chain: bool) -> None:
    """An optimizer finds that no plan of two subtasks bears 2,500 a second, and one that bears 1,500."""
    for per_s, keeps_up in ((1500.0, True), (2500.0, False)):
        scenario = readers(per_s, chain=chain)
        plan = optimize(scenario).plan
        assert plan.fused == scenario.plan.fused
        assert (RateModel().planning().predict(scenario, [plan])["backpressured"][0] < 0.5) == keeps_up


@pytest.mark.parametrize(("load", "binds"), [(2.5, True), (0.5, False)])
def test_a_chain_is_named_once_as_a_whole(load: float, binds: bool) -> None:
    """Two chained operators of 200 and 800 us are one task: what binds, and the fullest, are both of them together."""
    middle = [{"kind": "map", "name": name, "service_time_s": work_s} for name, work_s in (("a", 2e-4), ("b", 8e-4))]
    plain = Scenario.of(worlds.chain(middle, load * 1000.0), RunSettings(horizon_s=10.0, warmup_s=2.0))
    job = plain.with_plan(plain.plan.model_copy(update={"fused": (("a", "b"),)}))
    run = simulate(job)
    listed = resources(job, [RunOutcome(measures(run))])
    found, fullest = limits(listed, (), job)
    assert [words.partition(" (")[0] for words in (*found, fullest) if words] == ["operator a + b"]
    assert bool(found) == binds and binding(listed, job).startswith("operator a + b on h (" * binds)
    assert verdict(job, run).count("operator a + b") == 1 and "operator b" not in verdict(job, run)
