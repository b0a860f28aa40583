"""Key groups at run time: each one's share of an operator's input, its keys, and the replica that owns it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import simpy

from twin.engine.keys.likeness import Likeness, cumulative, keys_for
from twin.engine.keys.two_choice import second_choice, settled_shares
from twin.key_skew import KeySkew, zipf_shares

if TYPE_CHECKING:
    from twin.engine.calendar import Calendar
    from twin.engine.keys.aligned import AlignedKeys


class KeysHeld(Protocol):
    """Part of a logic (`twin.engine.logic.Logic`) that key groups use."""

    def held_bytes(self) -> float:
        """Size of what the windows hold, in bytes."""

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys that are held, and the bytes of each, by window."""

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """Tells of a change of the key groups that the replica owns."""


class Holder(Protocol):
    """Owner of key groups: a task, or a buffer that receives in its place for a while."""

    state_bytes: float

    @property
    def logic(self) -> KeysHeld:
        """Logic that is told which key groups it has."""


class KeyGroups:
    """The key groups of one operator.

    weights [G]: share of the operator's input by key group, sum 1; groups without keys have 0. own [G]: weights of the
    records that are not aligned with the key groups of a producer; equal to `weights` if none are. owner: the replica
    that owns each. distinct [G]: distinct group-by values in each. shares: each replica's share of the input, the sum
    of the weights that it owns; two-choice streams send part of a key group to a second replica, and `shares` is the
    split at which they settle. version: changes with the shares. places: number
    of indices that owners may have; one a task, or more where buffers receive for a while.

    Keys are numbered once everything is known (`number`), key group by key group, each from its `first` on. Keys of a
    group are equally frequent unless key_weights says their frequencies (of all keys, in that order). selective: of a
    join, its selectivity, which decides on the number of keys, and its number of sides. likeness: of a join, the
    distribution of keys in any group.
    """

    def __init__(
        self,
        tasks: Sequence[Holder],
        owner: Sequence[int],
        distinct: np.ndarray,
        *,
        state_bytes_each: float = 0.0,
        two_choice: bool = False,
        key_weights: np.ndarray | None = None,
        selective: tuple[float, int] | None = None,
    ) -> None:
        self.tasks = tasks
        self.owner = list(owner)
        self.distinct = distinct
        self.state_bytes_each = state_bytes_each
        self.two_choice = two_choice
        self.places = len(tasks)
        self.own = self.weights = (distinct > 0) / np.count_nonzero(distinct)
        self._followed: list[tuple[AlignedKeys, float]] = []  # with expected tuples a second
        self.alone = True  # whether no other key groups are aligned with these
        self.version = 0
        self._shares: list[float] = []
        self.group_steps: list[float] = []  # cumulative weights of the key groups
        self.own_steps: list[float] = []  # cumulative weights of records that are not aligned
        self.second = second_choice(self.owner, self.places) if two_choice else []
        self._selective = selective
        self.likeness: Likeness | None = None
        self.first: list[int] = []  # first key of each key group; at the end, the number of keys
        self._splits: list[Likeness] = []  # distribution of keys in each key group
        self._within = array("d")  # cumulative weights of the keys in their key groups, if they are known
        if key_weights is not None and selective is None:
            self._within = array("d", within(key_weights, distinct).tolist())
        self._watchers: list[Callable[[Sequence[float]], None]] = []
        self.refresh()

    def __len__(self) -> int:
        return len(self.owner)

    def shares(self) -> list[float]:
        """Share of the input that each replica gets. [places], sum 1"""
        return self._shares

    # what controllers see --------------------------------------------------------------------------------------------

    def states_bytes(self) -> np.ndarray:
        """State by key group, in bytes. [G] It is the sum of three: the content of windows with its keys, its expected
        part of their content with other keys, and its state beside windows."""
        found = np.full(len(self), self.state_bytes_each)
        other = np.zeros(self.places)
        for place, task in enumerate(self.tasks):
            other[place] = task.logic.held_bytes()
            for keys, size in task.logic.held_keys():
                other[place] -= len(keys) * size
                groups = np.searchsorted(self.first, np.asarray(keys, dtype=np.int64), side="right") - 1
                found += size * np.bincount(groups, minlength=len(self))
        return np.asarray(found + np.maximum(other, 0.0)[self.owners()] * self.parts())

    def owners(self) -> np.ndarray:
        """The replica that owns each key group. [G]"""
        return np.asarray(self.owner, dtype=np.intp)

    def _owned(self) -> np.ndarray:
        """Weight of the key groups that each replica owns. [places]"""
        return np.bincount(self.owners(), self.weights, minlength=self.places)

    def parts(self) -> np.ndarray:
        """Expected share of each key group in the records of its replica. [G], 0 for those without keys"""
        owned = self._owned()[self.owners()]
        return np.divide(self.weights, owned, out=np.zeros_like(owned), where=owned > 0)

    # changes ---------------------------------------------------------------------------------------------------------

    def reweigh(self, weights: np.ndarray) -> None:
        """Changes the weights of the key groups; [G], sum 1."""
        self.own = weights
        self.weights = self._heard() if self._followed else weights
        self.refresh()

    def follow(self, aligned: AlignedKeys, per_s: float) -> None:
        """Takes weights from the key groups of a producer, as far as records are aligned with them. Several producers
        count by the expected tuples a second of each."""
        self._followed.append((aligned, per_s))
        self.reweigh(self.own)

    def _heard(self) -> np.ndarray:
        total = sum([per_s for _, per_s in self._followed])
        shares = [per_s / total if total > 0.0 else 1.0 / len(self._followed) for _, per_s in self._followed]
        heard = [share * aligned.weights() for share, (aligned, _) in zip(shares, self._followed, strict=True)]
        return np.asarray(np.sum(heard, axis=0))

    def watch(self, changed: Callable[[Sequence[float]], None]) -> None:
        """Calls `changed` with the replicas' shares after each change."""
        self._watchers.append(changed)

    def refresh(self) -> None:
        """Computes the shares of the replicas, and tells their logics and all watchers."""
        self.version += 1
        self.group_steps = self.own_steps = cumulative(self.weights)
        if self._followed:
            self.own_steps = cumulative(self.own)
        shares = self._owned()
        if self.two_choice:
            shares = settled_shares(self.weights, self.owner, self.second, self.places)
        self._shares = shares.tolist()
        held = np.bincount(self.owners(), minlength=self.places) * self.state_bytes_each
        for replica, task in enumerate(self.tasks):
            task.state_bytes = float(held[replica])
            task.logic.know_keys(self, replica)
        for changed in self._watchers:
            changed(self._shares)

    # keys ------------------------------------------------------------------------------------------------------------

    def number(self) -> None:
        """Numbers the keys of each key group: of a join, as many as its selectivity takes with the present weights."""
        self._splits = [Likeness.even(max(1.0, keys)) for keys in self.distinct.tolist()]
        if self._selective is not None:
            selectivity, sides = self._selective
            keys = keys_for(selectivity / float(np.sum(self.weights**sides)), sides)
            self.likeness = Likeness.of(keys, sides)
            self._splits = [self.likeness] * len(self)
            self.first = (np.arange(len(self) + 1) * self.likeness.keys).tolist()
        else:
            self.first = [0, *np.cumsum(self.distinct).astype(int).tolist()]

    def pick(self, uniform: float) -> tuple[int, int]:
        """Key group and key on which a random number in [0, 1) falls."""
        group, at = landed(self.group_steps, uniform)
        return group, self.key_in(group, at)

    def key_in(self, group: int, at: float) -> int:
        """Key of a key group, by a position among the group's records, 0 to 1."""
        first = self.first[group]
        if not self._within:
            return first + self._splits[group].key(at)
        end = self.first[group + 1]
        return min(bisect_right(self._within, at, first, end), end - 1)

    def group_of(self, key: int) -> int:
        """The key group that a key is in."""
        return bisect_right(self.first, key) - 1


