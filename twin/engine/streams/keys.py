"""Key groups at run time: which share of an operator's input each gets, and which replica has it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import simpy

from twin.engine.dealing.two_choice import second_choice, settled_shares
from twin.engine.station.task import Task
from twin.engine.windows.key_law import KeyLaw
from twin.key_skew import KeySkew, zipf_shares

if TYPE_CHECKING:
    from twin.engine.measure.ledger import Buffer
    from twin.engine.streams.alignment import AlignedKeys


class KeyGroups:
    """The key groups of one operator.

    weights [G]: share of the operator's input by key group, sum 1; groups without keys have 0. owner: the replica of
    each. distinct [G]: distinct group-by values in each. shares: what each replica gets of the input, in proportion to
    the weights of its key groups; two-choice streams send part of a key group to a second replica, and `shares` is what
    that settles at. KeyedDeals compare `version` and follow. places: indices that owners may have; one a task, or more
    where others than tasks receive for a while. own [G]: weights of tuples that are not aligned with the key groups of
    a producer; those of all, `weights`, are the same where none are.
    """

    def __init__(
        self,
        tasks: Sequence[Task | Buffer],
        owner: Sequence[int],
        distinct: np.ndarray,
        *,
        state_bytes_each: float = 0.0,
        two_choice: bool = False,
    ) -> None:
        self.tasks = tasks
        self.owner = list(owner)
        self.distinct = distinct
        self.state_bytes_each = state_bytes_each
        self.two_choice = two_choice
        self.places = len(tasks)
        self.own = self.weights = (distinct > 0) / np.count_nonzero(distinct)
        self._followed: list[tuple[AlignedKeys, float]] = []  # with the tuples a second that come by it
        self.version = 0
        self._shares: list[float] = []
        self.steps: list[float] = []  # cumulative shares of the replicas
        self.group_steps: list[float] = []  # and of the key groups, if there are two choices
        self.second = second_choice(self.owner, self.places) if two_choice else []
        self._uneven = False
        self._distinct: np.ndarray = np.zeros(0)  # groups by replica
        self._laws: list[KeyLaw] = []  # of the replicas of a join, until anything changes
        self._watchers: list[Callable[[Sequence[float]], None]] = []
        self.refresh()

    def __len__(self) -> int:
        return len(self.owner)

    def shares(self) -> list[float]:
        """What each replica gets of the input. [places]"""
        return self._shares

    # what controllers see --------------------------------------------------------------------------------------------

    def state_bytes(self, group: int) -> float:
        """State of one key group; see states_bytes."""
        return float(self.states_bytes()[group])

    def states_bytes(self) -> np.ndarray:
        """State by key group: its expected part of its replica's window content, and what each holds beside it. [G]"""
        content = np.zeros(self.places)
        content[: len(self.tasks)] = [task.window_bytes() for task in self.tasks]
        return np.asarray(content[self.owners()] * self.parts() + self.state_bytes_each)

    def owners(self) -> np.ndarray:
        """The replica of each. [G]"""
        return np.asarray(self.owner, dtype=np.intp)

    def _owned(self) -> np.ndarray:
        """Weight of the key groups that each replica has. [R]"""
        return np.bincount(self.owners(), self.weights, minlength=self.places)

    def parts(self) -> np.ndarray:
        """What part of its replica's tuples each key group is expected to have. [G], 0 for those without keys"""
        owned = self._owned()[self.owners()]
        return np.divide(self.weights, owned, out=np.zeros_like(owned), where=owned > 0)

    # changes ---------------------------------------------------------------------------------------------------------

    def move(self, group: int, replica: int) -> None:
        """Gives one key group to another replica: tuples dealt from now on go there. State is the caller's affair."""
        self.assign({group: replica})

    def assign(self, moves: dict[int, int]) -> None:
        """Gives several key groups (keys) to replicas (values) at once."""
        for group, replica in moves.items():
            self.owner[group] = replica
        if self.two_choice:
            self.second = second_choice(self.owner, self.places)
        self.refresh()

    def reweigh(self, weights: np.ndarray) -> None:
        """Changes the shares of the key groups; [G], sum 1."""
        self.own = weights
        self.weights = self._heard() if self._followed else weights
        self.refresh()

    def follow(self, aligned: AlignedKeys, per_s: float) -> None:
        """Takes weights from the key groups of a producer, as far as tuples are aligned with them; of several by the
        tuples a second that are expected of each."""
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
        """Works out the shares of the replicas and tells everyone."""
        self.version += 1
        owned = self._owned()
        if self.two_choice:
            self.group_steps = _steps(self.weights)
            shares = settled_shares(self.weights, self.owner, self.second, self.places)
        else:
            shares = owned
        self._shares = shares.tolist()
        self.steps = _steps(shares)
        self._tell_tasks()
        for changed in self._watchers:
            changed(self._shares)

    def _tell_tasks(self) -> None:
        replicas, owners = self.places, self.owners()
        populated = self.weights[self.weights > 0]
        self._uneven = bool(populated.max() > 1.001 * populated.min())
        held = np.bincount(owners, minlength=replicas) * self.state_bytes_each
        self._distinct = np.bincount(owners, self.distinct, minlength=replicas)
        if self.two_choice:
            seconds = np.asarray(self.second, dtype=np.intp)
            elsewhere = seconds != owners
            self._distinct += np.bincount(seconds[elsewhere], self.distinct[elsewhere], minlength=replicas)
        self._laws.clear()
        for replica, task in enumerate(self.tasks):
            task.state_bytes = float(held[replica])
            task.know_keys(self, replica)

    # what tasks ask --------------------------------------------------------------------------------------------------

    def distinct_of(self, replica: int) -> float:
        """Distinct groups that a replica sees."""
        return float(self._distinct[replica])

    def strata(self, replica: int) -> tuple[tuple[float, float], ...]:
        """Shares of the replica's tuples, and distinct groups, of its most frequent key group, the next 2, 4 ...

        Empty where all key groups are alike.
        """
        if not self._uneven:
            return ()
        mine = self.owners() == replica
        if self.two_choice:
            mine |= np.asarray(self.second, dtype=np.intp) == replica
        mine &= self.weights > 0
        order = np.flatnonzero(mine)[np.argsort(-self.weights[mine], kind="stable")]
        weights, distinct = self.weights[order], self.distinct[order]
        edges = [2**k - 1 for k in range(len(order).bit_length() + 1) if 2**k - 1 < len(order)]
        if not edges:
            return ()
        shares, groups = np.add.reduceat(weights, edges) / weights.sum(), np.add.reduceat(distinct, edges)
        return tuple((float(share), float(each)) for share, each in zip(shares, groups, strict=True))

    def law(self, replica: int, selectivity: float, sides: int) -> KeyLaw | None:
        """How a replica's tuples of so many sides match; None without a selectivity.

        Matching tuples are of one key group. Each has equally many keys, all alike within it, and as many as let the
        operator's selectivity come out over all of them.
        """
        if not selectivity:
            return None
        if not self._laws:
            self._laws = self._find_laws(selectivity, sides)
        return self._laws[replica]

    def _find_laws(self, selectivity: float, sides: int) -> list[KeyLaw]:
        """By replica."""
        owners, owned = self.owners(), self._owned()
        keys = (float(np.sum(self.weights**sides)) / selectivity) ** (1.0 / (sides - 1))  # a key group
        powers = []
        for j in range(sides, 2 * sides):
            mine = np.bincount(owners, self.weights**j, minlength=self.places) * keys ** (1 - j)
            powers.append(np.divide(mine, owned**j, out=np.zeros_like(mine), where=owned > 0))
        return [KeyLaw.of_powers(each) for each in np.transpose(powers).tolist()]


def skewed(groups: KeyGroups, skew: KeySkew, rng: np.random.Generator) -> np.ndarray:
    """The key groups that have keys, in their order of frequency, with their weights put in place.

    It is random, and they are Zipf's, but where they were measured or follow from keys.
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
    """A SimPy process: at each step a random share of the key groups exchange their ranks."""
    assert skew.drift_every_s is not None
    while True:
        yield env.timeout(skew.drift_every_s)
        places = rng.permutation(len(order))[: max(2, round(skew.drift_share * len(order)))]
        order[np.sort(places)] = order[places]
        _rank(groups, order, skew.zipf)


def _steps(shares: np.ndarray) -> list[float]:
    """Cumulative shares, at 1 from the last positive one on: bisection finds the owner of a random number below 1."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(shares)[-1] :] = 1.0
    return [float(step) for step in steps]


def _rank(groups: KeyGroups, order: np.ndarray, exponent: float) -> None:
    weights = np.zeros(len(groups))
    weights[order] = zipf_shares(len(order), exponent)
    groups.reweigh(weights)
