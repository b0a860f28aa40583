"""What the CPU time of a host says: what records took, what the engine takes without any, and what others use.

A subtask is busy while it computes and while it waits for a core, and those that want a core at a time get no more than
others leave. Those of one operator want it together, as buffers are flushed together; those of several, by chance. The
engine (a JVM: garbage collection, heartbeats, timers) takes a part that does not depend on records. CPU = base + cost x
rate tells it where a host was read at different rates of one job; records find what it and others leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, harmonic_mean, median

import numpy as np
from scipy import optimize

from scenarios.calibration.design import core_speeds
from scenarios.calibration.point import Point, one_job
from twin.overrides import put
from twin.query import Windowed
from twin.scenario import Scenario

APART = 1.3
"""Busy times that amount to so many times the CPU that was used contradict it: the rest was waiting for a core."""
RATES_APART = 1.5
"""Points tell the base of a host if it works at least so many times as much at one of them as at another."""
LEAST_ERROR = 0.02
"""Readings of CPU are never taken to be more exact than this, relatively."""
SURE = 2.0
"""A base counts if it is so many times its standard error."""

Wanted = tuple[int, float]
"""How many subtasks of an operator, and for which share of the time they want a core."""


@dataclass(frozen=True, slots=True)
class Base:
    """cores: reference cores of a host that the engine uses without records. spread: their standard error."""

    cores: float
    spread: float


@dataclass(frozen=True, slots=True)
class _Host:
    """A host at one point, in reference cores. used: by what was read. cores: that it has; core: what one of its own is
    worth. demand: what subtasks want, on average; work: what records took, but for a factor that all points share.
    wanted: one for each operator there whose busy time was read. whole: whether those are all that cost anything."""

    used: float
    cores: float
    core: float
    demand: float
    work: float
    wanted: tuple[Wanted, ...]
    whole: bool

    def left(self, records: float) -> float | None:
        """What others left to subtasks that used so much; None where busy times do not say that any waited."""
        found = waited(self.wanted, self.cores / self.core, records / self.core)
        return None if found is None else self.core * found


def bases(points: Sequence[Point]) -> dict[str, Base]:
    """The base of each host, by name, of which the points tell one above 0; those that contradict each other do not."""
    found = {name: _intercept(hosts) for name, hosts in _by_host(points).items()}
    return {name: base for name, base in found.items() if base is not None}


def untold(points: Sequence[Point]) -> list[str]:
    """The hosts whose CPU was read, but at about one rate, so that nothing tells a base."""
    return [name for name, hosts in _by_host(points).items() if not _apart(hosts)]


def without(points: Sequence[Point], cores: Mapping[str, float]) -> list[Point]:
    """The points with the CPU that records took alone; what else is used of hosts counts as others' use.

    cores: by host, the reference cores that the engine uses without records. CPU far above all busy times is not of
    records, and left out.
    """
    return [_without(point, cores) for point in points]


def others_percent(points: Sequence[Point], cores: Mapping[str, float]) -> dict[str, float]:
    """Percent of a reference core that others use, median over the points, by host. cores: hosts that have a base."""
    hosts = [host for point in points for host in point.scenario.cluster.hosts]
    return {name: median(host.others_percent for host in hosts if host.name == name) for name in cores}


def beside(scenario: Scenario, others: Mapping[str, float]) -> Scenario:
    """The scenario with at least that much used by others. others: percent of a core, by host; some of each is left."""
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
    """What was read of each host, in the points of one job; nothing of several, or of another host by that name."""
    if not one_job(points):
        return {}
    each_s, found = _each_s(points), dict[str, list[_Host]]()
    for point in points:
        for name in point.cpu:
            if (host := _host(point, name, each_s)).work > 0.0:
                found.setdefault(name, []).append(host)
    return {name: each for name, each in found.items() if len({host.cores for host in each}) == 1}


def _each_s(points: Sequence[Point]) -> dict[str, float]:
    """By operator that was read everywhere and works by the record, how long a record keeps a subtask busy: mean over
    the points, by logarithms, so that how crowded a host was at each is the same factor for all operators."""
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
    """What a point says of a host. each_s: see `_each_s`; without any, busy times count as work although they also hold
    waits for a core."""
    host, plan = point.scenario.cluster.host(name), point.scenario.plan
    core = fmean(host.core_speed(each) for each in range(host.socket_count))
    wanted, crowded, plain, whole = [], 0.0, 0.0, True
    for operator in point.scenario.query.operators:
        places = plan.locations(operator.name)
        here = sum(place.host == name for place in places)
        if here and operator.name in point.busy:
            usual = harmonic_mean(core_speeds(point.scenario, operator.name))  # busy for longer on a slower one
            busy = min(1.0, max(0.0, point.busy[operator.name]))
            wanted.append((here, min(1.0, busy * usual / core)))
            if operator.name in each_s:
                crowded += here * busy
                plain += each_s[operator.name] * point.taken_per_s[operator.name] * here / len(places)
        elif here and operator.service_time_s != 0.0:
            whole = False
    factor = crowded / plain if plain > 0.0 else 1.0
    demand = core * sum(count * share for count, share in wanted)
    used = max(0.0, point.cpu[name]) * host.left_percent / 100.0
    return _Host(used, host.cpu_percent / 100.0, core, demand, demand / factor, tuple(wanted), whole)


def _apart(hosts: Sequence[_Host]) -> bool:
    """Whether rates are far enough from each other to tell a base."""
    works = [each.work for each in hosts]
    return max(works) >= RATES_APART * min(works)


def _intercept(hosts: Sequence[_Host]) -> Base | None:
    """Of used = base + slope x work, neither below 0; None where it is hardly more than its error."""
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
    """How many cores others left to subtasks that used so many; None where busy times do not say that any waited."""
    return cores_left(wanted, used) if in_use(wanted, cores) > APART * used else None


def in_use(wanted: Sequence[Wanted], cores: float) -> float:
    """Mean number of cores in use, of so many that there are."""
    return float(sum(min(1.0, cores - k) * more for k, more in enumerate(_more(wanted)) if k < cores))


def cores_left(wanted: Sequence[Wanted], used: float) -> float:
    """How many cores there are if so many are in use on average: the inverse of `in_use`; at least a thousandth."""
    below, more_k = 0.0, _more(wanted)
    for k, more in enumerate(more_k):
        if below + more >= used:
            return max(1e-3, k + (used - below) / more)
        below += more
    return float(len(more_k))


def _more(wanted: Sequence[Wanted]) -> list[float]:
    """The chance that more than k = 0, 1, ... cores are wanted at a time."""
    chance = np.ones(1)
    for count, share in wanted:
        chance = np.convolve(chance, [1.0 - share, *[0.0] * (count - 1), share])
    return [float(each) for each in chance[::-1].cumsum()[::-1][1:]]
