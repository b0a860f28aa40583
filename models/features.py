"""All features of the joint operator-resource graph (Costream, Table I, and what follows from it).

Each node type has its columns; `table()` lists them for readers, FEATURE_VERSION names them in checkpoints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.columns import Column, Group, Linear, Log, OneHot, width
from models.facts import HostFacts, OperatorFacts
from twin.errors import BadInput
from twin.query import AggregateFunction, DataType, FilterFunction
from twin.spec import literal_values

FeatureSet = Literal["operators", "placement", "table1", "rates", "costs", "physics"]
FEATURE_SETS: Mapping[str, frozenset[str]] = {
    "operators": frozenset({"operator", "data"}),
    "placement": frozenset({"operator", "data", "plan"}),
    "table1": frozenset({"operator", "data", "plan", "hardware"}),
    "rates": frozenset({"operator", "data", "plan", "hardware", "rate"}),
    "costs": frozenset({"operator", "data", "plan", "hardware", "rate", "cost"}),
    "physics": frozenset({"operator", "data", "plan", "hardware", "rate", "cost", "physics"}),
}
"""Which groups of columns a model sees. The first three are the ablation of Costream, Fig. 12 (`table1` is the paper's
model; `operators` has no host nodes at all); `rates` adds propagated rates, `costs` the engine profile, and `physics`
what the analytic rate model finds, by operator, by host, and of the plan as a whole."""

_SELECTIVITY = Log(1e-4, 1.0, floor=1e-9)
_RATE = Log(1.0, 1e5, floor=1e-3)


def _spec(name: str, absent: Any = None) -> Callable[[Any], Any]:
    """A field of an operator's spec; absent: what stands for none."""
    return lambda facts: absent if getattr(facts.spec, name) is None else getattr(facts.spec, name)


def _column(
    group: Group, name: str, unit: str, encoding: Log | Linear | OneHot, read: Callable[[Any], Any], meaning: str
) -> Column:
    return Column(name=name, unit=unit, group=group, encoding=encoding, meaning=meaning, read=read)


def _flag(name: str, read: Callable[[Any], bool], meaning: str, group: Group = "operator") -> Column:
    return _column(group, name, "0 or 1", Linear(0, 1), lambda facts: float(read(facts)), meaning)


def _physics(name: str, unit: str, encoding: Log | Linear, meaning: str) -> Column:
    return _column("physics", name, unit, encoding, lambda facts: getattr(facts.physics, name), meaning)


def _of_plan(name: str, unit: str, encoding: Log | Linear, meaning: str) -> Column:
    return _column("physics", name, unit, encoding, lambda state: getattr(state, name), meaning)


_SECONDS = Log(1e-3, 1e2, 1e-5)
_UTILISATION = Log(1e-2, 1e2, 1e-4)

_EVERY_OPERATOR = (
    _column("data", "tuple_width_in", "values", Linear(0, 20), lambda f: f.width_in, "incoming tuple, mean of inputs"),
    _column("data", "tuple_width_out", "values", Linear(0, 20), lambda f: f.columns_out.width, "outgoing tuple"),
    _column("plan", "replicas", "1", Log(1, 64), lambda f: f.replicas, "parallel instances of the operator"),
    _column("rate", "rate_in", "tuples/s", _RATE, lambda f: f.rates.in_per_s, "nominal input rate"),
    _column("rate", "rate_out", "tuples/s", _RATE, lambda f: f.rates.out_per_s, "nominal output rate"),
    _column(
        "rate", "bytes_out", "bytes/s", Log(1e2, 1e8, 1e-1), lambda f: f.rates.out_per_s * f.bytes_out, "nominal output"
    ),
    _column("cost", "service", "s", Log(1e-6, 1e-2, 1e-9), lambda f: f.service_s, "CPU of a tuple on a reference core"),
    _column("cost", "cpu_demand", "cores", Log(1e-3, 10), lambda f: f.cpu_cores, "nominal, all replicas together"),
    _column(
        "cost", "service_scv", "1", Log(1e-2, 2, 1e-3), lambda f: f.service_scv, "variability of the CPU of a tuple"
    ),
    _column("cost", "credits", "tuples", Log(64, 8192), lambda f: f.credits, "on the way to, or queued at, a replica"),
    _column("cost", "batch", "tuples", Log(1, 512), lambda f: f.batch_tuples, "that leave together"),
    _column("cost", "flush", "s", Log(1e-3, 0.2, 1e-4), lambda f: f.flush_s, "after which incomplete batches leave"),
    _column(
        "cost",
        "context_switch",
        "share",
        Log(1e-3, 0.2, 1e-4),
        lambda f: f.context_switch,
        "extra work of a task beyond one a core",
    ),
    _physics("in_per_s", "tuples/s", _RATE, "input rate that the sources' backpressure allows"),
    _physics("out_per_s", "tuples/s", _RATE, "output rate, likewise"),
    _physics("offered_pressure", "share", _UTILISATION, "highest utilisation it depends on, nominal"),
    _physics("pressure", "share", _UTILISATION, "the same under backpressure"),
    _physics("service_s", "s", Log(1e-6, 1e-1, 1e-8), "of a tuple, at the speed that its socket gives it"),
    _physics("blocked", "0 or 1", Linear(0, 1), "its input channels are full"),
    _physics("channel_s", "s", _SECONDS, "mean time of results on the way here"),
    _physics("queue_s", "s", _SECONDS, "service and the wait for it"),
    _physics("window_s", "s", _SECONDS, "what its window adds to the age"),
    _physics("age_s", "s", _SECONDS, "age of its results since ingestion"),
)

