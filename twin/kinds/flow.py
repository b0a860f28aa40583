"""Flow through an operator: its inputs, its rates, and the spread of a window's records over distinct groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

NEWTON_STEPS = 200
"""Most steps; each but the last few adds as many records as a rare group needs to come once."""


class KeySpread(NamedTuple):
    """Frequencies of distinct groups, in K strata of equally frequent ones. shares: of the input, by stratum; values:
    number of groups, by stratum.

    places: number of subtasks that take a group's records, if there are as many, and emit results of it: 1 if records
    are dealt by key, 2 with two choices, all (inf) if they are dealt otherwise or have no group.
    """

    shares: np.ndarray
    values: np.ndarray
    places: float = 1.0

    def distinct(self, content: np.ndarray, parallelism: np.ndarray | float, *, exactly: bool = False) -> np.ndarray:
        """Expected results of one evaluation: groups of which a window has a record, on each subtask that takes them.
        [N]

        content: number of records; exactly so many in a count window, of which each subtask has its own; else the mean
        of a Poisson number, as in a time window, whose subtasks count together.
        """
        return np.asarray(self.by_stratum(content, parallelism, exactly=exactly).sum(axis=0))

    def by_stratum(self, content: np.ndarray, parallelism: np.ndarray | float, *, exactly: bool = False) -> np.ndarray:
        """Expected results of one evaluation, by stratum (see `distinct`). [K, N]"""
        values = self.values[:, None] * np.minimum(np.atleast_1d(parallelism), self.places)
        each = self.shares[:, None] / values  # probability of a group
        if not exactly:
            return np.asarray(-values * np.expm1(-np.asarray(content)[None] * each))
        own = values / parallelism
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 of a subtask's only group, times 0 records
            several = -own * np.expm1(content * np.log1p(-np.minimum(each * parallelism, 1.0)))
        return np.asarray(np.where(np.asarray(content)[None] > 0, several, 0.0))

    def content(self, distinct: np.ndarray) -> np.ndarray:
        """Mean number of records in a time window whose expected groups are so many: what makes `distinct` that, with
        each group on one subtask. [N]

        Newton's method rises to it from below, from the number that would do if groups were equally frequent.
        """
        number = self.values.sum()
        sought = np.minimum(distinct, number * (1.0 - 1e-12))
        found = -np.log1p(-sought / number) * number
        each = (self.shares / self.values)[:, None]
        for _ in range(NEWTON_STEPS):
            missed = self.values[:, None] * np.exp(-found[None] * each)
            step = (sought - number + missed.sum(axis=0)) / np.maximum((missed * each).sum(axis=0), 1e-300)
            found = found + np.maximum(step, 0.0)
            if not (step > 1e-9 * found).any():
                break
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class OperatorRates:
    """Expected flow through one operator (all subtasks together), in steady state.

    in_per_s: records taken in, all inputs together (a source: arrivals at its broker). out_per_s: records emitted,
    counted once however many consumers there are. The rest is 0 for operators without a window: window_records: content
    at an evaluation, all sides of a join. fires_per_s: evaluations a second. groups_per_fire: distinct groups in the
    content (aggregates; 1 without group-by). state_records: records held at the fullest moment, the evaluation.
    """

    in_per_s: float
    out_per_s: float
    window_records: float = 0.0
    fires_per_s: float = 0.0
    groups_per_fire: float = 0.0
    state_records: float = 0.0


class Flow(NamedTuple):
    """`OperatorRates` as arrays, one entry per set of source rates [N]; inputs_per_s has one array per input stream.

    bursts_per_s: how often the output comes, all at once, as window evaluations emit it; inf if it is spread evenly.
    burst_s: seconds over which a burst is spread, as operators on its way work it off record by record.
    """

    inputs_per_s: tuple[np.ndarray, ...]
    in_per_s: np.ndarray
    out_per_s: np.ndarray
    window_records: np.ndarray
    fires_per_s: np.ndarray
    groups_per_fire: np.ndarray
    bursts_per_s: np.ndarray
    burst_s: np.ndarray


class Mixing(NamedTuple):
    """Mixing of an operator's inputs, and their way to its subtasks.

    by_chance: whether the side of each record in a count window is random, so that some of all pairs in it are of a
    record with itself. burst_s: seconds over which the longest burst comes. services_s: CPU seconds a record, by input;
    empty: 0. passed: the operator's `passed_from`, by input; empty if unknown. subtasks: of the operator, each with a
    count window of its own. whole: whether each subtask gets all of an input, by input; empty: of none. pieces_s:
    length of the partial results of an input, by input. spread: of keys that are not equally frequent. sets_per_s:
    evaluations a second of all subtasks of a producer, by input; empty if unknown. The others are those of
    `twin.deployment.Channels`.
    """

    by_chance: bool = False
    credits: float = np.inf
    services_s: tuple[float, ...] = ()
    stalls_s: np.ndarray | None = None
    horizon_s: float = np.inf
    burst_s: np.ndarray | float = 0.0
    passed: tuple[float, ...] = ()
    parallelism: np.ndarray | float = 1.0
    whole: tuple[bool, ...] = ()
    pieces_s: tuple[float, ...] = ()
    spread: KeySpread | None = None
    sets_per_s: tuple[np.ndarray, ...] = ()

    def arriving(
        self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Records a second and bursts a second of all inputs together, and the seconds that a burst takes: at least the
        operator's work on it. [N] each"""
        total = np.sum(inputs, axis=0)
        together = np.sum(bursts, axis=0)
        none = np.zeros_like(total)
        busy = sum((rate * each_s for rate, each_s in zip(inputs, self.services_s, strict=False)), start=none)
        each_s = np.divide(busy, together, out=np.zeros_like(total), where=together > 0)
        return total, together, np.maximum(each_s, self.burst_s)


MIXED = Mixing()
"""Mixing of inputs in Costream's definitions."""
