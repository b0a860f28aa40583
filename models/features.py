"""Features of the joint operator-resource graph, and the encodings that turn raw numbers into inputs of a network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from twin.kinds.basic import Calling
from twin.kinds.registry import BY_KIND
from twin.query import AggregateFunction, DataType, FilterFunction
from twin.spec import literal_values

# encodings -----------------------------------------------------------------------------------------------------------
# Features: encodings with fixed ranges that turn raw numbers into inputs of a network.
#
# No statistic is fitted to the data, so nothing of a test set can leak into an encoding, and a value outside the usual
# range is extrapolated, not clipped: the model is meant for hardware and rates that it has not seen.


NO_WORD = "none"
"""Word of an operator whose kind has no such field."""
Group = Literal["operator", "data", "plan", "hardware", "rate", "cost", "demand", "physics", "composed"]


@dataclass(frozen=True, slots=True)
class Log:
    """Logarithmic encoding, `low` at -1 and `high` at 1. Values below `floor` (default low / 1000) count as `floor`."""

    low: float
    high: float
    floor: float | None = None

    def encode(self, raw_N: np.ndarray) -> np.ndarray:
        """[N] -> [N, 1]."""
        floor = self.low / 1000 if self.floor is None else self.floor
        position_N = np.log(np.maximum(raw_N, floor) / self.low) / np.log(self.high / self.low)
        return (2 * position_N - 1)[:, None]

    def __str__(self) -> str:
        return f"log, {self.low:g} to {self.high:g} as -1 to 1"


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear encoding, with `low` at -1 and `high` at 1."""

    low: float
    high: float

    def encode(self, raw_N: np.ndarray) -> np.ndarray:
        """[N] -> [N, 1]."""
        return (2 * (raw_N - self.low) / (self.high - self.low) - 1)[:, None]

    def __str__(self) -> str:
        return f"linear, {self.low:g} to {self.high:g} as -1 to 1"


@dataclass(frozen=True, slots=True)
class OneHot:
    """One-hot encoding: an input for each word of a fixed vocabulary; the raw value is the word's index. NO_WORD, if it
    is none of them, is the index behind the last one, and all inputs are 0."""

    vocabulary: tuple[str, ...]

    def encode(self, raw_N: np.ndarray) -> np.ndarray:
        """Inputs [N, words] of indices [N]."""
        words = len(self.vocabulary)
        return np.eye(words + 1)[raw_N.astype(int), :words]

    def __str__(self) -> str:
        return f"one-hot: {' '.join(self.vocabulary)}"


@dataclass(frozen=True, slots=True)
class Feature:
    """Feature: meaning, unit and encoding of a column of `models.job_columns`.

    group: operator, data and hardware are Costream's Table I; plan adds the subtasks; rate is derived from arrival
    rates and selectivities, cost from the engine profile as well; demand is the variation of arrivals and keys; physics
    are predictions of the rate model; composed is what works beside operators and streams: state, event time,
    checkpoints, pauses, and bursts of several sources on one host.
    """

    name: str
    unit: str
    group: Group
    encoding: Log | Linear | OneHot
    meaning: str

    @property
    def width(self) -> int:
        """Number of inputs for one value."""
        return len(self.encoding.vocabulary) if isinstance(self.encoding, OneHot) else 1

    @property
    def identity(self) -> str:
        """Text with everything that determines the inputs of this feature."""
        return f"{self.name}|{self.unit}|{self.group}|{self.encoding!r}"

    def raw(self, values_N: np.ndarray) -> np.ndarray:
        """Raw numbers of values: words become their index. Raises ValueError for a word outside the vocabulary."""
        if not isinstance(self.encoding, OneHot):
            return values_N
        words = self.encoding.vocabulary
        known = words if NO_WORD in words else (*words, NO_WORD)
        return np.array([known.index(word) for word in values_N])


def raw_rows(features: Sequence[Feature], columns: Mapping[str, np.ndarray], rows: Sequence[int]) -> np.ndarray:
    """[N, features] raw values of some rows of columns. Missing predictions of the rate model are 0."""
    nothing = np.zeros(len(rows))
    asked = [feature.group != "physics" or feature.name in columns for feature in features]
    values = [
        feature.raw(columns[feature.name][list(rows)]) if known else nothing
        for feature, known in zip(features, asked, strict=True)
    ]
    return np.stack([np.asarray(value, float) for value in values], axis=1)


