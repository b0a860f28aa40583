"""What one run costs: the five metrics of Costream (Definitions 1-5), with quantiles, and estimates of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from twin.deployment import Deployment
from twin.plan import ExecutionPlan

BACKPRESSURE_SHARE = 0.01
"""RO is set when the brokers' backlog grows by more than this share of the offered rate."""

REGRESSION_METRICS = ("throughput_per_s", "processing_latency_s", "e2e_latency_s")
BINARY_METRICS = ("backpressured", "success")
METRICS = REGRESSION_METRICS + BINARY_METRICS


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds over all result tuples after the warm-up; quantiles are within 2 % (a logarithmic histogram)."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Metrics:
    """T, Lp, Le, R, RO and S of one run. Latencies are None when nothing reached a sink.

    throughput_per_s: result tuples at the sinks a second (T).
    processing_latency_s: from the ingestion of the oldest involved input tuple to the result's arrival (Lp).
    e2e_latency_s: the same from that tuple's generation at the broker (Le).
    backpressure_per_s: arrival minus ingestion rate, summed over sources (R).
    backpressured: R above 1 % of the offered rate (RO). success: at least one result and no crash (S).
    """

    throughput_per_s: float
    processing_latency_s: Latency | None
    e2e_latency_s: Latency | None
    backpressure_per_s: float
    backpressured: bool
    success: bool
    tuples_in: int
    tuples_out: int


@dataclass(frozen=True, slots=True)
class CostEstimates:
    """Predictions for N plans; every array has shape [N]. Latencies in seconds, probabilities in [0, 1].

    spread: disagreement of an ensemble, as the standard deviation of the log of the processing latency; 0 if single.
    """

    throughput_per_s: np.ndarray
    processing_latency_s: np.ndarray
    e2e_latency_s: np.ndarray
    backpressured: np.ndarray
    success: np.ndarray
    spread: np.ndarray


class CostModel(Protocol):
    """Estimates the cost of plans of one job: analytic, learned or simulated. Joins models and optimizers."""

    @property
    def name(self) -> str:
        """As users write it."""

    def predict(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> CostEstimates:
        """One estimate a plan, in order. The deployment's own plan is ignored."""


@runtime_checkable
class Narrowable(Protocol):
    """A cost model that has more work with more metrics."""

    def only(self, metrics: Sequence[str]) -> CostModel:
        """The same model for some of METRICS; of the others it says NaN."""
