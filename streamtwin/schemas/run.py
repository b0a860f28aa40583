"""`twin run --json`, and result.json of a trace."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from scenarios.files.documents import CLOSED, Number, PerSecond, Seconds, Share


@CLOSED
class LatencyPart(TypedDict):
    """Over all results after the warm-up; quantiles are within 2 %."""

    mean: Seconds
    p50: Seconds
    p95: Seconds
    p99: Seconds


@CLOSED
class ErrorsPart(TypedDict):
    """Standard errors of the means by chance; null where nothing can be said."""

    throughput_per_s: Number
    processing_latency_s: Number
    e2e_latency_s: Number


@CLOSED
class OperatorPart(TypedDict):
    """All replicas of an operator together, after the warm-up; busy, backpressured and idle are shares of time."""

    kind: str
    replicas: int
    tuples_in: int
    tuples_out: int
    rate_in_per_s: PerSecond
    rate_out_per_s: PerSecond
    busy: Share
    backpressured: Share
    idle: Share


@CLOSED
class HostPart(TypedDict):
    """A host that carries an operator, after the warm-up."""

    cpu: Share
    memory_mb: float
    gc_slowdown: float
    sent_mbps: float


@CLOSED
class LinkPart(TypedDict):
    """A direction of a link ("a->b"), or a host's network card."""

    utilisation: Share
    busiest: Share
    sent_mbps: float


@CLOSED
class EventPart(TypedDict):
    """A change of the running job. end_s: null while it lasts. bytes: of state that was moved."""

    at_s: Seconds
    end_s: Number
    kind: str
    component: str
    paused_s: Number
    bytes: Number
    detail: dict[str, Any]


@CLOSED
class ManifestPart(TypedDict):
    """What it takes to make the run again. simulated_s: where it ended; before its horizon with a precision alone."""

    version: str
    config_hash: str
    seed: int
    horizon_s: Seconds
    warmup_s: Seconds
    period_s: Seconds
    precision: NotRequired[Number]
    simulated_s: Seconds


@CLOSED
class RunDocument(TypedDict):
    """One simulated run. Latencies are null when nothing reached a sink. markers: by operator and source, the age of
    latency markers there (s)."""

    throughput_per_s: PerSecond
    processing_latency_s: LatencyPart | None
    e2e_latency_s: LatencyPart | None
    backpressure_per_s: PerSecond
    backpressured: bool
    success: bool
    tuples_in: int
    tuples_out: int
    standard_errors: ErrorsPart
    cpu_s: Seconds
    crashed: bool
    operators: dict[str, OperatorPart]
    hosts: dict[str, HostPart]
    links: dict[str, LinkPart]
    markers: dict[str, dict[str, Number]]
    duplicates: int
    events: list[EventPart]
    warnings: list[str]
    manifest: ManifestPart
