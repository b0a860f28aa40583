"""Key groups at run time: each one's share of an operator's input, its keys, and the subtask that has it."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import simpy

from twin.key_skew import KeySkew, zipf_shares
from twin.randomness import random_stream

# likeness ------------------------------------------------------------------------------------------------------------
# Number of keys at which a given share of the combinations of records have the same key.


NEARLY = 1e-9
"""Relative distance within which a number of keys counts as whole."""
HALVINGS = 100


def keys_for(selectivity: float, sides: int) -> float:
    """Number of equally frequent keys at which one record a side match with probability `selectivity`. It is not whole,
    and below 1 if the selectivity is above 1."""
    return float(selectivity ** (-1.0 / (sides - 1)))


class Likeness(NamedTuple):
    """Distribution of the keys of a key group: `keys` of them, each with probability 1 / scale but the last, which has
    the rest.

    repeats: mean number of results of a combination of one key; above 1 if there would have to be less than one key.
    """

    keys: int
    scale: float
    repeats: float = 1.0

    @staticmethod
    def even(keys: float) -> Likeness:
        """Distribution of equally frequent keys."""
        return Likeness(round(keys), keys)

    @staticmethod
    def of(keys: float, sides: int) -> Likeness:
        """Distribution that acts like `keys` equally frequent keys, also where that is not a whole number: one record a
        side have the same key with probability keys^(1 - sides)."""
        if keys <= 1.0:
            return Likeness(1, 1.0, keys ** (1 - sides))
        if abs(keys - round(keys)) < NEARLY * keys:
            return Likeness.even(round(keys))
        whole = math.floor(keys)
        wanted = keys ** (1 - sides)
        low, high = 1.0 / (whole + 1), 1.0 / whole  # probability of each key but the last
        for _ in range(HALVINGS):
            each = (low + high) / 2.0
            if whole * each**sides + (1.0 - whole * each) ** sides < wanted:
                low = each
            else:
                high = each
        return Likeness(whole + 1, 1.0 / high)

    def key(self, at: float) -> int:
        """The key at a position among the records, 0 to 1."""
        return min(int(at * self.scale), self.keys - 1)


def cumulative(shares: Sequence[float] | np.ndarray) -> list[float]:
    """Cumulative sums of shares. They are exactly 1 from the last positive share on, so that bisection finds the owner
    of any number below 1."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(np.asarray(shares))[-1] :] = 1.0
    return [float(step) for step in steps]


# two choices ---------------------------------------------------------------------------------------------------------
# Power of two choices: each key group may go to either of two subtasks, and goes to the one that got less so far.
#
# Nasir et al., "The power of both choices" (partial key grouping, ICDE 2015). Each producer counts what it has sent
# itself. Results of a key come from two subtasks; an operator after this one has to merge them.


SWEEPS = 200
SETTLED = 1e-7
"""Share of the input: a sweep that moves less ends the search for the shares of the subtasks."""


def second_choice(first: Sequence[int], parallelism: int) -> list[int]:
    """The other candidate of each key group, by hash and never the first, unless there is but one subtask. [groups]

    The hash is of the key group alone, so that a group that is moved keeps its place in the order of the others.
    """
    if parallelism == 1:
        return list(first)
    apart = random_stream(0, "two-choice").random(len(first))
    return [(own + 1 + int(away * (parallelism - 1))) % parallelism for own, away in zip(first, apart, strict=True)]


def settled_shares(weights: np.ndarray, first: Sequence[int], second: Sequence[int], parallelism: int) -> np.ndarray:
    """Shares of the subtasks when each producer keeps sending to the less loaded candidate. [replicas], sum 1

    In this fluid model, each key group is split so that its candidates come out even, or goes whole to the less loaded
    one. Groups are taken in turn until nothing moves.
    """
    groups = np.flatnonzero(weights)[np.argsort(-weights[weights > 0], kind="stable")]
    pairs = [(first[group], second[group], float(weights[group])) for group in groups]
    load = [0.0] * parallelism
    for a, _, weight in pairs:
        load[a] += weight
    part = [weight for _, _, weight in pairs]  # weight that goes to the first candidate
    for _ in range(SWEEPS):
        moved = 0.0
        for index, (a, b, weight) in enumerate(pairs):
            if a == b:
                continue
            to_first = min(weight, max(0.0, part[index] + (load[b] - load[a]) / 2.0))
            change = to_first - part[index]
            if change:
                load[a] += change
                load[b] -= change
                part[index] = to_first
                moved += abs(change)
        if moved < SETTLED:
            break
    return np.maximum(load, 0.0) / max(sum(load), 1e-300)


