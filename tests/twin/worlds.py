"""Small deployments for tests: a queue, a chain, a join."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twin.deployment import Deployment
from twin.spec import parse

HOST = {"name": "h", "cpu_percent": 1600, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 1}


def deployment(
    operators: list[dict[str, Any]],
    streams: list[tuple[str, str]],
    rates: dict[str, Any],
    hosts: list[dict[str, Any]] | None = None,
    placement: dict[str, Any] | None = None,
    engine: Any = "storm",
) -> Deployment:
    """From literal parts; `rates` holds a Poisson rate or a whole law a source, everything sits on one big host."""
    names = [operator["name"] for operator in operators]
    laws = {k: v if isinstance(v, dict) else {"law": "poisson", "rate_per_s": v} for k, v in rates.items()}
    return parse(
        Deployment,
        {
            "query": {
                "operators": operators,
                "streams": [{"producer": producer, "consumer": consumer} for producer, consumer in streams],
            },
            "cluster": {"hosts": hosts or [HOST]},
            "plan": {"placement": dict.fromkeys(names, "h") | (placement or {})},
            "workload": {"arrivals": laws},
            "engine": engine,
        },
    )


def source(name: str = "source", **more: Any) -> dict[str, Any]:
    """Costs nothing unless told."""
    return {"kind": "source", "name": name, "service_time_s": 0} | more


def sink(name: str = "sink", **more: Any) -> dict[str, Any]:
    """Costs nothing unless told."""
    return {"kind": "sink", "name": name, "service_time_s": 0} | more


def queue(rate_per_s: float, load: float, scv: float, **more: Any) -> Deployment:
    """source -> queue -> sink: an M/G/1 queue whose sojourn is the processing latency."""
    middle = {
        "kind": "filter",
        "name": "queue",
        "selectivity": 1,
        "service_time_s": load / rate_per_s,
        "service_scv": scv,
    }
    return chain([middle], rate_per_s, **more)


def chain(middle: list[dict[str, Any]], rate: Any, **more: Any) -> Deployment:
    """source -> each of the middle operators -> sink."""
    operators = [source(), *middle, sink()]
    names = [operator["name"] for operator in operators]
    return deployment(operators, list(pairwise(names)), {"source": rate}, **more)


def dealt(job: Deployment, **partitioning: str | None) -> Deployment:
    """With the streams into operators dealt so."""
    streams = tuple(
        each.model_copy(update={"partitioning": partitioning.get(each.consumer, each.partitioning)})
        for each in job.query.streams
    )
    return job.model_copy(update={"query": job.query.model_copy(update={"streams": streams})})


def placed(job: Deployment, **places: tuple[str, ...]) -> Deployment:
    """With the replicas of operators there."""
    return job.model_copy(update={"plan": job.plan.with_placement({**job.plan.placement, **places})})
