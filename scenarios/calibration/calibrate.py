"""Calibrates a profile from operating points: the utilisation law first, then what CPU time does not show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from scenarios.calibration import newton
from scenarios.calibration.newton import NewtonFit, Predicted
from scenarios.calibration.points import KEEPS_UP, Point, check
from scenarios.calibration.structures import (
    Base,
    By,
    Explained,
    Structure,
    Works,
    bases,
    candidates,
    explain,
    others_percent,
    rested,
    with_power,
    without,
)
from scenarios.calibration.unit_costs import CALL, OWN, UnitCost, charged, of_calls, of_kinds, ties, with_calls, work_of
from scenarios.executing import Progress
from twin.errors import BadInput
from twin.profiles import EngineProfile
from twin.scenario import Scenario
from twin.spec import Spec

# estimates -----------------------------------------------------------------------------------------------------------
# Estimates of calibrated constants: value, confidence interval, and the error at half and twice the value.


KNOWN = 0.5
"""Share of a constant's value that its standard error must stay below for the constant to count as known."""
NORMAL_95 = 1.96


class Estimate(Spec):
    """Estimate of one constant. low, high: a 95 % confidence interval. halved, doubled: factor by which the squared
    error of all readings would grow at half and twice the value, all other constants fitted anew; at 1 the points
    cannot tell. known: whether they can."""

    name: str
    unit: str
    prior: Annotated[float, Field(ge=0, description="of the profile that was there before")]
    value: Annotated[float, Field(ge=0)]
    low: Annotated[float, Field(ge=0)]
    high: Annotated[float, Field(ge=0)]
    halved: Annotated[float, Field(ge=1)]
    doubled: Annotated[float, Field(ge=1)]
    known: bool


def from_linear(found: Explained) -> tuple[Estimate, ...]:
    """Estimates of unit costs. Costs that occur in no row are left out."""
    fit, rows = found.fit, found.rows
    shown_k = np.abs(rows.need_rk).max(axis=0, initial=0.0) > 1e-9
    table = zip(found.costs, fit.values_k.tolist(), fit.spread_k.tolist(), fit.intervals_k2().tolist(), strict=True)
    return tuple(
        _around(cost, value, spread, ends, len(rows.cores_r))
        for shown, (cost, value, spread, ends) in zip(shown_k, table, strict=True)
        if shown
    )


def from_logs(found: NewtonFit, costs: Sequence[UnitCost]) -> tuple[Estimate, ...]:
    """Estimates of constants that were fitted as logarithms."""
    spread_k = np.sqrt(np.maximum(np.diag(found.covariance_kk), 0.0))
    rows = max(1, found.readings)
    estimates = []
    for cost, log, spread in zip(costs, found.logs_k.tolist(), spread_k.tolist(), strict=True):
        value = cost.prior * float(np.exp(log))
        reach = float(np.exp(min(NORMAL_95 * spread, 20.0)))
        off = _growth(float(np.log(2.0)), spread, rows)
        estimates.append(_estimate(cost, value, (value / reach, value * reach), (off, off), spread < KNOWN))
    return tuple(estimates)


def from_bases(found: Mapping[str, Base], points: int) -> tuple[Estimate, ...]:
    """Estimates of the CPU that the engine uses without records, by host."""
    estimates = []
    for host, base in found.items():
        value, spread = 100.0 * base.cores, 100.0 * base.spread
        ends = max(0.0, value - NORMAL_95 * spread), value + NORMAL_95 * spread
        estimates.append(_around(UnitCost(f"base {host}", "% of a core", 0.0), value, spread, ends, points))
    return tuple(estimates)


def _around(cost: UnitCost, value: float, spread: float, ends: Sequence[float], rows: int) -> Estimate:
    """Estimate of a constant that was fitted itself, not as its logarithm."""
    grown = [_growth(value * share, spread, rows) for share in (0.5, 1.0)]
    return _estimate(cost, value, ends, grown, spread < KNOWN * value)


def _growth(off: float, spread: float, rows: int) -> float:
    """Factor by which the squared error grows if a constant is moved by `off` and the others are fitted again."""
    return 1.0 + (off / spread) ** 2 / rows if spread > 0 else 1.0


def _estimate(cost: UnitCost, value: float, ends: Sequence[float], grown: Sequence[float], known: bool) -> Estimate:
    (low, high), (halved, doubled) = ends, (min(each, 1e12) for each in grown)
    about: dict[str, Any] = {"name": cost.name, "unit": cost.unit, "prior": cost.prior}
    return Estimate(**about, value=value, low=low, high=high, halved=halved, doubled=doubled, known=known)


# prediction intervals ------------------------------------------------------------------------------------------------
# Prediction intervals of a calibrated twin, from its errors at points held out (conformal prediction).
#
# The load is uncertain: near saturation a little more of it makes latencies a hundredfold, so no factor on a latency
# would do. Costs are moved as far up and down as the points held out needed, each operator's by its own busy times,
# and the predictions at both ends are the interval. It is then widened by the readings that were still outside, for
# each kind of reading. If readings are exchangeable, a share LEVEL of new ones is inside, whatever the errors are
# (Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005).


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


