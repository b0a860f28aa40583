"""The largest rate of events that a plan sustains: costs of small runs, plans as scenarios, and predictors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student

from benchmarks.real.streambed.runs import QUERIES, SINK, SOURCE, Run, Step
from scenarios.calibration.calibrate import LEVEL
from scenarios.executing import Processes
from scenarios.questions.bench import Bench
from scenarios.questions.bisection import Range, search
from scenarios.questions.kept import Kept
from scenarios.questions.prediction import measures_predicted
from twin.errors import BadInput
from twin.key_skew import default_key_groups
from twin.profile_costs import NetworkMemory
from twin.scenario import Scenario

# costs ---------------------------------------------------------------------------------------------------------------
# What a record costs each operator, from runs of the same query: a power of how many subtasks share a machine.
#
# Costs that were measured on machines with few busy subtasks are too low for full ones. So the log of an operator's
# cost is a line in the log of the density (subtasks on a task manager), fitted to all runs given. It is not drawn
# further than these runs reach: beyond the densest, the cost is that at the densest.


LEAST_RUNS = 3
"""Runs from which on a line has a spread."""


@dataclass(frozen=True)
class Line:
    """Cost of a record of one operator. log_us: its log in microseconds at the log of the density `at`; power: of the
    density; within: logs of the densities that were seen."""

    log_us: float
    at: float
    power: float
    within: tuple[float, float]

    def cost_us(self, density: float) -> float:
        """Cost of a record at a density, in microseconds."""
        inside = min(max(math.log(density), self.within[0]), self.within[1])
        return math.exp(self.log_us + self.power * (inside - self.at))


@dataclass(frozen=True)
class Calibration:
    """What runs of a query say. lines: cost by operator. off: for each run, by operator, the factor by which its cost
    was above the line. in_share, out_share: records in and out over events of the sources, by operator. source_us: of
    an event, in its source."""

    query: str
    lines: Mapping[str, Line]
    off: tuple[Mapping[str, float], ...]
    in_share: Mapping[str, float]
    out_share: Mapping[str, float]
    source_us: float

    def costs_us(self, density: float) -> dict[str, float]:
        """Cost of a record by operator, in microseconds."""
        return {name: line.cost_us(density) for name, line in self.lines.items()}

    def draws_us(self, density: float) -> list[dict[str, float]]:
        """The same, as off from the line as each run was."""
        costs = self.costs_us(density)
        return [{name: cost * off.get(name, 1.0) for name, cost in costs.items()} for off in self.off]


def least_source_us(runs: Sequence[Run]) -> float:
    """Least busy time of an event in a source, over runs of all queries: sources all do the same, and in most runs they
    are busy with waiting for their limiter of rates. Raises BadInput if no run tells it."""
    told = [run.readings[SOURCE].cost_us for run in runs if SOURCE in run.readings]
    if not told:
        raise BadInput(f"no run tells the cost of {SOURCE}; see operators.csv")
    return min(told)


def calibrated(runs: Sequence[Run], source_us: float, by_density: bool = True) -> Calibration:
    """Costs and shares from runs of one query. by_density: whether costs depend on the density.

    Raises BadInput if there are too few runs, or an operator was not measured in them.
    """
    query = runs[0].query if runs else "?"
    if len(runs) < LEAST_RUNS:
        raise BadInput(f"{query}: {len(runs)} runs tell its costs, and it takes {LEAST_RUNS}; give more small runs")
    lines, in_share, out_share = {}, {}, {}
    off: list[dict[str, float]] = [{} for _ in runs]
    for step in QUERIES[query]:
        told = [(run, run.readings[step.name]) for run in runs if step.name in run.readings]
        if not told:
            raise BadInput(f"{query}: no run tells the cost of {step.name}; see operators.csv")
        logs = np.log([reading.cost_us for _, reading in told])
        line = _line(np.log([run.density for run, _ in told]), logs, by_density)
        lines[step.name] = line
        in_share[step.name] = float(np.median([reading.in_share for _, reading in told]))
        out_share[step.name] = float(np.median([reading.out_share for _, reading in told]))
        by_run = {run.name: log for (run, _), log in zip(told, logs, strict=True)}
        for each, run in zip(off, runs, strict=True):
            if run.name in by_run:
                each[step.name] = math.exp(by_run[run.name]) / line.cost_us(run.density)
    return Calibration(query, lines, tuple(off), in_share, out_share, source_us)


def busiest_share(subtasks: int, keyed: bool, groups: int | None = None) -> float:
    """Share of an operator's records that its busiest subtask gets; keyed: that of whole key groups."""
    if not keyed:
        return 1.0 / subtasks
    groups = groups or default_key_groups(subtasks)
    return math.ceil(groups / subtasks) / groups


