"""Random scenarios over a parameter space; `costream` is the training space of Costream (Table II, Section VI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from optimizers.interface import plan_on
from optimizers.rules import PlacementSpace
from scenarios.spaces.draws import Between, Draw, OneOf
from twin.cluster import Cluster, Host
from twin.deployment import steady_rates
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.profiles import STORM, EngineProfile, Memory, PerKind, PerType
from twin.query import (
    Aggregate,
    AnyOperator,
    Columns,
    CountWindow,
    DataType,
    Filter,
    Join,
    Query,
    Sink,
    Source,
    Stream,
    TimeWindow,
    Window,
)
from twin.randomness import random_stream
from twin.scenario import RunSettings, Scenario
from twin.workload import Poisson, Workload

if TYPE_CHECKING:
    from twin.query import AggregateFunction, FilterFunction


# engines -------------------------------------------------------------------------------------------------------------
# Engine profiles drawn at random, for models of engines whose constants nobody has measured yet.
#
# A common factor on costs per record is log-uniform in the three decades below the `storm` profile, and each constant
# has a log-normal factor of its own; `flink` and `brisk` lie inside. Channels, batches, variability and the memory law
# are drawn as well.


DECADES = 3.0
OWN = 0.5
"""Standard deviation of the log of each constant's own factor."""
SERIALISATION = 0.6
"""Power of the common factor that applies to (de)serialisation: all engines move bytes at much the same speed."""


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draws a number, log-uniform between low and high > 0."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_engine(rng: np.random.Generator) -> EngineProfile:
    """Draws an engine profile; all of its numbers come from `rng`."""
    factor = 10.0 ** (-DECADES * float(rng.random()))

    def cost(value: float, power: float = 1.0) -> float:
        return float(value * factor**power * np.exp(OWN * rng.standard_normal()))

    kinds = STORM.record_us.model_dump(exclude_none=True)
    values = STORM.value_us.model_dump()
    return EngineProfile(
        name="random",
        record_us=PerKind(**{kind: cost(micros) for kind, micros in kinds.items()}),
        value_us=PerType(**{kind: cost(micros) for kind, micros in values.items()}),
        result_us=cost(STORM.result_us),
        scan_us=cost(STORM.scan_us),
        serialise_ns_per_byte=cost(STORM.serialise_ns_per_byte, SERIALISATION),
        deserialise_ns_per_byte=cost(STORM.deserialise_ns_per_byte, SERIALISATION),
        service_scv=log_uniform(rng, 0.05, 2.0),
        value_bytes=PerType(ints=int(rng.integers(4, 9)), strings=int(rng.integers(12, 33)), doubles=8),
        record_bytes=int(rng.integers(8, 65)),
        channel_records=round(log_uniform(rng, 64, 8192)),
        memory=_memory(rng),
        context_switch=log_uniform(rng, 0.005, 0.2) if rng.random() < 0.4 else 0.0,
        **_batches(rng),
    )


def _memory(rng: np.random.Generator) -> Memory:
    return Memory(
        base_mb=log_uniform(rng, 100, 800),
        object_overhead=float(rng.uniform(2, 10)),
        onset=float(rng.uniform(0.4, 0.9)),
        crash=1.0,
        slowdown_at_crash=float(rng.uniform(1.5, 6)),
    )


def _batches(rng: np.random.Generator) -> dict[str, Any]:
    """Batches of an engine: half of the engines send each record at once, a quarter send batches of records, a quarter
    fill buffers of bytes."""
    kind, flush_s = float(rng.random()), log_uniform(rng, 0.002, 0.2)
    if kind < 0.5:
        return {}
    if kind < 0.75:
        return {"batch_records": round(log_uniform(rng, 2, 500)), "flush_s": flush_s}
    return {"buffer_bytes": log_uniform(rng, 1024, 65_536), "flush_s": flush_s}


# spaces --------------------------------------------------------------------------------------------------------------
# Parameter spaces from which random scenarios are drawn; another space is one more `ParameterSpace`.
#
# Besides Costream's training space there are spaces with hardware between its values (Exp. 3), and beyond its ranges
# (Exp. 4).


