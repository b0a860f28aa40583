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
    """What an entity does next, it does then."""
    times, orders, tree, slots = s.times, s.orders, s.tree, s.slots
    float_at(times + 8 * slot).value = at_s
    whole_at(orders + 8 * slot).value = order
    node, winner = (slot + slots) >> 1, slot
    while node >= 1:
        left, right = 2 * node, 2 * node + 1
        if left >= slots:
            one, other = left - slots, right - slots
        else:
            one, other = whole_at(tree + 8 * left).value, whole_at(tree + 8 * right).value
        one_s, other_s = float_at(times + 8 * one).value, float_at(times + 8 * other).value
        winner = one
        if other_s < one_s or (
            other_s == one_s and whole_at(orders + 8 * other).value < whole_at(orders + 8 * one).value
        ):
            winner = other
        before = whole_at(tree + 8 * node).value
        whole_at(tree + 8 * node).value = winner
        if winner == before and winner != slot:
            return
        node >>= 1


@compiled
def cancel(s: Any, slot: int) -> None:
    """An entity has nothing to do."""
    if float_at(s.times + 8 * slot).value != inf:
        schedule(s, slot, inf, 0)


@compiled
def ring_at(s: Any, slot: int, at_s: float) -> None:
    """Sets an entity's event: for then, or for now if that has passed."""
    schedule(s, slot, at_s if at_s > s.now else s.now, next_sequence(s))
