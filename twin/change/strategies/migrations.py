"""The operations on components over event time: moving key groups by a strategy, splitting and combining (Enorm, 4.5).

Migrate, which takes an operator from one component to another, is a split or a combination here: a consolidate is
either one component with its compute, so that key groups of both stay together, or one of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, cast

import simpy

from twin.change.migration import Flow
from twin.change.strategies.component import Member, reached
from twin.change.strategies.disruptive import disruptive
from twin.change.strategies.instant import instant
from twin.change.strategies.smooth import smooth
from twin.engine.measure.ledger import EventRecord
from twin.engine.windows.watermark import TimedLogic
from twin.event_migrations import Strategy, combined_with, mobility, why_not
from twin.wiring.sharing import cut_after

if TYPE_CHECKING:
    from twin.change.reconfiguration import Reconfigurer

Process = Generator[simpy.Event, Any, bool]


def is_together(change: Reconfigurer, name: str) -> bool:
    """Whether an operator is one component with another now."""
    other = combined_with(change.wiring.query, name)
    logics = [task.logic for each in (name, other) if each is not None for task in change.world.tasks[each]]
    return any(shipping.together for each in logics if isinstance(each, TimedLogic) for shipping in each.shippings)


def component(change: Reconfigurer, name: str) -> str:
    """What is changed as one: a consolidate goes by the name of its compute."""
    other = combined_with(change.wiring.query, name)
    return other if other is not None and change.wiring.query.operator(name).merges else name


def move_groups(
    change: Reconfigurer, name: str, flows: Sequence[Flow], strategy: Strategy | None, record: EventRecord
) -> Process:
    """Moves key groups by a strategy, or by the one that costs least of those which the operator admits."""
    query, together = change.wiring.query, is_together(change, name)
    obstacle = why_not(query, name, strategy, together)
    if obstacle:
        change.refuse(record, obstacle)
        return True
    strategy = strategy or mobility(query, name, together).strategies[0]
    record.detail["strategy"] = strategy
    yield from change.up()
    if not flows:
        return True
    if strategy == "instant":
        yield from instant(change, name, flows, record)
        return True
    names = [name] if not together else [name, cast("str", combined_with(query, name))]
    return (yield from _by(strategy, change, [Member(change, each) for each in names], flows, record))


def _by(
    strategy: Strategy, change: Reconfigurer, members: Sequence[Member], flows: Sequence[Flow], record: EventRecord
) -> Generator[simpy.Event, Any, bool]:
    """Moves key groups of one component; whether no failure undid it."""
    if strategy == "disruptive":
        return (yield from disruptive(change, members, flows, record))
    yield from smooth(change, members, flows, record)
    return True


def split(change: Reconfigurer, name: str, owners: Sequence[int] | None, record: EventRecord) -> Process:
    """Makes a consolidate a component of its own; then its key groups may go to owners of its own, at once."""
    if not is_together(change, name):
        change.refuse(record, f"{name!r} is a component of its own already")
        return True
    _set_together(change, name, False)
    record.paused_s, record.bytes = 0.0, 0.0
    if owners is not None:
        flows = to_replicas(change, name, owners, record)
        if flows:
            yield from instant(change, name, flows, record)
    return True


def combine(change: Reconfigurer, name: str, strategy: Strategy, record: EventRecord) -> Process:
    """Brings a consolidate's key groups to where its compute has them, and makes both one component.

    First, partial results must be where their key group is: it waits for the panes that are open.
    """
    if is_together(change, name):
        change.refuse(record, f"{name!r} is one component with its compute already")
        return True
    compute = Member(change, cast("str", combined_with(change.wiring.query, name)))
    if compute.seats != Member(change, name).seats:
        change.refuse(record, f"{name!r} and {compute.name!r} have other replicas since they were scaled")
        return True
    at_us = cut_after(change.wiring)
    yield from reached(change, [(each, at_us) for each in compute.replicas])
    flows = to_owners(Member(change, name), compute.owners.keys.owner)
    record.paused_s, record.bytes = 0.0, 0.0
    record.detail["strategy"] = strategy
    done = not flows or (yield from _by(strategy, change, [Member(change, name)], flows, record))
    if done:
        _set_together(change, name, True)
    return done


def to_replicas(change: Reconfigurer, name: str, owners: Sequence[int], record: EventRecord) -> list[Flow]:
    """What it takes to bring each key group to a replica, which scaling may have taken away."""
    tasks, fan = change.world.tasks[name], change.wiring.fan(name)
    gone = [owner for owner in owners if owner >= len(tasks)]
    if gone:
        change.refuse(record, f"it has no replica {gone[0]}; it has {len(tasks)}, counted from 0")
        return []
    return to_owners(Member(change, name), [fan.index(tasks[owner]) for owner in owners])


def to_owners(member: Member, owners: Sequence[int]) -> list[Flow]:
    """What it takes to bring each key group to its owner."""
    keys = member.owners.keys
    found: dict[tuple[int, int], list[int]] = {}
    for group, (old, new) in enumerate(zip(keys.owner, owners, strict=True)):
        if old != new:
            found.setdefault((old, new), []).append(group)
    return [
        Flow(old, new, float(sum(keys.weights[group] for group in groups)), tuple(groups))
        for (old, new), groups in found.items()
    ]


def _set_together(change: Reconfigurer, name: str, together: bool) -> None:
    compute = Member(change, cast("str", combined_with(change.wiring.query, name)))
    for shipping in (shipping for each in compute.replicas for shipping in each.shippings):
        shipping.together = together
