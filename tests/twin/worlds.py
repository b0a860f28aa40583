"""Small deployments for tests: a queue, a chain, a join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np

from twin.control import Policy
from twin.deployment import Deployment
from twin.events import AnyEvent
from twin.job import compile
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.world.world import World

HOST = {"name": "h", "cpu_percent": 1600, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 1}


def deployment(
    operators: list[dict[str, Any]],
    streams: list[tuple[str, str]],
    rates: Mapping[str, Any],
    hosts: list[dict[str, Any]] | None = None,
    placement: dict[str, Any] | None = None,
    engine: Any = "storm",
    links: Sequence[dict[str, Any]] = (),
    switches: Sequence[str] = (),
    partitioning: Mapping[str, str | None] | None = None,
    keys: Mapping[str, Any] | None = None,
) -> Deployment:
    """Deployment of literal parts; `rates` holds a Poisson rate or a whole law a source, all is on one big host.

    partitioning: of the streams into an operator.
    """
    dealt_how = partitioning or {}
    names = [operator["name"] for operator in operators]
    laws = {k: v if isinstance(v, dict) else {"law": "poisson", "rate_per_s": v} for k, v in rates.items()}
    return parse(
        Deployment,
        {
            "query": {
                "operators": operators,
                "streams": [
                    {"producer": producer, "consumer": consumer, "partitioning": dealt_how.get(consumer)}
                    for producer, consumer in streams
                ],
            },
            "cluster": {"hosts": hosts or [HOST], "links": links, "switches": switches},
            "plan": {"placement": dict.fromkeys(names, "h") | (placement or {})},
            "workload": {"arrivals": laws, "keys": keys or {}},
            "engine": engine,
        },
    )


def source(name: str = "source", **more: Any) -> dict[str, Any]:
    """Source, by default without costs."""
    return {"kind": "source", "name": name, "service_time_s": 0} | more


def sink(name: str = "sink", **more: Any) -> dict[str, Any]:
    """Sink, by default without costs."""
    return {"kind": "sink", "name": name, "service_time_s": 0} | more


def queue(rate_per_s: float, load: float, scv: float, **more: Any) -> Deployment:
    """Job source -> queue -> sink: an M/G/1 queue whose sojourn is the processing latency."""
    middle = {
        "kind": "filter",
        "name": "queue",
        "selectivity": 1,
        "service_time_s": load / rate_per_s,
        "service_scv": scv,
    }
    return chain([middle], rate_per_s, **more)


def chain(middle: list[dict[str, Any]], rate: Any, record_bytes: float | None = None, **more: Any) -> Deployment:
    """Job source -> each of the middle operators -> sink; the source's records may have a size of their own."""
    operators = [source(record_bytes=record_bytes), *middle, sink()]
    names = [operator["name"] for operator in operators]
    return deployment(operators, list(pairwise(names)), {"source": rate}, **more)


def joined(
    operator: dict[str, Any], rates: Mapping[str, Any], end: dict[str, Any] | None = None, **more: Any
) -> Deployment:
    """Job of a source for each rate -> the operator -> a sink."""
    end = end or sink()
    streams = [*((name, operator["name"]) for name in rates), (operator["name"], end["name"])]
    return deployment([*map(source, rates), operator, end], streams, rates, **more)


def dealt(job: Deployment, **partitioning: str | None) -> Deployment:
    """Job with other partitionings of the streams into operators."""
    streams = tuple(
        each.model_copy(update={"partitioning": partitioning.get(each.consumer, each.partitioning)})
        for each in job.query.streams
    )
    return job.model_copy(update={"query": job.query.model_copy(update={"streams": streams})})


def placed(job: Deployment, **places: tuple[str, ...]) -> Deployment:
    """Job with other places of operators' subtasks."""
    return job.model_copy(update={"plan": job.plan.with_placement({**job.plan.placement, **places})})


def world_of(job: Deployment, settings: RunSettings | None = None) -> World:
    """World of a job before its first event."""
    return World(compile(job), settings or RunSettings())


@contextmanager
def noting_worlds() -> Iterator[list[World]]:
    """List of the worlds of all runs in a block."""
    found: list[World] = []
    whole = World.advance

    def noted(world: World, until_s: float) -> None:
        found.append(world)
        whole(world, until_s)

    with patch.object(World, "advance", noted):
        yield found


def simulated(job: Deployment, *events: AnyEvent, policy: Policy | None = None, **settings: Any) -> Run:
    """Run of a job with these settings."""
    return simulate(Scenario.of(job, RunSettings(**settings), events), policy)


def latencies_s(job: Deployment, seeds: int, **settings: Any) -> np.ndarray:
    """Mean processing latency of the job's run with each seed."""
    runs = (simulated(job, **settings, seed=seed) for seed in range(seeds))
    return np.array([run.metrics.value("processing_latency_s") for run in runs])
