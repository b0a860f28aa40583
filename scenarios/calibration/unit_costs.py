"""Unit costs, and the utilisation law that finds them: CPU time is the sum of records times unit costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from typing import Any, NamedTuple

import numpy as np

from scenarios.calibration.points import Point
from twin.job import compile
from twin.kinds.basic import Calling
from twin.profiles import EngineProfile
from twin.query import AnyOperator, Query, Windowed
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.workload import Constant

# unit costs ----------------------------------------------------------------------------------------------------------
# Unit costs: the constants of a profile, or of single operators, in which CPU time is linear.


SCALARS = ("result_us", "scan_us", "serialise_ns_per_byte", "deserialise_ns_per_byte")
TYPES = ("ints", "strings", "doubles")
BACKEND, ACCESSES = "state_backend.", ("read_us", "write_us")
OWN = "operator "
FUNCTION = "record_us."
US = 1e-6
CALL = "call_s."
"""Prefix of the time of an operator's calls to systems outside, which CPU time does not show. It shows in latencies of
results, and in delivered rates where the calls of all subtasks together are too few."""
TIED = (
    ("value_us.ints", "value_us.strings", "value_us.doubles"),
    ("serialise_ns_per_byte", "deserialise_ns_per_byte"),
    ("result_us", "scan_us"),
    ("record_us.filter", "record_us.sink"),
    ("state_backend.read_us", "state_backend.write_us"),
)
"""Costs that delivered rates cannot tell apart: where no CPU time was measured, each tie keeps the profile's ratios.
Values, bytes, evaluated windows, operators that just pass records on, and accesses to stored state."""


@dataclass(frozen=True, slots=True)
class UnitCost:
    """One constant to be fitted. prior: its value in the profile, in the same unit; 0 if the profile has none."""

    name: str
    unit: str
    prior: float


def of_kinds(engine: EngineProfile) -> list[UnitCost]:
    """Unit costs of a profile, by kind of operator and type of value."""
    kinds = {name: micros for name, micros in engine.record_us if micros is not None}
    found = [UnitCost(f"record_us.{name}", "us", float(micros)) for name, micros in kinds.items()]
    found += [UnitCost(f"value_us.{name}", "us", float(getattr(engine.value_us, name))) for name in TYPES]
    units = {"us": "us", "byte": "ns/byte"}
    found += [UnitCost(name, units[name.rpartition("_")[2]], getattr(engine, name)) for name in SCALARS]
    if engine.stores:
        found += [UnitCost(f"{BACKEND}{name}", "us", getattr(engine.state_backend, name)) for name in ACCESSES]
    return found


def of_functions(engine: EngineProfile, queries: Iterable[Query]) -> list[UnitCost]:
    """Unit costs of a profile, where kinds whose operators have functions get a cost for each function instead."""
    operators = [operator for query in queries for operator in query.operators]
    words = sorted({word for word in map(function_of, operators) if word})
    by_kind = {word: getattr(engine.record_us, word.partition(":")[0]) for word in words}
    costs = [
        each
        for each in of_kinds(engine)
        if each.name.removeprefix(FUNCTION) not in {w.partition(":")[0] for w in words}
    ]
    return [*costs, *(UnitCost(f"{FUNCTION}{word}", "us", float(by_kind[word])) for word in words)]


def of_operators(engine: EngineProfile, query: Query) -> list[UnitCost]:
    """Unit costs of a job, one for each operator: all of its work for a record, windows included. One that is said to
    cost nothing (`service_time_s: 0`) has none: where no reading is of it, any cost would do, were it rarely used."""
    paid = [each for each in query.operators if each.service_time_s != 0.0]
    return [UnitCost(f"{OWN}{each.name}", "us", engine.service_s(query, each) / US) for each in paid]


def function_of(operator: AnyOperator) -> str:
    """`kind:function` of an operator whose cost may depend on it; empty for windows, whose costs are not one number."""
    function = getattr(operator, "function", None)
    if function is None or isinstance(operator, Windowed) or operator.service_time_s is not None:
        return ""
    return f"{operator.kind}:{function}"


def occurs(scenario: Scenario, name: str) -> bool:
    """Whether a cost of that name can occur in a scenario."""
    query, group = scenario.query, name.partition(".")[0]
    if group == "record_us":
        like = [each.costs_like for each in query.operators]
        words = {*(each.kind for each in query.operators), *like, *map(function_of, query.operators)}
        return name.removeprefix(FUNCTION) in words
    if group == BACKEND.removesuffix("."):
        touched = [each.touched("", scenario.engine.window_state_of(each)) for each in query.operators]
        return any(any(each[:4]) for each in touched)
    if group in ("result_us", "scan_us"):
        return any(isinstance(each, Windowed) for each in query.operators)
    if group.endswith("_per_byte"):
        return len(scenario.plan.hosts(*scenario.plan.placement)) > 1
    return True


def charged(scenario: Scenario, costs: Mapping[str, float]) -> Scenario:
    """Scenario with these costs in place of its own; costs that are not named stay."""
    engine = scenario.engine
    for group in ("record_us", "value_us"):
        named = {name.partition(".")[2]: value for name, value in costs.items() if name.startswith(f"{group}.")}
        plain = {name: value for name, value in named.items() if ":" not in name}
        engine = engine.model_copy(update={group: getattr(engine, group).model_copy(update=plain)})
    engine = engine.model_copy(update={name: costs[name] for name in SCALARS if name in costs})
    if engine.state_backend is not None and engine.stores:
        stored = {name.removeprefix(BACKEND): value for name, value in costs.items() if name.startswith(BACKEND)}
        if any(name.startswith(OWN) for name in costs):  # an operator's cost is all of its work
            stored = {"read_us": 0.0, "write_us": 0.0, "ns_per_byte": 0.0}
        engine = engine.model_copy(update={"state_backend": engine.state_backend.model_copy(update=stored)})
    operators = [_charged(each, scenario.query, engine, costs) for each in scenario.query.operators]
    query = Query(operators=tuple(operators), streams=scenario.query.streams)
    return scenario.model_copy(update={"engine": engine, "query": query})


def _charged(operator: AnyOperator, query: Query, engine: EngineProfile, costs: Mapping[str, float]) -> AnyOperator:
    own, word = costs.get(f"{OWN}{operator.name}"), function_of(operator)
    if own is not None:
        return _with(operator, service_time_s=own * US)
    by_function = costs.get(f"{FUNCTION}{word}") if word else None
    if by_function is None:
        return operator
    feeds = query.feeds(operator.name)
    values = sum(engine.value_us.total(query.columns_out[each]) for each in feeds) / len(feeds)
    return _with(operator, service_time_s=(by_function + values) * US)


def _with(operator: AnyOperator, **values: Any) -> AnyOperator:
    return operator.model_copy(update=values)


def alone(scenario: Scenario, costs: Sequence[UnitCost], name: str, value: float) -> Scenario:
    """Scenario in which all of these costs are 0 but the named one; all are 0 if none has that name."""
    return charged(scenario, {each.name: value if each.name == name else 0.0 for each in costs})


def of_calls(scenarios: Iterable[Scenario]) -> list[UnitCost]:
    """Costs of calls, one for each operator whose calls take time; its prior is from the first job that has it."""
    prior_s: dict[str, float] = {}
    for scenario in scenarios:
        for operator in scenario.query.operators:
            if isinstance(operator, Calling) and operator.calls.latency_s > 0.0:
                prior_s.setdefault(operator.name, operator.calls.latency_s)
    return [UnitCost(f"{CALL}{name}", "s", each_s) for name, each_s in prior_s.items()]


def with_calls(scenario: Scenario, hidden: Mapping[str, float]) -> Scenario:
    """Scenario whose operators' calls take the times in `hidden` (s); calls that are not named stay."""
    named = {name.removeprefix(CALL): value for name, value in hidden.items() if name.startswith(CALL)}
    if not named:
        return scenario
    operators = tuple(
        _with(each, latency_s=named[each.name]) if each.name in named else each for each in scenario.query.operators
    )
    return scenario.model_copy(update={"query": Query(operators=operators, streams=scenario.query.streams)})


