"""Three vectors of a job under its own plan: two for boosted trees, and one for grouping runs.

DERIVED holds counts, sums, extremes, and the rate model's view of the whole plan, where the graph holds every
operator's and host's features. Flows are nominal (all sources keep up) unless a meaning says `reached` (after sources
are slowed). FLAT is the baseline of Costream, Section VII: counts of the operator kinds, mean selectivities, the mean
event rate, and summaries of placement and hardware ("streaming queries and placement information"); it
does not show which operator is where. ABOUT is for grouping runs, not for learning.

Trees see only the order of values, so nothing is scaled; a value that does not apply (no join) is NaN, which trees
can handle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from models.features import LEARNED
from models.job_columns import HARDWARE, JobColumns, composed, operator_physics, plan_physics
from twin.kinds.registry import SINKS, SOURCES
from twin.metrics import METRICS
from twin.rates.model import RateAnswer

NEAR_FULL = 0.95
LEAST = 1e-12
"""Least rate by which anything is divided."""
OVER: Mapping[str, Callable[[np.ndarray], float]] = {"min": np.min, "mean": np.mean, "max": np.max, "sum": np.sum}
UNITS = {"cpu": "%", "ram": "MB", "network_bandwidth": "Mbit/s", "network_latency": "ms"}
"""Units of the hardware's columns."""
WINDOWED: Mapping[str, tuple[str, str]] = {
    "in": ("1/s", "input rate"),
    "content": ("tuples", "in the window at an evaluation"),
    "fires": ("1/s", "evaluations"),
    "results": ("tuples", "of an evaluation"),
    "groups": ("1", "distinct at an evaluation"),
    "selectivity": ("1", "Costream, Definitions 7 and 8"),
    "span": ("s", "length of the window"),
    "slide": ("s", "between evaluations"),
    "by_time": ("0 or 1", "whether time ends a window"),
}


class View:
    """View of a job under its own plan, from which derived entries are read.

    answer: the rate model's, for that plan alone and a run of `horizon_s`. operators: columns [O], with the rate
    model's predictions. plan: columns of the plan. hosts: columns of those in use. leaving: of each stream, the share
    of records between hosts. bottleneck: the operator of highest pressure; upstream: a mask of it and all that feed it.
    """

    def __init__(self, job: JobColumns, answer: RateAnswer, horizon_s: float) -> None:
        self.job, self.answer, self.horizon_s = job, answer, horizon_s
        self.kinds, self.levels = np.array(job.node_types), job.levels_O
        self.operators = {**job.operators, **{name: of_PxO[0] for name, of_PxO in operator_physics(answer).items()}}
        self.plan = plan_physics(answer, job, horizon_s)
        self.hosts = job.hosts()
        share_OxH = job.subtasks_OxH / job.subtasks_OxH.sum(axis=1, keepdims=True)
        self.leaving = np.array([1.0 - float(share_OxH[u] @ share_OxH[v]) for u, v in job.streams])
        self.sent = self.operators["bytes_out"][[producer for producer, _ in job.streams]]
        self.pressure, self.reached_per_s = self.operators["offered_pressure"], self.operators["in_per_s"]
        self.bottleneck = int(self.pressure.argmax())
        self.upstream = np.arange(len(self.kinds)) == self.bottleneck
        for producer, consumer in sorted(job.streams, key=lambda stream: -stream[1]):
            self.upstream[producer] |= self.upstream[consumer]


Read = Callable[[View], float]


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """Entry of the derived vector. read: returns the value, NaN where it does not apply."""

    name: str
    unit: str
    meaning: str
    read: Read


def _over(how: str, column: str, kind: str | None = None) -> Read:
    """Reads a column over all operators, or those of one kind."""

    def read(view: View) -> float:
        values = view.operators[column] if kind is None else view.operators[column][view.kinds == kind]
        return float(OVER[how](values)) if len(values) else float("nan")

    return read


def _over_hosts(how: str, column: str) -> Read:
    return lambda view: float(OVER[how](view.hosts[column]))


def _total(column: str) -> Read:
    """Reads the sum of a column over all operators."""
    return lambda view: sum(view.operators[column].tolist())


