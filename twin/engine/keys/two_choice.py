"""Power of two choices: each key group may go to either of two replicas, and goes to the one that got less so far.

Nasir et al., "The power of both choices" (partial key grouping, ICDE 2015). Each producer counts what it has sent
itself. Results of a key come from two replicas; an operator after this one has to merge them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twin.randomness import random_stream

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups

SWEEPS = 200
SETTLED = 1e-7
"""Share of the input: a sweep that moves less ends the search for the shares of the replicas."""


def second_choice(first: Sequence[int], replicas: int) -> list[int]:
    """The other candidate of each key group, by hash and never the first, unless there is but one replica. [groups]

    The hash is of the key group alone, so that a group that is moved keeps its place in the order of the others.
    """
    if replicas == 1:
        return list(first)
    apart = random_stream(0, "two-choice").random(len(first))
    return [(own + 1 + int(away * (replicas - 1))) % replicas for own, away in zip(first, apart, strict=True)]


def settled_shares(weights: np.ndarray, first: Sequence[int], second: Sequence[int], replicas: int) -> np.ndarray:
    """Shares of the replicas when each producer keeps sending to the less loaded candidate. [replicas], sum 1

    In this fluid model, each key group is split so that its candidates come out even, or goes whole to the less loaded
    one. Groups are taken in turn until nothing moves.
    """
    groups = np.flatnonzero(weights)[np.argsort(-weights[weights > 0], kind="stable")]
    pairs = [(first[group], second[group], float(weights[group])) for group in groups]
    load = [0.0] * replicas
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


class Chooser:
    """Chooses the replica of one record after another, for one producer."""

    def __init__(self, groups: KeyGroups) -> None:
        self._groups = groups
        self._sent = [0] * groups.places

    def choose(self, group: int) -> int:
        """The replica for a record of a key group."""
        first, second = self._groups.owner[group], self._groups.second[group]
        chosen = first if self._sent[first] <= self._sent[second] else second
        self._sent[chosen] += 1
        return chosen
