"""The calendar: one slot an entity, and a tournament that knows the slot whose turn it is.

An entity has one thing to do next. Slots are ordered by (time, sequence number), as SimPy orders its events.
"""

from __future__ import annotations

from math import inf
from typing import Any

from twin.kernel.native import compiled, float_at, whole_at


@compiled
def next_sequence(s: Any) -> int:
    """The number of an event that is set now; events of one time take place in the order of their numbers."""
    order = s.sequence
    s.sequence = order + 1
    return order


@compiled
def schedule(s: Any, slot: int, at_s: float, order: int) -> None:
    """What an entity does next, it does then. What wins at a node is compared with what wins beside it.

    Times are compared by their bits: those of numbers >= 0 are in the numbers' order.
    """
    times, orders, tree = s.times, s.orders, s.tree
    float_at(times + 8 * slot).value = at_s
    whole_at(orders + 8 * slot).value = order
    node, winner, when = slot + s.slots, slot, whole_at(times + 8 * slot).value
    while node > 1:
        other = whole_at(tree + 8 * (node ^ 1)).value
        other_when = whole_at(times + 8 * other).value
        first = other_when < when
        if other_when == when:
            first = whole_at(orders + 8 * other).value < whole_at(orders + 8 * winner).value
        winner, when = other if first else winner, min(when, other_when)
        node >>= 1
        before = whole_at(tree + 8 * node).value
        whole_at(tree + 8 * node).value = winner
        if winner == before and winner != slot:
            return


@compiled
def cancel(s: Any, slot: int) -> None:
    """An entity has nothing to do."""
    if float_at(s.times + 8 * slot).value != inf:
        schedule(s, slot, inf, 0)


@compiled
def ring_at(s: Any, slot: int, at_s: float) -> None:
    """Sets an entity's event: for then, or for now if that has passed."""
    schedule(s, slot, at_s if at_s > s.now else s.now, next_sequence(s))
