"""Job on four equal hosts that tests change while it runs, and its runs."""

from __future__ import annotations

from typing import Any

from tests.twin.worlds import chain, simulated
from twin.control import Policy
from twin.deployment import Deployment
from twin.events import AnyEvent
from twin.run import Run

HOSTS = [
    {"name": f"h{k}", "cpu_percent": 400, "ram_mb": 64_000, "bandwidth_mbps": 100, "latency_ms": 5} for k in range(4)
]


STATE = {"key_groups": 8, "state_bytes_per_group": 1e6}


def job(
    rate: Any = 400,
    service_s: float = 5e-4,
    window: dict[str, Any] | None = None,
    first: dict[str, Any] | None = None,
    **aggregate: Any,
) -> Deployment:
    """Job source -> m (a map by default) -> a (a grouped window, two subtasks) -> sink, on h0, h0, h1 and h2."""
    return chain(
        [
            {"kind": "map", "name": "m", "service_time_s": service_s} | (first or {}),
            {
                "kind": "aggregate",
                "name": "a",
                "window": window or {"policy": "time", "size_s": 2, "slide_s": 0.5},
                "group_by": "int",
                "groups": 20,
                "service_time_s": 1e-4,
                **aggregate,
            },
        ],
        rate,
        hosts=HOSTS,
        placement={"source": "h0", "m": "h0", "a": ["h1", "h1"], "sink": "h2"},
    )


def passing(rate_per_s: float = 400.0, **more: Any) -> Deployment:
    """Job with 8 MB of state in which every record reaches the sink once: 1,000 a second at most."""
    law = {"law": "constant", "rate_per_s": rate_per_s}
    return job(law, 1e-3, window={"policy": "count", "size_records": 1}, **STATE | more)


def run(deployment: Deployment, *events: AnyEvent, policy: Policy | None = None, **settings: Any) -> Run:
    """Run of a deployment with events, 20 s by default."""
    defaults = {"horizon_s": 20.0, "period_s": 1.0}
    return simulated(deployment, *events, policy=policy, **defaults | settings)


def column(result: Run, operator: str, key: str) -> list[Any]:
    """Values of an operator by period."""
    return [row[key] for row in result.operator_rows if row["operator"] == operator]


def e2e_s(result: Run) -> list[float | None]:
    """Mean end-to-end latency of each period's results."""
    rows = [row for row in result.operator_rows if row["operator"] == "sink"]
    return [row["e2eLatencySum_s"] / row["latencyCount"] if row["latencyCount"] else None for row in rows]