# keys that stay together ---------------------------------------------------------------------------------------------
# Keys that stay together along a stream: a record's key group at the producer decides on its key at the consumer.
#
# The shares that a subtask of the producer sends to each of the consumer are known in advance, as expectations. They
# decide on the cost of sending, and on the weights of key groups.


class AlignedKeys:
    """Pattern between the key groups of the producer (G) and of the consumer (K) of one stream.

    together [G, K]: share of the records of each producer key group that the pattern sends to each consumer key group;
    rows sum to 1. share: of the stream's records that follow the pattern; the others go to the consumer's key groups by
    the consumer's own weights. by_values: whether the producer sends a record for each of its values, not for each
    record. per_s: expected records a second, to weigh a consumer's several such streams.
    """

    def __init__(
        self,
        producer: KeyGroups,
        consumer: KeyGroups,
        together: np.ndarray,
        share: float,
        by_values: bool,
        per_s: float = 1.0,
    ) -> None:
        self.producer = producer
        self.consumer = consumer
        self.together = together
        self.share = share
        self.by_values = by_values
        self._version = -1
        self._receivers: dict[int, tuple[list[int], list[float]]] = {}  # by key group: see receivers_of
        self._rows: list[list[float]] = []
        consumer.follow(self, per_s)
        producer.watch(lambda _shares: consumer.reweigh(consumer.own))

    def outputs(self) -> np.ndarray:
        """Share of each producer key group in the producer's output. [G], sum 1"""
        if not self.by_values:
            return self.producer.weights
        sent = self.producer.distinct * (self.producer.weights > 0.0)
        return np.asarray(sent / sent.sum())

    def receivers(self) -> np.ndarray:
        """Share of the output of each producer key group that goes to each consumer key group; rows sum to 1. [G, K]"""
        return np.asarray(self.share * self.together + (1.0 - self.share) * self.consumer.own)

    def weights(self) -> np.ndarray:
        """Share of each consumer key group in the stream's records. [K], sum 1"""
        return np.asarray(self.outputs() @ self.receivers())

    # one record ------------------------------------------------------------------------------------------------------

    def receivers_of(self, group: int) -> tuple[list[int], list[float]]:
        """Consumer key groups that get records of a producer key group by the pattern, and their cumulative shares."""
        if group not in self._receivers:
            gets = np.flatnonzero(self.together[group])
            self._receivers[group] = gets.tolist(), cumulative(self.together[group, gets])
        return self._receivers[group]

    def sent_steps(self, sender: object) -> list[float]:
        """Cumulative shares of the producer's key groups in the output of one of its subtasks. [G]"""
        index = next((place for place, task in enumerate(self.producer.tasks) if task is sender), -1)
        sent = np.where(self.producer.owners() == index, self.outputs(), 0.0)
        sent = sent if sent.any() else self.outputs()
        return cumulative(sent / sent.sum())

    # all records -----------------------------------------------------------------------------------------------------

    def shares(self, sender: object) -> list[float]:
        """Share of each place of the consumer in a producer subtask's output; their mean without key groups.
        [places]"""
        if self._version != self.consumer.version:
            self._rows = self._find_rows().tolist()
            self._version = self.consumer.version
        for index, task in enumerate(self.producer.tasks):
            if task is sender and index < len(self._rows):
                return self._rows[index]
        return self.consumer.shares()

    def _find_rows(self) -> np.ndarray:
        """Shares of each producer subtask's output by place of the consumer. [producer places, consumer places]"""
        to = np.zeros((self.consumer.places, len(self.producer)))
        np.add.at(to, self.consumer.owners(), self.receivers().T)
        rows = np.zeros((self.producer.places, self.consumer.places))
        np.add.at(rows, self.producer.owners(), self.outputs()[:, None] * to.T)
        sent = rows.sum(axis=1, keepdims=True)
        return np.where(sent > 0.0, rows / np.where(sent > 0.0, sent, 1.0), np.array(self.consumer.shares()))


# key groups ----------------------------------------------------------------------------------------------------------
# Key groups at run time: each one's share of an operator's input, its keys, and the subtask that owns it.


