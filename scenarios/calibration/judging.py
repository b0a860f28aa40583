"""How well a calibration predicts points that it has not seen, beside what needs no model at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from scenarios.calibration.calibrate import Calibration, calibrate_as
from scenarios.calibration.point import KEEPS_UP, Point
from scenarios.calibration.predicting import Predicted, predict
from scenarios.calibration.structures import Works
from scenarios.executing.progress import Progress
from twin.errors import BadInput
from twin.randomness import stream
from twin.spec import Spec

FOLDS = 5
ALWAYS, CAP, BEFORE, CALIBRATED = "always keeps up", "one cap", "the profile before", "calibrated"

Predict = Callable[[Point], Predicted]
Share = Annotated[float | None, Field(ge=0, le=1)]
Ratio = Annotated[float | None, Field(ge=1)]
Error = Annotated[float | None, Field(ge=0)]


class Figures(Spec):
    """Of one predictor, over points that it was not fitted to; None where nothing was measured, or it says nothing.

    keeps_up: share of sources of which it says rightly whether they keep up. delivered: q-error of what sources take,
    median and 95 %; of those behind, slowed. cpu, busy: errors in points of a share, medians and highest. latency:
    q-error, median and 95 %; markers: of their ages, over operators.
    """

    predictor: str
    sources: int
    keeps_up: Share = None
    delivered: Ratio = None
    delivered_p95: Ratio = None
    slowed: Ratio = None
    cpu: Error = None
    cpu_max: Error = None
    busy: Error = None
    busy_max: Error = None
    latency: Ratio = None
    latency_p95: Ratio = None
    markers: Ratio = None
    markers_p95: Ratio = None


def held_out(
    points: Sequence[Point], found: Calibration, report: Progress | None = None, folds: int = FOLDS
) -> list[Figures]:
    """Each point predicted from the others, a fold at a time, and the baselines likewise. At least two points."""
    works = Works(points) if found.tried else None
    order = stream(0, "folds").permutation(len(points))
    parts = [order[start::folds] for start in range(min(folds, len(points)))]
    predictors: dict[str, list[tuple[Point, Predicted]]] = {name: [] for name in (ALWAYS, CAP, BEFORE, CALIBRATED)}
    for done, part in enumerate(parts):
        if report is not None:
            report(done, len(parts))
        unseen = [points[number] for number in part]
        seen = [points[number] for number in range(len(points)) if number not in part]
        for name, predictor in _predictors(seen, found, works).items():
            predictors[name] += [(point, predictor(point)) for point in unseen]
    if report is not None:
        report(len(parts), len(parts))
    return [figures(name, pairs) for name, pairs in predictors.items() if pairs]


def _predictors(seen: Sequence[Point], like: Calibration, works: Works | None) -> dict[str, Predict]:
    cap = cap_per_replica(seen)
    found: dict[str, Predict] = {
        ALWAYS: lambda point: _capped(point, np.inf),
        CAP: lambda point: _capped(point, cap),
        BEFORE: lambda point: predict(point.scenario),
    }
    try:
        fitted = calibrate_as(seen, like, works)
    except BadInput:  # what is left is too little to fit
        return found
    return {**found, CALIBRATED: lambda point: predict(fitted.applied(point.scenario))}


def cap_per_replica(points: Sequence[Point]) -> float:
    """Tuples a second that a source's replica delivers when it falls behind, the median; inf if none does."""
    caps = [
        point.taken_per_s[source] / point.scenario.plan.replicas(source)
        for point in points
        for source, share in point.delivered.items()
        if share < KEEPS_UP
    ]
    return float(np.median(caps)) if caps else np.inf


def _capped(point: Point, cap: float) -> Predicted:
    """What one number says of a point."""
    plan = point.scenario.plan
    delivered = {name: min(1.0, cap * plan.replicas(name) / point.offered_per_s(name)) for name in point.delivered}
    return Predicted(delivered=delivered, margin={}, busy={}, cpu={}, latency_s=np.nan, markers_s={})


def figures(name: str, pairs: Sequence[tuple[Point, Predicted]]) -> Figures:
    """The figures of a predictor, from points with their predictions."""
    shares = [
        (share, predicted.delivered[source]) for point, predicted in pairs for source, share in point.delivered.items()
    ]
    behind = [pair for pair in shares if pair[0] < KEEPS_UP]
    cpu = [abs(p.cpu[host] - share) for point, p in pairs for host, share in point.cpu.items() if host in p.cpu]
    busy = [abs(p.busy[each] - share) for point, p in pairs for each, share in point.busy.items() if each in p.busy]
    latency = [_q(point.latency_s, p.latency_s) for point, p in pairs if point.latency_s and np.isfinite(p.latency_s)]
    ages = [
        _q(age_s, p.markers_s[each]) for point, p in pairs for each, age_s in point.markers_s.items() if p.markers_s
    ]
    delivered = [_q(*pair) for pair in shares]
    return Figures(
        predictor=name,
        sources=len(shares),
        keeps_up=_mean((a < KEEPS_UP) == (b < KEEPS_UP) for a, b in shares),
        delivered=_quantile(delivered, 0.5),
        delivered_p95=_quantile(delivered, 0.95),
        slowed=_quantile([_q(*pair) for pair in behind], 0.5),
        cpu=_quantile(cpu, 0.5),
        cpu_max=_quantile(cpu, 1.0),
        busy=_quantile(busy, 0.5),
        busy_max=_quantile(busy, 1.0),
        latency=_quantile(latency, 0.5),
        latency_p95=_quantile(latency, 0.95),
        markers=_quantile(ages, 0.5),
        markers_p95=_quantile(ages, 0.95),
    )


def _q(a: float, b: float) -> float:
    """The q-error: which factor lies between two values."""
    return max(a, b) / max(min(a, b), 1e-9)


def _mean(values: Iterable[bool]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None
