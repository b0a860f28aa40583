"""Keys that stay together along a stream: a record's key group at the producer decides on its key at the consumer.

The shares that a replica of the producer sends to each of the consumer are known in advance, as expectations. They
decide on the cost of sending, and on the weights of key groups.
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
        producer.alone = consumer.alone = False
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

    def pick(self, group: int, uniform: float) -> tuple[int, int]:
        """Key group and key at the consumer for a record of a producer's key group. uniform: random, in [0, 1)."""
        if uniform >= self.share:
            heard, at = landed(self.consumer.own_steps, min((uniform - self.share) / (1.0 - self.share), BELOW_ONE))
            return heard, self.consumer.key_in(heard, at)
        groups, steps = self.receivers_of(group)
        place, at = landed(steps, min(uniform / self.share, BELOW_ONE))
        return groups[place], self.consumer.key_in(groups[place], at)

    def receivers_of(self, group: int) -> tuple[list[int], list[float]]:
        """Consumer key groups that get records of a producer key group by the pattern, and their cumulative shares."""
        if group not in self._receivers:
            gets = np.flatnonzero(self.together[group])
            self._receivers[group] = gets.tolist(), cumulative(self.together[group, gets])
        return self._receivers[group]

    def sends(self, sender: object, uniform: float) -> int:
        """Draws the producer's key group of a record that one of its replicas sends. uniform: random, in [0, 1)."""
        return bisect_right(self.sent_steps(sender), uniform)

    def sent_steps(self, sender: object) -> list[float]:
        """Cumulative shares of the producer's key groups in the output of one of its replicas. [G]"""
        index = next((place for place, task in enumerate(self.producer.tasks) if task is sender), -1)
        sent = np.where(self.producer.owners() == index, self.outputs(), 0.0)
        sent = sent if sent.any() else self.outputs()
        return cumulative(sent / sent.sum())

    # all records -----------------------------------------------------------------------------------------------------

    def shares(self, sender: object) -> list[float]:
        """Share of each place of the consumer in a producer replica's output; their mean without key groups.
        [places]"""
        if self._version != self.consumer.version:
            self._rows = self._find_rows().tolist()
            self._version = self.consumer.version
        for index, task in enumerate(self.producer.tasks):
            if task is sender and index < len(self._rows):
                return self._rows[index]
        return self.consumer.shares()

    def _find_rows(self) -> np.ndarray:
        """Shares of each producer replica's output by place of the consumer. [producer places, consumer places]"""
        to = np.zeros((self.consumer.places, len(self.producer)))
        np.add.at(to, self.consumer.owners(), self.receivers().T)
        rows = np.zeros((self.producer.places, self.consumer.places))
        np.add.at(rows, self.producer.owners(), self.outputs()[:, None] * to.T)
        sent = rows.sum(axis=1, keepdims=True)
        return np.where(sent > 0.0, rows / np.where(sent > 0.0, sent, 1.0), np.array(self.consumer.shares()))
