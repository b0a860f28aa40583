"""Effects of events on a real job, beside the twin's: time without results, their age, and their rate afterwards.

The twin is told what was read before: the rates, the times of deploying subtasks and of submitting a job, Flink's
restart delay, the calibration of a job with the same work, and that work which sleeps takes no core.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.real.live.jobs import EVENT_S, Shape
from benchmarks.real.live.measuring import WATCHED_S, Measured
from benchmarks.real.local.cluster import CHECKPOINT_S, RESTART_S
from twin.overrides import put_all
from twin.scenario import Scenario
from twin.simulation import simulate

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
