"""Which way of dealing a stream asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twin.engine.dealing.at_random import RandomDeal
from twin.engine.dealing.in_turn import Deal
from twin.engine.dealing.one_queue import SharedDeal
from twin.errors import BadInput
from twin.partitionings.traits import Ends, Partitioning
from twin.query import AnyOperator

if TYPE_CHECKING:
    from twin.engine.draws import Draws


def deal(
    how: Partitioning, consumer: AnyOperator, producers: int, index: int, consumers: int, draws: Callable[[], Draws]
) -> Deal:
    """The deal of producer replica `index` of `producers` over `consumers` replicas, where no key groups are known.

    Keys are the groups of an aggregate, or as many as replicas. draws: makes the random numbers, which only keys need.
    Raises BadInput where replicas that send to each other in pairs are not as many.
    """
    if how.paired and producers != consumers:
        raise BadInput(
            f"stream into {consumer.name!r}: {how} needs equal replicas, got {producers} -> {consumers}; use rebalance"
        )
    if how.one_queue:
        return SharedDeal(consumers)
    first = index * consumers // producers
    weights = how.shares(Ends(index, consumers, consumer.values(consumers)))
    if how.by_key and consumers > 1:
        return RandomDeal(weights, draws(), first)
    return Deal(weights, copies=how.copies and consumers > 1, first=first)
