"""Small random jobs, on hosts or on sockets, with one to three sources, and every plan of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizers.space import as_plans, locations
from tests.optimizers.judged_jobs import ways
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.spec import parse

LOADS = (0.3, 0.8, 1.5, 4.0)
"""Offered rates over what all cores could take if nothing came from elsewhere."""
MOST_PLANS = 6_000
GIVEN = ("one place", "scattered", "in turn", "apart")
"""Kinds of given plans: all in one place; each subtask anywhere; subtasks in turn; each operator in its own place."""


def claimed_job(seed: int, *, sources: int | None = None, on_sockets: bool | None = None) -> Scenario:
    """DAG of sources, maps and sinks on two or three hosts or sockets. sources, on_sockets: None: drawn."""
    rng = random_stream(seed, "claims")
    drawn = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    sources = drawn[0] if sources is None else sources
    on_sockets = drawn[1] if on_sockets is None else on_sockets
    hosts, engine, rate_per_s, run = _on_sockets(rng) if on_sockets else _on_hosts(rng)
    operators, streams = _graph(rng, sources)
    rates = {each["name"]: rate_per_s * float(rng.choice([0.2, 1.0, 3.0])) for each in operators[:sources]}
    laws = {name: {"law": "constant" if on_sockets else "poisson", "rate_per_s": rate} for name, rate in rates.items()}
    names = [each["name"] for each in operators]
    cores = sum(host["cpu_percent"] for host in hosts) / 100
    work, load = _work(operators, streams, rates), float(rng.choice(LOADS))
    for each in operators:
        each["service_time_s"] *= cores * load / work
    document = {
        "name": f"claims-{seed}",
        "query": {"operators": operators, "streams": [{"producer": a, "consumer": b} for a, b in streams]},
        "cluster": {"hosts": hosts},
        "plan": {"placement": dict.fromkeys(names, hosts[0]["name"])},
        "workload": {"arrivals": laws},
        "engine": engine,
        "run": run,
    }
    job = parse(Scenario, document)
    return job.with_plan(_given(job, rng))


def every_plan(job: Scenario) -> np.ndarray:
    """All plans with the given numbers of subtasks, or MOST_PLANS random ones where there are more. [N, O, L]"""
    options = ways(job)
    sizes = [len(each) for each in options]
    total = int(np.prod(sizes))
    rows = (
        np.arange(total) if total <= MOST_PLANS else random_stream(0, job.name).choice(total, MOST_PLANS, replace=False)
    )
    index = np.unravel_index(rows, sizes)
    return np.stack([np.array(each)[row] for each, row in zip(options, index, strict=True)], axis=1)


def _on_sockets(rng: np.random.Generator) -> tuple[list[dict[str, Any]], str, float, dict[str, float]]:
    sockets, cores = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    far = rng.choice([100.0, 400.0, 2000.0], (sockets, sockets))
    host = {
        "name": "h",
        "cpu_percent": 100.0 * sockets * cores,
        "ram_mb": 64_000,
        "bandwidth_mbps": 1000,
        "latency_ms": 1,
        "sockets": [{"cores": cores}] * sockets,
        "numa": {"latency_ns": far.tolist()},
    }
    return [host], "brisk", 1e6, {"horizon_s": 0.4, "warmup_s": 0.1, "period_s": 0.05}


def _on_hosts(rng: np.random.Generator) -> tuple[list[dict[str, Any]], str, float, dict[str, float]]:
    hosts = [
        {
            "name": name,
            "cpu_percent": float(rng.choice([100, 200, 400])),
            "ram_mb": float(rng.choice([2000, 16_000, 64_000])),
            "bandwidth_mbps": float(rng.choice([25, 1000, 10_000])),
            "latency_ms": float(rng.choice([0.1, 1, 20])),
        }
        for name in ("a", "b", "c")[: int(rng.integers(2, 4))]
    ]
    run = {"horizon_s": 60.0, "warmup_s": 15.0, "period_s": 5.0}
    return hosts, str(rng.choice(["storm", "flink", "brisk"])), 500.0, run


def _graph(rng: np.random.Generator, sources: int) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Operators and streams: each operator has consumers, each consumer producers; service times in proportion."""
    kinds = ["source"] * sources + ["map"] * int(rng.integers(1, 3)) + ["sink"] * int(rng.integers(1, 3))
    names = [f"{kind}{number}" for number, kind in enumerate(kinds)]
    operators: list[dict[str, Any]] = []
    streams: list[tuple[str, str]] = []
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        operators.append({"kind": kind, "name": name, "service_time_s": float(rng.lognormal(0.0, 0.8))})
        operators[-1]["record_bytes"] = int(rng.choice([64, 300]))
        if kind == "map":
            operators[-1]["selectivity"] = float(rng.choice([0.5, 1.0, 2.0]))
        feeding = [each for each, other in zip(names[:number], kinds, strict=False) if other != "sink"]
        if kind != "source":
            chosen = rng.permutation(feeding)[: int(rng.integers(1, len(feeding) + 1))]
            streams += [(str(each), name) for each in chosen]
    last = names[-1]
    fed = {producer for producer, _ in streams}
    streams += [(name, last) for name, kind in zip(names, kinds, strict=True) if kind != "sink" and name not in fed]
    return operators, streams


def _work(operators: list[dict[str, Any]], streams: list[tuple[str, str]], rates: dict[str, float]) -> float:
    """Cores that are needed at the offered rates."""
    out: dict[str, float] = {}
    work = 0.0
    for each in operators:
        coming = rates.get(each["name"], 0.0) + sum(out[a] for a, b in streams if b == each["name"])
        out[each["name"]] = coming * each.get("selectivity", 1.0)
        work += coming * each["service_time_s"]
    return work


def _given(job: Scenario, rng: np.random.Generator) -> ExecutionPlan:
    """Job with a plan of a random kind of GIVEN, with up to two subtasks more than one each."""
    operators, places = len(job.query.operators), len(locations(job))
    subtasks_o = np.ones(operators, int) + np.bincount(
        rng.integers(0, operators, int(rng.integers(0, 3))), minlength=operators
    )
    kind = str(rng.choice(GIVEN))
    counts_ol = np.zeros((operators, places), np.int64)
    first, turn = int(rng.integers(places)), 0
    for o, count in enumerate(subtasks_o):
        own = int(rng.integers(places))
        for _ in range(count):
            place = {"one place": first, "scattered": int(rng.integers(places)), "in turn": turn % places, "apart": own}
            counts_ol[o, place[kind]] += 1
            turn += 1
    return as_plans(job, counts_ol[None])[0]
