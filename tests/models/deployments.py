"""Random deployments for tests: any kind of operator, unions, several sinks, subtasks, hosts without work."""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.cluster import Cluster, Host
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.query import (
    Aggregate,
    AnyOperator,
    Columns,
    CountWindow,
    Filter,
    Join,
    Map,
    Query,
    Sink,
    Source,
    Stream,
    TimeWindow,
)
from twin.workload import Poisson, Workload


def random_deployment(seed: int, hosts: int = 4, parallelism: int = 1, size: int = 5) -> Deployment:
    """Random deployment: 1 to 3 sources, up to `size` operators that read from open ends, a sink for each open end."""
    rng = np.random.default_rng(seed)
    operators: list[AnyOperator] = []
    streams: list[Stream] = []
    open_ends: list[str] = []
    for index in range(int(rng.integers(1, 4))):
        counts = [int(n) for n in rng.integers(1, 5, 3)]
        operators.append(
            Source(name=f"source{index}", columns=Columns(ints=counts[0], strings=counts[1], doubles=counts[2]))
        )
        open_ends.append(f"source{index}")
    for index in range(int(rng.integers(1, size + 1))):
        operator = _operator(rng, f"op{index}", joins=len(open_ends) > 1)
        inputs = 2 if operator.kind == "join" else 1 + int(len(open_ends) > 1 and rng.random() < 0.2)
        producers = [open_ends.pop(int(rng.integers(len(open_ends)))) for _ in range(inputs)]
        streams += [Stream(producer=producer, consumer=operator.name) for producer in producers]
        if rng.random() < 0.1:
            open_ends.append(producers[0])
        operators.append(operator)
        open_ends.append(operator.name)
    for index, name in enumerate(dict.fromkeys(open_ends)):
        operators.append(Sink(name=f"sink{index}"))
        streams.append(Stream(producer=name, consumer=f"sink{index}"))
    query = Query(operators=tuple(operators), streams=tuple(streams))
    cluster = Cluster(hosts=tuple(_host(rng, f"h{index}") for index in range(hosts)))
    arrivals = {source.name: Poisson(rate_per_s=float(rng.choice([20, 200, 2000]))) for source in query.sources}
    plan = random_plan(rng, query, hosts, parallelism)
    return Deployment(query=query, cluster=cluster, plan=plan, workload=Workload(arrivals=arrivals))


def random_plan(rng: np.random.Generator, query: Query, hosts: int, parallelism: int = 1) -> ExecutionPlan:
    """Random plan with every operator on 1 to `parallelism` random hosts."""
    return ExecutionPlan(
        placement={
            operator.name: tuple(f"h{rng.integers(hosts)}" for _ in range(int(rng.integers(1, parallelism + 1))))
            for operator in query.operators
        }
    )


def _operator(rng: np.random.Generator, name: str, joins: bool) -> AnyOperator:
    kinds = ["filter", "map", "aggregate"] + ["join", "join"] * joins
    match str(rng.choice(kinds)):
        case "filter":
            return Filter(name=name, selectivity=float(rng.uniform(0.1, 1)), function="!=", literal_type="double")
        case "map":
            return Map(name=name, selectivity=float(rng.uniform(0.5, 3)))
        case "aggregate":
            grouped: dict[str, Any] = {"group_by": "string", "groups": int(rng.integers(2, 50))}
            return Aggregate(name=name, window=_window(rng), function="sum", **(grouped if rng.random() < 0.5 else {}))
        case _:
            output = {"selectivity": 0.01} if rng.random() < 0.7 else {"amplification": 0.5}
            return Join(name=name, window=_window(rng), key_type="int", **output)


def _window(rng: np.random.Generator) -> CountWindow | TimeWindow:
    slide = rng.random() < 0.5
    if rng.random() < 0.5:
        return CountWindow(size_records=int(rng.integers(10, 640)), slide_records=5 if slide else None)
    return TimeWindow(size_s=float(rng.uniform(0.25, 16)), slide_s=0.2 if slide else None)


def _host(rng: np.random.Generator, name: str) -> Host:
    return Host(
        name=name,
        cpu_percent=float(rng.choice([50, 100, 200, 400, 800])),
        ram_mb=float(rng.choice([1000, 4000, 32000])),
        bandwidth_mbps=float(rng.choice([25, 100, 1000, 10000])),
        latency_ms=float(rng.choice([1, 5, 40, 160])),
    )
