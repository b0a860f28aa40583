"""What was measured of the live jobs beside the twin: points, and jobs that fail or are rescaled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.real.live.measuring import EVENT_S, WATCHED_S, Measured, Shape
from benchmarks.real.local.flink import CHECKPOINT_S, RESTART_S
from optimizers.objectives import at_rate
from scenarios.calibration.calibrate import Calibration, calibrate
from scenarios.calibration.points import KEEPS_UP, Point, points_of
from scenarios.calibration.structures import beside
from streamtwin import capacity
from twin.scenario import Scenario, put_all
from twin.simulation import simulate

# points --------------------------------------------------------------------------------------------------------------
# Judges the twin by measured operating points: it is calibrated on half of them, and simulates all.


WANTED = {"delivered": 0.05, "knee": 0.05, "busiest": 0.05, "below the knee": 0.25, "beyond it": 0.35}
"""Largest errors of an accurate twin: relative, or absolute for shares of time."""


class Said(NamedTuple):
    """Figures of one operating point, measured or predicted. delivered: least share of the offer over the sources.
    busy: of the busiest operator that is no source; p50_s, p95_s: quantiles of results' ages since they were taken."""

    delivered: float
    busy: float
    p50_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """Operating point, measured and simulated. seen: whether it was calibrated on. knee_per_s: highest rate that the
    job keeps up with, by the twin, in the unit of the point's rate."""

    measured: Measured
    seen: bool
    was: Said
    said: Said
    knee_per_s: float

    @property
    def beyond(self) -> bool:
        """Whether the sources did not keep up."""
        return self.was.delivered < KEEPS_UP


def judged(fitted: Sequence[Measured], unseen: Sequence[Measured]) -> list[Line]:
    """All points of one shape. The job is the one imported at the first point."""
    job, found = fitted[0].job.scenario, calibrated(fitted)
    knee_per_s = fitted[0].rate_per_s * _bears(found.applied(beside(job, found.others_percent)))
    lines = []
    for each in (*fitted, *unseen):
        told = {row["operator"] for row in each.job.readings if "busy" in row} - set(job.workload.arrivals)
        # the span of the measurement, which counts from the first record
        asked = at_rate(job, each.rate_per_s / fitted[0].rate_per_s).with_run(
            horizon_s=each.window_s[1], warmup_s=each.window_s[0], period_s=1.0
        )
        said = _simulated(found.applied(beside(asked, found.others_percent)), told)
        lines.append(Line(each, any(each is seen for seen in fitted), _was(each), said, knee_per_s))
    return lines


def calibrated(fitted: Sequence[Measured]) -> Calibration:
    """Calibration on the points of one shape."""
    return calibrate([_point(each, fitted[0].job.scenario) for each in fitted])


def _point(measured: Measured, job: Scenario) -> Point:
    rows = [{"point": "0", **row} for row in measured.job.readings]
    if measured.latency_s > 0:
        rows.append({"point": "0", "latency_s": measured.latency_s})
    return points_of(rows, job, measured.shape)[0]


def _bears(job: Scenario) -> float:
    """Highest load that `twin capacity --find-max load` predicts."""
    found = capacity(job, "load", prove=False).result.predicted
    return float(found.in_long_runs or found.value or np.nan)


def _was(measured: Measured) -> Said:
    rows = {row["operator"]: row for row in measured.job.readings if "operator" in row}
    offered = {name: law.mean_rate_per_s for name, law in measured.job.scenario.workload.arrivals.items()}
    return Said(
        delivered=min(1.0, *(rows[name]["out_per_s"] / rate for name, rate in offered.items())),
        busy=max(row["busy"] for name, row in rows.items() if "busy" in row and name not in offered),
        p50_s=measured.quantile_s(0.5),
        p95_s=measured.quantile_s(0.95),
    )


def _simulated(job: Scenario, told: Collection[str]) -> Said:
    """Figures of a simulated run. told: operators whose busy time was measured."""
    run = simulate(job)
    of = {each.operator: each for each in run.operators}
    offered = {name: law.mean_rate_per_s for name, law in job.workload.arrivals.items()}
    latency = run.metrics.processing_latency_s
    return Said(
        delivered=min(of[name].rate_out_per_s / rate for name, rate in offered.items()),
        busy=max(of[name].busy for name in told),
        p50_s=np.nan if latency is None else latency.p50,
        p95_s=np.nan if latency is None else latency.p95,
    )


def table(lines: Sequence[Line]) -> list[list[object]]:
    """Rows, one for each point: measured and calibrated."""
    rows: list[list[object]] = []
    for line in lines:
        pairs = zip(Said._fields, line.was, line.said, strict=True)
        shown = [f"{_shown(was, key)} / {_shown(said, key)}" for key, was, said in pairs]
        how = "fitted" if line.seen else "predicted"
        rows.append([line.measured.shape, f"{line.measured.rate_per_s:g}", how, *shown])
    return rows


