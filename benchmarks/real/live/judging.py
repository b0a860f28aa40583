"""Operating points that were measured, beside what the twin says of them: calibrated on half, simulated, set beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.real.live.measuring import Measured
from scenarios.calibration.calibrate import Calibration, calibrate
from scenarios.calibration.judging import cap_per_replica
from scenarios.calibration.point import KEEPS_UP, Point
from scenarios.calibration.point_files import points_of
from twin.markers import by_operator
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.workload import Constant

STEADY = RunSettings(horizon_s=90, warmup_s=30, period_s=5)
"""Of the simulated runs: buffers are full where they fill."""
ALWAYS, CAP, IMPORTED, CALIBRATED = "always keeps up", "one cap", "imported", "calibrated"


class Said(NamedTuple):
    """Of one operating point, measured or predicted. delivered: share of the offer. busy: of the busiest operator but
    the sources; held: the sources' backpressured share; latency_s: of results since they were taken; marker_s: age of
    latency markers at the last operator. nan: nothing said.
    """

    delivered: float
    busy: float = np.nan
    held: float = np.nan
    latency_s: float = np.nan
    marker_s: float = np.nan


@dataclass(frozen=True, slots=True)
class Line:
    """A point, and what each predictor said of it. seen: whether it was calibrated on."""

    measured: Measured
    seen: bool
    was: Said
    predicted: Mapping[str, Said]


def judged(fitted: Sequence[Measured], unseen: Sequence[Measured]) -> list[Line]:
    """All points of one shape. The job is the one imported at the first point."""
    job, found = fitted[0].job.scenario, calibrated(fitted)
    cap = cap_per_replica([_point(each, job) for each in fitted])
    lines = []
    for each in (*fitted, *unseen):
        at_rate = _at_rate(job, each.rate_per_s)
        said = {
            ALWAYS: Said(1.0, busy=np.nan),
            CAP: Said(min(1.0, cap / each.rate_per_s)),
            IMPORTED: _simulated(at_rate),
            CALIBRATED: _simulated(found.applied(at_rate)),
        }
        lines.append(Line(each, any(each is seen for seen in fitted), _was(each, job), said))
    return lines


def calibrated(fitted: Sequence[Measured]) -> Calibration:
    """On the points of one shape."""
    return calibrate([_point(each, fitted[0].job.scenario) for each in fitted])


def _point(measured: Measured, job: Scenario) -> Point:
    latency = measured.latencies_s[1]
    rows = [{"point": "0", **row} for row in measured.job.readings]
    if np.isfinite(latency) and latency > 0:
        rows.append({"point": "0", "latency_s": latency})
    return points_of(rows, job, measured.shape)[0]


def _at_rate(job: Scenario, rate: float) -> Scenario:
    laws = {name: Constant(rate_per_s=rate) for name in job.workload.arrivals}
    workload = job.workload.model_copy(update={"arrivals": laws})
    return job.model_copy(update={"workload": workload, "run": STEADY})


def _was(measured: Measured, job: Scenario) -> Said:
    rows = {row["operator"]: row for row in measured.job.readings}
    sources = [each.name for each in job.query.sources]
    rest = [row for name, row in rows.items() if name not in sources]
    return Said(
        delivered=float(np.mean([min(1.0, rows[name]["out_per_s"] / measured.rate_per_s) for name in sources])),
        busy=max(row["busy"] for row in rest),
        held=float(np.mean([rows[name]["backpressured"] for name in sources])),
        latency_s=measured.latencies_s[1],
        marker_s=max(measured.markers_s.values(), default=np.nan),
    )


def _simulated(job: Scenario) -> Said:
    run = simulate(job)
    of = {each.operator: each for each in run.operators}
    sources = [each.name for each in job.query.sources]
    latency = run.metrics.processing_latency_s
    return Said(
        delivered=float(
            np.mean([of[name].rate_out_per_s / job.workload.arrivals[name].mean_rate_per_s for name in sources])
        ),
        busy=max(each.busy for name, each in of.items() if name not in sources),
        held=float(np.mean([of[name].backpressured for name in sources])),
        latency_s=np.nan if latency is None else latency.mean,
        marker_s=max(by_operator(run.markers).values()),
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
            for key in ("latency_s", "marker_s")
            for x in _spread([_q(getattr(a, key), getattr(b, key)) for a, b in pairs])
        ]
        rows.append([name, f"{right:.0%}", *map("/".join, (rates, shares[:2], shares[2:], ages[:2], ages[2:]))])
    return rows


def _q(a: float, b: float) -> float:
    return max(a, b) / max(min(a, b), 1e-9) if np.isfinite(a) and np.isfinite(b) else np.nan


def _spread(errors: Sequence[float]) -> tuple[float, float]:
    """Median and largest of those that there are."""
    known = [each for each in errors if np.isfinite(each)]
    return (float(np.median(known)), max(known)) if known else (np.nan, np.nan)
