"""How far a calibrated twin may be off, as points that it had not seen say (conformal prediction).

What is uncertain is the load: near the knee a little more of it makes latencies a hundredfold, so no factor on a
latency would do. Costs are taken as far up and down as the points held out needed, each operator's by its own busy
times, and what is predicted at both ends is the interval. By what readings were outside of it still, it is widened, a
kind of reading at a time. Of readings that are exchangeable, LEVEL of new ones are inside, whatever the errors are
(Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005).
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
"""Of shares of time: engines count milliseconds a second."""
WORK = ("busy", "cpu")
"""Readings that are the load itself."""
Key = tuple[str, str]
"""A kind of reading, and the operator or host that it is of."""


class Reach(Spec):
    """The factor that LEVEL of the readings held out are within; all of them, if they are too few to tell."""

    readings: Annotated[int, Field(ge=1)]
    factor: Annotated[float, Field(ge=1)]


class Prediction(Spec):
    """kind: what is said, and of which operator or host. `bears` is what a source could be offered, times its offer.
    low, high: absent where no point tells how far off it may be."""

    kind: str
    of: str
    predicted: float
    low: float | None = None
    high: float | None = None


class Intervals(Spec):
    """load: of unit costs, by name; ALL is of those without a name. beyond: of what is read, by kind."""

    load: Mapping[str, Reach] = {}
    beyond: Mapping[str, Reach] = {}

    def costs(self, values: Mapping[str, float], sign: int) -> dict[str, float]:
        """The unit costs at one end: -1 is the cheap one, 1 the dear one."""
        return {name: value * self._factor(name) ** sign for name, value in values.items()}

    def _factor(self, cost: str) -> float:
        found = [self.load[name].factor for name in (cost, ALL) if name in self.load]
        return max(found, default=1.0)

    def around(self, middle: Predicted, *both: Predicted) -> list[Prediction]:
        """Predictions with what is said at both ends of the load, and by how much readings are beyond it."""
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
    """All of a prediction, by kind and what it is of."""
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
    """What was both measured and predicted, in this order."""
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
    """How far unit costs, of these names, are to be taken up and down. held_out: points with what was said of them."""
    off: dict[str, list[float]] = {}
    for point, predicted in held_out:
        for (kind, of), both in pairs(point, predicted).items():
            if kind in WORK and min(both) < KEEPS_UP:
                own = f"{OWN}{of}" if kind == "busy" else ALL
                off.setdefault(own if own in costs else ALL, []).append(_apart(*both, FINEST))
        off.setdefault(ALL, []).extend(loads(point, predicted))
    return Intervals(load={name: reach(each) for name, each in off.items() if each})


def loads(point: Point, predicted: Predicted) -> list[float]:
    """By what the load is off (log), by source; a source that keeps up, and was said to, tells nothing of it."""
    found = []
    for source, share in point.delivered.items():
        margin = predicted.margin[source]
        if share < KEEPS_UP:
            found.append(abs(margin - math.log(max(share, 1e-9))))
        elif margin < 0.0:
            found.append(-margin)
    return found


def outside(point: Point, *all_said: Predicted) -> list[tuple[str, float]]:
    """By what readings are beyond what is predicted at all ends (log), each with its kind."""
    each_said = [pairs(point, predicted) for predicted in all_said]
    found = []
    for key, (measured, _) in each_said[0].items():
        if key[0] in WORK:
            continue  # the load is as wide as these need
        values = [each[key][1] for each in each_said if key in each]
        inside = min(max(measured, min(values)), max(values))
        found.append((key[0], _apart(measured, inside)))
    return found


def with_beyond(intervals: Intervals, off: Iterable[tuple[str, float]]) -> Intervals:
    """The intervals, wide enough for readings that are off by so much beyond them."""
    by_kind: dict[str, list[float]] = {}
    for kind, size in off:
        by_kind.setdefault(kind, []).append(size)
    return intervals.model_copy(update={"beyond": {kind: reach(each) for kind, each in by_kind.items()}})


def reach(off: Sequence[float]) -> Reach:
    """off: logs of factors."""
    rank = math.ceil((len(off) + 1) * LEVEL)
    return Reach(readings=len(off), factor=math.exp(sorted(off)[min(rank, len(off)) - 1]))


def _apart(a: float, b: float, floor: float = 0.0) -> float:
    return abs(math.log((max(a, 0.0) + floor + 1e-9) / (max(b, 0.0) + floor + 1e-9)))
