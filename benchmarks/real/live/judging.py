"""Operating points that were measured, beside what the twin says of them: calibrated on half, simulated, set beside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.real.live.measuring import Measured
from scenarios.calibration.calibrate import Calibration, calibrate
from scenarios.calibration.host_cpu import beside
from scenarios.calibration.judging import cap_per_replica
from scenarios.calibration.point import KEEPS_UP, Point
from scenarios.calibration.point_files import points_of
from streamtwin import capacity
from twin.markers import by_operator
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.workload import Constant

WANTED = {"delivered": 0.05, "knee": 0.05, "busiest": 0.05, "below the knee": 0.25, "beyond it": 0.35}
"""Largest errors of a twin that is right: relative, but for shares of time."""
ALWAYS, CAP, IMPORTED, CALIBRATED = "always keeps up", "one cap", "imported", "calibrated"


class Said(NamedTuple):
    """Of one operating point, measured or predicted. delivered: share of the offer, of the source that takes least.
    busy: of the busiest operator but the sources; held: the sources' backpressured share; p50_s, p95_s: quantiles of
    the ages of results since they were taken; marker_s: age of latency markers at the last operator. nan: nothing said.
    """

    delivered: float
    busy: float = np.nan
    held: float = np.nan
    p50_s: float = np.nan
    p95_s: float = np.nan
    marker_s: float = np.nan


@dataclass(frozen=True, slots=True)
class Line:
    """A point, and what each predictor said of it. seen: whether it was calibrated on. knee_per_s: the rate that the
    job bears, by the calibrated twin, in the unit of the point's."""

    measured: Measured
    seen: bool
    was: Said
    predicted: Mapping[str, Said]
    knee_per_s: float

    @property
    def beyond(self) -> bool:
        """Whether the sources did not keep up."""
        return self.was.delivered < KEEPS_UP


def judged(fitted: Sequence[Measured], unseen: Sequence[Measured]) -> list[Line]:
    """All points of one shape. The job is the one imported at the first point."""
    job, found = fitted[0].job.scenario, calibrated(fitted)
    cap = cap_per_replica([_point(each, job) for each in fitted])
    knee_per_s = fitted[0].rate_per_s * _bears(found.applied(beside(job, found.others_percent)))
    lines = []
    for each in (*fitted, *unseen):
        was = _was(each)
        told = {row["operator"] for row in each.job.readings if "busy" in row} - set(job.workload.arrivals)
        at_rate = _at_rate(job, each.rate_per_s / fitted[0].rate_per_s, each.window_s)
        said = {
            ALWAYS: Said(1.0, busy=np.nan),
            CAP: Said(min(1.0, cap / each.rate_per_s)),
            IMPORTED: _simulated(at_rate, told),
            CALIBRATED: _simulated(found.applied(beside(at_rate, found.others_percent)), told),
        }
        lines.append(Line(each, any(each is seen for seen in fitted), was, said, knee_per_s))
    return lines


def calibrated(fitted: Sequence[Measured]) -> Calibration:
    """On the points of one shape."""
    return calibrate([_point(each, fitted[0].job.scenario) for each in fitted])


def _point(measured: Measured, job: Scenario) -> Point:
    rows = [{"point": "0", **row} for row in measured.job.readings]
    if measured.latency_s > 0:
        rows.append({"point": "0", "latency_s": measured.latency_s})
    return points_of(rows, job, measured.shape)[0]


def _at_rate(job: Scenario, factor: float, window_s: tuple[float, float]) -> Scenario:
    """At so many times the rates of its sources, in the time after the first record in which it was measured."""
    given = job.workload.arrivals
    run = RunSettings(horizon_s=window_s[1], warmup_s=window_s[0], period_s=1.0)
    laws = {name: Constant(rate_per_s=factor * law.mean_rate_per_s) for name, law in given.items()}
    workload = job.workload.model_copy(update={"arrivals": laws})
    return job.model_copy(update={"workload": workload, "run": run})


def _bears(job: Scenario) -> float:
    """What `twin capacity --find-max load` predicts."""
    found = capacity(job, "load", prove=False).result.predicted
    return float(found.in_long_runs or found.value or np.nan)


def _was(measured: Measured) -> Said:
    rows = {row["operator"]: row for row in measured.job.readings if "operator" in row}
    offered = {name: law.mean_rate_per_s for name, law in measured.job.scenario.workload.arrivals.items()}
    return Said(
        delivered=min(1.0, *(rows[name]["out_per_s"] / rate for name, rate in offered.items())),
        busy=max(row["busy"] for name, row in rows.items() if "busy" in row and name not in offered),
        held=float(np.mean([rows[name]["backpressured"] for name in offered])),
        p50_s=measured.quantile_s(0.5),
        p95_s=measured.quantile_s(0.95),
        marker_s=max((row["marker_s"] for row in rows.values() if "marker_s" in row), default=np.nan),
    )


