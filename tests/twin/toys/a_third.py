"""A partitioning by which the first replica gets a third of the records."""

from __future__ import annotations

from twin.partitionings import Ends, Partitioning


def third(ends: Ends) -> list[float]:
    """Shares: a third to the first replica, and equal shares of the rest to the others."""
    others = ends.consumers - 1
    return [1.0 / 3.0, *[2.0 / 3.0 / others] * others] if others else [1.0]


A_THIRD = Partitioning("a-third", third, by_key=True, fixes_subtasks=True)