_WINDOW = (
    _column("operator", "window_type", "", OneHot(("tumbling", "sliding")),
            lambda f: "tumbling" if f.spec.window.tumbling else "sliding", "shifting strategy"),
    _column("operator", "window_policy", "", OneHot(("count", "time")), lambda f: f.spec.window.policy, "counting"),
    _column("operator", "window_size_tuples", "tuples", Log(5, 640, 0.5),
            lambda f: f.spec.window.size if f.spec.window.policy == "count" else 0.0, "0 if time-based"),
    _column("operator", "window_size_s", "s", Log(0.25, 16, 0.02),
            lambda f: f.spec.window.size if f.spec.window.policy == "time" else 0.0, "0 if count-based"),
    _column("operator", "slide_tuples", "tuples", Log(1, 640, 0.1),
            lambda f: f.spec.window.slide if f.spec.window.policy == "count" else 0.0, "0 if time-based"),
    _column("operator", "slide_s", "s", Log(0.05, 16, 0.005),
            lambda f: f.spec.window.slide if f.spec.window.policy == "time" else 0.0, "0 if count-based"),
    _column("rate", "window_tuples", "tuples", Log(1, 1e5, 1e-2), lambda f: f.rates.window_tuples, "content at a fire"),
    _column("rate", "fires", "1/s", Log(1e-2, 1e4, 1e-4), lambda f: f.rates.fires_per_s, "evaluations"),
    _column("rate", "results_per_fire", "tuples", Log(1e-2, 1e4, 1e-6),
            lambda f: f.rates.out_per_s / f.rates.fires_per_s if f.rates.fires_per_s else 0.0, "output an evaluation"),
    _column("cost", "state", "MB", Log(1e-3, 1e3, 1e-5), lambda f: f.state_mb, "heap taken by the window"),
)  # fmt: skip


def _columns_of(data_type: str) -> Callable[[Any], Any]:
    return lambda facts: facts.columns_out.count(data_type)


_TYPES = literal_values(DataType)
_HOST = (
    _column("hardware", "cpu", "%", Log(50, 800), lambda f: f.spec.cpu_percent, "100 is one reference core"),
    _column("hardware", "ram", "MB", Log(1000, 32000), lambda f: f.spec.ram_mb, "memory"),
    _column("hardware", "network_latency", "ms", Log(1, 160, 0.05), lambda f: f.spec.latency_ms, "outgoing"),
    _column("hardware", "network_bandwidth", "Mbit/s", Log(25, 10000), lambda f: f.spec.bandwidth_mbps, "outgoing"),
    _column("plan", "tasks", "1", Log(1, 64), lambda f: f.tasks, "replicas on the host, of all operators"),
    _column("cost", "cpu_load", "share", Log(1e-2, 1e2), lambda f: f.cpu_load, "nominal demand over capacity"),
    _column(
        "cost", "network_load", "share", Log(1e-4, 1e2), lambda f: f.network_load, "nominal traffic over bandwidth"
    ),
    _column("cost", "memory_load", "share", Log(1e-2, 10), lambda f: f.memory_load, "engine and windows over RAM"),
    _physics("cpu_used", "share", _UTILISATION, "CPU in use under backpressure"),
    _physics("nic_used", "share", Log(1e-4, 1e2), "outgoing bandwidth in use, likewise"),
    _physics("memory_used", "share", Log(1e-2, 10), "RAM in use"),
)