Weights = Mapping[int, float]
"""Outcomes with their relative frequencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTier:
    """Hosts of one kind: how many, and their features, as in `ParameterSpace`. name: their names begin with it."""

    name: str
    hosts_range: tuple[int, int] | Draw
    cpu_percent: tuple[float, ...] | Draw
    ram_mb: tuple[float, ...] | Draw
    bandwidth_mbps: tuple[float, ...] | Draw
    latency_ms: tuple[float, ...] | Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpace:
    """Distribution of random scenarios. Records are equally likely values; pairs named `..._range` are ends, both
    included. A `Draw` in place of either draws as it says. sliding_share, counted_share: of windows. tiers: groups of
    hosts, instead of the hosts of the space."""

    sources: Weights
    filters: Weights
    aggregated_share: float
    rates_per_s: Mapping[int, tuple[float, ...] | Draw] = field(metadata={"key": "number of sources"})
    values_range: tuple[int, int] | Draw
    data_types: tuple[DataType, ...]
    filter_functions: tuple[FilterFunction, ...]
    filter_selectivity_range: tuple[float, float] | Draw
    window_sizes_records: tuple[int, ...] | Draw
    window_sizes_s: tuple[float, ...] | Draw
    slide_share_range: tuple[float, float] | Draw
    aggregate_functions: tuple[AggregateFunction, ...]
    aggregate_types: tuple[DataType, ...]
    group_types: tuple[DataType | None, ...]
    groups_range: tuple[int, int] | Draw
    join_selectivity_range: tuple[float, float] | Draw
    join_amplification_max: float
    hosts_range: tuple[int, int] | Draw
    cpu_percent: tuple[float, ...] | Draw
    ram_mb: tuple[float, ...] | Draw
    bandwidth_mbps: tuple[float, ...] | Draw
    latency_ms: tuple[float, ...] | Draw
    sliding_share: float = 0.5
    counted_share: float = 0.5
    tiers: tuple[HostTier, ...] = ()


CPU_PERCENT = (50.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0)
BANDWIDTH_MBPS = (25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0, 10000.0)
LATENCY_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
COSTREAM = ParameterSpace(
    sources={1: 35, 2: 34, 3: 31},
    filters={1: 35, 2: 34, 3: 24, 4: 6},
    aggregated_share=0.5,
    rates_per_s={
        1: (100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600),
        2: (50, 100, 250, 500, 750, 1000, 1250, 1500, 1750, 2000),
        3: (20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000),
    },
    values_range=(3, 10),
    data_types=("int", "string", "double"),
    filter_functions=("<", ">", "<=", ">=", "!=", "startswith", "endswith"),
    filter_selectivity_range=(0.1, 1.0),
    window_sizes_records=(5, 10, 20, 40, 80, 160, 320, 640),
    window_sizes_s=(0.25, 0.5, 1, 2, 4, 8, 16),
    slide_share_range=(0.3, 0.7),
    aggregate_functions=("min", "max", "mean", "avg"),
    aggregate_types=("int", "double"),
    group_types=("int", "string", "double", None),
    groups_range=(2, 1000),
    join_selectivity_range=(1.5e-6, 0.2),
    join_amplification_max=2.0,
    hosts_range=(2, 6),
    cpu_percent=CPU_PERCENT,
    ram_mb=(1000, 2000, 4000, 8000, 16000, 24000, 32000),
    bandwidth_mbps=BANDWIDTH_MBPS,
    latency_ms=LATENCY_MS,
)
"""Table II of Costream, with the frequencies of its Section VI."""


def chains(*lengths: int) -> ParameterSpace:
    """Space of chains: a source, filters in a row (each of `lengths` equally often), a sink; no window, as in
    Costream's Exp. 5."""
    return replace(COSTREAM, sources={1: 1}, filters=dict.fromkeys(lengths, 1), aggregated_share=0)


Feature = Literal["ram_mb", "cpu_percent", "bandwidth_mbps", "latency_ms"]
FEATURES: tuple[Feature, ...] = ("ram_mb", "cpu_percent", "bandwidth_mbps", "latency_ms")

