"""How one raw number becomes an input of the network: encodings with fixed ranges, and the columns that use them.

No statistic is fitted to the data, so nothing of a test set can leak into an encoding, and a value outside the usual
range is extrapolated, not clipped: the model is meant for hardware and rates that it has not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Group = Literal["operator", "data", "plan", "hardware", "rate", "cost", "physics"]


@dataclass(frozen=True, slots=True)
class Log:
    """The logarithm, with `low` at -1 and `high` at 1. Values below `floor` (default low / 1000) count as `floor`."""

    low: float
    high: float
    floor: float | None = None

    @property
    def width(self) -> int:
        """Inputs made of one value."""
        return 1

    def encode(self, raw_N: np.ndarray) -> np.ndarray:
        """[N] -> [N, 1]."""
        floor = self.low / 1000 if self.floor is None else self.floor
        position_N = np.log(np.maximum(raw_N, floor) / self.low) / np.log(self.high / self.low)
        return (2 * position_N - 1)[:, None]

    def __str__(self) -> str:
        return f"log, {self.low:g} to {self.high:g} as -1 to 1"


@dataclass(frozen=True, slots=True)
class Linear:
    """The value itself, with `low` at -1 and `high` at 1."""

    low: float
    high: float

    @property
    def width(self) -> int:
        """Inputs made of one value."""
        return 1

    def encode(self, raw_N: np.ndarray) -> np.ndarray:
        """[N] -> [N, 1]."""
        return (2 * (raw_N - self.low) / (self.high - self.low) - 1)[:, None]

    def __str__(self) -> str:
        return f"linear, {self.low:g} to {self.high:g} as -1 to 1"


@dataclass(frozen=True, slots=True)
class OneHot:
    """One input a word of a fixed vocabulary; the raw value is the word's index."""

    vocabulary: tuple[str, ...]

    @property
    def width(self) -> int:
        """Inputs made of one value."""
        return len(self.vocabulary)

    def encode(self, raw_N: np.ndarray) -> np.ndarray:
        """[N] indices -> [N, width]."""
        return np.eye(self.width)[raw_N.astype(int)]

    def __str__(self) -> str:
        return f"one-hot: {' '.join(self.vocabulary)}"


@dataclass(frozen=True, slots=True)
class Column:
    """One feature of a node: what it means, in which unit, how it is encoded, and how it is read off the node.

    group: operator, data and hardware are Costream's Table I; plan adds the replicas, rate what follows from the
    arrival rates and selectivities, cost what follows from the engine profile as well, physics what the analytic rate
    model makes of all that.
    read: from the node's facts (models.facts) to a number, or to a word of the vocabulary.
    """

    name: str
    unit: str
    group: Group
    encoding: Log | Linear | OneHot
    meaning: str
    read: Callable[[Any], Any]

    def raw(self, facts: object) -> float:
        """The value as a number; a word as its index. Raises ValueError for a word outside the vocabulary."""
        value = self.read(facts)
        return self.encoding.vocabulary.index(value) if isinstance(self.encoding, OneHot) else value

    @property
    def identity(self) -> str:
        """Everything that decides what the network sees of this column."""
        return f"{self.name}|{self.unit}|{self.group}|{self.encoding!r}"


def encode(columns: tuple[Column, ...], raw_NxC: np.ndarray) -> np.ndarray:
    """Raw values [N, columns] -> inputs [N, sum of widths], float32."""
    parts = [column.encoding.encode(raw_NxC[:, index]) for index, column in enumerate(columns)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def width(columns: tuple[Column, ...]) -> int:
    """Inputs made of one node."""
    return sum(column.encoding.width for column in columns)


def selected(columns: tuple[Column, ...], groups: frozenset[str]) -> np.ndarray:
    """Indices of the inputs that belong to `groups`."""
    keep = [np.full(column.encoding.width, column.group in groups) for column in columns]
    return np.flatnonzero(np.concatenate(keep))
