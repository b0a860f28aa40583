"""A failure and a rescaling of a real job, beside the twin's: when results come again, how old they get, and so on.

The twin is told what was read before the event, Flink's restart delay, and whether work that waits takes cores, which
the calibration of another job with the same work has found. A rescaling restarts the job as well, without that delay;
how long that takes is what the failure took beyond its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.real.live.cluster import CHECKPOINT_S, RESTART_S
from benchmarks.real.live.jobs import EVENT_S
from benchmarks.real.live.measuring import WATCHED_S, Measured
from scenarios.calibration.calibrate import own_cores
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

PERIOD_S = 0.25
AS_USUAL_S = 1.0
"""Results younger than this are as before the event."""


class Course(NamedTuple):
    """After an event: until results come again, the oldest mean age of a quarter of a second's results, and until they
    are young for good.
    """

    silent_s: float
    oldest_s: float
    made_up_s: float


def measured_course(run: Measured) -> Course:
    """Of a real job."""
    ends, steps = run.ages[1:, 0], np.diff(run.ages, axis=0)
    return _course(ends, steps[:, 1], steps[:, 2])


def simulated_course(run: Measured, restart_s: float, rescaled: bool, waits: bool) -> Course:
    """Of the job that was imported before the event. waits: replicas never wait for cores."""
    rows = [
        row
        for row in simulate(_with_event(run.job.scenario, restart_s, rescaled, waits)).operator_rows
        if "latencyCount" in row
    ]
    kept = [row for row in rows if row["latencyCount"]]
    ends, counts, sums = (np.array([row[key] for row in kept]) for key in ("end_s", "latencyCount", "e2eLatencySum_s"))
    return _course(ends, counts, sums)


def _course(ends: np.ndarray, counts: np.ndarray, sums_s: np.ndarray) -> Course:
    known = counts > 0
    ends, ages_s = ends[known], sums_s[known] / counts[known]
    after = ends > EVENT_S
    gaps_s = np.diff(ends, prepend=0.0) * after
    late = ends[after & (ages_s > AS_USUAL_S)]
    return Course(
        silent_s=float(ends[int(gaps_s.argmax())] - EVENT_S),
        oldest_s=float(ages_s[after].max()),
        made_up_s=float(late.max() - EVENT_S) if len(late) else 0.0,
    )


def _with_event(job: Scenario, restart_s: float, rescaled: bool, waits: bool) -> Scenario:
    job, host = own_cores(job) if waits else job, job.cluster.hosts[0].name
    event: dict[str, Any] = {"kind": "failure", "at_s": EVENT_S, "host": host, "recover_after_s": restart_s}
    if rescaled:
        event = {"kind": "scale", "at_s": EVENT_S, "operator": "work", "placement": [host, host]}
    settings = RunSettings(
        horizon_s=EVENT_S + WATCHED_S, period_s=PERIOD_S, warmup_s=0.0, checkpoint_interval_s=CHECKPOINT_S
    )
    data = {**job.model_dump(mode="json"), "events": [event], "run": settings.model_dump(mode="json")}
    engine = job.engine.model_dump(mode="json") | {"rescaling": {"how": "reactive", "redeploy_s": restart_s}}
    return parse(Scenario, data | {"engine": engine})


def table(fails: Measured, rescales: Measured, waits: bool) -> list[list[object]]:
    """Two rows, measured / simulated. waits: as in `simulated_course`."""
    was = measured_course(fails)
    rest = measured_course(rescales)
    again_s = max(0.1, was.silent_s - RESTART_S)
    pairs = (
        ("failure", was, simulated_course(fails, RESTART_S, False, waits)),
        ("work on two replicas", rest, simulated_course(rescales, again_s, True, waits)),
    )
    return [[name, *(f"{a:.1f} / {b:.1f} s" for a, b in zip(x, y, strict=True))] for name, x, y in pairs]