CONTEXT: tuple[Column, ...] = (
    _of_plan("throughput_per_s", "1/s", Log(1e-2, 1e4, 1e-6), "the rate model's T"),
    _of_plan("processing_latency_s", "s", Log(1e-2, 1e2, 1e-4), "its Lp"),
    _of_plan("e2e_latency_s", "s", Log(1e-2, 1e2, 1e-4), "its Le"),
    _of_plan("backpressured", "1", Linear(0, 1), "its probability of RO"),
    _of_plan("success", "1", Linear(0, 1), "its probability of S"),
    _of_plan("utilisation", "share", Log(1e-1, 1e1, 1e-3), "highest nominal utilisation"),
    _of_plan("ingested", "share", Log(1e-2, 1, 1e-5), "of the most slowed source"),
    _of_plan("chances", "1", Log(1e-1, 1e3, 1e-4), "expected independent chances of a result in the run"),
    _of_plan("lag_share", "1", Log(1e-3, 1, 1e-6), "of the run that the empty start costs"),
    _of_plan("blocked", "share", Linear(0, 1), "operators whose input channels are full"),
    _of_plan("channel_s", "s", _SECONDS, "on the way, summed over the operators"),
    _of_plan("queue_s", "s", _SECONDS, "in service and waiting for it, likewise"),
    _of_plan("window_s", "s", _SECONDS, "in windows, likewise"),
)
"""The columns of the plan as a whole, beside the graph's nodes; read off models.physics.PlanState."""

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "source": (
        _column("data", "event_rate", "tuples/s", Log(20, 25600), lambda f: f.rates.in_per_s, "arriving at the broker"),
        *(
            _column("data", f"{name}s", "values", Linear(0, 10), _columns_of(name), "in a tuple")
            for name in _TYPES
        ),
        *_EVERY_OPERATOR,
    ),
    "filter": (
        _column("operator", "function", "", OneHot(literal_values(FilterFunction)), _spec("function"), "comparison"),
        _column("operator", "literal_type", "", OneHot(_TYPES), _spec("literal_type"), "of the comparison's literal"),
        _column("data", "selectivity", "1", _SELECTIVITY, lambda f: f.spec.selectivity, "Definition 6"),
        *_EVERY_OPERATOR,
    ),
    "map": (
        _column("data", "selectivity", "1", Log(1e-2, 1e2), lambda f: f.spec.selectivity, "output per input tuple"),
        *_EVERY_OPERATOR,
    ),
    "aggregate": (
        _column("operator", "function", "", OneHot(literal_values(AggregateFunction)), _spec("function"), "of values"),
        _column("operator", "value_type", "", OneHot(_TYPES), _spec("value_type"), "of the values to aggregate"),
        _column("operator", "group_by", "", OneHot(("none", *_TYPES)), _spec("group_by", "none"), "data type"),
        _column("data", "selectivity", "1", _SELECTIVITY, lambda f: f.selectivity, "Definition 8, expected"),
        *_WINDOW,
        *_EVERY_OPERATOR,
    ),
    "join": (
        _column("operator", "key_type", "", OneHot(_TYPES), _spec("key_type"), "data type of the join key"),
        _column("data", "selectivity", "1", _SELECTIVITY, _spec("selectivity", 0.0), "Definition 7; 0 if unknown"),
        _column("data", "amplification", "1", Log(1e-3, 10, 1e-6), _spec("amplification", 0.0),
                "measured output per input"),
        _flag("measured", lambda f: f.spec.selectivity is None, "amplification is given, not selectivity", "data"),
        *_WINDOW,
        *_EVERY_OPERATOR,
    ),
    "sink": _EVERY_OPERATOR,
    "host": _HOST,
}  # fmt: skip
"""The columns of each node type, in the order of the network's inputs. Kinds that are not here cannot be learned."""

NODE_TYPES: tuple[str, ...] = tuple(COLUMNS)
HOST = NODE_TYPES.index("host")
SINK = NODE_TYPES.index("sink")
LEARNED: tuple[str, ...] = NODE_TYPES[:HOST]
"""The kinds of operators that models know, by name: others shift nothing."""

CONTEXT_WIDTH: int = width(CONTEXT)
"""Inputs made of a plan as a whole."""

WIDTHS: tuple[int, ...] = tuple(width(COLUMNS[kind]) for kind in NODE_TYPES)
"""Inputs of each node type, in the order of NODE_TYPES."""

_ALL: tuple[tuple[str, Column], ...] = (
    *((kind, column) for kind in NODE_TYPES for column in COLUMNS[kind]),
    *(("plan", column) for column in CONTEXT),
)

REVISION = 7
"""Raised where a column of the same name has other values. 2: each tuple of a join costs by its own stream.
3: the rate model knows waits for batches, and how long channels take to fill.
4: each replica has a count window of its own, and channels of streams that meet fill together.
5: the rate model knows what comes together or unevenly, copies, and waits of tasks that share cores.
6: one heavy task among light ones gets less than fluids would. 7: every run is exact; results leave when an evaluation
ends, and copies of a record meet."""

FEATURE_VERSION: str = hashlib.sha256(
    "\n".join([*(f"{node}|{column.identity}" for node, column in _ALL), f"revision {REVISION}"]).encode()
).hexdigest()[:12]
"""12 hex digits over name, unit, group and encoding of every column, and the revision."""


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One line of the documentation's table of features."""

    node: str
    feature: str
    unit: str
    group: str
    encoding: str
    meaning: str


def table() -> tuple[FeatureRow, ...]:
    """Every feature of every node type, and of the plan."""
    return tuple(
        FeatureRow(node, column.name, column.unit, column.group, str(column.encoding), column.meaning)
        for node, column in _ALL
    )


def raw_row(kind: str, facts: OperatorFacts | HostFacts) -> list[float]:
    """The raw values of one node, a column each. Raises ValueError if one is not finite or outside a vocabulary."""
    return [column.raw(facts) for column in COLUMNS[kind]]


def require_learned(operators: Sequence[OperatorFacts]) -> None:
    """Raises BadInput if models know no operators of the kind of one of these."""
    for each in operators:
        if each.spec.kind not in LEARNED:
            raise BadInput(
                f"learned models know no operators of kind {each.spec.kind!r}, so they cannot judge such a query; use "
                "the cost model rates or sim, or give the kind its columns in models/features.py and train anew"
            )