def ties(costs: Sequence[UnitCost]) -> np.ndarray:
    """[costs, factors] matrix with 1 where a cost follows a factor: one for each tie, and for each other cost."""
    heads = [next((tie for tie in TIED if cost.name in tie), (cost.name,)) for cost in costs]
    order = list(dict.fromkeys(heads))
    return np.array([[float(head == each) for each in order] for head in heads]).reshape(len(costs), len(order))


# the utilisation law -------------------------------------------------------------------------------------------------
# The utilisation law: CPU time is the sum of records times unit costs, so it is linear in the costs.
#
# The rate model knows which records cost what, so it gives the work that a unit of each cost causes; this is scaled
# from its rates to the measured ones. Letters at the end of a name are axes: o operators in data-flow order, k costs,
# r rows, one for each measured host or busy operator.


TINY = 1e-3
"""Size of a cost, in its unit, when its work is computed: so small that nothing is overloaded."""
BUSY = "busy share of"
"""Label of a row of a busy time; other rows are of a host's CPU."""
DOUBT = 20.0
"""The weight of a busy time is 1 / (1 + DOUBT x the share of a core that, by the model, others took meanwhile)."""


class Rows(NamedTuple):
    """The linear system: cores_r = base_r + need_rk @ costs. name_r: for people.

    base_r: use that is not fitted. trust_r: weights; busy times tell less about work where others use the same cores,
    and CPU where the engine uses much of it, which is not the same at all points: a Java machine compiles ever less.
    """

    cores_r: np.ndarray
    base_r: np.ndarray
    need_rk: np.ndarray
    trust_r: np.ndarray
    name_r: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the operators at one point. each_ok: reference-core seconds of one input record for a unit of each cost
    [O, K]; base_o: without any of these costs [O]; taken_o: input records/s [O]. share_o: by host that carries any, the
    share of each operator's subtasks there [O]. core_o: reference cores that a core is worth, harmonic mean over the
    subtasks [O]. tasks: numbers of operators that run as one, by task.
    """

    names: tuple[str, ...]
    each_ok: np.ndarray
    base_o: np.ndarray
    taken_o: np.ndarray
    subtasks_o: np.ndarray
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
        subtasks_o=np.array([len(each) for each in places]),
        core_o=np.array([harmonic_mean(core_speeds(scenario, name)) for name in names]),
        share_o={name: share_o for name, share_o in on_hosts.items() if share_o.any()},
        tasks=tuple(
            tuple(names.index(operator.name) for operator in each.operators) for each in compile(scenario).components
        ),
    )


def core_speeds(scenario: Scenario, operator: str) -> list[float]:
    """Speed of the cores under each subtask of an operator, in reference cores."""
    places = scenario.plan.locations(operator)
    return [scenario.cluster.host(place.host).core_speed(place.socket) for place in places]


def _each_s(scenario: Scenario) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names of operators, reference-core seconds of one input record [O], and input records a second [O]."""
    answer = RateModel().answer(scenario, [scenario.plan])
    flow_o = answer.in_per_s[0]
    busy_o = answer.busy_cores[0] * np.array([scenario.plan.parallelism(name) for name in answer.operators])
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
                engine = point.engine.get(host.name, 0.0)
                trust = cores / (cores + engine) if engine else 1.0
                label = f"{point.name}: cpu of host {host.name}"
                rows.append((cores, share_o @ base_o, share_o @ need_ok, trust, label))
        for task in work.tasks:
            read = next((o for o in task if work.names[o] in point.busy), None)
            if read is None:
                continue
            speed = 1.0 if speeds is None else float(speeds[number][read])
            cores = max(point.busy[work.names[read]], 0.0) * speed * float(work.core_o[read])
            trust, share, all_of_it = 1.0 / (1.0 + DOUBT * abs(1.0 - speed)), 1.0 / work.subtasks_o[read], list(task)
            label = f"{point.name}: {BUSY} {'+'.join(work.names[o] for o in task)}"
            rows.append((cores, base_o[all_of_it].sum() * share, need_ok[all_of_it].sum(axis=0) * share, trust, label))
    cores_r, base_r, trust_r = (np.array([row[place] for row in rows], dtype=float) for place in (0, 1, 3))
    need_rk = np.array([row[2] for row in rows]).reshape(len(rows), works[0].each_ok.shape[1])
    return Rows(cores_r, base_r, need_rk, trust_r, tuple(row[4] for row in rows))


