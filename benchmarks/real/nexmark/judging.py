"""Sets what was predicted of a query beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.real.nexmark.measuring import SOURCE, Measured
from benchmarks.real.nexmark.predicting import Beyond, Prediction
from scenarios.calibration.points import KEEPS_UP

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
    return [_knee(said, knee), *_beyond(said.beyond.get(knee.rate_per_s), knee), *_light(said, light)]


def _knee(said: Prediction, knee: Measured) -> Figure:
    return Figure("knee", "events/s", said.knee_per_s, knee.delivered_per_s if is_beyond(knee) else None)


def _beyond(said: Beyond | None, knee: Measured) -> Iterator[Figure]:
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