# calibrating ---------------------------------------------------------------------------------------------------------
# Calibrates a profile from operating points: the utilisation law first, then constants that CPU time does not show.


SCV = "service_scv"
RECORDS, BUFFERS = "channel_records", "network_memory"
"""Hidden constants. Latencies tell the variation of service times; slowed sources tell the capacity of channels, in
records or times the profile's network memory."""
LEAST_POINTS = 2
RATIOS = (0.25, 1.0)
"""Spreads (in logs) of costs around the machine's common factor, tried where no CPU time is known; evidence chooses."""
STRONG = 3.0
"""Evidence, in logs, that one more degree of freedom needs (Kass and Raftery, "Bayes factors", 1995)."""
OUTLIER = 5.0
"""Number of typical errors from which on a row contradicts the others."""
APART, LEAST_CORES = 1.3, 0.05
"""Ratio of the costs of a record at two points from which on they contradict each other, in rows of at least so many
cores."""


@dataclass(frozen=True)
class Calibration:
    """Constants of a job's engine, fitted to points. costs: unit costs by name; hidden: other constants by name.

    tried: all structures, best first; none where there is no CPU time. odd: rows that contradict the others. base:
    cores that the engine uses without records, by host; others_percent: use by others on these hosts, base included.
    """

    structure: Structure
    exponent: float
    costs: Mapping[str, float]
    hidden: Mapping[str, float]
    estimates: tuple[Estimate, ...]
    tried: tuple[Explained, ...]
    odd: tuple[str, ...]
    base: Mapping[str, float] = field(default_factory=dict)
    others_percent: Mapping[str, float] = field(default_factory=dict)

    def applied(self, scenario: Scenario) -> Scenario:
        """The scenario under these constants."""
        return under(scenario, self.structure, self.exponent, self.costs, self.hidden)

    def ends(self, scenario: Scenario, intervals: Intervals) -> list[Scenario]:
        """The scenario under the cheapest and the dearest costs that the intervals allow."""
        both = (intervals.costs(self.costs, sign) for sign in (-1, 1))
        return [under(scenario, self.structure, self.exponent, costs, self.hidden) for costs in both]


def under(
    scenario: Scenario, structure: Structure, exponent: float, costs: Mapping[str, float], hidden: Mapping[str, float]
) -> Scenario:
    """Scenario under calibrated constants."""
    found = with_calls(with_power(charged(scenario, costs), exponent), hidden)
    found = found.model_copy(update={"engine": _with_hidden(found.engine, hidden)})
    return own_cores(found) if structure.own_cores else found


def own_cores(scenario: Scenario) -> Scenario:
    """Scenario on hosts with at least one core for each subtask."""
    operators = scenario.query.operators
    parallelism = Counter(place.host for each in operators for place in scenario.plan.locations(each.name))
    hosts = tuple(
        host.model_copy(
            update={
                "cpu_percent": max(host.cpu_percent, host.others_percent + host.core_percent * parallelism[host.name])
            }
        )
        for host in scenario.cluster.hosts
    )
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"hosts": hosts})})


def calibrate(points: Sequence[Point], by: By | None = None, report: Progress | None = None) -> Calibration:
    """Fits the engine's constants to points. Raises BadInput if points contradict each other, or are too few."""
    check(points)
    if len(points) < LEAST_POINTS:
        raise BadInput(f"too few points: {LEAST_POINTS - len(points)} more is needed; one point fits any constants")
    if not any(point.busy or point.cpu for point in points):
        return _from_rates(points, report)
    points = rested(points)
    found = bases(points)
    base = {host: each.cores for host, each in found.items()}
    told = without(points, base)
    fit = _from_cpu(told, candidates(told, by), Works(told), report)
    return replace(
        fit,
        base=base,
        others_percent=others_percent(told, base),
        estimates=(*fit.estimates, *from_bases(found, len(points))),
    )


def calibrate_as(points: Sequence[Point], like: Calibration, works: Works | None) -> Calibration:
    """Calibration from other points, with the structure of a known one. works: None where there was no CPU time."""
    return _from_rates(points, None) if works is None else _from_cpu(points, [like.structure], works, None)


def _from_cpu(
    points: Sequence[Point], structures: Sequence[Structure], works: Works, report: Progress | None
) -> Calibration:
    tried = explain(points, structures, works)
    best = tried[0]
    engine = points[0].scenario.engine
    free = _hidden_costs(engine, points)
    rest = None
    if free:

        def apply(scenario: Scenario, logs_k: np.ndarray) -> Scenario:
            return under(scenario, best.structure, best.exponent, best.values, _values(free, logs_k))

        rest = newton.fit(points, apply, len(free), costs=0, report=report)
    return Calibration(
        structure=best.structure,
        exponent=best.exponent,
        costs=best.values,
        hidden=_values(free, rest.logs_k) if rest else {},
        estimates=(*from_linear(best), *(from_logs(rest, free) if rest else ())),
        tried=tuple(tried),
        odd=_odd(best),
    )


