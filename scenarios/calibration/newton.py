"""What CPU time does not show, by Gauss and Newton on the rate model: channels, uneven services, or all costs.

Parameters are logarithms of ratios to the profile. The prior keeps each near a common factor, that of the machine,
which is nearly free. A source that keeps up only bounds costs from above: the likelihood is censored there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from scenarios.calibration.point import KEEPS_UP, Point
from scenarios.calibration.predicting import predict
from twin.scenario import Scenario

DELIVERED_ERROR, LATENCY_ERROR = 0.05, 0.1
"""Of measured rates and latencies, relative."""
SPREAD, MACHINE_SPREAD = 1.0, 3.0
"""Of a parameter around the machine's factor, and of that around 1; in logs."""
STEP = 0.05
"""Of the finite differences; in logs."""
STARTS = (0.0, np.log(4.0), np.log(16.0), -np.log(4.0))
"""Machine factors tried first."""
ALONE = (np.log(30.0), np.log(1000.0))
"""And factors of each cost by itself: one function may cost far more than all the others."""
FARTHEST = np.log(1e5)
MOST = 8
"""Steps."""
CLOSE = 1e-2
"""A step that changes parameters or the loss by less, relatively, is the last."""

Apply = Callable[[Scenario, np.ndarray], Scenario]
"""A scenario under parameters: logs of ratios to what the profile says."""
Misses = Callable[[Point, Scenario], Sequence[float]]


@dataclass(frozen=True, slots=True)
class NewtonFit:
    """logs_k: of the ratios to the profile. covariance_kk: of these. readings: how many they come from."""

    logs_k: np.ndarray
    covariance_kk: np.ndarray
    readings: int


def asked(points: Sequence[Point]) -> int:
    """How many readings there are that costs can be found from without CPU time."""
    return sum(len(point.delivered) + (point.latency_s is not None) + len(point.markers_s) for point in points)


def fit(
    points: Sequence[Point],
    apply: Apply,
    count: int,
    costs: int,
    report: Callable[[int, int], None] | None = None,
    *,
    misses: Misses | None = None,
    spread: float = SPREAD,
) -> NewtonFit:
    """The parameters that explain what sources deliver, and latencies.

    costs: the first so many share the machine's factor; the others stand for themselves. misses: how far off a point is
    under a scenario, in standard deviations of its readings. spread: of a parameter, a priori.
    """
    calls, found_misses = 0, misses or missed

    def residuals(logs_k: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if report is not None:
            report(min(calls, _budget(count)), _budget(count))
        off = [miss for point in points for miss in found_misses(point, apply(point.scenario, logs_k))]
        return np.array([*off, *_prior(logs_k, costs, spread)])

    def slopes(logs_k: np.ndarray) -> np.ndarray:
        here = residuals(logs_k)
        return np.stack([(residuals(logs_k + STEP * unit) - here) / STEP for unit in np.eye(count)], axis=1)

    def descended(start_k: np.ndarray) -> Any:
        bounds = (-FARTHEST, FARTHEST)
        tolerances = {"max_nfev": MOST, "xtol": CLOSE, "ftol": CLOSE}
        return optimize.least_squares(residuals, start_k, jac=slopes, bounds=bounds, loss="soft_l1", **tolerances)

    def loss(start_k: np.ndarray) -> float:
        return _robust(residuals(start_k))

    together, alone = _together(count, costs), _alone(count, costs)
    starts = [min(together, key=loss)]
    if alone and loss(each := min(alone, key=loss)) < loss(starts[0]):
        starts.append(each)
    found = min((descended(start_k) for start_k in starts), key=lambda end: float(end.cost))
    covariance_kk = np.linalg.pinv(found.jac.T @ found.jac)
    return NewtonFit(found.x, covariance_kk, asked(points))


def _together(count: int, costs: int) -> list[np.ndarray]:
    """Starts with one factor on all costs."""
    return [np.where(np.arange(count) < costs, start, 0.0) for start in (STARTS if costs else STARTS[:1])]


def _alone(count: int, costs: int) -> list[np.ndarray]:
    """Starts with a factor on one cost."""
    return [np.where(np.arange(count) == k, start, 0.0) for k in range(costs) for start in ALONE]


def _budget(count: int) -> int:
    return len(STARTS) + MOST * (count + 2)


def _robust(residuals_r: np.ndarray) -> float:
    return float((np.sqrt(1.0 + residuals_r**2) - 1.0).sum())


def _prior(logs_k: np.ndarray, costs: int, spread: float) -> list[float]:
    shared = logs_k[:costs]
    machine = float(shared.mean()) if costs else 0.0
    own = [*(shared - machine), *logs_k[costs:]]
    return [*(each / spread for each in own), machine / MACHINE_SPREAD]


def missed(point: Point, scenario: Scenario) -> list[float]:
    """What sources deliver and latencies of a point, against the rate model's, in standard deviations of readings."""
    predicted, found = predict(scenario), []
    for source, share in point.delivered.items():
        found.append(behind(predicted.margin[source], share))
    if point.latency_s is not None and point.latency_s > 0 and np.isfinite(predicted.latency_s):
        found.append(_older(predicted.latency_s, point.latency_s))
    return [*found, *(_older(predicted.markers_s[name], age_s) for name, age_s in point.markers_s.items() if age_s > 0)]


def _older(predicted_s: float, measured_s: float) -> float:
    return float(np.log(max(predicted_s, 1e-9) / measured_s)) / LATENCY_ERROR


def behind(margin: float, share: float) -> float:
    """How far off a source is that delivers that share. It is censored: one that keeps up has a margin of 0 or more."""
    return (margin - float(np.log(max(share, 1e-9))) if share < KEEPS_UP else min(0.0, margin)) / DELIVERED_ERROR