def _shown(value: float, key: str) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:.2f} s" if key.endswith("_s") else f"{100 * value:.0f} %"


def verdicts(lines: Sequence[Line]) -> list[list[object]]:
    """Rows, one for each requirement on the calibrated twin, over the points that it was not calibrated on: median and
    largest error, and how many errors are within the requirement."""
    errors: dict[tuple[str, str], list[float]] = {}
    for line in (each for each in lines if not each.seen):
        was, said = line.was, line.said
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


def _spread(errors: Sequence[float]) -> tuple[float, float]:
    """Median and largest of the finite errors."""
    known = [each for each in errors if np.isfinite(each)]
    return (float(np.median(known)), max(known)) if known else (np.nan, np.nan)


# events --------------------------------------------------------------------------------------------------------------
# Effects of events on a real job, beside the twin's: time without results, their age, and their rate afterwards.
#
# The twin is told what was read before: the rates, the times of deploying subtasks and of submitting a job, Flink's
# restart delay, the calibration of a job with the same work, and that work which sleeps takes no core.


PERIOD_S = 0.25
AS_USUAL_S = 1.0
"""Largest age of results that counts as before the event."""
LATE_S = 20.0


class Course(NamedTuple):
    """Course of a job after an event: the longest time without results, the largest mean age of the results of a
    period, and the time until ages are as usual for good. after_per_s: results a second in the last LATE_S."""

    silent_s: float
    oldest_s: float
    made_up_s: float
    after_per_s: float


def measured_course(run: Measured) -> Course:
    """Course of a real job."""
    ends, steps = run.ages[1:, 0], np.diff(run.ages, axis=0)
    return _course(ends, steps[:, 1], steps[:, 2])


def simulated_course(scenario: Scenario) -> Course:
    """Course of a simulated job with its event."""
    rows = [row for row in simulate(scenario).operator_rows if row.get("latencyCount")]
    ends, counts, sums = (np.array([row[key] for row in rows]) for key in ("end_s", "latencyCount", "e2eLatencySum_s"))
    return _course(ends, counts, sums)


def _course(ends: np.ndarray, counts: np.ndarray, sums_s: np.ndarray) -> Course:
    known = (counts > 0) & (ends <= EVENT_S + WATCHED_S)
    ends, ages_s = ends[known], sums_s[known] / counts[known]
    after = ends > EVENT_S
    gaps_s = np.diff(ends, prepend=0.0) * after
    late = ends[after & (ages_s > AS_USUAL_S)]
    return Course(
        silent_s=float(gaps_s.max()),
        oldest_s=float(ages_s[after].max()),
        made_up_s=float(late.max() - EVENT_S) if len(late) else 0.0,
        after_per_s=float(counts[known][ends > EVENT_S + WATCHED_S - LATE_S].sum() / LATE_S),
    )


def with_event(job: Scenario, shape: Shape, deployed_s: float, submitted_s: float) -> Scenario:
    """Imported job with its event. deployed_s, submitted_s: times that the real job took to start."""
    host = job.cluster.hosts[0].name
    restart_s = {"fails": RESTART_S + deployed_s, "rescales": deployed_s, "savepoint": submitted_s}[shape.event]
    events: list[dict[str, Any]] = [
        {"kind": "scale", "at_s": EVENT_S, "operator": name, "placement": [host] * 2 * parallelism}
        for name, parallelism in zip(shape.slow, shape.parallelism, strict=True)
    ]
    if shape.event == "fails":
        events = [{"kind": "failure", "at_s": EVENT_S, "host": host, "recover_after_s": restart_s}]
    run = {"horizon_s": EVENT_S + WATCHED_S, "period_s": PERIOD_S, "warmup_s": 0, "checkpoint_interval_s": CHECKPOINT_S}
    rescaling = {"how": "restart" if shape.event == "savepoint" else "reactive", "redeploy_s": restart_s}
    engine = job.engine.model_dump(mode="json") | {"rescaling": rescaling}
    return put_all(job, [("events", events), ("run", run), ("engine", engine)], shape.name)


def row(shape: Shape, run: Measured, job: Scenario) -> list[object]:
    """Row of the table: measured / simulated. job: as it was imported and calibrated before."""
    was = measured_course(run)
    said = simulated_course(with_event(job, shape, run.deployed_s, run.submitted_s))
    return [shape.name, *(f"{a:.1f} / {b:.1f}" for a, b in zip(was, said, strict=True))]