def _counts() -> list[VectorEntry]:
    def number(kind: str) -> Read:
        return lambda view: float((view.kinds == kind).sum())

    return [
        *(VectorEntry(f"{kind}s", "1", "operators", number(kind)) for kind in LEARNED),
        VectorEntry("hosts", "1", "in use", lambda view: float(len(view.hosts["tasks"]))),
        VectorEntry("levels", "1", "streams on the longest path", lambda view: float(view.levels.max())),
        VectorEntry("remote_streams", "1", "between hosts", lambda view: float((view.leaving > 0).sum())),
    ]


def _rates() -> list[VectorEntry]:
    return [
        *(VectorEntry(f"source_in_{how}", "1/s", "arrivals", _over(how, "rate_in", "source")) for how in OVER),
        *(
            VectorEntry(f"{kind}_{way}_{how}", "1/s", f"{way}put rates", _over(how, f"rate_{way}", kind))
            for kind in ("filter", "map", "aggregate", "join")
            for how in ("max", "sum")
            for way in ("in", "out")
        ),
        VectorEntry("sink_in", "1/s", "results", _over("sum", "rate_in", "sink")),
        VectorEntry("smallest_rate", "1/s", "least output of an operator", _over("min", "rate_out")),
        VectorEntry("kept", "1", "results per arriving record", _kept),
    ]


def _kept(view: View) -> float:
    rates = view.operators["rate_in"]
    results, arriving = (rates[np.isin(view.kinds, list(kinds))].sum() for kinds in (SINKS, SOURCES))
    return float(results / max(arriving, LEAST))


def _windows() -> list[VectorEntry]:
    def read(kind: str, position: int, name: str) -> Read:
        def value(view: View) -> float:
            rows = np.flatnonzero(view.kinds == kind)
            return _of_window(view, int(rows[position]), name) if len(rows) else float("nan")

        return value

    return [
        VectorEntry(f"{place}_{kind}_{name}", unit, meaning, read(kind, position, name))
        for place, kind, position in (("first", "join", 0), ("last", "join", -1), ("last", "aggregate", -1))
        for name, (unit, meaning) in WINDOWED.items()
    ]


def _of_window(view: View, row: int, name: str) -> float:
    """Value of a name of WINDOWED for an operator that has a window."""
    of = {column: values[row] for column, values in view.operators.items()}
    by_time = of["window_policy"] == "time"
    match name:
        case "results":
            return of["rate_out"] / max(of["fires"], LEAST)
        case "span" | "slide":
            column = "window_size" if name == "span" else "slide"
            return of[f"{column}_s"] if by_time else of[f"{column}_tuples"] / max(of["rate_in"], LEAST)
        case "by_time":
            return float(by_time)
    columns = {"in": "rate_in", "content": "window_tuples", "selectivity": "output_per_input"}
    return of[columns.get(name, name)]


def _data() -> list[VectorEntry]:
    return [
        VectorEntry("width_max", "values", "widest record", _over("max", "tuple_width_out")),
        VectorEntry("bytes_max", "bytes", "largest record", _over("max", "tuple_bytes")),
        VectorEntry("traffic", "bytes/s", "all streams", lambda view: float(view.sent.sum())),
        VectorEntry("remote_traffic", "bytes/s", "between hosts", lambda view: float(view.sent @ view.leaving)),
    ]


def _hosts() -> list[VectorEntry]:
    return [
        *(
            VectorEntry(f"{HARDWARE[name]}_{how}", unit, "of hosts in use", _over_hosts(how, name))
            for name, unit in UNITS.items()
            for how in ("min", "mean", "max")
        ),
        *(
            VectorEntry(f"host_{name}_{how}", "share", "of hosts in use", _over_hosts(how, name))
            for name in ("cpu_load", "network_load", "memory_load")
            for how in ("mean", "max")
        ),
    ]


def _costs() -> list[VectorEntry]:
    return [
        *(VectorEntry(f"{kind}_pressure", "1", "highest", _over("max", "offered_pressure", kind)) for kind in LEARNED),
        VectorEntry("pressure_max", "1", "highest utilisation", _over("max", "offered_pressure")),
        VectorEntry("pressure_second", "1", "second highest", lambda view: float(np.sort(view.pressure)[-2])),
        VectorEntry("service_max", "s", "CPU of a record", _over("max", "service")),
        VectorEntry("service_sum", "s", "CPU of a record", _total("service")),
        VectorEntry("cores_max", "cores", "of an operator", _over("max", "cpu_demand")),
        VectorEntry("cores_sum", "cores", "of all", _total("cpu_demand")),
        VectorEntry("state_sum", "MB", "of all windows", _total("state")),
    ]