class KeysHeld(Protocol):
    """Part of a logic (`twin.operators.logic.Logic`) that key groups use."""

    def held_bytes(self) -> float:
        """Size of what the windows hold, in bytes."""

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys that are held, and the bytes of each, by window."""

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        """Tells of a change of the key groups that the subtask owns."""


class Holder(Protocol):
    """Owner of key groups: a task, or a buffer that receives in its place for a while."""

    state_bytes: float

    @property
    def logic(self) -> KeysHeld:
        """Logic that is told which key groups it has."""


class KeyGroups:
    """The key groups of one operator.

    weights [G]: share of the operator's input by key group, sum 1; groups without keys have 0. own [G]: weights of the
    records that are not aligned with the key groups of a producer; equal to `weights` if none are. owner: the subtask
    that owns each. distinct [G]: distinct group-by values in each. shares: each subtask's share of the input, the sum
    of the weights that it owns; two-choice streams send part of a key group to a second subtask, and `shares` is the
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
        self._followed: list[tuple[AlignedKeys, float]] = []  # with expected records a second
        self.version = 0
        self._shares: list[float] = []
        self.group_steps: list[float] = []  # cumulative weights of the key groups
        self.own_steps: list[float] = []  # cumulative weights of records that are not aligned
        self.second = second_choice(self.owner, self.places) if two_choice else []
        self._selective = selective
        self.likeness: Likeness | None = None
        self.first: list[int] = []  # first key of each key group; at the end, the number of keys
        self.splits: list[Likeness] = []  # distribution of keys in each key group
        self.within = array("d")  # cumulative weights of the keys in their key groups, if they are known
        if key_weights is not None and selective is None:
            self.within = array("d", within(key_weights, distinct).tolist())
        self._watchers: list[Callable[[Sequence[float]], None]] = []
        self.refresh()

    def __len__(self) -> int:
        return len(self.owner)

    def shares(self) -> list[float]:
        """Share of the input that each subtask gets. [places], sum 1"""
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
        """The subtask that owns each key group. [G]"""
        return np.asarray(self.owner, dtype=np.intp)

    def _owned(self) -> np.ndarray:
        """Weight of the key groups that each subtask owns. [places]"""
        return np.bincount(self.owners(), self.weights, minlength=self.places)

    def parts(self) -> np.ndarray:
        """Expected share of each key group in the records of its subtask. [G], 0 for those without keys"""
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
        count by the expected records a second of each."""
        self._followed.append((aligned, per_s))
        self.reweigh(self.own)

    def _heard(self) -> np.ndarray:
        total = sum([per_s for _, per_s in self._followed])
        shares = [per_s / total if total > 0.0 else 1.0 / len(self._followed) for _, per_s in self._followed]
        heard = [share * aligned.weights() for share, (aligned, _) in zip(shares, self._followed, strict=True)]
        return np.asarray(np.sum(heard, axis=0))

    def watch(self, changed: Callable[[Sequence[float]], None]) -> None:
        """Calls `changed` with the subtasks' shares after each change."""
        self._watchers.append(changed)

    def refresh(self) -> None:
        """Computes the shares of the subtasks, and tells their logics and all watchers."""
        self.version += 1
        self.group_steps = self.own_steps = cumulative(self.weights)
        if self._followed:
            self.own_steps = cumulative(self.own)
        shares = self._owned()
        if self.two_choice:
            shares = settled_shares(self.weights, self.owner, self.second, self.places)
        self._shares = shares.tolist()
        held = np.bincount(self.owners(), minlength=self.places) * self.state_bytes_each
        for subtask, task in enumerate(self.tasks):
            task.state_bytes = float(held[subtask])
            task.logic.know_keys(self, subtask)
        for changed in self._watchers:
            changed(self._shares)

    # keys ------------------------------------------------------------------------------------------------------------

    def number(self) -> None:
        """Numbers the keys of each key group: of a join, as many as its selectivity takes with the present weights."""
        self.splits = [Likeness.even(max(1.0, keys)) for keys in self.distinct.tolist()]
        if self._selective is not None:
            selectivity, sides = self._selective
            keys = keys_for(selectivity / float(np.sum(self.weights**sides)), sides)
            self.likeness = Likeness.of(keys, sides)
            self.splits = [self.likeness] * len(self)
            self.first = (np.arange(len(self) + 1) * self.likeness.keys).tolist()
        else:
            self.first = [0, *np.cumsum(self.distinct).astype(int).tolist()]

    def key_in(self, group: int, at: float) -> int:
        """Key of a key group, by a position among the group's records, 0 to 1."""
        first = self.first[group]
        if not self.within:
            return first + self.splits[group].key(at)
        end = self.first[group + 1]
        return min(bisect_right(self.within, at, first, end), end - 1)

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
    env: simpy.Environment, groups: KeyGroups, order: np.ndarray, skew: KeySkew, rng: np.random.Generator
) -> Generator[simpy.Event, object, None]:
    """Lets a random share of the key groups exchange their frequency ranks at each step (a SimPy process)."""
    every_s = skew.drift_every_s
    assert every_s is not None
    while True:
        yield env.timeout(every_s)
        places = rng.permutation(len(order))[: max(2, round(skew.drift_share * len(order)))]
        order[np.sort(places)] = order[places]
        _rank(groups, order, skew.zipf)


def _rank(groups: KeyGroups, order: np.ndarray, exponent: float) -> None:
    weights = np.zeros(len(groups))
    weights[order] = zipf_shares(len(order), exponent)
    groups.reweigh(weights)
