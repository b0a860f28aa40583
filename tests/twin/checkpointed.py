"""Jobs that take checkpoints, and the rows of their checkpoints."""

from __future__ import annotations

from typing import Any

from tests.twin.worlds import chain, joined
from twin.deployment import Deployment
from twin.events import AnyEvent
from twin.profiles import STORM
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse


def hosts(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Equal hosts, by default with fast cards and no latency."""
    usual = {"cpu_percent": 400, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 0}
    return [{"name": name} | usual | more for name in names]


def steady(rate_per_s: float) -> dict[str, Any]:
    """Arrival law with equal distances."""
    return {"law": "constant", "rate_per_s": rate_per_s}


def lines(parallelism: int = 2, rate_per_s: float = 200.0, service_s: float = 1e-3) -> Deployment:
    """Job source -> m -> sink, each subtask on a host of its own and connected with its own alone."""
    names = [f"h{k}" for k in range(parallelism)]
    return chain(
        [{"kind": "map", "name": "m", "service_time_s": service_s, "service_scv": 0}],
        steady(rate_per_s),
        hosts=hosts(*names, "store"),
        placement=dict.fromkeys(("source", "m", "sink"), names),
        partitioning={"m": "forward", "sink": "forward"},
    )


def meeting(late_ms: float = 500.0, fast: float = 400.0, slow: float = 100.0, room: int = 1024) -> Deployment:
    """Job of two sources that meet in a map, behind channels of that room; what the slow one sends takes `late_ms`."""
    far = hosts("far", latency_ms=late_ms)
    return joined(
        {"kind": "map", "name": "m", "service_time_s": 0},
        {"fast": steady(fast), "slow": steady(slow)},
        hosts=[*hosts("near", "store"), *far],
        placement={"fast": "near", "slow": "far", "m": "near", "sink": "near"},
        engine=STORM.model_copy(update={"channel_records": room}).model_dump(mode="json"),
    )


def run(what: Deployment, *events: AnyEvent, checkpoints: Any = None, **settings: Any) -> Run:
    """Run of 20 s, with a checkpoint every 5 s, by default; the first after an interval."""
    usual = {"horizon_s": 20.0, "period_s": 1.0}
    scenario = Scenario.of(what, RunSettings(**(usual | settings)), events)
    given = {"interval_s": 5.0} | (checkpoints or {})
    given = {"first_s": given["interval_s"]} | given
    return simulate(parse(Scenario, {**dict(scenario), "checkpoints": given}))


def taken(result: Run, status: str = "completed") -> list[dict[str, Any]]:
    """Rows of checkpoints of that status, with their details."""
    rows = [row | row["detail"] for row in result.event_rows if row["kind"] == "checkpoint"]
    return [row for row in rows if row["status"] == status]


def failures(result: Run) -> list[dict[str, Any]]:
    """Rows of failures, with their details."""
    return [row | row["detail"] for row in result.event_rows if row["kind"] == "failure"]
