"""What the tuples of an operator cost where they come on several streams: each by its own, all together by their rates.

Axes are those of `twin.rates.layout`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from twin.job import Component, Edge, Job


class Inputs(NamedTuple):
    """A number of every input tuple: seconds, bytes.

    mean_o: by operator, if each of its streams brings as many. beyond_s: what a tuple of a stream has beyond that of
    its consumer, 0 of an only input. ends: (stream, consumer) where it is not.
    """

    mean_o: np.ndarray
    beyond_s: np.ndarray
    ends: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, job: Job, each: Callable[[Edge], float], mean: Callable[[Component], float]) -> Self:
        """each: of a tuple of a stream. mean: of one that comes if all streams bring as many."""
        mean_o = np.array([mean(component) for component in job.components])
        beyond_s = np.array([each(edge) - mean_o[edge.consumer] for edge in job.edges])
        ends = ((s, job.edges[s].consumer) for s in np.flatnonzero(beyond_s).tolist())
        return cls(mean_o, beyond_s, tuple(ends))

    def total(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Of all that comes in a second, at these rates of input and of streams, all copies counted. [O, N]"""
        total_on = np.asarray(in_on * self.mean_o[:, None])
        for s, consumer in self.ends:
            total_on[consumer] += sent_sn[s] * self.beyond_s[s]
        return total_on

    def mean(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Of what comes, or would; see `total`. [O, N]"""
        mean_on = np.broadcast_to(self.mean_o[:, None], in_on.shape).copy()
        for s, consumer in self.ends:
            mean_on[consumer] += self._share(in_on, sent_sn, s, consumer) * self.beyond_s[s]
        return mean_on

    def spread(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Variance of what comes, between streams alone. [O, N]"""
        square_on, mean_on = np.zeros(in_on.shape), np.zeros(in_on.shape)
        for s, consumer in self.ends:
            share = self._share(in_on, sent_sn, s, consumer)
            mean_on[consumer] += share * self.beyond_s[s]
            square_on[consumer] += share * self.beyond_s[s] ** 2
        return np.maximum(square_on - mean_on**2, 0.0)

    def _share(self, in_on: np.ndarray, sent_sn: np.ndarray, s: int, consumer: int) -> np.ndarray:
        return np.asarray(sent_sn[s] / np.maximum(in_on[consumer], 1e-12))
