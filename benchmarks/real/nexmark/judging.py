"""What the twin says of a query from two light loads, and how that stands beside what is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter

from benchmarks.real.nexmark.measuring import SOURCE, Checkpoint, Measured, Query
from optimizers.objectives import at_rate
from scenarios.calibration.calibrate import calibrate
from scenarios.calibration.points import KEEPS_UP, Point, points_of
from scenarios.calibration.structures import beside
from streamtwin import capacity
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

# predicted -----------------------------------------------------------------------------------------------------------
# In a file that is written before the knee is measured.


FAIR = 0.99
"""Part of its share of a full task's time from which on an input waits."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """Prediction at a rate beyond the knee, by the rate model: events a second that the source takes, and shares of
    time by operator."""

    delivered_per_s: float
    busy: Mapping[str, float]
    backpressured: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Prediction:
    """knee_per_s: the most events a second that the query bears, by `twin capacity`; None if none is found. binds: what
    holds it there. beyond: by the rate that is offered.

    Of a simulated run at the lightest load: markers_s, mean ages of latency markers by operator; p50_s, p95_s: of the
    ages of results, None where they have no time or there are none; checkpoint: the last one's size and the mean
    duration; None if there is none."""

    knee_per_s: float | None
    binds: str
    beyond: Mapping[float, Beyond]
    markers_s: Mapping[str, float]
    p50_s: float | None
    p95_s: float | None
    checkpoint: Checkpoint | None


FORM = TypeAdapter(Prediction)
"""Form of a prediction in a file."""


def predicted(light: Sequence[Measured], query: Query, offered: Sequence[float]) -> Prediction:
    """Prediction from light loads, the lightest first. offered: rates at which the knee may be measured. Raises
    BadInput if the points cannot be calibrated.

    What a job bears is asked of the one that was imported at the heaviest of these loads: keys and partial results are
    as they were seen there, and may be others further away."""
    nearest = _for_its_time(calibrated(light, light[-1]), light[-1])
    limit = capacity(nearest, "load", prove=False).result.predicted
    # in runs of that length: growing state, which no machine bears for ever, is as small as in what is measured
    load = limit.value or limit.in_long_runs
    p50_s, p95_s, markers_s, checkpoint = _run(_for_its_time(calibrated(light, light[0]), light[0]), query)
    return Prediction(
        knee_per_s=None if load is None else load * light[-1].rate_per_s,
        binds=limit.binds,
        beyond={rate: _beyond(at_rate(nearest, rate / light[-1].rate_per_s)) for rate in offered},
        markers_s=markers_s,
        p50_s=p50_s,
        p95_s=p95_s,
        checkpoint=checkpoint,
    )


def _for_its_time(job: Scenario, point: Measured) -> Scenario:
    """The job in a run as long as the point's, measured in the point's window."""
    return job.with_run(horizon_s=point.window_s[1], warmup_s=point.window_s[0], period_s=1.0)


def calibrated(light: Sequence[Measured], of: Measured) -> Scenario:
    """The job of one point, calibrated on all of them. Raises BadInput if they cannot be."""
    job = of.job.scenario
    found = calibrate([_point(each, job, str(number)) for number, each in enumerate(light)])
    return found.applied(beside(job, found.others_percent))


def _point(measured: Measured, job: Scenario, name: str) -> Point:
    return points_of([{"point": name, **row} for row in measured.job.readings], job, f"point {name}")[0]


def _run(job: Scenario, query: Query) -> tuple[float | None, float | None, dict[str, float], Checkpoint | None]:
    """Quantiles of the ages of results since the time that they have, mean ages of markers, and checkpoints."""
    run = simulate(job)
    ages = None
    if query.ages:
        ages = run.metrics.result_delay_s if query.is_windowed else run.metrics.e2e_latency_s
    markers = {each.operator: each.age_s for each in run.markers if each.age_s is not None}
    done = [each for each in run.event_rows if each["kind"] == "checkpoint" and each["detail"]["status"] == "completed"]
    checkpoint = None
    if done:
        took_s = [each["end_s"] - each["at_s"] for each in done]
        checkpoint = Checkpoint(done[-1]["bytes"], math.fsum(took_s) / len(took_s))
    return (ages.p50, ages.p95, markers, checkpoint) if ages else (None, None, markers, checkpoint)


def _beyond(job: Scenario) -> Beyond:
    """State of a job at a load, by the rate model. A task waits for the rest of its time if what it sends to is full,
    unless it sends less than its share there: a task takes from its inputs by turns, so that this one never waits."""
    answer = RateModel(endless=True).answer(job, [job.plan])
    number = {name: at for at, name in enumerate(answer.operators)}
    chains = {name: chain[0] for chain in job.plan.fused for name in chain}
    full: dict[str, bool] = {}
    for stream in job.query.streams:
        head = chains.get(stream.producer, stream.producer)
        if chains.get(stream.consumer, stream.consumer) != head:
            inputs = job.query.inputs(stream.consumer)
            sent = {
                each.producer: answer.out_per_s[0, number[each.producer]]
                * job.query.operator(each.producer).share_to(each.consumer)
                for each in inputs
            }
            fair = sent[stream.producer] >= FAIR * sum(sent.values()) / len(inputs)
            full[head] = full.get(head, False) or bool(fair and answer.blocked[0, number[stream.consumer]])
    busy = {name: float(answer.used[0, at]) for name, at in number.items()}
    return Beyond(
        delivered_per_s=float(answer.in_per_s[0, number[SOURCE]]),
        busy=busy,
        backpressured={name: max(0.0, 1.0 - share) if full.get(name) else 0.0 for name, share in busy.items()},
    )


# beside what was measured --------------------------------------------------------------------------------------------


MOST_COLLECTING = 0.1
"""Share of the time from which on collecting garbage makes a knee one of the heap, not of the query."""


class Figure(NamedTuple):
    """Predicted beside measured, in the unit. None: not known. is_share: whether the error is a difference."""

    what: str
    unit: str
    predicted: float | None
    measured: float | None
    is_share: bool = False

    @property
    def error(self) -> float | None:
        """Relative error, or of a share the difference; None where one side is not known or is 0."""
        if self.predicted is None or self.measured is None:
            return None
        if self.is_share:
            return self.predicted - self.measured
        return self.predicted / self.measured - 1.0 if self.measured else None


def is_beyond(measured: Measured) -> bool:
    """Whether the source takes less than it is offered, so that what it takes is the knee."""
    return measured.delivered_per_s < KEEPS_UP * measured.rate_per_s


def figures(said: Prediction, light: Measured, knee: Measured) -> list[Figure]:
    """All figures of a query. light: its lightest load. knee: at the highest rate that it was offered."""
    return [_knee(said, knee), *_beyond_knee(said.beyond.get(knee.rate_per_s), knee), *_light(said, light)]


def _knee(said: Prediction, knee: Measured) -> Figure:
    return Figure("knee", "events/s", said.knee_per_s, knee.delivered_per_s if is_beyond(knee) else None)


def _beyond_knee(said: Beyond | None, knee: Measured) -> Iterator[Figure]:
    offered = f"offered {knee.rate_per_s:,.0f}/s"
    yield Figure(f"taken, {offered}", "events/s", said and said.delivered_per_s, knee.delivered_per_s)
    for name, row in knee.rows.items():
        if "busy" in row:
            yield Figure(f"busy, {offered}: {name}", "", said and said.busy.get(name), row["busy"], True)
        if "backpressured" in row:
            share = said and said.backpressured.get(name)
            yield Figure(f"backpressured: {name}", "", share, row["backpressured"], True)


def _light(said: Prediction, light: Measured) -> Iterator[Figure]:
    offered = f"offered {light.rate_per_s:,.0f}/s"
    if len(light.ages_s):
        for share, age_s in ((0.5, said.p50_s), (0.95, said.p95_s)):
            measured_s = float(np.quantile(light.ages_s, share))
            yield Figure(f"{share:.0%} of ages of results, {offered}", "s", age_s, measured_s)
    for name, found in light.markers_s.items():
        if name == SOURCE:  # where they begin
            continue
        mean_s = light.rows.get(name, {}).get("marker_s")
        yield Figure(f"markers, mean: {name}", "s", said.markers_s.get(name), mean_s)
        for key, value in sorted(found.items()):
            yield Figure(f"markers, {key.removesuffix('_s')}: {name}", "s", None, value)
    if light.checkpoint:
        expected = said.checkpoint
        yield Figure("checkpoint", "MB", expected and expected.bytes / 1e6, light.checkpoint.bytes / 1e6)
        yield Figure("it takes", "s", expected and expected.duration_s, light.checkpoint.duration_s)


def table(rows: Sequence[Figure]) -> list[list[object]]:
    """Rows for a table: what, predicted, measured, error."""
    return [[each.what, each.unit, _shown(each.predicted), _shown(each.measured), _error(each)] for each in rows]


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _error(figure: Figure) -> str:
    if figure.error is None:
        return "-"
    return f"{100 * figure.error:+.0f} {'points' if figure.is_share else '%'}"


def summary(query: str, rows: Sequence[Figure], knee: Measured) -> list[object]:
    """Row of the table of all queries: the knee, and the busiest operator there, predicted beside measured."""
    first = rows[0]
    busy = {each.what.rpartition(": ")[2]: each for each in rows if each.what.startswith("busy")}
    name = max(busy, key=lambda each: busy[each].measured or 0.0, default="")
    limit = _shown(first.measured) if is_beyond(knee) else f"at least {_shown(knee.delivered_per_s)}"
    said = _shown(busy[name].predicted) if name else "-"
    collecting = f"{knee.collecting:.0%}" + " (too much)" * (knee.collecting > MOST_COLLECTING)
    slowest = f"{name}: {said} / {_shown(busy[name].measured)}" if name else SOURCE
    return [query, _shown(first.predicted), limit, _error(first), slowest, collecting]