def slowest_per_s(
    calibration: Calibration, parallelism: Mapping[str, int], costs_us: Mapping[str, float], groups: int | None = None
) -> float:
    """Events a second at which the first operator has no time left, by arithmetic of means. groups: number of key
    groups; None: keys are spread evenly."""
    rates = [1e6 / calibration.source_us * parallelism[SOURCE]]
    for step in QUERIES[calibration.query]:
        if not calibration.in_share[step.name]:
            continue
        keyed = groups is not None and step.keyed == "by record"
        share = busiest_share(parallelism[step.name], keyed, groups)
        rates.append(1e6 / (costs_us[step.name] * calibration.in_share[step.name] * share))
    return min(rates)


def _line(density_n: np.ndarray, logs_n: np.ndarray, by_density: bool) -> Line:
    """Least squares of logs. [n]"""
    at, within = float(density_n.mean()), (float(density_n.min()), float(density_n.max()))
    apart = density_n - at
    spread = float(apart @ apart)
    power = float(apart @ logs_n) / spread if by_density and spread > 1e-9 else 0.0
    return Line(float(logs_n.mean()), at, power, within)


# scenarios -----------------------------------------------------------------------------------------------------------
# Runs of StreamBed as scenarios of the twin.
#
# What was measured is the busy time of a record; so nothing of the profile's costs comes on top of it.
#
# A thousand subtasks at millions of events a second are too many records to simulate one by one. So a record stands
# for `thin` real ones: rates and keys are so many times less, costs so many times more, and buffers hold so many times
# fewer bytes; where that is less than a record, there are fewer buffers. Windows, their bursts, key groups, channels
# and what they hold in seconds stay as they are.


CORES, CARD_MBPS, LINK_MS = 16, 25_000, 0.1
"""Of a task manager: its limit of cores, and its network card; the latency between two is assumed."""
FLOATING_BUFFERS = 256
"""Of a gate, as StreamBed set them (`taskmanager.network.memory.floating-buffers-per-gate`); Flink's default is 8."""
EVENT_BYTES, ROW_BYTES = 126, 44
"""Of an event, 1 person of 200 bytes, 3 auctions of 500 and 46 bids of 100 (Nexmark's defaults), and of a row behind
it: its length, its header and four fields of 8 bytes (Flink's BinaryRowData)."""
BUFFER_BYTES = 32_768
"""Size of a network buffer, as by default in Flink."""
MEASURED_WITH_THE_RECORD = {"serialise_ns_per_byte": 0.0, "deserialise_ns_per_byte": 0.0}
"""Constants of the profile that the measured busy time of a record has in it already."""
ONE_KEY = 10.0
"""Exponent of Zipf's law by which one key group has 99.9 % of the records."""


@dataclass(frozen=True)
class Settings:
    """How long a rate is tried, in seconds of which `warmup_s` do not count, and what was assumed in choosing between
    versions on small runs. one_key: whether all results of one evaluation have one key behind it, as the SQL of q5
    says, so that one subtask at a time gets them; floating_buffers: of a gate."""

    warmup_s: float
    horizon_s: float
    one_key: bool = False
    floating_buffers: int = FLOATING_BUFFERS


PROBE = Settings(45.0, 75.0)
"""As in the search for the largest rate: 15 s to cool down, 60 s at the rate, of which the last 30 s count."""
LONG = Settings(120.0, 1800.0)
"""As of the large runs, which take half an hour and more."""
AFFORDED = (30.0, 60.0)
"""Warm-up and length of exact runs instead of longer ones: buffers still hide an overload of some per cent."""


@dataclass(frozen=True)
class Plan:
    """Where a query runs, and what was kept of it. memory_mb: of a task manager."""

    query: str
    parallelism: Mapping[str, int]
    task_managers: int
    memory_mb: int

    @classmethod
    def of(cls, run: Run) -> Plan:
        """Plan of a run."""
        return cls(run.query, run.parallelism, run.task_managers, run.memory_mb)

    @property
    def density(self) -> float:
        """Subtasks on a task manager."""
        return sum(self.parallelism.values()) / self.task_managers

    @property
    def key_groups(self) -> int:
        """Key groups of all operators, by Flink's default for the operator with most subtasks."""
        return max(default_key_groups(subtasks) for subtasks in self.parallelism.values())


