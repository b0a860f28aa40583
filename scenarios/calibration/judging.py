"""Judges a calibration by its predictions of points that it has not seen, beside baselines that need no calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from scenarios.calibration import host_cpu
from scenarios.calibration.calibrate import Calibration, calibrate_as
from scenarios.calibration.intervals import WORK, Intervals, of_loads, outside, pairs, with_beyond
from scenarios.calibration.point import KEEPS_UP, Point
from scenarios.calibration.predicting import Predicted, predict
from scenarios.calibration.structures import Works
from scenarios.executing.progress import Progress
from twin.errors import BadInput
from twin.randomness import random_stream
from twin.spec import Spec

FOLDS = 10
FACTORS = ("delivered", "latency", "markers")
"""Kinds of readings whose errors are factors."""
ALWAYS, CAP, BEFORE, CALIBRATED = "always keeps up", "one cap", "the profile before", "calibrated"

Predict = Callable[[Point], Predicted]
Share = Annotated[float | None, Field(ge=0, le=1)]
Ratio = Annotated[float | None, Field(ge=1)]
Error = Annotated[float | None, Field(ge=0)]


class Figures(Spec):
    """Errors of one predictor at points that it was not fitted to; None where nothing was measured or predicted.

    keeps_up: share of sources with a known offer for which it predicts rightly whether they keep up. delivered: q-error
    of the tuples that sources take, median and 95 %; slowed: of sources that fall behind. cpu, busy: errors of shares
    (0 to 1), medians and highest. latency: q-error, median and 95 %; markers: of the ages of latency markers.
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


class HeldOut(NamedTuple):
    """Result of predicting points held out: figures of all predictors, and intervals of the calibrated one."""

    figures: tuple[Figures, ...] = ()
    intervals: Intervals = Intervals()


def held_out(points: Sequence[Point], found: Calibration, report: Progress | None = None) -> HeldOut:
    """Predicts each point from the others, and by the baselines. Needs at least two points.

    Of several jobs one is left out at a time, else one point; more at once where that makes more than FOLDS parts.
    """
    told, parts = host_cpu.without(points, found.base), _parts(points)
    works = Works(told) if found.tried else None
    predictors: dict[str, list[tuple[Point, Predicted]]] = {name: [] for name in (ALWAYS, CAP, BEFORE, CALIBRATED)}
    fits: list[tuple[Point, Calibration]] = []
    for done, part in enumerate(parts):
        if report is not None:
            report(done, len(parts))
        if found.base:
            told = host_cpu.without(points, _base(points, part, found))
            works = Works(told)
        unseen = [told[number] for number in part]
        seen = [told[number] for number in range(len(told)) if number not in part]
        for name, predictor in baselines(seen).items():
            predictors[name] += [(point, predictor(point)) for point in unseen]
        with suppress(BadInput):  # what is left is too little to fit
            fitted = calibrate_as(seen, found, works)
            fits += [(point, fitted) for point in unseen]
    predictors[CALIBRATED] = [(point, predict(fitted.applied(point.scenario))) for point, fitted in fits]
    intervals = of_loads(predictors[CALIBRATED], found.costs)
    off = [
        each
        for (point, fitted), (_, middle) in zip(fits, predictors[CALIBRATED], strict=True)
        for each in outside(point, middle, *map(predict, fitted.ends(point.scenario, intervals)))
    ]
    if report is not None:
        report(len(parts), len(parts))
    judged = tuple(figures(name, each) for name, each in predictors.items() if each)
    return HeldOut(judged, with_beyond(intervals, off))


def _base(points: Sequence[Point], part: Sequence[int], found: Calibration) -> dict[str, float]:
    """Base cores of each host by the points that are not left out; by all points where these tell none."""
    seen = host_cpu.bases([point for number, point in enumerate(points) if number not in part])
    return {host: seen[host].cores if host in seen else cores for host, cores in found.base.items()}


def _parts(points: Sequence[Point]) -> list[list[int]]:
    """Numbers of the points that are left out together."""
    jobs: dict[str, list[int]] = {}
    for number, point in enumerate(points):
        jobs.setdefault(point.scenario.query.model_dump_json(), []).append(number)
    groups = list(jobs.values()) if len(jobs) > 1 else [[number] for number in range(len(points))]
    order = random_stream(0, "folds").permutation(len(groups))
    return [
        [number for group in order[start::FOLDS] for number in groups[group]]
        for start in range(min(FOLDS, len(groups)))
    ]


def baselines(seen: Sequence[Point]) -> dict[str, Predict]:
    """Predictors that need no calibration, by name. seen: points that tell the most a replica of a source delivers."""
    cap = cap_per_replica(seen)
    return {
        ALWAYS: lambda point: _capped(point, np.inf),
        CAP: lambda point: _capped(point, cap),
        BEFORE: lambda point: predict(point.scenario),
    }


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
    """Prediction of a point by one number: the most tuples/s that a source's replica delivers."""
    plan = point.scenario.plan
    delivered = {name: min(1.0, cap * plan.replicas(name) / point.offered_per_s(name)) for name in point.delivered}
    return Predicted(delivered=delivered, margin={}, busy={}, cpu={}, latency_s=np.nan, markers_s={})


def figures(name: str, judged: Sequence[tuple[Point, Predicted]]) -> Figures:
    """Figures of a predictor, from points with their predictions."""
    both: dict[str, list[tuple[float, float]]] = {}
    known = []
    for point, predicted in judged:
        for (kind, of), pair in pairs(point, predicted).items():
            both.setdefault(kind, []).append(pair)
            if kind == "delivered" and of not in point.capped:
                known.append((pair[0] < KEEPS_UP) == (pair[1] < KEEPS_UP))
    shares = both.get("delivered", [])
    found = {
        "slowed": _quantile([_q(*pair) for pair in shares if pair[0] < KEEPS_UP], 0.5),
        **{kind: _quantile([_q(*pair) for pair in both.get(kind, [])], 0.5) for kind in FACTORS},
        **{f"{kind}_p95": _quantile([_q(*pair) for pair in both.get(kind, [])], 0.95) for kind in FACTORS},
        **{kind: _quantile([abs(a - b) for a, b in both.get(kind, [])], 0.5) for kind in WORK},
        **{f"{kind}_max": _quantile([abs(a - b) for a, b in both.get(kind, [])], 1.0) for kind in WORK},
    }
    return Figures(predictor=name, sources=len(shares), keeps_up=sum(known) / len(known) if known else None, **found)


def _q(a: float, b: float) -> float:
    """q-error: the factor between two values, at least 1."""
    return max(a, b) / max(min(a, b), 1e-9)


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None