# least squares -------------------------------------------------------------------------------------------------------
# Non-negative least squares with a prior: unit costs from rows of CPU time, with their standard errors.


PRIOR_SPREAD = 3.0
"""Standard deviation of the prior of a cost, relative to the larger of the profile's and the fitted cost: wide, so that
data decide wherever there are any."""
LEAST_ERROR = 1e-3
"""Least relative error of readings."""
FIRST_ERROR = 1e-6
"""Error of the readings in the first round, before it is known: so small that the prior hardly counts."""
ROUNDS = 4
UNSAID = 1.0
"""Scale of a cost, in its unit, where the profile has 0."""
FAR = 3.0
"""Number of typical errors beyond which a row counts for less (Huber), given ENOUGH degrees of freedom to judge by."""
ENOUGH = 10
FLOORS = (0.01, 0.1, 1.0)
"""Shares of a core below which errors of readings are absolute, and above which relative; the likeliest is taken."""


@dataclass(frozen=True, slots=True)
class LinearFit:
    """Fitted costs. values_k: in their units; covariance_kk: of these. weight_r: of rows; errors_r: of rows, weighted.

    freedom: degrees of freedom. deviance: minus twice the log-likelihood, up to a constant.
    """

    values_k: np.ndarray
    covariance_kk: np.ndarray
    weight_r: np.ndarray
    errors_r: np.ndarray
    freedom: int
    deviance: float

    @property
    def spread_k(self) -> np.ndarray:
        """Standard errors of the costs [K]."""
        return np.sqrt(np.diag(self.covariance_kk))

    def intervals_k2(self) -> np.ndarray:
        """Ends of 95 % confidence intervals, >= 0 [K, 2]."""
        from scipy.special import stdtrit  # here, because most commands need no SciPy

        width_k = self.spread_k * stdtrit(max(self.freedom, 1), 0.975)
        return np.maximum(np.stack([self.values_k - width_k, self.values_k + width_k], axis=1), 0.0)


