"""Random jobs of a chosen size: graphs of sources, filters, maps and sinks on hosts of a few kinds or all different."""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.spec import parse

MOST_USED = 0.6
"""Utilisation to which the given plan fills a host before it takes the next one."""
CPU_PERCENT = (100.0, 150.0, 200.0, 400.0)
BANDWIDTH_MBPS = (100.0, 1000.0, 10_000.0)
LATENCY_MS = (0.1, 0.5, 2.0)


def large_job(operators: int, hosts: int, seed: int, *, kinds: int | None = 4, load: float = 1.0) -> Scenario:
    """Job of so many operators, of one subtask each, on so many hosts; its plan fills one host after the other.

    kinds: number of kinds of hosts, which are equal but for their names; None: all hosts are different. load: mean work
    of an operator that is no source or sink, as a share of a third of a reference core.
    """
    rng = random_stream(seed, "large-job")
    names, streams = _graph(rng, operators)
    made = [_operator(rng, name) for name in names]
    rates = {name: float(rng.choice([200.0, 500.0, 1000.0])) for name in names if name.startswith("source")}
    works = _works(rng, made, streams, rates, load)
    machines = _hosts(rng, hosts, kinds)
    return parse(
        Scenario,
        {
            "name": f"large-{operators}-{hosts}-{seed}",
            "query": {"operators": made, "streams": [{"producer": a, "consumer": b} for a, b in streams]},
            "cluster": {"hosts": machines},
            "plan": {"placement": _filled(works, machines)},
            "workload": {"arrivals": {name: {"law": "poisson", "rate_per_s": rate} for name, rate in rates.items()}},
            "engine": "storm",
        },
    )


def _graph(rng: np.random.Generator, operators: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Names by kind, and streams: an operator reads one or two before it, and the last sink what nobody reads."""
    sources, sinks = max(1, operators // 8), max(1, operators // 12)
    middle = operators - sources - sinks
    kinds = ["source"] * sources + rng.choice(["filter", "map"], middle).tolist() + ["sink"] * sinks
    names = [f"{kind}-{number}" for number, kind in enumerate(kinds)]
    streams: list[tuple[str, str]] = []
    unread = names[:sources]
    for name in names[sources : sources + middle]:
        several = 2 if len(unread) > 1 and rng.random() < 0.25 else 1
        read = [unread.pop(int(rng.integers(len(unread)))) for _ in range(several)] if unread else []
        if rng.random() < 0.1 and (again := [each for each, _ in streams if each not in read]):
            read.append(str(rng.choice(again)))
        streams += [(each, name) for each in read]
        unread.append(name)
    for number, each in enumerate(unread):
        streams.append((each, names[sources + middle + number % sinks]))
    fed = {consumer for _, consumer in streams}
    last = names[sources + middle - 1]
    streams += [(last, name) for name in names[sources + middle :] if name not in fed]
    return names, streams


def _operator(rng: np.random.Generator, name: str) -> dict[str, Any]:
    kind = name.partition("-")[0]
    selectivity = {"filter": float(rng.uniform(0.4, 1.0)), "map": 1.0}
    more = {"selectivity": selectivity[kind]} if kind in selectivity else {}
    return {"kind": kind, "name": name, "record_bytes": int(rng.choice([64, 300, 1000])), **more}


def _works(
    rng: np.random.Generator,
    operators: list[dict[str, Any]],
    streams: list[tuple[str, str]],
    rates: dict[str, float],
    load: float,
) -> dict[str, float]:
    """Gives operators their service times, and returns the reference cores that each needs."""
    out: dict[str, float] = {}
    works: dict[str, float] = {}
    for each in operators:
        name = each["name"]
        coming = rates.get(name, 0.0) + sum(out[a] for a, b in streams if b == name)
        out[name] = coming * each.get("selectivity", 1.0)
        works[name] = min(0.85, load / 3.0 * float(rng.lognormal(-0.2, 0.6)))
        if each["kind"] in ("source", "sink"):
            works[name] /= 5.0
        each["service_time_s"] = works[name] / coming
    return works


def _hosts(rng: np.random.Generator, hosts: int, kinds: int | None) -> list[dict[str, Any]]:
    drawn = [
        {
            "cpu_percent": float(rng.choice(CPU_PERCENT)),
            "ram_mb": 16_000,
            "bandwidth_mbps": float(rng.choice(BANDWIDTH_MBPS)),
            "latency_ms": float(rng.choice(LATENCY_MS)),
        }
        for _ in range(hosts if kinds is None else kinds)
    ]
    if kinds is None:
        for each in drawn:
            each["cpu_percent"] = round(each["cpu_percent"] * float(rng.uniform(0.8, 1.2)))
            each["latency_ms"] *= float(rng.uniform(0.8, 1.2))
    return [{"name": f"h{number}", **drawn[number % len(drawn)]} for number in range(hosts)]


def _filled(works: dict[str, float], hosts: list[dict[str, Any]]) -> dict[str, str]:
    """Placement that fills hosts in their order, up to MOST_USED, with a core for each operator at least; what fits
    nowhere goes to the emptiest one."""
    room = {host["name"]: MOST_USED * host["cpu_percent"] / 100.0 for host in hosts}
    placement: dict[str, str] = {}
    for name, work in works.items():
        host = next((host for host, left in room.items() if left >= work), max(room, key=lambda each: room[each]))
        placement[name] = host
        room[host] -= work
    return placement