def _bottleneck() -> list[VectorEntry]:
    return [
        # an index into LEARNED, of what it is seen as; words here count for DERIVED_VERSION, so they stay
        VectorEntry("bottleneck_kind", "1", "index into KINDS", lambda v: float(LEARNED.index(v.kinds[v.bottleneck]))),
        VectorEntry("bottleneck_level", "1", "streams from its sources", lambda v: float(v.levels[v.bottleneck])),
        VectorEntry(
            "bottleneck_to_end", "1", "levels below it", lambda v: float(v.levels.max() - v.levels[v.bottleneck])
        ),
        VectorEntry("bottleneck_upstream", "1", "operators, itself too", lambda v: float(v.upstream.sum())),
        VectorEntry("bottleneck_in", "1/s", "input reached", lambda v: float(v.reached_per_s[v.bottleneck])),
        VectorEntry(
            "upstream_in_min", "1/s", "least input reached", lambda v: float(v.reached_per_s[v.upstream].min())
        ),
        VectorEntry("in_min", "1/s", "least input reached", lambda v: float(v.reached_per_s.min())),
        VectorEntry("nearly_full", "1", "operators above 0.95", lambda v: float((v.pressure > NEAR_FULL).sum())),
    ]


def _answer() -> list[VectorEntry]:
    def metric(name: str) -> Read:
        return lambda view: float(view.answer.costs[name][0])

    return [
        *(VectorEntry(f"rates_{name}", "as the metric", "the rate model's answer", metric(name)) for name in METRICS),
        *(
            VectorEntry(f"{name}_{how}", "s", "a result's, reached", _over(how, f"{name}_s"))
            for name in ("channel", "queue", "window")
            for how in ("max", "sum")
        ),
        VectorEntry("blocked", "1", "operators with full inputs", lambda view: float(view.answer.blocked[0].sum())),
        VectorEntry("ingested_min", "1", "share of a source's rate", lambda view: float(view.answer.ingested[0].min())),
        VectorEntry("ingested_max", "1", "share of a source's rate", lambda view: float(view.answer.ingested[0].max())),
        VectorEntry("lag", "s", "of output behind the run's start", lambda view: float(view.answer.lag_s[0])),
        VectorEntry("results", "tuples", "of the run", lambda view: float(view.plan["results"][0])),
        VectorEntry("chances", "1", "independent ones of a result", lambda view: float(view.answer.chances[0])),
        VectorEntry("evaluations", "1", "of the window that has fewest", _evaluations),
        VectorEntry("horizon", "s", "length of the run", lambda view: view.horizon_s),
    ]


def _demand() -> list[VectorEntry]:
    def of_plan(name: str) -> Read:
        return lambda view: float(view.plan[name][0])

    return [
        VectorEntry("peak_max", "1", "highest peak of an input over its mean", _over("max", "peak")),
        VectorEntry("peak_share", "share", "of the time above the mean, least", _over("min", "peak_share")),
        VectorEntry("peak_s_max", "s", "longest peak", _over("max", "peak_s")),
        VectorEntry("hottest", "share", "of an input in one key group", _over("max", "hottest")),
        VectorEntry("drifts_per_s", "1/s", "changes of which keys are frequent", _over("max", "drifts_per_s")),
        *(
            VectorEntry(name, unit, meaning, of_plan(name))
            for name, unit, meaning in (
                ("peak_pressure", "share", "highest utilisation at peaks"),
                ("peak_left_s", "s", "of work that a peak leaves"),
                ("peaks", "1", "of the longest kind in a run"),
                ("busiest", "1", "input of the busiest subtask over the mean"),
            )
        ),
    ]


def _evaluations(view: View) -> float:
    fires = view.operators["fires"][view.operators["windowed"]]
    return float(fires.min()) * view.horizon_s if len(fires) else float("nan")


DERIVED: tuple[VectorEntry, ...] = (
    *_counts(), *_rates(), *_windows(), *_data(), *_hosts(), *_costs(), *_bottleneck(), *_answer(), *_demand(),
)  # fmt: skip
"""Entries of the derived vector, in order."""

