"""Splits the CPU time of a host: used by records, used by the engine without any, and used by others.

A subtask is busy while it computes and while it waits for a core, and subtasks that want a core at the same time share
what others leave. Subtasks of one operator want one together, as buffers are flushed together; operators are
independent. The engine (a JVM: garbage collection, heartbeats, timers) uses a base that does not depend on records. CPU
= base + cost x rate tells this base, if a host was read at different rates of one job; records get what it and others
leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, harmonic_mean, median

import numpy as np
from scipy import optimize

from scenarios.calibration.design import core_speeds
from scenarios.calibration.point import Point, one_job
from twin.chaining import fused, one_a_task
from twin.overrides import put
from twin.query import Windowed
from twin.scenario import Scenario

APART = 1.3
"""Ratio of busy times to CPU in use from which on they contradict each other: the rest was waiting for a core."""
RATES_APART = 1.5
"""Ratio of the most work of a host at any point to the least that points need to tell its base."""
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
        found = waited(self.wanted, self.cores / self.core, records / self.core)
        return None if found is None else self.core * found


def bases(points: Sequence[Point]) -> dict[str, Base]:
    """Base of each host, by name; left out where points tell none above 0, or contradict each other."""
    found = {name: _intercept(hosts) for name, hosts in _by_host(points).items()}
    return {name: base for name, base in found.items() if base is not None}


def untold(points: Sequence[Point]) -> list[str]:
    """Hosts whose CPU was read, but at about one rate, so that nothing tells a base."""
    return [name for name, hosts in _by_host(points).items() if not _apart(hosts)]


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
        if not base or records <= 0.0:
            continue
        left = host.left(records)
        others = given + base if left is None else max(given, host.cores - left)
        scenario = put(scenario, f"cluster.hosts.{name}.others_percent", 100.0 * others, f"point {point.name}")
        if name in cpu:
            cpu[name] = records / (host.cores - others)
    return replace(point, scenario=scenario, cpu=cpu)


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
            replicas = (point.scenario.plan.replicas(name) for point in read)
            logs = [np.log(busy * count / taken) for (busy, taken), count in zip(pairs, replicas, strict=True)]
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


def _apart(hosts: Sequence[_Host]) -> bool:
    """Whether rates differ enough to tell a base."""
    works = [each.work for each in hosts]
    return max(works) >= RATES_APART * min(works)


def _intercept(hosts: Sequence[_Host]) -> Base | None:
    """Base in used = base + slope x work, neither below 0; None if it is hardly more than its error."""
    if not _apart(hosts):
        return None
    used_p = np.array([max(each.used, 1e-9) for each in hosts])
    parts_p2 = np.array([[1.0, each.work] for each in hosts]) / used_p[:, None]
    (base, slope), off = optimize.nnls(parts_p2, np.ones(len(hosts)))
    error = max(LEAST_ERROR, off / max(1, len(hosts) - 2) ** 0.5)
    spread = float(error * np.sqrt(np.linalg.inv(parts_p2.T @ parts_p2)[0, 0]))
    told = slope > 0.0 and SURE * spread < base < used_p.min()
    return Base(float(base), spread) if told else None


def waited(wanted: Sequence[Wanted], cores: float, used: float) -> float | None:
    """Number of cores that others left to subtasks that used `used` of them; None if busy times tell of no waiting."""
    return cores_left(wanted, used) if in_use(wanted, cores) > APART * used else None


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
