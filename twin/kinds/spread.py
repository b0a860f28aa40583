"""How a window's tuples are spread over distinct groups, where these are not all alike or not of one replica each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class KeySpread(NamedTuple):
    """Strata of groups that are alike, K of them: shares of the input, and numbers of groups.

    places: replicas that take a group's tuples, if there are as many, and emit results of it: 1 of tuples dealt by key,
    2 of two choices, all (inf) of tuples dealt otherwise, ungrouped ones too.
    """

    shares: np.ndarray
    values: np.ndarray
    places: float = 1.0

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
        return np.minimum(np.atleast_1d(replicas), self.places)
