"""Key groups of one operator: which share of its tuples each carries, and which replica owns it."""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.partition import Deal


class KeyGroups:
    """`weights[g]`: share of the operator's tuples, summing to 1; `owner[g]`: index of the replica that gets them."""

    __slots__ = ("bytes_each", "deals", "owner", "places", "weights")

    def __init__(self, weights: Sequence[float], owner: Sequence[int], places: int, bytes_each: float) -> None:
        self.weights = list(weights)
        self.owner = list(owner)
        self.places = places  # how many indices a deal has
        self.bytes_each = bytes_each
        self.deals: list[Deal] = []  # of all producers

    def shares(self) -> list[float]:
        """Each replica's share of the tuples."""
        shares = [0.0] * self.places
        for group, owner in enumerate(self.owner):
            shares[owner] += self.weights[group]
        return shares

    def state_bytes(self, group: int) -> float:
        """State that the group keeps besides windows."""
        return self.bytes_each

    def move(self, group: int, replica: int) -> None:
        """From now on the group's tuples go to that replica."""
        self.owner[group] = replica
        self.refresh()

    def refresh(self) -> None:
        """Tells all producers."""
        shares = self.shares()
        for deal in self.deals:
            deal.reweigh(shares)


def contiguous(groups: int, replicas: int) -> list[int]:
    """Owners as Flink assigns them: ranges of neighbouring groups, as equal as they can be."""
    return [group * replicas // groups for group in range(groups)]
