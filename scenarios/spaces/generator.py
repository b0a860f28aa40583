"""Random scenarios over a parameter space; `costream` is the training space of Costream (Table II, Section VI).

Choices that Table II leaves open: filters fall on the branches (one a source, and one after the joins) at random, so
that several may follow one another; joins are left-deep; the aggregation, if any, comes last. A source's
tuple has 3 to 10 values, each of a random type (the authors' public generator reads the table as 3 to 10 of each type).
Filter selectivities are uniform on (0.1, 1), the number of distinct groups is log-uniform on (2, 1000), and a join's
selectivity is log-uniform on (1.5e-6, 0.2), lowered where a join would otherwise emit more than twice what it takes in.
Hosts are drawn feature by feature, and the plan uniformly from those that obey Costream's three rules.

Costream's own training queries have no two filters in a row ("only seen 1 subsequent filter operator", Exp. 5), and
its shares of 1/2/3/4 filters are those of its query types: 35/34/31 % if a linear query has one filter, a join of two
streams two, one of three streams three or four. A model that is to know chains must see them, so here they stay in;
the rows without (`filter_chain` at most 1) are what Exp. 5 trains on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from optimizers.enumeration import PlacementSpace
from optimizers.interface import plan_on
from scenarios.spaces.parameter_space import ParameterSpace, Weights
from scenarios.spaces.random_engine import log_uniform
from twin.cluster import Cluster, Host
from twin.errors import BadInput
from twin.flow import steady_rates
from twin.plan import ExecutionPlan
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
    """Draws a query, and the rate of each of its sources in tuples/s."""
    shape = _Shape.draw(space, rng)
    rates = _rates(space, rng, shape.source_names)
    return _bounded(_query(space, rng, shape), rates, space.join_amplification_max), rates


def random_cluster(space: ParameterSpace, rng: np.random.Generator) -> Cluster:
    """Draws a cluster of hosts, feature by feature."""
    low, high = space.hosts_range
    return Cluster(
        hosts=tuple(
            Host(
                name=f"host{index}",
                cpu_percent=_pick(rng, space.cpu_percent),
                ram_mb=_pick(rng, space.ram_mb),
                bandwidth_mbps=_pick(rng, space.bandwidth_mbps),
                latency_ms=_pick(rng, space.latency_ms),
            )
            for index in range(int(rng.integers(low, high + 1)))
        )
    )


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
    low, high = space.values_range
    types = rng.integers(len(space.data_types), size=int(rng.integers(low, high + 1)))
    return Columns(**{f"{name}s": int(np.sum(types == index)) for index, name in enumerate(space.data_types)})


def _filter(space: ParameterSpace, rng: np.random.Generator, name: str) -> Filter:
    function = _pick(rng, space.filter_functions)
    literal: DataType = "string" if function in STRING_FUNCTIONS else _pick(rng, space.data_types)
    selectivity = float(rng.uniform(*space.filter_selectivity_range))
    return Filter(name=name, selectivity=selectivity, function=function, literal_type=literal)


def _join(space: ParameterSpace, rng: np.random.Generator, name: str) -> Join:
    selectivity = log_uniform(rng, *space.join_selectivity_range)
    return Join(name=name, window=_window(space, rng), key_type=_pick(rng, space.data_types), selectivity=selectivity)


def _aggregate(space: ParameterSpace, rng: np.random.Generator) -> Aggregate:
    group_by = _pick(rng, space.group_types)
    groups = round(log_uniform(rng, *space.groups_range))
    return Aggregate(
        name="aggregate",
        window=_window(space, rng),
        function=_pick(rng, space.aggregate_functions),
        value_type=_pick(rng, space.aggregate_types),
        group_by=group_by,
        groups=1 if group_by is None else groups,
    )


def _window(space: ParameterSpace, rng: np.random.Generator) -> Window:
    sliding, counting = rng.random(2) < 0.5
    share = float(rng.uniform(*space.slide_share_range)) if sliding else None
    if counting:
        size_tuples = _pick(rng, space.window_sizes_tuples)
        slide_tuples = None if share is None else max(1, round(share * size_tuples))
        return CountWindow(size_tuples=size_tuples, slide_tuples=slide_tuples)
    size_s = _pick(rng, space.window_sizes_s)
    return TimeWindow(size_s=size_s, slide_s=None if share is None else share * size_s)


def _bounded(query: Query, rates: Mapping[str, float], amplification_max: float) -> Query:
    """Query with lowered selectivities of joins, which emit at most `amplification_max` tuples an input tuple."""
    for name in [operator.name for operator in query.operators if operator.joins]:  # in data-flow order
        flow = steady_rates(query, rates)[name]
        if flow.out_per_s > amplification_max * flow.in_per_s:
            lower = amplification_max * flow.in_per_s / flow.out_per_s
            operators = tuple(each.lowered(lower) if each.name == name else each for each in query.operators)
            query = Query(operators=operators, streams=query.streams)
    return query


def _pick(rng: np.random.Generator, values: Sequence[T]) -> T:
    return values[int(rng.integers(len(values)))]


def _weighted(rng: np.random.Generator, weights: Weights) -> int:
    shares = np.array(list(weights.values()), dtype=float)
    return list(weights)[int(rng.choice(len(shares), p=shares / shares.sum()))]
