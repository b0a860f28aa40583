"""Structures that explain the CPU time of a host: what records use, what the engine does without, what others use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, harmonic_mean, median
from typing import Literal

import numpy as np

from scenarios.calibration.points import Point, one_job
from scenarios.calibration.unit_costs import (
    BUSY,
    LinearFit,
    Rows,
    UnitCost,
    Work,
    charged,
    core_speeds,
    fit,
    of_functions,
    of_kinds,
    of_operators,
    rows_of,
    work_of,
)
from twin.chaining import fused, one_a_task
from twin.errors import BadInput
from twin.query import Windowed
from twin.rates.model import RateModel
from twin.scenario import Scenario, put

# the CPU time of a host ----------------------------------------------------------------------------------------------
# Splits the CPU time of a host: used by records, used by the engine without any, and used by others.
#
# A subtask is busy while it computes and while it waits for a core, and subtasks that want a core at the same time
# share what others leave. Subtasks of one operator want one together, as buffers are flushed together; operators are
# independent. The engine (a JVM: garbage collection, heartbeats, timers) uses a base that does not depend on records.
# CPU = base + cost x rate tells this base, if a host was read at different rates of one job; records get what it and
# others leave.
#
# A subtask that has nothing to do is woken up by its next records, and counts as busy before it computes: busy =
# cost x rate + w x the rest of the time, which two rates tell, too, and which is gone where it is always busy.


APART = 1.3
"""Ratio of busy times to CPU in use from which on they contradict each other: the rest was waiting for a core."""
CROWDED = 2.0
"""The same from which on, at several rates, others must use the cores. On a machine of its own busy times of nine
queries were 0.9 to 1.6 times their CPU (docs/nexmark.md): garbage that is collected, for one, stops all subtasks."""
RATES_APART = 1.5
"""Ratio of the most work of a host at any point to the least that points need to tell its base."""
MOST_WAKING = 0.1
"""Most of its idle time for which waking up keeps a subtask busy, some hundred times a second for some tenth of a
millisecond; where points tell more, they contradict each other. Nine queries had 0.01 to 0.03."""
FAINT = 2.0
"""Times of the base that records are to use at some point."""
LEAST_ERROR = 0.02
"""Least relative error of readings of CPU."""
SURE = 2.0
"""Number of standard errors that a base must exceed to count."""

Wanted = tuple[int, float]
"""Number of subtasks of an operator, and the share of the time for which they want a core."""


@dataclass(frozen=True, slots=True)
class Base:
    """Base of a host. cores: reference cores that the engine uses without records. spread: their standard error."""

    cores: float
    spread: float


@dataclass(frozen=True, slots=True)
class _Host:
    """CPU of a host at one point, in reference cores. used: as measured, without others. cores: all of the host's;
    core: one of the host's own. demand: mean demand of subtasks; work: use by records, but for a factor that all points
    share. wanted: for each operator there whose busy time was read. whole: whether no other operator there has a
    cost."""

    used: float
    cores: float
    core: float
    demand: float
    work: float
    wanted: tuple[Wanted, ...]
    whole: bool

    def left(self, records: float) -> float | None:
        """Cores that others left to subtasks that used `records` of them; None if busy times tell of no waiting."""
        found = waited(self.wanted, self.cores / self.core, records / self.core, CROWDED)
        return None if found is None else self.core * found


def rested(points: Sequence[Point]) -> list[Point]:
    """Points whose busy times are without what waking up takes, where points tell that: busy = w + (1 - w) x work."""
    wakes = _wakes(points)
    return [
        replace(point, busy={name: _work(busy, wakes.get(name, 0.0)) for name, busy in point.busy.items()})
        for point in points
    ]


def _work(busy: float, wakes: float) -> float:
    return max(0.0, (busy - wakes) / (1.0 - wakes))


def _wakes(points: Sequence[Point]) -> dict[str, float]:
    """Share of its idle time for which an operator is busy without records, by name, as far as rates tell it. What a
    window does when it ends does not grow with the rate, either, and is work."""
    found = dict[str, float]()
    for operator in points[0].scenario.query.operators if one_job(points) else ():
        read = [each for each in points if each.busy.get(operator.name, 0.0) > 0.0]
        rates = [
            each.taken_per_s.get(operator.name, 0.0) / each.scenario.plan.parallelism(operator.name) for each in read
        ]
        if len(read) > 1 and min(rates) > 0.0 and not isinstance(operator, Windowed):
            told = _intercept([each.busy[operator.name] for each in read], rates)
            found |= {} if told is None or told.cores > MOST_WAKING else {operator.name: told.cores}
    return found


def bases(points: Sequence[Point]) -> dict[str, Base]:
    """Base of each host, by name; left out where points tell none above 0, or contradict each other."""
    found = {
        name: _intercept([each.used for each in hosts], [each.work for each in hosts])
        for name, hosts in _by_host(points).items()
    }
    return {name: base for name, base in found.items() if base is not None}


def untold(points: Sequence[Point]) -> list[str]:
    """Hosts whose CPU was read, but at about one rate, so that nothing tells a base."""
    return [name for name, hosts in _by_host(points).items() if not _apart([each.work for each in hosts])]


@dataclass(frozen=True, slots=True)
class Faint:
    """Host at all of whose points records use little beside the base. records, base: cores, at the highest load.
    factor: on that load, from which on records would use FAINT times the base."""

    records: float
    base: float
    factor: float


def faint(points: Sequence[Point]) -> dict[str, Faint]:
    """Hosts, by name, of which records use less than FAINT times the base, so that costs rest on a small difference."""
    found = dict[str, Faint]()
    for name, base in bases(points).items():
        records = max(each.used for each in _by_host(points)[name]) - base.cores
        if records < FAINT * base.cores:
            found[name] = Faint(records, base.cores, FAINT * base.cores / records)
    return found


def without(points: Sequence[Point], cores: Mapping[str, float]) -> list[Point]:
    """Points with only the CPU that records used; all other use of hosts counts as others'.

    cores: by host, the reference cores that the engine uses without records. CPU far above all busy times is not used
    by records, and left out.
    """
    return [_without(point, cores) for point in points]


def others_percent(points: Sequence[Point], cores: Mapping[str, float]) -> dict[str, float]:
    """Percent of a reference core that others use, median over the points, by host. cores: has a key for each host."""
    hosts = [host for point in points for host in point.scenario.cluster.hosts]
    return {name: median(host.others_percent for host in hosts if host.name == name) for name in cores}


def beside(scenario: Scenario, others: Mapping[str, float]) -> Scenario:
    """Scenario in which others use at least `others`: percent of a core, by host; a part of each host is left."""
    hosts = tuple(
        host.model_copy(
            update={"others_percent": max(host.others_percent, min(others[host.name], 0.999 * host.cpu_percent))}
        )
        if host.name in others
        else host
        for host in scenario.cluster.hosts
    )
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"hosts": hosts})})


def _without(point: Point, cores: Mapping[str, float]) -> Point:
    cpu, scenario = dict(point.cpu), point.scenario
    for name in point.cpu:
        host, base = _host(point, name, {}), cores.get(name, 0.0)
        records, given = host.used - base, point.scenario.cluster.host(name).others_percent / 100.0
        if host.whole and records > APART * host.demand:
            del cpu[name]
        if not base:
            continue
        if records <= 0.0:  # the engine used less than elsewhere, so nothing tells what records used
            cpu.pop(name, None)
            continue
        left = host.left(records)
        others = given + base if left is None else max(given, host.cores - left)
        scenario = put(scenario, f"cluster.hosts.{name}.others_percent", 100.0 * others, f"point {point.name}")
        if name in cpu:
            cpu[name] = records / (host.cores - others)
    return replace(point, scenario=scenario, cpu=cpu, engine=cores)


def _by_host(points: Sequence[Point]) -> dict[str, list[_Host]]:
    """Readings of each host at the points of one job; none for several jobs, or for different hosts of one name."""
    if not one_job(points):
        return {}
    each_s, found = _each_s(points), dict[str, list[_Host]]()
    for point in points:
        for name in point.cpu:
            if (host := _host(point, name, each_s)).work > 0.0:
                found.setdefault(name, []).append(host)
    return {name: each for name, each in found.items() if len({host.cores for host in each}) == 1}


def _each_s(points: Sequence[Point]) -> dict[str, float]:
    """Seconds that a record keeps a subtask busy, for operators without windows whose busy time was read at all points.
    A geometric mean over the points, so that waiting for cores is the same factor for all operators."""
    read = [point for point in points if point.cpu]
    found = {}
    for operator in read[0].scenario.query.operators if read else ():
        name = operator.name
        pairs = [(point.busy.get(name, 0.0), point.taken_per_s.get(name, 0.0)) for point in read]
        if not isinstance(operator, Windowed) and all(min(pair) > 0.0 for pair in pairs):
            parallelism = (point.scenario.plan.parallelism(name) for point in read)
            logs = [np.log(busy * count / taken) for (busy, taken), count in zip(pairs, parallelism, strict=True)]
            found[name] = float(np.exp(np.mean(logs)))
    return found


def _host(point: Point, name: str, each_s: Mapping[str, float]) -> _Host:
    """CPU of a host at a point. each_s: seconds of a record by operator, as from `_each_s`; without it busy times count
    as work, although they include waiting for a core."""
    host, plan = point.scenario.cluster.host(name), point.scenario.plan
    core = fmean(host.core_speed(each) for each in range(host.socket_count))
    scenario, wanted, crowded, plain, whole = point.scenario, [], 0.0, 0.0, True
    of_tasks = one_a_task(point.busy, fused(scenario.query, plan, scenario.engine))
    for operator in point.scenario.query.operators:
        places = plan.locations(operator.name)
        here = sum(place.host == name for place in places)
        if here and operator.name in of_tasks:
            usual = harmonic_mean(core_speeds(point.scenario, operator.name))  # busy for longer on a slower one
            busy = min(1.0, max(0.0, of_tasks[operator.name]))
            wanted.append((here, min(1.0, busy * usual / core)))
            if operator.name in each_s:
                crowded += here * busy
                plain += each_s[operator.name] * point.taken_per_s[operator.name] * here / len(places)
        elif here and operator.service_time_s != 0.0 and operator.name not in point.busy:
            whole = False
    factor = crowded / plain if plain > 0.0 else 1.0
    demand = core * sum(count * share for count, share in wanted)
    used = max(0.0, point.cpu[name]) * host.left_percent / 100.0
    return _Host(used, host.cpu_percent / 100.0, core, demand, demand / factor, tuple(wanted), whole)


def _apart(works: Sequence[float]) -> bool:
    """Whether rates differ enough to tell a base."""
    return max(works) >= RATES_APART * min(works)


def _intercept(used: Sequence[float], works: Sequence[float]) -> Base | None:
    """Base in used = base + slope x work, neither below 0; None if it is hardly more than its error."""
    if not _apart(works):
        return None
    from scipy.optimize import nnls  # here, because most commands need no SciPy

    used_p = np.maximum(used, 1e-9)
    parts_p2 = np.array([[1.0, work] for work in works]) / used_p[:, None]
    (base, slope), off = nnls(parts_p2, np.ones(len(works)))
    error = max(LEAST_ERROR, off / max(1, len(works) - 2) ** 0.5)
    spread = float(error * np.sqrt(np.linalg.inv(parts_p2.T @ parts_p2)[0, 0]))
    told = slope > 0.0 and SURE * spread < base < used_p.min()
    return Base(float(base), spread) if told else None


def waited(wanted: Sequence[Wanted], cores: float, used: float, apart: float = APART) -> float | None:
    """Number of cores that others left to subtasks that used `used` of them; None if busy times tell of no waiting.
    apart: ratio of the cores in use, by busy times, to those used, from which on they do."""
    return cores_left(wanted, used) if in_use(wanted, cores) > apart * used else None


def in_use(wanted: Sequence[Wanted], cores: float) -> float:
    """Mean number of cores in use, of `cores` that there are."""
    return float(sum(min(1.0, cores - k) * more for k, more in enumerate(_more(wanted)) if k < cores))


def cores_left(wanted: Sequence[Wanted], used: float) -> float:
    """Number of cores that there are if `used` are in use on average: the inverse of `in_use`; at least 0.001."""
    below, more_k = 0.0, _more(wanted)
    for k, more in enumerate(more_k):
        if below + more >= used:
            return max(1e-3, k + (used - below) / more)
        below += more
    return float(len(more_k))


def _more(wanted: Sequence[Wanted]) -> list[float]:
    """Probabilities that more than k = 0, 1, ... cores are wanted at a time."""
    chance = np.ones(1)
    for count, share in wanted:
        chance = np.convolve(chance, [1.0 - share, *[0.0] * (count - 1), share])
    return [float(each) for each in chance[::-1].cumsum()[::-1][1:]]


# structures ----------------------------------------------------------------------------------------------------------
# Chooses the structure that explains measured CPU time: costs by operator, kind or function; hosts; waiting for cores.
#
# The structure with the lowest Bayesian information criterion is chosen, so that more degrees of freedom must pay. Its
# residual is the verdict on it.


By = Literal["operator", "kind", "function"]
EXPONENTS = (0.4, 1.6)
"""Range of the exponent of a host: it gives its nominal cores to that power."""
TURNS = 3
"""Number of fits of the costs; before each but the first, speeds of operators that share cores are computed anew."""
EVIDENCE = 10.0
"""Least decrease of the criterion for each freedom that a profile lacks (very strong evidence)."""
SOUND = 0.05
"""Relative residual up to which a structure counts as right."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Structure of costs. by: what costs belong to. exponent: of hosts, fitted if None. own_cores: subtasks never wait
    for cores."""

    by: By
    exponent: float | None = 1.0
    own_cores: bool = False

    @property
    def words(self) -> str:
        """Description of the structure for people."""
        hosts = "" if self.exponent == 1.0 else ", hosts give a power of their cores"
        return f"costs by {self.by}{hosts}{', each subtask on a core of its own' if self.own_cores else ''}"


@dataclass(frozen=True)
class Explained:
    """A structure fitted to points. exponent: of hosts, as found."""

    structure: Structure
    costs: tuple[UnitCost, ...]
    fit: LinearFit
    rows: Rows
    exponent: float

    @cached_property
    def criterion(self) -> float:
        """Bayesian information criterion; the lower, the better."""
        rows = len(self.rows.cores_r)
        shown = _shown(self.rows) + (self.structure.exponent is None)
        doubt = EVIDENCE * ((self.structure.by == "function") + (self.structure.exponent is None))
        return self.fit.deviance + shown * math.log(max(rows, 2)) + doubt

    @property
    def residual(self) -> float:
        """Share of the CPU time that is not explained: root mean square over the rows, relative."""
        return float(np.linalg.norm(self.off_r) / max(float(np.linalg.norm(self.rows.cores_r)), 1e-12))

    @property
    def off_r(self) -> np.ndarray:
        """Cores of each row that the fitted costs do not explain [R]."""
        return self.fit.errors_r / self.fit.weight_r

    @property
    def waits(self) -> bool:
        """Whether most of the unexplained is in busy times: a subtask that waits for a core is busy but uses no CPU."""
        squares_r = self.off_r**2
        of_busy_r = np.array([BUSY in name.rpartition(": ")[2] for name in self.rows.name_r])
        return bool(2.0 * squares_r[of_busy_r].sum() > squares_r.sum())

    @property
    def values(self) -> dict[str, float]:
        """Fitted costs by name."""
        return {cost.name: float(value) for cost, value in zip(self.costs, self.fit.values_k, strict=True)}


def candidates(points: Sequence[Point], by: By | None) -> list[Structure]:
    """Structures that these points can tell apart. by: the only owner of costs to consider; None: all."""
    alone = one_job(points)
    busy, hosts = any(point.busy for point in points), any(point.cpu for point in points)
    if by == "operator" and not alone:
        raise BadInput("--by operator is for points of one job, and these are of several; use --by kind or function")
    found: list[By] = [by] if by else ["operator", "kind"] if alone and busy else ["kind", "function"]
    sizes = {host.cpu_percent for point in points for host in point.scenario.cluster.hosts if host.name in point.cpu}
    structures = [Structure(each) for each in found]
    if hosts and max(sizes) > 1.5 * min(sizes):
        structures += [replace(each, exponent=None) for each in structures]
    if busy and alone and not hosts:  # where hosts differ, subtasks of small ones get less than a core
        structures += [replace(each, own_cores=True) for each in structures]
    return structures


def explain(points: Sequence[Point], structures: Sequence[Structure], works: Works) -> list[Explained]:
    """Fits each structure; best first. Raises BadInput if there are too few rows for all of them."""
    found, missing = [], []
    of = {structure.by: [works.of(point, structure.by) for point in points] for structure in structures}
    free = {by: _shown(rows_of(points, each)) for by, each in of.items()}
    for structure in structures:
        if any(free.values()) and not free[structure.by]:
            continue  # all operators have service times of their own, so there is nothing to fit
        costs, each = works.costs(structure.by), of[structure.by]
        lacking = _lacking(points, each, structure)
        if lacking:
            missing.append(lacking)
            continue
        found.append(_fitted(points, each, costs, structure))
    if not found:
        raise BadInput(
            f"too few points: {min(missing)} more rows of busy times or host CPU are needed to fit "
            f"{structures[0].words}, with some left over to judge it by"
        )
    return sorted(found, key=lambda each: each.criterion)


def _lacking(points: Sequence[Point], works: Sequence[Work], structure: Structure) -> int:
    """Number of rows that are missing: there must be one more than constants that occur in rows."""
    rows = rows_of(points, works)
    return max(0, _shown(rows) + (structure.exponent is None) + 1 - len(rows.cores_r))


def _shown(rows: Rows) -> int:
    """Number of costs that occur in any row."""
    return int((np.abs(rows.need_rk).max(axis=0, initial=0.0) > 0).sum())


class Works:
    """Cache of the work of operators at points, by family of costs."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._kept: dict[tuple[int, By], Work] = {}
        first = points[0].scenario
        self._costs: dict[By, tuple[UnitCost, ...]] = {
            "operator": tuple(of_operators(first.engine, first.query)),
            "kind": tuple(of_kinds(first.engine)),
            "function": tuple(of_functions(first.engine, (point.scenario.query for point in points))),
        }

    def costs(self, by: By) -> tuple[UnitCost, ...]:
        """Unit costs of a family."""
        return self._costs[by]

    def of(self, point: Point, by: By) -> Work:
        """Work of the operators at one point, by a family of costs."""
        if by == "kind":
            return self._by_kind(self.of(point, "function"))
        key = (id(point), by)
        if key not in self._kept:
            self._kept[key] = work_of(point, self._costs[by])
        return self._kept[key]

    def _by_kind(self, work: Work) -> Work:
        """Work by kind of operator from work by function: sums over the functions of a kind."""
        fine = [each.name.partition(":")[0] for each in self._costs["function"]]
        of_kind = [[name == cost.name for name in fine] for cost in self._costs["kind"]]
        return replace(work, each_ok=work.each_ok @ np.array(of_kind, dtype=float).T)


