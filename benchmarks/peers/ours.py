"""Cases of the comparison as deployments of this simulator."""

from __future__ import annotations

from typing import Any

from benchmarks.peers import cases
from tests.twin.worlds import chain, dealt
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario, put
from twin.simulation import simulate


def run(case: str, customers: int, seed: int) -> float:
    """Answer of a case."""
    horizon_s = customers / cases.CASES[case].rate
    settings = RunSettings(horizon_s=horizon_s, period_s=horizon_s / 10, seed=seed)
    metrics = simulate(Scenario.of(_deployment(case), settings)).metrics
    assert metrics.e2e_latency_s is not None
    mean_s = metrics.e2e_latency_s.mean
    return {"loss": mean_s - 1.0, "tandem": mean_s, "pipeline": 1e6 * mean_s}[case]


def _deployment(case: str) -> Deployment:
    if case == "loss":
        return _loss()
    if case == "tandem":
        servers = [_server(f"q{k}", each) for k, each in enumerate(cases.TANDEM_SERVICES_S)]
        return chain(servers, cases.TANDEM_RATE, engine=_with_places(cases.TANDEM_PLACES))
    work = _server("map", cases.PIPELINE_SERVICE_S)
    return chain([work], cases.PIPELINE_RATE, engine=_with_places(cases.PIPELINE_PLACES))


def _loss() -> Deployment:
    servers = {"queue": {"h": cases.LOSS_SERVERS}}
    queue = _with_places(cases.LOSS_PLACES - cases.LOSS_SERVERS)
    job = chain([_server("queue", 1.0)], cases.LOSS_RATE, placement=servers, engine=queue)
    return put(dealt(job, queue="shared"), "query.streams.source->queue.overflow", "drop", "loss")


def _server(name: str, service_s: float) -> dict[str, Any]:
    return {"kind": "filter", "name": name, "selectivity": 1, "service_time_s": service_s, "service_scv": 1}


def _with_places(places: int) -> dict[str, Any]:
    return STORM.model_copy(update={"channel_records": places}).model_dump(mode="json")
