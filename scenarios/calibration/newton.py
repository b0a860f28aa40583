"""Fits what CPU time does not show, by Gauss-Newton steps on the rate model's predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from scenarios.calibration.points import KEEPS_UP, Point
from twin.metrics import by_operator
from twin.query import Query
from twin.rates.model import RateAnswer, RateModel, markers_of
from twin.scenario import Scenario

# predicted readings --------------------------------------------------------------------------------------------------
# Predicts the readings of an operating point by the rate model.


SLOWED = 1.0 - 1e-3
"""Share of its offer below which a source counts as slowed."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predicted readings of one point. delivered: share of the offer by source. margin: logarithm of that share where a
    source is slowed; else of the factor by which its offer could grow. busy: by operator; cpu: by host; latency_s: of
    results, mean; markers_s: ages of latency markers by operator.
    """

    delivered: Mapping[str, float]
    margin: Mapping[str, float]
    busy: Mapping[str, float]
    cpu: Mapping[str, float]
    latency_s: float
    markers_s: Mapping[str, float]


def predict(scenario: Scenario, answer: RateAnswer | None = None) -> Predicted:
    """Predicts the readings of a scenario under its profile. answer: the rate model's, if it is known already."""
    answer = answer or RateModel().answer(scenario, [scenario.plan])
    delivered = dict(zip(answer.sources, answer.delivered[0].tolist(), strict=True))
    pressure = dict(zip(answer.operators, answer.offered_pressure[0].tolist(), strict=True))
    margin = {
        name: float(np.log(max(share, 1e-9))) if share < SLOWED else _room(scenario.query, name, pressure)
        for name, share in delivered.items()
    }
    return Predicted(
        delivered=delivered,
        margin=margin,
        busy=dict(zip(answer.operators, answer.used[0].tolist(), strict=True)),
        cpu=dict(zip(answer.hosts, np.minimum(answer.cpu[0], 1.0).tolist(), strict=True)),
        latency_s=float(answer.costs["processing_latency_s"][0]),
        markers_s=by_operator(markers_of(answer, scenario.query)),
    )


def _room(query: Query, source: str, pressure: Mapping[str, float]) -> float:
    """Logarithm of the factor by which the load of a source could grow."""

    met = [name for name in pressure if name == source or source in query.ancestors(name)]
    return max(0.0, -float(np.log(max(1e-9, *(pressure[name] for name in met)))))


# Gauss-Newton steps --------------------------------------------------------------------------------------------------
# Fits what CPU time does not show by Gauss-Newton steps on the rate model: channels, variation of services, or costs.
#
# Parameters are logarithms of ratios to the profile. The prior keeps each near a common factor, that of the machine,
# which is nearly free. A source that keeps up only bounds costs from above: the likelihood is censored there (Tobin,
# "Estimation of relationships for limited dependent variables", 1958). The error of readings is fitted as well, as it
# is mostly the model's: taken for exact, readings would outweigh the prior and the sources that keep up.


DELIVERED_ERROR, LATENCY_ERROR = 0.05, 0.1
"""Least relative errors of measured rates and latencies."""
FARAWAY = 6.0
"""Standard deviations above a bound beyond which the residual of a reading is practically 0."""
COARSE = 6.0
"""Factor on the least errors of readings at the start, which makes the first descent robust."""
SPREAD, MACHINE_SPREAD = 1.0, 3.0
"""Prior spread of a parameter around the machine's factor, and of this factor around 1; in logs."""
STEP = 0.05
"""Step of the finite differences, in logs."""
STARTS = (0.0, np.log(4.0), np.log(16.0), -np.log(4.0))
"""Machine factors that are tried as starts, in logs."""
ALONE = (np.log(30.0), np.log(1000.0))
"""Factors of a single cost that are tried as starts, in logs: one function may cost far more than all others."""
FARTHEST = np.log(1e5)
MOST = 8
"""Most evaluations of one descent."""
CLOSE = 1e-2
"""Relative change of the parameters or the loss below which a step is the last."""

