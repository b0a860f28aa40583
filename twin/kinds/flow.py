"""How a window's tuples are spread over distinct groups, where these are not all alike or not of one replica each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        values = self.values[:, None] * np.minimum(np.atleast_1d(replicas), self.places)
        each = self.shares[:, None] / values  # the chance of a group
        if not exactly:
            return np.asarray(-values * np.expm1(-np.asarray(content)[None] * each))
        own = values / replicas
        with np.errstate(divide="ignore", invalid="ignore"):
            several = -own * np.expm1(content * np.log1p(-np.minimum(each * replicas, 1.0)))
        return np.asarray(np.where(np.asarray(content)[None] > 0, several, 0.0))


@dataclass(frozen=True, slots=True)
class OperatorRates:
    """Expected flow through one operator (all replicas together), in steady state.

    in_per_s: tuples taken in, all inputs together (a source: what arrives at its broker). out_per_s: tuples emitted,
    counted once however many consumers there are. The rest is 0 for operators without a window:
    window_tuples: content at an evaluation, all sides of a join. fires_per_s: evaluations.
    groups_per_fire: distinct groups in the content (aggregates; 1 without group-by). state_tuples: tuples held at the
    fullest moment, which is the evaluation.
    """

    in_per_s: float
    out_per_s: float
    window_tuples: float = 0.0
    fires_per_s: float = 0.0
    groups_per_fire: float = 0.0
    state_tuples: float = 0.0


class Flow(NamedTuple):
    """`OperatorRates` as arrays, one entry a set of source rates; inputs_per_s has one array an input stream.

    bursts_per_s: how often the output comes, all at once, as window evaluations emit it; inf if it is spread evenly.
    burst_s: how long a burst takes once operators on its way have worked it off, one tuple after the other.
    """

    inputs_per_s: tuple[np.ndarray, ...]
    in_per_s: np.ndarray
    out_per_s: np.ndarray
    window_tuples: np.ndarray
    fires_per_s: np.ndarray
    groups_per_fire: np.ndarray
    bursts_per_s: np.ndarray
    burst_s: np.ndarray


class Mixing(NamedTuple):
    """How the tuples that come mix.

    by_chance: of which side the tuples of a count window are is random, so of all pairs in it some are of a tuple with
    itself. burst_s: how long the longest of the bursts takes to come. services_s: by input; none, and they take no
    time. passed: by input, the operator's `passed_from`; none, if that is not known. replicas: of the operator, each
    with a count window of its own. whole: by input, whether each replica gets all of it; none, if none does. pieces_s:
    by input, the length of the partial results that it is of. spread: of keys that are not all alike. The others: as in
    `twin.flow.Channels`.
    """

    by_chance: bool = False
    credits: float = np.inf
    services_s: tuple[float, ...] = ()
    stalls_s: np.ndarray | None = None
    horizon_s: float = np.inf
    burst_s: np.ndarray | float = 0.0
    passed: tuple[float, ...] = ()
    replicas: np.ndarray | float = 1.0
    whole: tuple[bool, ...] = ()
    pieces_s: tuple[float, ...] = ()
    spread: KeySpread | None = None

    def arriving(
        self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tuples and bursts a second of all inputs together, and the seconds of work of a burst. [N] each"""
        total = np.sum(inputs, axis=0)
        together = np.sum(bursts, axis=0)
        none = np.zeros_like(total)
        busy = sum((rate * each_s for rate, each_s in zip(inputs, self.services_s, strict=False)), start=none)
        each_s = np.divide(busy, together, out=np.zeros_like(total), where=together > 0)
        return total, together, np.maximum(each_s, self.burst_s)


MIXED = Mixing()
"""The mixing of inputs in Costream's definitions."""