INTERPOLATION = replace(
    COSTREAM,
    ram_mb=(1500, 3000, 6000, 12000, 20000, 28000),
    cpu_percent=(75, 150, 250, 350, 450, 550, 650, 750),
    bandwidth_mbps=(35, 75, 150, 250, 550, 1200, 1900, 4800, 8000),
    latency_ms=(3, 7, 15, 30, 60, 120),
)
"""Space of Costream's Table IV A: no value of hardware is one of Table II."""


@dataclass(frozen=True, slots=True)
class Extrapolation:
    """Extrapolation, a column of Costream's Table V: trained where `feature` is in `trained` (both ends included), and
    evaluated at `asked`."""

    towards: Literal["stronger", "weaker"]
    feature: Feature
    trained: tuple[float, float]
    asked: tuple[float, ...]

    @property
    def name(self) -> str:
        """Name of the space, such as `stronger-ram`."""
        return f"{self.towards}-{self.feature.partition('_')[0]}"

    @property
    def space(self) -> ParameterSpace:
        """Costream's space with values of the feature that no training run had."""
        values: Any = {self.feature: self.asked}
        return replace(COSTREAM, **values)


EXTRAPOLATIONS: tuple[Extrapolation, ...] = (
    Extrapolation("stronger", "ram_mb", (1000, 16000), (24000, 32000)),
    Extrapolation("stronger", "cpu_percent", (50, 600), (700, 800)),
    Extrapolation("stronger", "bandwidth_mbps", (25, 3200), (6400, 10000)),
    Extrapolation("stronger", "latency_ms", (5, 160), (1, 2)),
    Extrapolation("weaker", "ram_mb", (4000, 32000), (1000, 2000)),
    Extrapolation("weaker", "cpu_percent", (200, 800), (50, 100)),
    Extrapolation("weaker", "bandwidth_mbps", (100, 10000), (25, 50)),
    Extrapolation("weaker", "latency_ms", (1, 40), (80, 160)),
)
"""Columns of Costream's Table V. It prints "64k, 10k" Mbit/s where Table II has 6400 and 10000, which are meant."""

UNSEEN_HARDWARE: Mapping[str, ParameterSpace] = {
    "costream-between": INTERPOLATION,
    **{f"costream-{each.name}": each.space for each in EXTRAPOLATIONS},
}
"""Spaces of unseen hardware by the name that `twin corpus --space` takes."""


# scenarios -----------------------------------------------------------------------------------------------------------
# Choices that Table II leaves open: filters fall on the branches (one a source, and one after the joins) at random, so
# that several may follow one another; joins are left-deep; the aggregation, if any, comes last. A source's record has 3
# to 10 values, each of a random type (the authors' public generator reads the table as 3 to 10 of each type). Filter
# selectivities are uniform on (0.1, 1), the number of distinct groups is log-uniform on (2, 1000), and a join's
# selectivity is log-uniform on (1.5e-6, 0.2), lowered where a join would otherwise emit more than twice what it takes
# in. Hosts are drawn feature by feature, and the plan uniformly from those that obey Costream's three rules.
#
# Costream's own training queries have no two filters in a row ("only seen 1 subsequent filter operator", Exp. 5), and
# its shares of 1/2/3/4 filters are those of its query types: 35/34/31 % if a linear query has one filter, a join of
# two streams two, one of three streams three or four. A model that is to know chains must see them, so here they stay
# in; the rows without (`filter_chain` at most 1) are what Exp. 5 trains on.


T = TypeVar("T")
STRING_FUNCTIONS = ("startswith", "endswith")


def random_scenario(space: ParameterSpace, seed: int, settings: RunSettings) -> Scenario:
    """Draws a scenario from the space. The same space and seed give the same scenario; the run uses `seed` as well.

    Raises ValueError if seed is negative.
    """
    rng = random_stream(seed, "scenario")
    query, rates = random_query(space, rng)
    cluster = random_cluster(space, rng)
    hosts = PlacementSpace(query, cluster).draw(rng)
    return Scenario(
        name=f"random-{seed}",
        query=query,
        cluster=cluster,
        plan=ExecutionPlan(placement={operator: (host,) for operator, host in hosts.items()}),
        workload=_poisson(rates),
        run=settings.model_copy(update={"seed": seed}),
    )