_EXTREMES = tuple(f"{HARDWARE[name]}_{over}" for name in UNITS for over in ("mean", "min", "max"))
FLAT: tuple[str, ...] = (
    *(f"{kind}s" for kind in LEARNED),
    *("mean_filter_selectivity", "mean_join_selectivity", "mean_aggregate_selectivity", "mean_event_rate_per_s"),
    *("hosts_used", "operators_on_the_fullest_host", "share_of_streams_between_hosts"),
    *_EXTREMES,
)
"""Entries of the flat vector, in order."""
ABOUT: tuple[str, ...] = (
    *("sources", "filters", "aggregates", "joins", "operators", "filter_chain", "hosts"),
    *_EXTREMES,
    *("utilisation", "peak", "hottest", "drifts_per_s", "calls", "links"),
    *("event_time", "rows", "checkpoints", "pauses"),
)
"""Entries of the vector that groups runs. operators: all of them. filter_chain: the most filters in a row. hosts: those
that carry an operator; the mean, smallest and largest of their features. utilisation: the highest nominal one, by the
rate model. peak, hottest, drifts_per_s: the highest of an operator (models.job_columns). calls: operators that call;
links: of the cluster. event_time, rows: operators that wait for watermarks, and that keep rows by key. checkpoints,
pauses: seconds from one to the next; 0 for none."""


def _version(lines: Iterable[str], between: str) -> str:
    return hashlib.sha256(between.join(lines).encode()).hexdigest()[:12]


DERIVED_VERSION: str = _version((f"{entry.name}|{entry.unit}|{entry.meaning}" for entry in DERIVED), "\n")
"""Version of the derived vector: 12 hex digits over name, unit and meaning of every entry."""
FLAT_VERSION: str = _version(FLAT, "|")
"""Version of the flat vector: 12 hex digits over the entries."""


def derived_vector(job: JobColumns, answer: RateAnswer, horizon_s: float) -> list[float]:
    """Derived vector of a job under its own plan, in the order of DERIVED. answer: the rate model's, for that plan
    alone and a run of `horizon_s`."""
    view = View(job, answer, horizon_s)
    return [float(entry.read(view)) for entry in DERIVED]


def flat_vector(job: JobColumns) -> list[float]:
    """Flat vector of a job under its own plan, in the order of FLAT. Subtasks on several hosts count on each."""
    kinds = np.array(job.node_types)

    def mean(kind: str, column: str) -> float:
        values = job.operators[column][kinds == kind].tolist()
        return sum(values) / len(values) if values else float("nan")

    on_OxH = job.subtasks_OxH > 0
    operators_H = on_OxH.sum(axis=0)
    away = [not np.array_equal(on_OxH[u], on_OxH[v]) for u, v in job.streams]
    hardware = [np.repeat(values, operators_H).tolist() for values in job.hardware.values()]
    return [
        *(float((kinds == kind).sum()) for kind in LEARNED),
        *(mean(kind, "output_per_input") for kind in ("filter", "join", "aggregate")),
        mean("source", "rate_in"),
        float((operators_H > 0).sum()),
        float(operators_H.max()),
        sum(away) / len(away),
        *(number for values in hardware for number in (sum(values) / len(values), min(values), max(values))),
    ]


def about(job: JobColumns, utilisation: float) -> list[float]:
    """Description of a run in a few plain numbers, in the order of ABOUT: to group runs by query, hardware or load."""
    kinds = ("source", "filter", "aggregate", "join")
    hardware, works = [job.hardware[name][job.used] for name in HARDWARE], composed(job)
    return [
        *(float(job.node_types.count(kind)) for kind in kinds),
        float(len(job.kinds)),
        float(filter_chain(job)),
        float(len(job.used)),
        *(float(over(values)) for values in hardware for over in (np.mean, min, max)),
        utilisation,
        *(float(job.operators[name].max()) for name in ("peak", "hottest", "drifts_per_s")),
        float((job.operators["call_s"] > 0.0).sum()),
        float(len(job.deployment.cluster.links)),
        float((job.operators["awaits_watermark"] > 0.0).sum()),
        float((job.operators["keeps_rows"] > 0.0).sum()),
        *(works[name] for name in ("checkpoint_interval_s", "gc_interval_s")),
    ]


def filter_chain(job: JobColumns) -> int:
    """Largest number of filters in a row."""
    length = [0] * len(job.kinds)
    for operator, thins in enumerate(job.operators["thins"]):
        before = [length[u] for u, v in job.streams if v == operator]
        length[operator] = 1 + max(before, default=0) if thins else 0
    return max(length)