def _fitted(
    points: Sequence[Point], works: Sequence[Work], costs: tuple[UnitCost, ...], structure: Structure
) -> Explained:
    exponent = structure.exponent
    if exponent is None:
        from scipy.optimize import minimize_scalar  # here, because most commands need no SciPy

        def criterion(power: float) -> float:
            return _settled(points, works, costs, replace(structure, exponent=float(power)), turns=1).fit.deviance

        exponent = float(minimize_scalar(criterion, bounds=EXPONENTS, method="bounded", options={"xatol": 0.01}).x)
    found = _settled(points, works, costs, replace(structure, exponent=exponent), turns=TURNS)
    return replace(found, structure=structure)


def _settled(
    points: Sequence[Point], works: Sequence[Work], costs: tuple[UnitCost, ...], structure: Structure, turns: int
) -> Explained:
    exponent = structure.exponent or 1.0

    def with_speeds(speeds: list[np.ndarray] | None) -> Explained:
        rows = rows_of(points, works, exponent, speeds)
        return Explained(structure, costs, fit(rows, costs), rows, exponent)

    found = with_speeds(None)
    shared = any(point.busy for point in points) and not structure.own_cores
    for _ in range(turns - 1 if shared else 0):
        found = with_speeds([_speeds(with_power(charged(each.scenario, found.values), exponent)) for each in points])
    return found


def _speeds(scenario: Scenario) -> np.ndarray:
    """[O] share of a core that the slowest subtask of each operator gets beside the others; exact if all of its hosts
    have cores of one speed."""
    answer = RateModel().answer(scenario, [scenario.plan])
    return answer.speed[0] / [min(core_speeds(scenario, name)) for name in answer.operators]


def with_power(scenario: Scenario, exponent: float) -> Scenario:
    """Scenario on hosts that give a power of their nominal cores."""
    if exponent == 1.0:
        return scenario
    cluster = scenario.cluster
    hosts = tuple(
        host.model_copy(update={"cpu_percent": host.others_percent + 100.0 * (host.left_percent / 100.0) ** exponent})
        for host in cluster.hosts
    )
    return scenario.model_copy(update={"cluster": cluster.model_copy(update={"hosts": hosts})})
