"""What the analytic rate model finds out on its way to an answer, as facts of operators, of hosts, and of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twin.metrics import METRICS
from twin.rates.answer import RateAnswer


@dataclass(frozen=True, slots=True)
class OperatorState:
    """An operator once its sources have been slowed until nothing is overloaded, by twin.rates.answer.

    offered_pressure: before that. service_s: at the speed that its socket gives it. The seconds are means over its
    results: on the way here, in its queue and service, in its window, and all since ingestion.
    """

    in_per_s: float = 0.0
    out_per_s: float = 0.0
    offered_pressure: float = 0.0
    pressure: float = 0.0
    service_s: float = 0.0
    blocked: float = 0.0
    channel_s: float = 0.0
    queue_s: float = 0.0
    window_s: float = 0.0
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HostState:
    """Shares of a host's CPU and outgoing bandwidth in use, likewise, and of its RAM."""

    cpu_used: float = 0.0
    nic_used: float = 0.0
    memory_used: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanState:
    """The rate model's estimates for one plan as if its channels took no time to fill, and what they rest on.

    utilisation: highest offered pressure. ingested: smallest share of a source's rate. chances: expected independent
    chances of a result. lag_share: what the run's empty start costs, as a share of its length. blocked: share of the
    operators whose input is full. Since ingestion, summed over all operators: seconds on the way, queueing, in windows.
    """

    throughput_per_s: float
    processing_latency_s: float
    e2e_latency_s: float
    backpressured: float
    success: float
    utilisation: float
    ingested: float
    chances: float
    lag_share: float
    blocked: float
    channel_s: float
    queue_s: float
    window_s: float


NO_OPERATOR_STATE = OperatorState()
NO_HOST_STATE = HostState()

OPERATOR_STATE = tuple(OperatorState.__slots__)
HOST_STATE = tuple(HostState.__slots__)
PLAN_STATE = tuple(PlanState.__slots__)


def base_costs(answer: RateAnswer) -> np.ndarray:
    """What networks correct, [P, len(METRICS)], in that order."""
    return np.stack([answer.costs[metric] for metric in METRICS], axis=1)


def operator_arrays(answer: RateAnswer) -> np.ndarray:
    """[P, O, len(OPERATOR_STATE)], in that order."""
    speed_PxO = np.maximum(answer.speed, 1e-6)
    derived = {"service_s": answer.service_s / speed_PxO, "blocked": answer.blocked.astype(float)}
    return np.stack([derived.get(name, getattr(answer, name)) for name in OPERATOR_STATE], axis=2)


def host_arrays(answer: RateAnswer) -> np.ndarray:
    """[P, H, len(HOST_STATE)], in that order."""
    return np.stack([getattr(answer, name.removesuffix("_used")) for name in HOST_STATE], axis=2)


def plan_arrays(answer: RateAnswer, horizon_s: float) -> np.ndarray:
    """[P, len(PLAN_STATE)], in that order. horizon_s: of the run that the answer is for."""
    derived = {
        "utilisation": answer.offered_pressure.max(axis=1),
        "ingested": answer.ingested.min(axis=1),
        "chances": answer.chances,
        "lag_share": answer.lag_s / horizon_s,
        "blocked": answer.blocked.mean(axis=1),
        **{name: getattr(answer, name).sum(axis=1) for name in ("channel_s", "queue_s", "window_s")},
    }
    return np.stack([derived[n] if n in derived else answer.lasting[n] for n in PLAN_STATE], axis=1)


def operator_states(answer: RateAnswer, plan: int) -> list[OperatorState]:
    """Of one plan, in data-flow order."""
    return [OperatorState(*row) for row in _rows(operator_arrays(answer)[plan])]


def host_states(answer: RateAnswer, plan: int) -> list[HostState]:
    """Of one plan, in the cluster's order."""
    return [HostState(*row) for row in _rows(host_arrays(answer)[plan])]


def plan_state(answer: RateAnswer, plan: int, horizon_s: float) -> PlanState:
    """Of one plan."""
    return PlanState(*_rows(plan_arrays(answer, horizon_s))[plan])


def _rows(array: np.ndarray) -> Sequence[Sequence[float]]:
    found: list[list[float]] = array.tolist()
    return found