def _from_rates(points: Sequence[Point], report: Progress | None) -> Calibration:
    engine = points[0].scenario.engine
    behind = sum(share < KEEPS_UP for point in points for share in point.delivered.values())
    if newton.asked(points) < LEAST_POINTS or not behind:
        raise BadInput(
            "these points say nothing about costs: no busy times, no host CPU, and no source falls behind; measure one "
            "of these at some points"
        )
    costs, free = _at_work(points, of_kinds(engine)), _hidden_costs(engine, points)
    ties_kf = ties(costs)
    factors = ties_kf.shape[1]

    def apply(scenario: Scenario, logs_k: np.ndarray) -> Scenario:
        hidden = _values(free, logs_k[factors:])
        return under(scenario, Structure("kind"), 1.0, _values(costs, ties_kf @ logs_k[:factors]), hidden)

    size = factors + len(free)
    fits = [newton.fit(points, apply, size, costs=factors, report=report, ratios=each) for each in RATIOS]
    close, loose = fits
    found = newton.untied(loose if loose.evidence > close.evidence + STRONG else close, ties_kf)
    return Calibration(
        structure=Structure("kind"),
        exponent=1.0,
        costs=_values(costs, found.logs_k[: len(costs)]),
        hidden=_values(free, found.logs_k[len(costs) :]),
        estimates=from_logs(found, [*costs, *free]),
        tried=(),
        odd=(),
    )


def _at_work(points: Sequence[Point], costs: Sequence[UnitCost]) -> list[UnitCost]:
    """Unit costs that occur in any of the points."""
    jobs = {point.scenario.query.model_dump_json(): point for point in points}
    works = [work_of(point, costs).each_ok.max(axis=0) for point in jobs.values()]
    used_k = np.max(works, axis=0) * np.array([cost.prior for cost in costs]) > 0
    return [cost for cost, used in zip(costs, used_k.tolist(), strict=True) if used]


def _hidden_costs(engine: EngineProfile, points: Sequence[Point]) -> list[UnitCost]:
    """Hidden constants that the readings depend on and CPU time does not show."""
    slowed = any(share < KEEPS_UP for point in points for share in point.delivered.values())
    timed = any(point.latency_s is not None or point.markers_s for point in points)
    capacity = RECORDS if engine.network_memory is None else BUFFERS
    names = [*([capacity] if slowed else []), *([SCV] if timed else [])]
    prior = {BUFFERS: 1.0, RECORDS: float(engine.channel_records or 1), SCV: engine.service_scv}
    units = {BUFFERS: "times the profile's", RECORDS: "records", SCV: ""}
    found = [UnitCost(name, units[name], max(prior[name], 1e-3)) for name in names]
    return found + (of_calls(point.scenario for point in points) if slowed or timed else [])


def _values(costs: Sequence[UnitCost], logs_k: np.ndarray) -> dict[str, float]:
    return {cost.name: cost.prior * float(np.exp(log)) for cost, log in zip(costs, logs_k, strict=True)}


def _with_hidden(engine: EngineProfile, hidden: Mapping[str, float]) -> EngineProfile:
    values: dict[str, float | int] = {name: each for name, each in hidden.items() if not name.startswith(CALL)}
    if RECORDS in values:
        values[RECORDS] = max(1, round(values[RECORDS]))
    if SCV in values:
        values[SCV] = min(100.0, values[SCV])
    buffers = values.pop(BUFFERS, 1.0)
    if engine.network_memory is not None and buffers != 1.0:
        engine = engine.model_copy(update={"network_memory": engine.network_memory.times(buffers)})
    return engine.model_copy(update=values)


def _odd(best: Explained) -> tuple[str, ...]:
    """Rows that contradict the fit, and other rows whose cost of a record contradicts that at another point."""
    errors_r = np.abs(best.fit.errors_r)
    typical = max(float(np.median(errors_r)) / NormalDist().inv_cdf(0.75), 0.01)
    rows = list(zip(best.rows.name_r, best.rows.cores_r, best.rows.cores_r - best.off_r, strict=True))
    far = {
        name: f"{cores:.2g} cores, where the others say {said:.2g}"
        for (name, cores, said), size in zip(rows, errors_r, strict=True)
        if size > OUTLIER * typical
    }
    ratios: dict[str, dict[float, str]] = {}
    for name, cores, said in rows:
        if name not in far and cores > LEAST_CORES and said > 0.0:
            ratios.setdefault(name.rpartition(": ")[2], {})[float(cores / said)] = name
    for what, each in ratios.items():
        if max(each) > APART * min(each):
            least = each[min(each)].removesuffix(f": {what}")
            far[each[max(each)]] = f"a record takes {max(each) / min(each):.1f} times as much as in {least}"
    return tuple(f"{name} ({why})" for name, why in far.items())
