"""Features: encodings with fixed ranges that turn raw numbers into inputs of a network.

No statistic is fitted to the data, so nothing of a test set can leak into an encoding, and a value outside the usual
range is extrapolated, not clipped: the model is meant for hardware and rates that it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Group = Literal["operator", "data", "plan", "hardware", "rate", "cost", "demand", "physics"]


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
    """One-hot encoding: an input for each word of a fixed vocabulary; the raw value is the word's index."""

    vocabulary: tuple[str, ...]

    def encode(self, raw_N: np.ndarray) -> np.ndarray:
        """Inputs [N, words] of indices [N]."""
        return np.eye(len(self.vocabulary))[raw_N.astype(int)]

    def __str__(self) -> str:
        return f"one-hot: {' '.join(self.vocabulary)}"


@dataclass(frozen=True, slots=True)
class Feature:
    """Feature: meaning, unit and encoding of a column of `models.job_columns`.

    group: operator, data and hardware are Costream's Table I; plan adds the replicas; rate is derived from arrival
    rates and selectivities, cost from the engine profile as well; demand is the variation of arrivals and keys; physics
    are predictions of the rate model.
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
        return np.array([self.encoding.vocabulary.index(word) for word in values_N])


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