def _simulated(job: Scenario, told: Collection[str]) -> Said:
    """told: operators whose busy time was measured."""
    run = simulate(job)
    of = {each.operator: each for each in run.operators}
    offered = {name: law.mean_rate_per_s for name, law in job.workload.arrivals.items()}
    latency = run.metrics.processing_latency_s
    return Said(
        delivered=min(of[name].rate_out_per_s / rate for name, rate in offered.items()),
        busy=max(of[name].busy for name in told),
        held=float(np.mean([of[name].backpressured for name in offered])),
        p50_s=np.nan if latency is None else latency.p50,
        p95_s=np.nan if latency is None else latency.p95,
        marker_s=max(by_operator(run.markers).values(), default=np.nan),
    )


def table(lines: Sequence[Line]) -> list[list[object]]:
    """A row a point: measured and calibrated."""
    rows = []
    for line in lines:
        was, said = line.was, line.predicted[CALIBRATED]
        pairs = [f"{_shown(a, key)} / {_shown(b, key)}" for key, a, b in zip(Said._fields, was, said, strict=True)]
        rows.append(
            [line.measured.shape, f"{line.measured.rate_per_s:g}", "fitted" if line.seen else "predicted", *pairs]
        )
    return rows


def _shown(value: float, key: str) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:.2f} s" if key.endswith("_s") else f"{100 * value:.0f} %"


def summary(lines: Sequence[Line]) -> list[list[object]]:
    """A row a predictor, over the points that were not seen: how often it says rightly whether sources keep up; errors
    of what they deliver, of busy and backpressured shares (points), and q-errors of latencies; medians and worst.
    """
    unseen = [line for line in lines if not line.seen]
    rows: list[list[object]] = []
    for name in (ALWAYS, CAP, IMPORTED, CALIBRATED):
        pairs = [(line.was, line.predicted[name]) for line in unseen]
        right = np.mean([(a.delivered < KEEPS_UP) == (b.delivered < KEEPS_UP) for a, b in pairs])
        rates = [f"{x:.1%}" for x in _spread([abs(b.delivered / a.delivered - 1) for a, b in pairs])]
        shares = [
            f"{100 * x:.1f}" if np.isfinite(x) else "-"
            for key in ("busy", "held")
            for x in _spread([abs(getattr(b, key) - getattr(a, key)) for a, b in pairs])
        ]
        ages = [
            f"{x:.2f}" if np.isfinite(x) else "-"
            for key in ("p50_s", "p95_s", "marker_s")
            for x in _spread([_q(getattr(a, key), getattr(b, key)) for a, b in pairs])
        ]
        pairs_of = (rates, shares[:2], shares[2:], ages[:2], ages[2:4], ages[4:])
        rows.append([name, f"{right:.0%}", *map("/".join, pairs_of)])
    return rows


def verdicts(lines: Sequence[Line]) -> list[list[object]]:
    """A row for each thing that is wanted of the calibrated twin, over the points that were not seen: median and
    largest error, and how many are within what is wanted.
    """
    errors: dict[tuple[str, str], list[float]] = {}
    for line in (each for each in lines if not each.seen):
        was, said = line.was, line.predicted[CALIBRATED]
        where = "beyond it" if line.beyond else "below the knee"
        found = {
            ("delivered", "delivered"): abs(said.delivered / was.delivered - 1.0),
            ("busiest", "busiest"): abs(said.busy - was.busy),
            (f"p50 {where}", where): abs(said.p50_s / was.p50_s - 1.0),
            (f"p95 {where}", where): abs(said.p95_s / was.p95_s - 1.0),
        }
        if line.beyond:
            found["knee", "knee"] = abs(line.knee_per_s / (was.delivered * line.measured.rate_per_s) - 1.0)
        for what, error in found.items():
            errors.setdefault(what, []).append(error)
    rows: list[list[object]] = []
    for (what, of), each in sorted(errors.items()):
        within = sum(error <= WANTED[of] for error in each)
        rows.append([what, f"{WANTED[of]:.0%}", *(f"{x:.1%}" for x in _spread(each)), f"{within} of {len(each)}"])
    return rows


def _q(a: float, b: float) -> float:
    return max(a, b) / max(min(a, b), 1e-9) if np.isfinite(a) and np.isfinite(b) else np.nan


def _spread(errors: Sequence[float]) -> tuple[float, float]:
    """Median and largest of those that there are."""
    known = [each for each in errors if np.isfinite(each)]
    return (float(np.median(known)), max(known)) if known else (np.nan, np.nan)