def fit(rows: Rows, costs: Sequence[UnitCost]) -> LinearFit:
    """Fits the costs that explain the rows best, each >= 0, and the error of the readings with them."""
    weights = [rows.trust_r / (floor + rows.cores_r) for floor in FLOORS]
    return min((_weighted(rows, costs, weight_r) for weight_r in weights), key=lambda found: found.deviance)


def _weighted(rows: Rows, costs: Sequence[UnitCost], weight_r: np.ndarray) -> LinearFit:
    from scipy.optimize import nnls  # here, because most commands need no SciPy

    prior_k = np.array([each.prior for each in costs])
    scale_k = used_k = np.maximum(prior_k, UNSAID * (prior_k == 0.0))
    shown = int((np.abs(rows.need_rk).max(axis=0, initial=0.0) > 1e-9).sum())
    freedom = max(1, len(rows.cores_r) - shown)
    asked_r = (rows.cores_r - rows.base_r) * weight_r
    need_rk, errors_r, values_k, error = rows.need_rk, asked_r, prior_k, FIRST_ERROR
    plain_r = weight_r
    for _ in range(ROUNDS):
        asked_r = (rows.cores_r - rows.base_r) * weight_r
        need_rk, used_k = rows.need_rk * weight_r[:, None] * scale_k, scale_k
        pull = error / PRIOR_SPREAD
        stacked = np.vstack([need_rk, pull * np.eye(len(costs))])
        found_k, _ = nnls(stacked, np.concatenate([asked_r, pull * prior_k / scale_k]))
        errors_r, values_k = asked_r - need_rk @ found_k, found_k * scale_k
        error = max(LEAST_ERROR, float(np.sqrt((errors_r**2).sum() / freedom)))
        scale_k = np.maximum(scale_k, values_k)
        weight_r = plain_r * _huber(errors_r * plain_r / weight_r, freedom)
    information_kk = need_rk.T @ need_rk / error**2 + np.eye(len(costs)) / PRIOR_SPREAD**2
    covariance_kk = np.linalg.inv(information_kk) * np.outer(used_k, used_k)
    deviance = 2.0 * len(asked_r) * float(np.log(error)) - 2.0 * float(np.log(plain_r).sum())
    errors_r = (rows.cores_r - rows.base_r - rows.need_rk @ values_k) * plain_r
    return LinearFit(values_k, covariance_kk, plain_r, errors_r, freedom, deviance)


def _huber(errors_r: np.ndarray, freedom: int) -> np.ndarray:
    """Square roots of the Huber weights of rows."""
    if freedom < ENOUGH:
        return np.ones_like(errors_r)
    far = FAR * max(float(np.median(np.abs(errors_r))) / 0.6745, LEAST_ERROR)
    return np.asarray(np.sqrt(np.minimum(1.0, far / np.maximum(np.abs(errors_r), 1e-12))))
