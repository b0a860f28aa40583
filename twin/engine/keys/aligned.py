"""Keys that stay together along a stream: to which key of the consumer a record goes, by its key group at the producer.

What a replica of the producer sends to each of the consumer is known before, as an expectation: it is what sending
costs, and what key groups weigh.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from twin.engine.keys.groups import landed
from twin.engine.keys.likeness import cumulative

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups


BELOW_ONE = 1.0 - 2.0**-53
"""The largest random number."""


class AlignedKeys:
    """Of one stream. together [G, K]: by key group of the producer, the part of what it sends by the pattern that each
    of the consumer's gets; share: of its tuples that keep to it, others fall on the consumer's key groups by the
    weights that those have of their own. by_values: whether the producer sends a tuple a value, not one a tuple. per_s:
    tuples that are expected of it, which count where a consumer has several such streams.
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
        self._receivers: dict[int, tuple[list[int], list[float]]] = {}  # of key groups; cumulative parts of each
        self._rows: list[list[float]] = []
        producer.alone = consumer.alone = False
        consumer.follow(self, per_s)
        producer.watch(lambda _shares: consumer.reweigh(consumer.own))

    def outputs(self) -> np.ndarray:
        """Share of what the producer sends, by its key groups. [G]"""
        if not self.by_values:
            return self.producer.weights
        sent = self.producer.distinct * (self.producer.weights > 0.0)
        return np.asarray(sent / sent.sum())

    def receivers(self) -> np.ndarray:
        """Share of the output of each producer key group that goes to each consumer key group; rows sum to 1. [G, K]"""
        return np.asarray(self.share * self.together + (1.0 - self.share) * self.consumer.own)

    def weights(self) -> np.ndarray:
        """What the consumer's key groups get. [K], sum 1"""
        return np.asarray(self.outputs() @ self.receivers())

    # of a record ------------------------------------------------------------------------------------------------------

    def pick(self, group: int, uniform: float) -> tuple[int, int]:
        """The consumer's key group and key of a record of a key group of the producer."""
        if uniform >= self.share:
            heard, at = landed(self.consumer.own_steps, min((uniform - self.share) / (1.0 - self.share), BELOW_ONE))
            return heard, self.consumer.key_in(heard, at)
        groups, steps = self.receivers_of(group)
        place, at = landed(steps, min(uniform / self.share, BELOW_ONE))
        return groups[place], self.consumer.key_in(groups[place], at)

    def receivers_of(self, group: int) -> tuple[list[int], list[float]]:
        """The consumer's key groups that hear of one of the producer's by the pattern, and their cumulative parts."""
        if group not in self._receivers:
            gets = np.flatnonzero(self.together[group])
            self._receivers[group] = gets.tolist(), cumulative(self.together[group, gets])
        return self._receivers[group]

    def sends(self, sender: object, uniform: float) -> int:
        """A key group of a replica of the producer, by what they send."""
        return bisect_right(self.sent_steps(sender), uniform)

    def sent_steps(self, sender: object) -> list[float]:
        """Cumulative parts of the producer's key groups in what one of its replicas sends."""
        index = next((place for place, task in enumerate(self.producer.tasks) if task is sender), -1)
        sent = np.where(self.producer.owners() == index, self.outputs(), 0.0)
        sent = sent if sent.any() else self.outputs()
        return cumulative(sent / sent.sum())

    # of all together -------------------------------------------------------------------------------------------------

    def shares(self, sender: object) -> list[float]:
        """What a replica of the producer sends to each place of the consumer; as all do if it has no key groups."""
        if self._version != self.consumer.version:
            self._rows = self._find_rows().tolist()
            self._version = self.consumer.version
        for index, task in enumerate(self.producer.tasks):
            if task is sender and index < len(self._rows):
                return self._rows[index]
        return self.consumer.shares()

    def _find_rows(self) -> np.ndarray:
        """[places of the producer, places of the consumer]"""
        to = np.zeros((self.consumer.places, len(self.producer)))
        np.add.at(to, self.consumer.owners(), self.receivers().T)
        rows = np.zeros((self.producer.places, self.consumer.places))
        np.add.at(rows, self.producer.owners(), self.outputs()[:, None] * to.T)
        sent = rows.sum(axis=1, keepdims=True)
        return np.where(sent > 0.0, rows / np.where(sent > 0.0, sent, 1.0), np.array(self.consumer.shares()))
