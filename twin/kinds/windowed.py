"""Base of operators with a window, and the rates of its evaluations."""

from __future__ import annotations

import numpy as np

from twin.kinds.operator import KeyedOperator
from twin.windows import Window


class Windowed(KeyedOperator):
    """Base of operators that look at the tuples of a window together, and emit results only when it is evaluated."""

    window: Window

    @property
    def hands_over(self) -> str:
        """Kind of output: results without event time."""
        return "untimed"

    @property
    def memory_s(self) -> float:
        """Size of a time window, in seconds; 0 for a count window."""
        return self.window.size if self.window.policy == "time" else 0.0

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Attributes by which the operator is keyed."""
        return attributes & frozenset(self.partition_by or ())


def content_and_fires(
    window: Window, in_per_s: np.ndarray, bursts_per_s: np.ndarray, burst_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Expected content (tuples) of a window, and evaluations a second that find any; 0 where nothing flows. [N] each"""
    if window.policy == "count":
        return np.where(in_per_s > 0, window.size, 0.0), in_per_s / window.slide
    share = np.minimum(1.0, bursts_per_s * (window.size + burst_s))  # share of evaluations that see a burst
    fires = np.where(in_per_s > 0, share / window.slide, 0.0)
    return np.divide(in_per_s * window.size, share, out=np.zeros_like(in_per_s), where=share > 0), fires