def scenario(
    plan: Plan, told: Calibration, costs_us: Mapping[str, float], rate_per_s: float, thin: float, settings: Settings
) -> Scenario:
    """Scenario of a plan at a rate of events. thin: real records that each of its records stands for."""
    steps = QUERIES[plan.query]
    keyed = {"by record": True, "by window": settings.one_key, "no": False}
    service = {"service_time_s": told.source_us * 1e-6 * thin, "service_scv": 0.0, "record_bytes": EVENT_BYTES}
    operators: list[dict[str, Any]] = [{"name": SOURCE, "kind": "source", **service}]
    for step in steps:
        given = {"key_groups": plan.key_groups} if keyed[step.keyed] else {}
        operators.append(given | _operator(step, told, costs_us[step.name], rate_per_s / thin, thin))
    streams = [
        {"producer": producer, "consumer": step.name, "partitioning": "hash" if keyed[step.keyed] else "rebalance"}
        for step in steps
        for producer in step.inputs
    ]
    periods = [step.window_s[1] for step in steps if step.window_s]
    moving = {
        step.name: {"zipf": ONE_KEY, "drift_every_s": min(periods), "drift_share": 1.0}
        for step in steps
        if step.keyed == "by window" and settings.one_key
    }
    return Scenario.model_validate(
        {
            "name": f"{plan.query} on {sum(plan.parallelism.values())} subtasks",
            "query": {"operators": operators, "streams": streams},
            "cluster": {"hosts": [_host(number, plan) for number in range(plan.task_managers)]},
            "plan": {"placement": placement(plan)},
            "workload": {
                "arrivals": {SOURCE: {"law": "constant", "rate_per_s": rate_per_s / thin}},
                "keys": moving,
            },
            "engine": {
                "profile": "flink",
                **MEASURED_WITH_THE_RECORD,
                **_buffers(thin, settings.floating_buffers),
            },
            "run": {
                "warmup_s": settings.warmup_s,
                "horizon_s": settings.horizon_s,
                "period_s": min(periods, default=5.0),
            },
        }
    )


def placement(plan: Plan) -> dict[str, dict[str, int]]:
    """Subtasks by operator and task manager, dealt in turn, so that all have as many (within one)."""
    found: dict[str, dict[str, int]] = {}
    at = 0
    for name, subtasks in plan.parallelism.items():
        found[name] = {}
        for number in range(at, at + subtasks):
            host = _name(number % plan.task_managers)
            found[name][host] = found[name].get(host, 0) + 1
        at += subtasks
    return found


def keys_per_record(distinct_share: float) -> float:
    """Keys for each record of a window, if so many of its records are the only, or first, of their key.

    Of w records of K keys, alike, K (1 - exp(-w / K)) keys come.
    """
    share = min(max(distinct_share, 1e-6), 1.0 - 1e-6)
    records = brentq(lambda x: -math.expm1(-x) / x - share, 1e-9, 2.0 / share)
    return float(1.0 / records)


def _operator(step: Step, told: Calibration, cost_us: float, rate_per_s: float, thin: float) -> dict[str, Any]:
    given: dict[str, Any] = {"name": step.name, "service_time_s": cost_us * 1e-6 * thin, "record_bytes": ROW_BYTES}
    came, left = told.in_share[step.name], told.out_share[step.name]
    if step.name == SINK:
        return {**given, "kind": "sink"}
    if step.window_s is not None:
        size_s, slide_s = step.window_s
        records = came * rate_per_s * size_s
        keys = records * keys_per_record(left * slide_s / (came * size_s))
        window = {"policy": "time", "size_s": size_s, "slide_s": slide_s}
        grouped = {"function": "count", "group_by": "int", "groups": max(1, round(keys)), "window": window}
        return {**given, "kind": "aggregate", **grouped}
    if step.gap_s is not None:  # of a key with l records a second, a share exp(-l gap) end a session
        keys = came * rate_per_s * step.gap_s / -math.log(left / came)
        return {**given, "kind": "session", "gap_s": step.gap_s, "keys": max(1, round(keys))}
    return {**given, "kind": "map", "selectivity": max(left / came, 1e-6) if came else 1.0}


def _buffers(thin: float, floating: int) -> dict[str, Any]:
    """Size and number of buffers that hold so many times fewer records."""
    size = max(BUFFER_BYTES / thin, float(EVENT_BYTES))
    real = NetworkMemory(floating_buffers_per_gate=floating)
    return {"buffer_bytes": round(size), "network_memory": real.times(BUFFER_BYTES / thin / size)}


def _host(number: int, plan: Plan) -> dict[str, Any]:
    return {
        "name": _name(number),
        "cpu_percent": 100 * CORES,
        "ram_mb": plan.memory_mb,
        "bandwidth_mbps": CARD_MBPS,
        "latency_ms": LINK_MS,
    }


def _name(number: int) -> str:
    return f"tm-{number + 1}"


# predictors ----------------------------------------------------------------------------------------------------------
# The largest rate of events that a plan sustains: by arithmetic, by the rate model, and by exact runs.