def landed(steps: Sequence[float], uniform: float) -> tuple[int, float]:
    """Finds the share on which a number in [0, 1) falls, and the position in it, 0 to 1. steps: cumulative shares."""
    place = bisect_right(steps, uniform)
    low = steps[place - 1] if place else 0.0
    return place, (uniform - low) / (steps[place] - low)


def within(weight_k: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    """Cumulative weights of keys within their key groups. distinct [G]: number of keys of each group. [keys]"""
    sums, ends = np.cumsum(weight_k), np.cumsum(distinct).astype(int)
    totals = np.diff(np.concatenate([[0.0], np.concatenate([[0.0], sums])[ends]]))
    before = np.cumsum(totals) - totals
    counts = distinct.astype(int)
    return np.asarray((sums - np.repeat(before, counts)) / np.maximum(np.repeat(totals, counts), 1e-300))


def skewed(groups: KeyGroups, skew: KeySkew, rng: np.random.Generator) -> np.ndarray:
    """Gives key groups their weights; returns the groups that have keys, the most frequent first.

    The order is random, and weights are Zipf's, unless they were measured or follow from keys.
    """
    if skew.placed:
        groups.reweigh(skew.by_group(len(groups)))
        return np.argsort(-groups.weights, kind="stable")[: np.count_nonzero(groups.distinct)]
    order = rng.permutation(np.flatnonzero(groups.distinct > 0))
    _rank(groups, order, skew.zipf)
    return np.asarray(order)


def drift(
    env: Calendar, groups: KeyGroups, order: np.ndarray, skew: KeySkew, rng: np.random.Generator
) -> Generator[simpy.Event, object, None]:
    """Lets a random share of the key groups exchange their frequency ranks at each step (a SimPy process).

    As only frequencies change, the step is a look, after which the kernel goes on. Weights of groups that are aligned
    with others change those of the others too, which takes the engine.
    """
    every_s = skew.drift_every_s
    assert every_s is not None
    while True:
        yield env.look(every_s) if groups.alone else env.timeout(every_s)
        places = rng.permutation(len(order))[: max(2, round(skew.drift_share * len(order)))]
        order[np.sort(places)] = order[places]
        _rank(groups, order, skew.zipf)


def _rank(groups: KeyGroups, order: np.ndarray, exponent: float) -> None:
    weights = np.zeros(len(groups))
    weights[order] = zipf_shares(len(order), exponent)
    groups.reweigh(weights)