def encode(features: Sequence[Feature], raw_NxC: np.ndarray) -> np.ndarray:
    """Inputs [N, sum of widths], float32, of raw values [N, features]."""
    parts = [feature.encoding.encode(raw_NxC[:, index]) for index, feature in enumerate(features)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def width(features: Sequence[Feature]) -> int:
    """Number of inputs for one node."""
    return sum(feature.width for feature in features)


def with_inputs(features: Sequence[Feature], inputs_NxF: np.ndarray) -> Iterator[tuple[Feature, np.ndarray]]:
    """Yields each feature with its inputs [N, width]."""
    start = 0
    for feature in features:
        yield feature, inputs_NxF[:, start : start + feature.width]
        start += feature.width


def selected(features: Sequence[Feature], groups: frozenset[str]) -> np.ndarray:
    """Indices of the inputs that belong to `groups`."""
    return np.flatnonzero(np.repeat([f.group in groups for f in features], [f.width for f in features]))


# features of the graph -----------------------------------------------------------------------------------------------
# Features of the joint operator-resource graph (Costream, Table I, and values derived from it).
#
# Each node type has its features; `table()` lists them for readers, FEATURE_VERSION names them in checkpoints.


FeatureSet = Literal["operators", "placement", "table1", "rates", "costs", "composed", "physics"]
FEATURE_SETS: Mapping[str, frozenset[str]] = {
    "operators": frozenset({"operator", "data"}),
    "placement": frozenset({"operator", "data", "plan"}),
    "table1": frozenset({"operator", "data", "plan", "hardware"}),
    "rates": frozenset({"operator", "data", "plan", "hardware", "rate"}),
    "costs": frozenset({"operator", "data", "plan", "hardware", "rate", "cost", "demand"}),
    "composed": frozenset({"operator", "data", "plan", "hardware", "rate", "cost", "demand", "composed"}),
    "physics": frozenset({"operator", "data", "plan", "hardware", "rate", "cost", "demand", "physics"}),
}
"""Groups of features that a model sees, by name. The first three are the ablation of Costream, Fig. 12 (`table1` is the
paper's model; `operators` has no host nodes at all); `rates` adds propagated rates, `costs` the engine profile and the
variation of arrivals and keys, `composed` what composes, and `physics`, beside `costs`, the rate model's predictions by
operator and host."""

_SELECTIVITY = Log(1e-4, 1.0, floor=1e-9)
_RATE = Log(1.0, 1e5, floor=1e-3)
_SECONDS = Log(1e-3, 1e2, 1e-5)
_UTILISATION = Log(1e-2, 1e2, 1e-4)
_FLAG = Linear(0, 1)

_EVERY_OPERATOR = (
    Feature("tuple_width_in", "values", "data", Linear(0, 20), "incoming record, mean of inputs"),
    Feature("tuple_width_out", "values", "data", Linear(0, 20), "outgoing record"),
    Feature("replicas", "1", "plan", Log(1, 64), "parallel instances of the operator"),
    Feature("rate_in", "tuples/s", "rate", _RATE, "nominal input rate"),
    Feature("rate_out", "tuples/s", "rate", _RATE, "nominal output rate"),
    Feature("bytes_out", "bytes/s", "rate", Log(1e2, 1e8, 1e-1), "nominal output"),
    Feature("service", "s", "cost", Log(1e-6, 1e-2, 1e-9), "CPU of a record on a reference core"),
    Feature("cpu_demand", "cores", "cost", Log(1e-3, 10), "nominal, all subtasks together"),
    Feature("service_scv", "1", "cost", Log(1e-2, 2, 1e-3), "variability of the CPU of a record"),
    Feature("credits", "tuples", "cost", Log(64, 8192), "on the way to, or queued at, a subtask"),
    Feature("batch", "tuples", "cost", Log(1, 512), "that leave together"),
    Feature("flush", "s", "cost", Log(1e-3, 0.2, 1e-4), "after which incomplete batches leave"),
    Feature("context_switch", "share", "cost", Log(1e-3, 0.2, 1e-4), "extra work of a task beyond one a core"),
    Feature("peak", "1", "demand", Log(1, 10), "input while it is above its mean, over the mean"),
    Feature("peak_s", "s", "demand", _SECONDS, "for which it stays there"),
    Feature("hottest", "share", "demand", Log(1e-3, 1, 1e-6), "of the input in the most frequent key group"),
    Feature("drifts_per_s", "1/s", "demand", Log(1e-3, 10, 1e-6), "changes of which keys are frequent"),
    Feature("memory", "s", "composed", _SECONDS, "for which a record has an effect"),
    Feature("awaits", "0 or 1", "composed", _FLAG, "its results wait for the end of a window"),
    Feature("keeps_rows", "0 or 1", "composed", _FLAG, "it keeps rows by key"),
    Feature("updates", "0 or 1", "composed", _FLAG, "its results may change those before"),
    Feature("in_per_s", "tuples/s", "physics", _RATE, "input rate that the sources' backpressure allows"),
    Feature("out_per_s", "tuples/s", "physics", _RATE, "output rate, likewise"),
    Feature("offered_pressure", "share", "physics", _UTILISATION, "highest utilisation it depends on, nominal"),
    Feature("pressure", "share", "physics", _UTILISATION, "the same under backpressure"),
    Feature("service_s", "s", "physics", Log(1e-6, 1e-1, 1e-8), "of a record, at the speed that its socket gives it"),
    Feature("blocked", "0 or 1", "physics", _FLAG, "its input channels are full"),
    Feature("channel_s", "s", "physics", _SECONDS, "mean time of results on the way here"),
    Feature("queue_s", "s", "physics", _SECONDS, "service and the wait for it"),
    Feature("window_s", "s", "physics", _SECONDS, "what its window adds to the age"),
    Feature("age_s", "s", "physics", _SECONDS, "age of its results since ingestion"),
)

_WINDOW = (
    Feature("window_type", "", "operator", OneHot(("tumbling", "sliding")), "shifting strategy"),
    Feature("window_policy", "", "operator", OneHot(("count", "time")), "counting"),
    Feature("window_size_tuples", "tuples", "operator", Log(5, 640, 0.5), "0 if time-based"),
    Feature("window_size_s", "s", "operator", Log(0.25, 16, 0.02), "0 if count-based"),
    Feature("slide_tuples", "tuples", "operator", Log(1, 640, 0.1), "0 if time-based"),
    Feature("slide_s", "s", "operator", Log(0.05, 16, 0.005), "0 if count-based"),
    Feature("window_tuples", "tuples", "rate", Log(1, 1e5, 1e-2), "content at a fire"),
    Feature("fires", "1/s", "rate", Log(1e-2, 1e4, 1e-4), "evaluations"),
    Feature("results_per_fire", "tuples", "rate", Log(1e-2, 1e4, 1e-6), "output an evaluation"),
    Feature("state", "MB", "cost", Log(1e-3, 1e3, 1e-5), "heap taken by the window"),
)

_TYPES = literal_values(DataType)
_HOST = (
    Feature("cpu", "%", "hardware", Log(50, 800), "100 is one reference core"),
    Feature("ram", "MB", "hardware", Log(1000, 32000), "memory"),
    Feature("network_latency", "ms", "hardware", Log(1, 160, 0.05), "outgoing"),
    Feature("network_bandwidth", "Mbit/s", "hardware", Log(25, 10000), "outgoing"),
    Feature("tasks", "1", "plan", Log(1, 64), "subtasks on the host, of all operators"),
    Feature("cpu_load", "share", "cost", Log(1e-2, 1e2), "nominal demand over capacity"),
    Feature("network_load", "share", "cost", Log(1e-4, 1e2), "nominal traffic over bandwidth"),
    Feature("memory_load", "share", "cost", Log(1e-2, 10), "engine and windows over RAM"),
    Feature("cpu_used", "share", "physics", _UTILISATION, "CPU in use under backpressure"),
    Feature("nic_used", "share", "physics", Log(1e-4, 1e2), "outgoing bandwidth in use, likewise"),
    Feature("memory_used", "share", "physics", Log(1e-2, 10), "RAM in use"),
    Feature("burst_load", "share", "composed", Log(1e-2, 1e2, 1e-4), "that independent bursts add to the use of CPU"),
    Feature("bursts", "1", "composed", Log(1, 16, 0.5), "equal sources that would burst like that"),
    Feature("burst_s", "s", "composed", _SECONDS, "mean of a burst"),
)

CONTEXT: tuple[Feature, ...] = (
    Feature("throughput_per_s", "1/s", "physics", Log(1e-2, 1e4, 1e-6), "the rate model's T"),
    Feature("processing_latency_s", "s", "physics", Log(1e-2, 1e2, 1e-4), "its Lp"),
    Feature("e2e_latency_s", "s", "physics", Log(1e-2, 1e2, 1e-4), "its Le"),
    Feature("backpressured", "1", "physics", Linear(0, 1), "its probability of RO"),
    Feature("success", "1", "physics", Linear(0, 1), "its probability of S"),
    Feature("horizon_s", "s", "physics", _SECONDS, "length of the run"),
    Feature("results", "tuples", "physics", Log(1, 1e5, 1e-3), "of the run, expected"),
    Feature("utilisation", "share", "physics", Log(1e-1, 1e1, 1e-3), "highest nominal utilisation"),
    Feature("ingested", "share", "physics", Log(1e-2, 1, 1e-5), "of the most slowed source"),
    Feature("chances", "1", "physics", Log(1e-1, 1e3, 1e-4), "expected independent chances of a result in the run"),
    Feature("lag_share", "1", "physics", Log(1e-3, 1, 1e-6), "of the run that the empty start costs"),
    Feature("blocked", "share", "physics", Linear(0, 1), "operators whose input channels are full"),
    Feature("peak_pressure", "share", "physics", _UTILISATION, "highest utilisation while inputs are at their peaks"),
    Feature("peak_left_s", "s", "physics", _SECONDS, "of work that a peak leaves"),
    Feature("peaks", "1", "physics", Log(1e-1, 1e3, 1e-3), "of the longest kind in the run"),
    Feature("busiest", "1", "physics", Log(1, 10), "input of the busiest subtask over the mean"),
    Feature("channel_s", "s", "physics", _SECONDS, "on the way, summed over the operators"),
    Feature("queue_s", "s", "physics", _SECONDS, "in service and waiting for it, likewise"),
    Feature("window_s", "s", "physics", _SECONDS, "in windows, likewise"),
    Feature("result_delay_s", "s", "composed", _SECONDS, "the rate model's delay of results"),
    Feature("checkpoint_duration_s", "s", "composed", _SECONDS, "of a checkpoint, by the rate model; 0 without any"),
    Feature("checkpoint_bytes", "bytes", "composed", Log(1e3, 1e9, 1.0), "of a checkpoint, likewise"),
    Feature("checkpoint_interval_s", "s", "composed", _SECONDS, "from one to the next; 0 without any"),
    Feature("sync_s", "s", "composed", _SECONDS, "for which one stops a task"),
    Feature("aligned", "0 or 1", "composed", _FLAG, "barriers wait for each other"),
    Feature("exactly_once", "0 or 1", "composed", _FLAG, "results wait for their checkpoint"),
    Feature("gc_pause_s", "s", "composed", _SECONDS, "pause of a garbage collector; 0 for none"),
    Feature("gc_interval_s", "s", "composed", _SECONDS, "mean time between these"),
    Feature("jitter_scv", "1", "composed", Log(1e-2, 2, 1e-3), "variability of a machine's speed"),
    Feature("debloat_s", "s", "composed", _SECONDS, "that buffers may hold; 0 if their size is fixed"),
    Feature("watermark_interval_s", "s", "composed", _SECONDS, "between watermarks"),
    Feature("sources", "1", "composed", Log(1, 16), "of the job"),
    Feature("operators", "1", "composed", Log(2, 64), "of the job"),
    Feature("subtasks", "1", "composed", Log(2, 256), "of the job"),
)
"""Features of the plan as a whole, beside the graph's nodes; their values come from models.job_columns.plan_physics."""

FEATURES: Mapping[str, tuple[Feature, ...]] = {
    "source": (
        Feature("event_rate", "tuples/s", "data", Log(20, 25600), "arriving at the broker"),
        *(Feature(f"{name}s", "values", "data", Linear(0, 10), "in a record") for name in _TYPES),
        Feature("peak_share", "share", "demand", Linear(0, 1), "of the time for which arrivals are above their mean"),
        *_EVERY_OPERATOR,
    ),
    "filter": (
        Feature("function", "", "operator", OneHot(literal_values(FilterFunction)), "comparison"),
        Feature("literal_type", "", "operator", OneHot(_TYPES), "of the comparison's literal"),
        Feature("selectivity", "1", "data", _SELECTIVITY, "Definition 6"),
        *_EVERY_OPERATOR,
    ),
    "map": (
        Feature("selectivity", "1", "data", Log(1e-2, 1e2), "output per input record"),
        *_EVERY_OPERATOR,
    ),
    "aggregate": (
        Feature("function", "", "operator", OneHot(literal_values(AggregateFunction)), "of values"),
        Feature("value_type", "", "operator", OneHot(_TYPES), "of the values to aggregate"),
        Feature("group_by", "", "operator", OneHot(("none", *_TYPES)), "data type"),
        Feature("selectivity", "1", "data", _SELECTIVITY, "Definition 8, expected"),
        *_WINDOW,
        *_EVERY_OPERATOR,
    ),
    "join": (
        Feature("key_type", "", "operator", OneHot(_TYPES), "data type of the join key"),
        Feature("selectivity", "1", "data", _SELECTIVITY, "Definition 7; 0 if unknown"),
        Feature("amplification", "1", "data", Log(1e-3, 10, 1e-6), "measured output per input"),
        Feature("measured", "0 or 1", "data", _FLAG, "amplification is given, not selectivity"),
        *_WINDOW,
        *_EVERY_OPERATOR,
    ),
    "async": (
        Feature("selectivity", "1", "data", Log(1e-2, 1e2), "output per answer"),
        Feature("call_s", "s", "cost", _SECONDS, "mean time to an answer"),
        Feature("call_scv", "1", "cost", Log(1e-2, 2, 1e-3), "variability of that"),
        Feature("call_load", "share", "cost", _UTILISATION, "of its places for calls, nominal"),
        Feature("ordered", "0 or 1", "operator", _FLAG, "answers leave in the order of their records"),
        *_EVERY_OPERATOR,
    ),
    "sink": _EVERY_OPERATOR,
    "host": _HOST,
}
"""Features of each node type, in the order of the network's inputs. Kinds that are not here cannot be learned."""

NODE_TYPES: tuple[str, ...] = tuple(FEATURES)
HOST = NODE_TYPES.index("host")
SINK = NODE_TYPES.index("sink")
LEARNED: tuple[str, ...] = NODE_TYPES[:HOST]
"""Kinds of operators that have features of their own; others are seen as one of these (`node_type`)."""
CALLING, PASSING = "async", "map"
"""Node types of operators that call, and of those that are like no other."""

CONTEXT_WIDTH: int = width(CONTEXT)
"""Number of inputs made of a plan as a whole."""

WIDTHS: tuple[int, ...] = tuple(width(FEATURES[kind]) for kind in NODE_TYPES)
"""Number of inputs of each node type, in the order of NODE_TYPES."""

_ALL: tuple[tuple[str, Feature], ...] = (
    *((kind, feature) for kind in NODE_TYPES for feature in FEATURES[kind]),
    *(("plan", feature) for feature in CONTEXT),
)

REVISION = 20
"""Number that grows where a feature of the same name gets other values: most often because the rate model changes."""

FEATURE_VERSION: str = hashlib.sha256(
    "\n".join([*(f"{node}|{feature.identity}" for node, feature in _ALL), f"revision {REVISION}"]).encode()
).hexdigest()[:12]
"""Version of the features: 12 hex digits over name, unit, group and encoding of each, and the revision."""


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """Row of the documentation's table of features."""

    node: str
    feature: str
    unit: str
    group: str
    encoding: str
    meaning: str


def table() -> tuple[FeatureRow, ...]:
    """Table of every feature of every node type, and of the plan."""
    return tuple(
        FeatureRow(node, feature.name, feature.unit, feature.group, str(feature.encoding), feature.meaning)
        for node, feature in _ALL
    )


@cache
def node_type(kind: str) -> str:
    """Node type as which models see operators of a kind: the kind itself or, if it has no features of its own, the type
    of those that call, if it does, or of the kind that its records cost like.

    So a new kind changes no inputs of others. What it does is in the numbers that all operators have: its rates and
    costs, and what the rate model finds there.
    """
    if kind in LEARNED:
        return kind
    spec = BY_KIND[kind]
    if issubclass(spec, Calling) and not spec.is_sink:
        return CALLING
    return node_type(spec.costs_like or PASSING)
