"""Hardware that Costream's training space does not have: between its values (Exp. 3) and beyond its ranges (Exp. 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from scenarios.spaces.parameter_space import COSTREAM, ParameterSpace

Feature = Literal["ram_mb", "cpu_percent", "bandwidth_mbps", "latency_ms"]
FEATURES: tuple[Feature, ...] = ("ram_mb", "cpu_percent", "bandwidth_mbps", "latency_ms")

INTERPOLATION = replace(
    COSTREAM,
    ram_mb=(1500, 3000, 6000, 12000, 20000, 28000),
    cpu_percent=(75, 150, 250, 350, 450, 550, 650, 750),
    bandwidth_mbps=(35, 75, 150, 250, 550, 1200, 1900, 4800, 8000),
    latency_ms=(3, 7, 15, 30, 60, 120),
)
"""Table IV A: no value of hardware is one of Table II."""


@dataclass(frozen=True, slots=True)
class Extrapolation:
    """One column of Table V: trained where `feature` is in `trained` (both ends included), asked about `asked`."""

    towards: Literal["stronger", "weaker"]
    feature: Feature
    trained: tuple[float, float]
    asked: tuple[float, ...]

    @property
    def name(self) -> str:
        """The name of the space, such as `stronger-ram`."""
        return f"{self.towards}-{self.feature.partition('_')[0]}"

    @property
    def space(self) -> ParameterSpace:
        """Costream's, but for the feature, which no training run had."""
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
"""Table V. It prints "64k, 10k" Mbit/s where Table II has 6400 and 10000, which is what is meant here."""

UNSEEN_HARDWARE: Mapping[str, ParameterSpace] = {
    "costream-between": INTERPOLATION,
    **{f"costream-{each.name}": each.space for each in EXTRAPOLATIONS},
}
"""Spaces by the name that `twin corpus --space` takes."""
