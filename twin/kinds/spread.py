"""How a window's tuples are spread over the distinct groups of an operator whose keys are not all alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class KeySpread(NamedTuple):
    """Strata of groups that are alike, K of them: shares of the input, and numbers of groups.

    twice: each group has two replicas that take its tuples (`two-choice`), if there are several, and results of both.
    """

    shares: np.ndarray
    values: np.ndarray
    twice: bool = False

    def distinct(self, content: np.ndarray, replicas: np.ndarray | float, *, exactly: bool = False) -> np.ndarray:
        """Groups of which a window has a tuple [N], and results that one evaluation has.

        content: tuples; exactly so many, of a count window, of which each replica has its own, or a Poisson number,
        of a time window, whose replicas count together.
        """
        return np.asarray(self.by_stratum(content, replicas, exactly=exactly).sum(axis=0))

    def by_stratum(self, content: np.ndarray, replicas: np.ndarray | float, *, exactly: bool = False) -> np.ndarray:
        """The same of each stratum. [K, N]"""
        values = self.values[:, None] * self._copies(replicas)
        each = self.shares[:, None] / values  # the chance of a group
        if not exactly:
            return np.asarray(-values * np.expm1(-np.asarray(content)[None] * each))
        own = values / replicas
        with np.errstate(divide="ignore", invalid="ignore"):
            several = -own * np.expm1(content * np.log1p(-np.minimum(each * replicas, 1.0)))
        return np.asarray(np.where(np.asarray(content)[None] > 0, several, 0.0))

    def _copies(self, replicas: np.ndarray | float) -> np.ndarray:
        return np.minimum(np.atleast_1d(replicas), 2.0) if self.twice else np.ones(1)