REFINED, SAME = 3, 0.75
"""Most times that the error of readings is fitted again, and the factor by which it must shrink for another time."""

Apply = Callable[[Scenario, np.ndarray], Scenario]
"""Puts a scenario under parameters: logs of ratios to the profile's constants."""


class Miss(NamedTuple):
    """Distance of a prediction above a reading, in standard deviations of the reading. bound: being above is right."""

    off: float
    bound: bool = False


Misses = Callable[[Point, Scenario], Sequence[Miss]]


@dataclass(frozen=True, slots=True)
class NewtonFit:
    """Fitted parameters. logs_k: of ratios to the profile; covariance_kk: of these. readings: their number.

    evidence: log-probability of the readings under the prior, up to a constant (Laplace's approximation).
    """

    logs_k: np.ndarray
    covariance_kk: np.ndarray
    readings: int
    evidence: float = 0.0


def untied(found: NewtonFit, ties_kf: np.ndarray) -> NewtonFit:
    """Fit of single costs from a fit of factors that tie costs together; constants behind the factors stay."""
    others = len(found.logs_k) - ties_kf.shape[1]
    all_kf = np.block(
        [[ties_kf, np.zeros((len(ties_kf), others))], [np.zeros((others, ties_kf.shape[1])), np.eye(others)]]
    )
    return replace(found, logs_k=all_kf @ found.logs_k, covariance_kk=all_kf @ found.covariance_kk @ all_kf.T)


def asked(points: Sequence[Point]) -> int:
    """Number of readings from which costs can be fitted without CPU time."""
    return sum(len(point.delivered) + (point.latency_s is not None) + len(point.markers_s) for point in points)


def fit(
    points: Sequence[Point],
    apply: Apply,
    count: int,
    costs: int,
    report: Callable[[int, int], None] | None = None,
    ratios: float = SPREAD,
    spread: float = SPREAD,
    misses: Misses | None = None,
) -> NewtonFit:
    """Fits the parameters that explain the rates that sources deliver, and latencies.

    costs: number of parameters, from the first, that share the machine's factor; the others are independent. ratios:
    prior spread of costs around that factor; spread: of the others. misses: of a point in a scenario; None: `missed`.
    """
    how, calls, budget = misses or missed, 0, len(STARTS) + 2 * MOST * (count + 2)

    def off_by(logs_k: np.ndarray, but: Mapping[int, list[Miss]]) -> list[list[Miss]]:
        nonlocal calls
        calls += 1
        if report is not None:
            report(min(calls, budget), budget)
        each = (but.get(p) or how(point, apply(point.scenario, logs_k)) for p, point in enumerate(points))
        return [list(misses) for misses in each]

    def residuals(logs_k: np.ndarray, error: float) -> np.ndarray:
        return _residuals(off_by(logs_k, {}), error, _prior(logs_k, costs, ratios, spread))

    def slopes(logs_k: np.ndarray, error: float) -> np.ndarray:
        off, columns = off_by(logs_k, {}), []
        here = _residuals(off, error, _prior(logs_k, costs, ratios, spread))
        still = {p: misses for p, misses in enumerate(off) if misses and all(_far(miss, error) for miss in misses)}
        for unit in np.eye(count):
            moved_k = logs_k + STEP * unit
            moved = _residuals(off_by(moved_k, still), error, _prior(moved_k, costs, ratios, spread))
            columns.append((moved - here) / STEP)
        return np.stack(columns, axis=1)

    def descended(start_k: np.ndarray, error: float) -> Any:
        from scipy.optimize import least_squares  # here, because most commands need no SciPy

        bounds = (-FARTHEST, FARTHEST)
        limits = {"max_nfev": MOST, "xtol": CLOSE, "ftol": CLOSE, "args": (error,)}
        return least_squares(residuals, start_k, jac=slopes, bounds=bounds, loss="soft_l1", **limits)

    def loss(start_k: np.ndarray) -> float:
        return _robust(residuals(start_k, COARSE))

    together, alone = _together(count, costs), _alone(count, costs)
    starts = [min(together, key=loss)]
    if alone and loss(each := min(alone, key=loss)) < loss(starts[0]):
        starts.append(each)
    found = min((descended(start_k, COARSE) for start_k in starts), key=lambda end: float(end.cost))
    error = COARSE
    for _ in range(REFINED):
        finer = _typical([miss for misses in off_by(found.x, {}) for miss in misses])
        if finer > SAME * error:
            break
        error, found = finer, descended(found.x, finer)
    covariance_kk = np.linalg.pinv(found.jac.T @ found.jac)
    exact = sum(not miss.bound for misses in off_by(found.x, {}) for miss in misses)
    evidence = -float(found.cost) - exact * np.log(error) - costs * np.log(ratios)
    return NewtonFit(found.x, covariance_kk, asked(points), evidence + 0.5 * float(np.linalg.slogdet(covariance_kk)[1]))


