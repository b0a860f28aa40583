"""What random scenarios are drawn from; another space is one more `ParameterSpace`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.query import AggregateFunction, DataType, FilterFunction

Weights = Mapping[int, float]
"""Outcome and its relative frequency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpace:
    """What is drawn from where. Tuples are equally likely values; pairs named `..._range` are ends, both included."""

    sources: Weights
    filters: Weights
    aggregated_share: float
    rates_per_s: Mapping[int, tuple[float, ...]] = field(metadata={"key": "number of sources"})
    values_range: tuple[int, int]
    data_types: tuple[DataType, ...]
    filter_functions: tuple[FilterFunction, ...]
    filter_selectivity_range: tuple[float, float]
    window_sizes_tuples: tuple[int, ...]
    window_sizes_s: tuple[float, ...]
    slide_share_range: tuple[float, float]
    aggregate_functions: tuple[AggregateFunction, ...]
    aggregate_types: tuple[DataType, ...]
    group_types: tuple[DataType | None, ...]
    groups_range: tuple[int, int]
    join_selectivity_range: tuple[float, float]
    join_amplification_max: float
    hosts_range: tuple[int, int]
    cpu_percent: tuple[float, ...]
    ram_mb: tuple[float, ...]
    bandwidth_mbps: tuple[float, ...]
    latency_ms: tuple[float, ...]


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
    window_sizes_tuples=(5, 10, 20, 40, 80, 160, 320, 640),
    window_sizes_s=(0.25, 0.5, 1, 2, 4, 8, 16),
    slide_share_range=(0.3, 0.7),
    aggregate_functions=("min", "max", "mean", "avg"),
    aggregate_types=("int", "double"),
    group_types=("int", "string", "double", None),
    groups_range=(2, 1000),
    join_selectivity_range=(1.5e-6, 0.2),
    join_amplification_max=2.0,
    hosts_range=(2, 6),
    cpu_percent=(50, 100, 200, 300, 400, 500, 600, 700, 800),
    ram_mb=(1000, 2000, 4000, 8000, 16000, 24000, 32000),
    bandwidth_mbps=(25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 10000),
    latency_ms=(1, 2, 5, 10, 20, 40, 80, 160),
)
"""Table II of Costream, with the frequencies of its Section VI."""


def chains(*lengths: int) -> ParameterSpace:
    """One source, so many filters in a row (each length alike often), a sink; no window, as in Costream's Exp. 5."""
    return replace(COSTREAM, sources={1: 1}, filters=dict.fromkeys(lengths, 1), aggregated_share=0)
