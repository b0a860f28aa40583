"""Smooth migration: windows that have begun stay with the old owner, those that begin later are the new one's.

Enorm, Section 4.5. Nothing is moved and nobody waits. Where windows overlap, tuples around the cut are in windows of
both, so they are sent to both; it is over when the last window of the old owner is complete. The cut lies ahead of all
that was sent, and so of all that is sent again after a failure: a migration that is under way then goes on.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.migration import Flow
from twin.change.strategies.component import Member, last_before, reached
from twin.engine.measure.ledger import EventRecord
from twin.engine.windows.compute import ComputeLogic
from twin.engine.windows.consolidate import ConsolidateLogic
from twin.wiring.sharing import cut_after

if TYPE_CHECKING:
    from twin.change.reconfiguration import Reconfigurer

Process = Generator[simpy.Event, Any, None]


def smooth(change: Reconfigurer, members: Sequence[Member], flows: Sequence[Flow], record: EventRecord) -> Process:
    """Moves key groups of one component."""
    record.paused_s, record.bytes = 0.0, 0.0
    at_us = cut_after(change.wiring)
    over_us = last_before(members[-1].windows, at_us)
    cuts = []
    before = _copies(change, members)
    for member in members:
        alone = len(members) == 1 and not _needs_both(member)
        cut = member.cut(flows, at_us, at_us if alone else over_us)
        member.owners.cut(cut)
        cuts.append(cut)
    far = [(each, cut.over_us) for member, cut in zip(members, cuts, strict=True) for each in member.owning(flows)]
    yield from reached(change, far)
    for member, cut in zip(members, cuts, strict=True):
        member.owners.over(cut)
        member.settle(flows)
        for flow in flows:
            source = member.replica(flow.source)
            assert isinstance(source, ComputeLogic | ConsolidateLogic)
            source.drop_groups(list(flow.groups), cut.at_us)
    change.on_change()
    record.detail["copies"] = _copies(change, members) - before


def _needs_both(member: Member) -> bool:
    """Whether a window around the cut must be whole at the old owner: nobody merges what two computes have of it."""
    each = member.replicas[0]
    return each.results if isinstance(each, ComputeLogic) else True


def _copies(change: Reconfigurer, members: Sequence[Member]) -> int:
    """Of tuples that come to the component; what stays inside it is not sent, and counts below zero there."""
    names = {member.name for member in members}
    coming = {ends: copied.n for ends, copied in change.world.copied.items() if ends[0] not in names}
    return sum(n for (_, consumer), n in coming.items() if consumer in names)