def _residuals(off: Sequence[Sequence[Miss]], error: float, prior: Sequence[float]) -> np.ndarray:
    return np.array([*(_weighed(miss, error) for misses in off for miss in misses), *prior])


def _far(miss: Miss, error: float) -> bool:
    """Whether a reading is a bound too far away for small steps to matter."""
    return miss.bound and miss.off > FARAWAY * error


def _weighed(miss: Miss, error: float) -> float:
    """Residual whose square is minus twice the log-likelihood, if errors of readings are `error` times the least."""
    off = miss.off / error
    if not miss.bound:
        return off
    from scipy.special import log_ndtr  # here, because most commands need no SciPy

    return float(np.sqrt(-2.0 * log_ndtr(off)))


def _typical(off: Sequence[Miss]) -> float:
    """Typical distance of readings that are no bounds (scaled median), in standard deviations; at least 1."""
    sizes = [abs(miss.off) for miss in off if not miss.bound]
    return max(1.0, float(np.median(sizes)) / NormalDist().inv_cdf(0.75)) if sizes else 1.0


def _together(count: int, costs: int) -> list[np.ndarray]:
    """Starts with one factor on all costs, [K] each."""
    return [np.where(np.arange(count) < costs, start, 0.0) for start in (STARTS if costs else STARTS[:1])]


def _alone(count: int, costs: int) -> list[np.ndarray]:
    """Starts with a factor on a single cost, [K] each."""
    return [np.where(np.arange(count) == k, start, 0.0) for k in range(costs) for start in ALONE]


def _robust(residuals_r: np.ndarray) -> float:
    return float((np.sqrt(1.0 + residuals_r**2) - 1.0).sum())


def _prior(logs_k: np.ndarray, costs: int, ratios: float, spread: float) -> list[float]:
    shared = logs_k[:costs]
    machine = float(shared.mean()) if costs else 0.0
    return [*((shared - machine) / ratios), *(logs_k[costs:] / spread), machine / MACHINE_SPREAD]


def missed(point: Point, scenario: Scenario) -> list[Miss]:
    """Misses of the rate model at a point: of delivered shares, latency and ages of latency markers."""
    predicted = predict(scenario)
    found = [behind(predicted.margin[source], share) for source, share in point.delivered.items()]
    if point.latency_s is not None and point.latency_s > 0 and np.isfinite(predicted.latency_s):
        found.append(older(predicted.latency_s, point.latency_s))
    return [*found, *(older(predicted.markers_s[name], age_s) for name, age_s in point.markers_s.items() if age_s > 0)]


def behind(margin: float, share: float) -> Miss:
    """Miss of a source that delivers `share`. It is censored: a source that keeps up has a margin of 0 or more."""
    if share < KEEPS_UP:
        return Miss((margin - float(np.log(max(share, 1e-9)))) / DELIVERED_ERROR)
    return Miss(margin / DELIVERED_ERROR, bound=True)


def older(predicted_s: float, measured_s: float) -> Miss:
    """Miss of a latency."""
    return Miss(float(np.log(max(predicted_s, 1e-9) / measured_s)) / LATENCY_ERROR)
