"""What operators with a window share: the trait that everybody else asks for."""

from __future__ import annotations

import numpy as np

from twin.kinds.operator import KeyedOperator
from twin.windows import Window


class Windowed(KeyedOperator):
    """Looks at the tuples of its window together, and emits results only when it is evaluated."""

    window: Window

    @property
    def hands_over(self) -> str:
        """See OperatorBase."""
        return "untimed"

    @property
    def memory_s(self) -> float:
        """See OperatorBase."""
        return self.window.size if self.window.policy == "time" else 0.0

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Its keys."""
        return attributes & frozenset(self.partition_by or ())


def content_and_fires(
    window: Window, in_per_s: np.ndarray, bursts_per_s: np.ndarray, burst_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Expected content (tuples) and evaluations a second of anything. Nothing flows: nothing is evaluated."""
    if window.policy == "count":
        return np.where(in_per_s > 0, window.size, 0.0), in_per_s / window.slide
    share = np.minimum(1.0, bursts_per_s * (window.size + burst_s))  # of the evaluations that see a burst
    fires = np.where(in_per_s > 0, share / window.slide, 0.0)
    return np.divide(in_per_s * window.size, share, out=np.zeros_like(in_per_s), where=share > 0), fires
