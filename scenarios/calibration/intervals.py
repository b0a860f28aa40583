"""Prediction intervals of a calibrated twin, from its errors at points held out (conformal prediction).

The load is uncertain: near saturation a little more of it makes latencies a hundredfold, so no factor on a latency
would do. Costs are moved as far up and down as the points held out needed, each operator's by its own busy times, and
the predictions at both ends are the interval. It is then widened by the readings that were still outside, for each kind
of reading. If readings are exchangeable, a share LEVEL of new ones is inside, whatever the errors are (Vovk, Gammerman,
Shafer, "Algorithmic Learning in a Random World", 2005).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from scenarios.calibration.point import KEEPS_UP, Point
from scenarios.calibration.predicting import Predicted
from scenarios.calibration.unit_costs import OWN
from twin.spec import Spec

LEVEL = 0.9
ALL = "all costs"
FINEST = 1e-3
"""Resolution of shares of time: engines count milliseconds a second."""
WORK = ("busy", "cpu")
"""Kinds of readings that measure the load itself."""
Key = tuple[str, str]
"""Kind of a reading, and the name of its operator or host."""


class Reach(Spec):
    """Factor that a share LEVEL of the readings held out are within; all of them, if they are too few to tell."""

    readings: Annotated[int, Field(ge=1)]
    factor: Annotated[float, Field(ge=1)]


class Prediction(Spec):
    """Prediction of one reading with its interval. kind: of the reading; of: its operator or host. `bears` is the most
    that a source could be offered, times its offer. low, high: absent where no point tells the error."""

    kind: str
    of: str
    predicted: float
    low: float | None = None
    high: float | None = None


class Intervals(Spec):
    """Widths of prediction intervals. load: of unit costs, by name; ALL is for those without a name. beyond: of
    readings, by kind, in addition."""

    load: Mapping[str, Reach] = {}
    beyond: Mapping[str, Reach] = {}

    def costs(self, values: Mapping[str, float], sign: int) -> dict[str, float]:
        """Unit costs at one end of the interval: -1 is the cheap one, 1 the dear one."""
        return {name: value * self._factor(name) ** sign for name, value in values.items()}

    def _factor(self, cost: str) -> float:
        found = [self.load[name].factor for name in (cost, ALL) if name in self.load]
        return max(found, default=1.0)

    def around(self, middle: Predicted, *both: Predicted) -> list[Prediction]:
        """Predictions with intervals, which span those at both ends of the load, widened by `beyond`."""
        return [self._around(key, [said(each).get(key, math.nan) for each in (middle, *both)]) for key in said(middle)]

    def _around(self, key: Key, values: Sequence[float]) -> Prediction:
        kind, of = key
        factor = self.beyond[kind].factor if kind in self.beyond else 1.0
        most = 1.0 if kind in ("delivered", *WORK) else math.inf
        low, high = min(values) / factor, max(values) * factor
        if kind in WORK:
            low, high = max(0.0, low - FINEST), high + FINEST
        return Prediction(kind=kind, of=of, low=low, predicted=values[0], high=min(high, most))


def said(predicted: Predicted) -> dict[Key, float]:
    """All finite values of a prediction, by kind and name of the operator, host or source."""
    named = {
        "bears": {name: math.exp(margin) for name, margin in predicted.margin.items()},
        "delivered": predicted.delivered,
        "busy": predicted.busy,
        "cpu": predicted.cpu,
        "markers": predicted.markers_s,
        "latency": {"": predicted.latency_s},
    }
    return {(kind, of): value for kind, each in named.items() for of, value in each.items() if math.isfinite(value)}


def pairs(point: Point, predicted: Predicted) -> dict[Key, tuple[float, float]]:
    """Measured and predicted value, in this order, of each reading that has both."""
    ages_s = {of: age_s for of, age_s in point.markers_s.items() if age_s > 0.0}
    latency_s = {"": point.latency_s} if point.latency_s else {}
    named = {
        "delivered": point.delivered,
        "busy": point.busy,
        "cpu": point.cpu,
        "markers": ages_s,
        "latency": latency_s,
    }
    was = {(kind, of): value for kind, each in named.items() for of, value in each.items()}
    known = said(predicted)
    return {key: (value, known[key]) for key, value in was.items() if key in known}


def of_loads(held_out: Sequence[tuple[Point, Predicted]], costs: Container[str]) -> Intervals:
    """Factors by which unit costs of these names are moved up and down. held_out: points with their predictions."""
    off: dict[str, list[float]] = {}
    for point, predicted in held_out:
        for (kind, of), both in pairs(point, predicted).items():
            if kind in WORK and min(both) < KEEPS_UP:
                own = f"{OWN}{of}" if kind == "busy" else ALL
                off.setdefault(own if own in costs else ALL, []).append(_apart(*both, FINEST))
        off.setdefault(ALL, []).extend(loads(point, predicted))
    return Intervals(load={name: reach(each) for name, each in off.items() if each})


def loads(point: Point, predicted: Predicted) -> list[float]:
    """Errors of the load (log), a value a source; a source that keeps up, as predicted, has none."""
    found = []
    for source, share in point.delivered.items():
        margin = predicted.margin[source]
        if share < KEEPS_UP:
            found.append(abs(margin - math.log(max(share, 1e-9))))
        elif margin < 0.0:
            found.append(-margin)
    return found


def outside(point: Point, *all_said: Predicted) -> list[tuple[str, float]]:
    """Distance of each reading to the range of all predictions of it (log; 0 inside), with its kind."""
    each_said = [pairs(point, predicted) for predicted in all_said]
    found = []
    for key, (measured, _) in each_said[0].items():
        if key[0] in WORK:
            continue  # the load's interval is made from these readings
        values = [each[key][1] for each in each_said if key in each]
        inside = min(max(measured, min(values)), max(values))
        found.append((key[0], _apart(measured, inside)))
    return found


def with_beyond(intervals: Intervals, off: Iterable[tuple[str, float]]) -> Intervals:
    """Intervals widened for readings outside of them, by the kind and distance (log) of each."""
    by_kind: dict[str, list[float]] = {}
    for kind, size in off:
        by_kind.setdefault(kind, []).append(size)
    return intervals.model_copy(update={"beyond": {kind: reach(each) for kind, each in by_kind.items()}})


def reach(off: Sequence[float]) -> Reach:
    """Factor that a share LEVEL of some errors is within. off: logs of factors."""
    rank = math.ceil((len(off) + 1) * LEVEL)
    return Reach(readings=len(off), factor=math.exp(sorted(off)[min(rank, len(off)) - 1]))


def _apart(a: float, b: float, floor: float = 0.0) -> float:
    return abs(math.log((max(a, 0.0) + floor + 1e-9) / (max(b, 0.0) + floor + 1e-9)))