def on_random_hardware(base: Scenario, space: ParameterSpace, seed: int) -> Scenario:
    """Scenario with rates, hosts and placement drawn from the space; all else stays. The same seed gives the same draw.

    Raises BadInput if the space has no rates for so many sources.
    """
    rng = random_stream(seed, "hardware")
    sources = [source.name for source in base.query.sources]
    if len(sources) not in space.rates_per_s:
        known = "/".join(map(str, space.rates_per_s))
        raise BadInput(f"{base.name} has {len(sources)} sources, the space rates for {known}; take another scenario")
    rates = _rates(space, rng, sources)
    cluster = random_cluster(space, rng)
    placement = PlacementSpace(base.query, cluster).draw(rng)
    workload = base.workload.model_copy(update={"arrivals": _poisson(rates).arrivals})
    changed = {"cluster": cluster, "plan": plan_on(base, placement), "workload": workload}
    return Scenario(**{**dict(base), **changed})


def random_query(space: ParameterSpace, rng: np.random.Generator) -> tuple[Query, dict[str, float]]:
    """Draws a query, and the rate of each of its sources in records/s."""
    shape = _Shape.draw(space, rng)
    rates = _rates(space, rng, shape.source_names)
    return _bounded(_query(space, rng, shape), rates, space.join_amplification_max), rates


def random_cluster(space: ParameterSpace, rng: np.random.Generator) -> Cluster:
    """Draws a cluster of hosts, tier by tier and feature by feature."""
    groups: list[tuple[str, HostTier | ParameterSpace]] = [(tier.name, tier) for tier in space.tiers]
    groups = groups or [("host", space)]
    return Cluster(hosts=tuple(host for name, group in groups for host in _hosts(name, group, rng)))


def _hosts(name: str, group: HostTier | ParameterSpace, rng: np.random.Generator) -> list[Host]:
    return [
        Host(
            name=f"{name}{index}",
            cpu_percent=_pick(rng, group.cpu_percent),
            ram_mb=_pick(rng, group.ram_mb),
            bandwidth_mbps=_pick(rng, group.bandwidth_mbps),
            latency_ms=_pick(rng, group.latency_ms),
        )
        for index in range(_count(rng, group.hosts_range))
    ]


def _rates(space: ParameterSpace, rng: np.random.Generator, sources: Sequence[str]) -> dict[str, float]:
    return {name: float(_pick(rng, space.rates_per_s[len(sources)])) for name in sources}


def _poisson(rates: Mapping[str, float]) -> Workload:
    return Workload(arrivals={name: Poisson(rate_per_s=rate) for name, rate in rates.items()})


@dataclass(frozen=True, slots=True)
class _Shape:
    """Shape of a query: number of filters on each branch (one a source, and a last one after all joins)."""

    sources: int
    filters: tuple[int, ...]
    aggregated: bool

    @classmethod
    def draw(cls, space: ParameterSpace, rng: np.random.Generator) -> _Shape:
        sources = _weighted(rng, space.sources)
        branches = sources + (sources > 1)
        falls = rng.integers(branches, size=_weighted(rng, space.filters))
        filters = tuple(int(np.sum(falls == branch)) for branch in range(branches))
        return cls(sources, filters, bool(rng.random() < space.aggregated_share))

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(f"source{index}" for index in range(self.sources))


def _query(space: ParameterSpace, rng: np.random.Generator, shape: _Shape) -> Query:
    operators: list[AnyOperator] = []
    streams: list[Stream] = []

    def add(operator: AnyOperator, *producers: str) -> str:
        operators.append(operator)
        streams.extend(Stream(producer=producer, consumer=operator.name) for producer in producers)
        return operator.name

    def add_filters(head: str, count: int) -> str:
        for _ in range(count):
            head = add(_filter(space, rng, f"filter{sum(each.thins for each in operators)}"), head)
        return head

    heads = [
        add_filters(add(Source(name=name, columns=_columns(space, rng))), count)
        for name, count in zip(shape.source_names, shape.filters, strict=False)
    ]
    head = heads[0]
    for index, other in enumerate(heads[1:]):
        head = add(_join(space, rng, f"join{index}"), head, other)
    if shape.sources > 1:
        head = add_filters(head, shape.filters[-1])
    if shape.aggregated:
        head = add(_aggregate(space, rng), head)
    add(Sink(name="sink"), head)
    return Query(operators=tuple(operators), streams=tuple(streams))


