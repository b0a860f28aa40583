"""The utilisation law: CPU time is the sum of records times unit costs, so it is linear in the costs.

The rate model knows which tuples cost what, so it gives the work that a unit of each cost causes; this is scaled from
its rates to the measured ones. Letters at the end of a name are axes: o operators in data-flow order, k costs, r rows,
one for each measured host or busy operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from typing import NamedTuple

import numpy as np

from scenarios.calibration.point import Point
from scenarios.calibration.unit_costs import UnitCost, alone, occurs
from twin.job import compile
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.workload import Constant

TINY = 1e-3
"""Size of a cost, in its unit, when its work is computed: so small that nothing is overloaded."""
BUSY = "busy share of"
"""Label of a row of a busy time; other rows are of a host's CPU."""
DOUBT = 20.0
"""The weight of a busy time is 1 / (1 + DOUBT x the share of a core that, by the model, others took meanwhile)."""


class Rows(NamedTuple):
    """The linear system: cores_r = base_r + need_rk @ costs. name_r: for people.

    base_r: use that is not fitted. trust_r: weights; busy times tell less about work where others use the same cores.
    """

    cores_r: np.ndarray
    base_r: np.ndarray
    need_rk: np.ndarray
    trust_r: np.ndarray
    name_r: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the operators at one point. each_ok: reference-core seconds of one input tuple for a unit of each cost
    [O, K]; base_o: without any of these costs [O]; taken_o: input tuples/s [O]. share_o: by host that carries any, the
    share of each operator's replicas there [O]. core_o: reference cores that a core is worth, harmonic mean over the
    replicas [O]. tasks: numbers of operators that run as one, by task.
    """

    names: tuple[str, ...]
    each_ok: np.ndarray
    base_o: np.ndarray
    taken_o: np.ndarray
    replicas_o: np.ndarray
    core_o: np.ndarray
    share_o: Mapping[str, np.ndarray]
    tasks: tuple[tuple[int, ...], ...]


def as_delivered(point: Point) -> Scenario:
    """Job whose sources are offered what they took at a point, so that predicted flows are the measured ones."""
    workload = point.scenario.workload
    taken = {name: Constant(rate_per_s=max(point.taken_per_s[name], 1e-6)) for name in point.delivered}
    return point.scenario.model_copy(
        update={"workload": workload.model_copy(update={"arrivals": {**workload.arrivals, **taken}})}
    )


def work_of(point: Point, costs: Sequence[UnitCost]) -> Work:
    """Work that a unit of each cost causes in the operators of a point."""
    scenario = as_delivered(point)
    names, base_o, flow_o = _each_s(alone(scenario, costs, "", TINY))
    each_ok = np.zeros((len(names), len(costs)))
    for k, cost in enumerate(costs):
        if occurs(scenario, cost.name):
            each_ok[:, k] = (_each_s(alone(scenario, costs, cost.name, TINY))[1] - base_o) / TINY
    taken = (point.taken_per_s.get(name, float(rate)) for name, rate in zip(names, flow_o, strict=True))
    places = [[place.host for place in scenario.plan.locations(name)] for name in names]
    on_hosts = {
        host.name: np.array([each.count(host.name) / len(each) for each in places]) for host in scenario.cluster.hosts
    }
    return Work(
        names=names,
        each_ok=np.maximum(each_ok, 0.0),
        base_o=base_o,
        taken_o=np.array(list(taken)),
        replicas_o=np.array([len(each) for each in places]),
        core_o=np.array([harmonic_mean(core_speeds(scenario, name)) for name in names]),
        share_o={name: share_o for name, share_o in on_hosts.items() if share_o.any()},
        tasks=tuple(
            tuple(names.index(operator.name) for operator in each.operators) for each in compile(scenario).components
        ),
    )


def core_speeds(scenario: Scenario, operator: str) -> list[float]:
    """Speed of the cores under each replica of an operator, in reference cores."""
    places = scenario.plan.locations(operator)
    return [scenario.cluster.host(place.host).core_speed(place.socket) for place in places]


def _each_s(scenario: Scenario) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names of operators, reference-core seconds of one input tuple [O], and input tuples a second [O]."""
    answer = RateModel().answer(scenario, [scenario.plan])
    flow_o = answer.in_per_s[0]
    busy_o = answer.busy_cores[0] * np.array([scenario.plan.replicas(name) for name in answer.operators])
    return answer.operators, np.divide(busy_o, flow_o, out=np.zeros_like(busy_o), where=flow_o > 0), flow_o


def rows_of(
    points: Sequence[Point], works: Sequence[Work], exponent: float = 1.0, speeds: Sequence[np.ndarray] | None = None
) -> Rows:
    """Linear system of all points. exponent: a host gives its nominal cores to that power. speeds: by point, the share
    of a core that each operator gets [O]."""
    rows: list[tuple[float, float, np.ndarray, float, str]] = []
    for number, (point, work) in enumerate(zip(points, works, strict=True)):
        base_o, need_ok = work.base_o * work.taken_o, work.each_ok * work.taken_o[:, None]
        for host in point.scenario.cluster.hosts:
            if host.name in point.cpu and host.name in work.share_o:
                share_o = work.share_o[host.name]
                cores = max(point.cpu[host.name], 0.0) * (host.left_percent / 100) ** exponent
                rows.append((cores, share_o @ base_o, share_o @ need_ok, 1.0, f"{point.name}: cpu of host {host.name}"))
        for task in work.tasks:
            read = next((o for o in task if work.names[o] in point.busy), None)
            if read is None:
                continue
            speed = 1.0 if speeds is None else float(speeds[number][read])
            cores = max(point.busy[work.names[read]], 0.0) * speed * float(work.core_o[read])
            trust, share, all_of_it = 1.0 / (1.0 + DOUBT * abs(1.0 - speed)), 1.0 / work.replicas_o[read], list(task)
            label = f"{point.name}: {BUSY} {'+'.join(work.names[o] for o in task)}"
            rows.append((cores, base_o[all_of_it].sum() * share, need_ok[all_of_it].sum(axis=0) * share, trust, label))
    cores_r, base_r, trust_r = (np.array([row[place] for row in rows], dtype=float) for place in (0, 1, 3))
    need_rk = np.array([row[2] for row in rows]).reshape(len(rows), works[0].each_ok.shape[1])
    return Rows(cores_r, base_r, need_rk, trust_r, tuple(row[4] for row in rows))
