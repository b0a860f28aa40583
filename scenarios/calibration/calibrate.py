"""Calibrates a profile from operating points: the utilisation law first, then constants that CPU time does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from scenarios.calibration import host_cpu, newton
from scenarios.calibration.design import work_of
from scenarios.calibration.estimate import Estimate, from_bases, from_linear, from_logs
from scenarios.calibration.intervals import Intervals
from scenarios.calibration.point import KEEPS_UP, Point, check
from scenarios.calibration.structures import By, Explained, Structure, Works, candidates, explain, with_power
from scenarios.calibration.unit_costs import CALL, UnitCost, charged, of_calls, of_kinds, ties, with_calls
from scenarios.executing.progress import Progress
from twin.errors import BadInput
from twin.profiles import EngineProfile
from twin.scenario import Scenario

SCV = "service_scv"
TUPLES, BUFFERS = "channel_tuples", "network_memory"
"""Hidden constants. Latencies tell the variation of service times; slowed sources tell the capacity of channels, in
tuples or times the profile's network memory."""
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
    """Scenario on hosts with at least one core for each replica."""
    operators = scenario.query.operators
    replicas = Counter(place.host for each in operators for place in scenario.plan.locations(each.name))
    hosts = tuple(
        host.model_copy(
            update={"cpu_percent": max(host.cpu_percent, host.others_percent + host.core_percent * replicas[host.name])}
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
    found = host_cpu.bases(points)
    base = {host: each.cores for host, each in found.items()}
    told = host_cpu.without(points, base)
    fit = _from_cpu(told, candidates(told, by), Works(told), report)
    return replace(
        fit,
        base=base,
        others_percent=host_cpu.others_percent(told, base),
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
    capacity = TUPLES if engine.network_memory is None else BUFFERS
    names = [*([capacity] if slowed else []), *([SCV] if timed else [])]
    prior = {BUFFERS: 1.0, TUPLES: float(engine.channel_tuples or 1), SCV: engine.service_scv}
    units = {BUFFERS: "times the profile's", TUPLES: "tuples", SCV: ""}
    found = [UnitCost(name, units[name], max(prior[name], 1e-3)) for name in names]
    return found + (of_calls(point.scenario for point in points) if slowed or timed else [])


def _values(costs: Sequence[UnitCost], logs_k: np.ndarray) -> dict[str, float]:
    return {cost.name: cost.prior * float(np.exp(log)) for cost, log in zip(costs, logs_k, strict=True)}


def _with_hidden(engine: EngineProfile, hidden: Mapping[str, float]) -> EngineProfile:
    values: dict[str, float | int] = {name: each for name, each in hidden.items() if not name.startswith(CALL)}
    if TUPLES in values:
        values[TUPLES] = max(1, round(values[TUPLES]))
    if SCV in values:
        values[SCV] = min(100.0, values[SCV])
    buffers = values.pop(BUFFERS, 1.0)
    if engine.network_memory is not None and buffers != 1.0:
        engine = engine.model_copy(update={"network_memory": engine.network_memory.times(buffers)})
    return engine.model_copy(update=values)


def _odd(best: Explained) -> tuple[str, ...]:
    """Rows that contradict the fit, and other rows whose cost of a record contradicts that at another point."""
    errors_r = np.abs(best.fit.errors_r)
    typical = max(float(np.median(errors_r)) / stats.norm.ppf(0.75), 0.01)
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
