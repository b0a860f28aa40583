"""Parameter spaces from which random scenarios are drawn; another space is one more `ParameterSpace`.

Besides Costream's training space there are spaces with hardware between its values (Exp. 3), and beyond its ranges
(Exp. 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from twin.query import AggregateFunction, DataType, FilterFunction

Weights = Mapping[int, float]
"""Outcomes with their relative frequencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpace:
    """Distribution of random scenarios. Tuples are equally likely values; pairs named `..._range` are ends, both
    included."""

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
