"""Filters for rows of a corpus that a model may learn from: the restricted ranges of generalisation experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scenarios.spaces.parameter_space import FEATURES

if TYPE_CHECKING:
    from models.dataset import Dataset


class RowFilter(Protocol):
    """Named selection of rows; the name decides where a model that learned from them is kept."""

    @property
    def name(self) -> str:
        """Name of the rows, for people and for folder names."""

    def mask(self, dataset: Dataset) -> np.ndarray:
        """Whether each row belongs. [G]"""


@dataclass(frozen=True, slots=True)
class Within:
    """Filter for rows whose `feature` lies in [low, high]; a hardware feature, on every host in use.

    feature: a key of `Dataset.about`, or one of scenarios.spaces.parameter_space.FEATURES.
    """

    feature: str
    low: float
    high: float

    @property
    def name(self) -> str:
        """Name such as `ram_mb-1000-to-16000`."""
        return f"{self.feature}-{self.low:g}-to-{self.high:g}"

    def mask(self, dataset: Dataset) -> np.ndarray:
        """Whether each row lies within. [G]"""
        ends = ("_min", "_max") if self.feature in FEATURES else ("", "")
        least, most = (dataset.about[self.feature + end] for end in ends)
        return np.asarray((least >= self.low) & (most <= self.high))
