"""Jobs with operators that run as one, and figures of their runs."""

from __future__ import annotations

from typing import Any

from tests.twin.worlds import simulated
from twin.deployment import Deployment
from twin.run import Run

CONSTANT = {"law": "constant", "rate_per_s": 100}
COUNT = {"policy": "count", "size_records": 40, "slide_records": 10}
TIME = {"policy": "time", "size_s": 2, "slide_s": 0.5}


def map_(name: str, service_s: float, **more: Any) -> dict[str, Any]:
    return {"kind": "map", "name": name, "service_time_s": service_s} | more


def filter_(name: str, service_s: float, selectivity: float) -> dict[str, Any]:
    return {"kind": "filter", "name": name, "service_time_s": service_s, "selectivity": selectivity}


def counting(name: str, service_s: float, window: dict[str, Any], groups: int = 1, **more: Any) -> dict[str, Any]:
    grouped = {"group_by": "int", "groups": groups} if groups > 1 else {}
    return {"kind": "aggregate", "name": name, "service_time_s": service_s, "window": window} | grouped | more


def fuse(job: Deployment, *groups: tuple[str, ...]) -> Deployment:
    return job.with_plan(job.plan.model_copy(update={"fused": groups}))


def run(job: Deployment, horizon_s: float = 20.0, **more: Any) -> Run:
    times = {"horizon_s": horizon_s, "warmup_s": horizon_s / 5, "period_s": horizon_s / 10}
    return simulated(job, **times | more)


def totals(result: Run) -> dict[str, tuple[int, int]]:
    return {each.operator: (each.records_in, each.records_out) for each in result.operators}


def results(result: Run) -> list[dict[str, Any]]:
    """Results that arrived, without the operators' names, and times to the nanosecond."""
    names = ("latencyCount", "e2eLatencySum_s", "processingLatencySum_s")
    return [
        {key: round(row[key], 9) for key in names}
        for row in result.operator_rows
        if row.get("latencyCount") is not None
    ]