FINE, COARSE = 0.005, 0.02
"""Widths of the brackets of rates, as shares: by the rate model, and by exact runs."""
FAR = 32.0
"""Factor from the rate at which a search begins to its ends."""
LEAST_PER_S, LEAST_EACH_PER_S, LEAST_BY_CHANNEL_PER_S = 10_000.0, 30.0, 0.5
"""Rates to which a run is thinned: of events in all; of records into each subtask of sources and keyed operators, so
that chance matters little; and into each channel from the sources, as a channel holds a record or two however thin they
are, which hides an overload for as long."""


@dataclass(frozen=True)
class Predicted:
    """Largest rates of events a second. slowest: by the slowest operator; with_groups: the same with key groups;
    at_once: by the rate model, with its interval; exact: by runs, None if none were asked for."""

    slowest_per_s: float
    with_groups_per_s: float
    at_once_per_s: float
    interval_per_s: tuple[float, float]
    exact_per_s: float | None = None


def predicted(plan: Plan, told: Calibration, kept: Kept | None, settings: Settings = PROBE) -> Predicted:
    """All predictions for a plan. kept: what was simulated so far, where runs are wanted; None: no exact runs."""
    costs = told.costs_us(plan.density)
    with_groups = slowest_per_s(told, plan.parallelism, costs, plan.key_groups)
    middle = at_once_per_s(plan, told, costs, with_groups, settings)
    draws = [at_once_per_s(plan, told, each, middle, settings) for each in told.draws_us(plan.density)]
    return Predicted(
        slowest_per_s(told, plan.parallelism, costs),
        with_groups,
        middle,
        interval(middle, draws),
        None if kept is None else exact_per_s(plan, told, middle, kept, settings),
    )


def at_once_per_s(
    plan: Plan, told: Calibration, costs_us: dict[str, float], start_per_s: float, settings: Settings = PROBE
) -> float:
    """Largest rate by the rate model, for runs that last as long as the measured ones: buffers take what is too much
    for a while."""

    def holds(rate_per_s: float) -> bool:
        return not measures_predicted(scenario(plan, told, costs_us, rate_per_s, 1.0, settings))["backpressured"]

    return _border(holds, start_per_s, FINE)


def exact_per_s(plan: Plan, told: Calibration, start_per_s: float, kept: Kept, settings: Settings) -> float:
    """Largest rate that exact runs sustain, as the authors' search counts: 99 % of what is offered is taken."""
    costs = told.costs_us(plan.density)
    if settings.horizon_s > AFFORDED[1]:
        settings = replace(settings, warmup_s=AFFORDED[0], horizon_s=AFFORDED[1])
    with Bench(Processes(1), kept=kept) as bench:

        def holds(rate_per_s: float) -> bool:
            case = scenario(plan, told, costs, rate_per_s, thin_of(plan, told, start_per_s), settings)
            return not bench.outcomes([(case, 0)])[0].measures["backpressured"]

        return _border(holds, start_per_s, COARSE)


def thin_of(plan: Plan, told: Calibration, rate_per_s: float) -> float:
    """Real records that a simulated one stands for, at rates near this one."""
    keyed = [step.name for step in QUERIES[plan.query] if step.keyed == "by record"]
    events = max(plan.parallelism[name] / told.in_share.get(name, 1.0) for name in (SOURCE, *keyed))
    channels = plan.parallelism[SOURCE] * max(
        plan.parallelism[step.name] for step in QUERIES[plan.query] if SOURCE in step.inputs
    )
    return max(1.0, rate_per_s / max(LEAST_PER_S, LEAST_EACH_PER_S * events, LEAST_BY_CHANNEL_PER_S * channels))


def interval(middle_per_s: float, draws_per_s: Sequence[float]) -> tuple[float, float]:
    """Interval that holds LEVEL of new runs, if only costs are off, as those of the runs were: Student's t, in logs."""
    spread = float(np.log(draws_per_s).std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(draws_per_s))
    reach = math.exp(spread * float(student.ppf((1.0 + LEVEL) / 2.0, len(draws_per_s) - 1)))
    return middle_per_s / reach, middle_per_s * reach


def _border(holds: Callable[[float], bool], start_per_s: float, width: float) -> float:
    """Rate up to which a condition holds, by bisection from a likely one, within a factor FAR."""
    within = Range(start_per_s, start_per_s / FAR, start_per_s * FAR, True, width, step=4 * width)
    border = search(lambda asked: [holds(rate) for _, rate in asked], [0], within)[0]
    if not border.found:
        raise BadInput(
            f"no rate within a factor {FAR:g} of {start_per_s:,.0f} events a second is the largest; check the costs"
        )
    return border.middle(whole=False)