def _columns(space: ParameterSpace, rng: np.random.Generator) -> Columns:
    types = rng.integers(len(space.data_types), size=_count(rng, space.values_range))
    return Columns(**{f"{name}s": int(np.sum(types == index)) for index, name in enumerate(space.data_types)})


def _filter(space: ParameterSpace, rng: np.random.Generator, name: str) -> Filter:
    function = _pick(rng, space.filter_functions)
    literal: DataType = "string" if function in STRING_FUNCTIONS else _pick(rng, space.data_types)
    selectivity = _within(rng, space.filter_selectivity_range)
    return Filter(name=name, selectivity=selectivity, function=function, literal_type=literal)


def _join(space: ParameterSpace, rng: np.random.Generator, name: str) -> Join:
    selectivity = _within(rng, space.join_selectivity_range, log=True)
    return Join(name=name, window=_window(space, rng), key_type=_pick(rng, space.data_types), selectivity=selectivity)


def _aggregate(space: ParameterSpace, rng: np.random.Generator) -> Aggregate:
    group_by = _pick(rng, space.group_types)
    groups = round(_within(rng, space.groups_range, log=True))
    return Aggregate(
        name="aggregate",
        window=_window(space, rng),
        function=_pick(rng, space.aggregate_functions),
        value_type=_pick(rng, space.aggregate_types),
        group_by=group_by,
        groups=1 if group_by is None else groups,
    )


def _window(space: ParameterSpace, rng: np.random.Generator) -> Window:
    sliding, counting = rng.random(2) < (space.sliding_share, space.counted_share)
    share = _within(rng, space.slide_share_range) if sliding else None
    if counting:
        size_records = _pick(rng, space.window_sizes_records)
        slide_records = None if share is None else max(1, round(share * size_records))
        return CountWindow(size_records=size_records, slide_records=slide_records)
    size_s = _pick(rng, space.window_sizes_s)
    return TimeWindow(size_s=size_s, slide_s=None if share is None else share * size_s)


def _bounded(query: Query, rates: Mapping[str, float], amplification_max: float) -> Query:
    """Query with lowered selectivities of joins, which emit at most `amplification_max` records an input record."""
    for name in [operator.name for operator in query.operators if operator.joins]:  # in data-flow order
        flow = steady_rates(query, rates)[name]
        if flow.out_per_s > amplification_max * flow.in_per_s:
            lower = amplification_max * flow.in_per_s / flow.out_per_s
            operators = tuple(each.lowered(lower) if each.name == name else each for each in query.operators)
            query = Query(operators=operators, streams=query.streams)
    return query


def _pick(rng: np.random.Generator, values: Sequence[T] | Draw) -> T:
    """One of the values, or what they draw."""
    if isinstance(values, OneOf | Between):
        drawn: T = values.draw(rng)
        return drawn
    return values[int(rng.integers(len(values)))]


def _within(rng: np.random.Generator, ends: tuple[float, float] | Draw, *, log: bool = False) -> float:
    """Number between both ends, or what they draw."""
    if isinstance(ends, OneOf | Between):
        return float(ends.draw(rng))
    return log_uniform(rng, *ends) if log else float(rng.uniform(*ends))


def _count(rng: np.random.Generator, ends: tuple[int, int] | Draw) -> int:
    """Whole number between both ends, which are included, or what they draw."""
    return int(ends.draw(rng) if isinstance(ends, OneOf | Between) else rng.integers(ends[0], ends[1] + 1))


def _weighted(rng: np.random.Generator, weights: Weights) -> int:
    shares = np.array(list(weights.values()), dtype=float)
    return list(weights)[int(rng.choice(len(shares), p=shares / shares.sum()))]
