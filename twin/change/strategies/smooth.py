"""Smooth migration: windows that have begun stay with the old owner, later ones belong to the new owner.

Enorm, Section 4.5. Nothing is moved and nobody waits. Where windows overlap, tuples around the cut are in windows of
both, so they are sent to both. The migration is over when the last window of the old owner is complete. The
cut lies ahead of all that was sent, and so of all that is sent again after a failure: a migration that is under way
then goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from twin.change.fan import KeyFlow
from twin.change.running_job import Process, RunningJob
from twin.change.strategies.member import Member, change_hands, last_before
from twin.engine.measure.ledger import EventRecord
from twin.engine.windows.compute import ComputeLogic
from twin.wiring.event_time import cut_after


def smooth(job: RunningJob, members: Sequence[Member], flows: Sequence[KeyFlow], record: EventRecord) -> Process:
    """Moves key groups of one component smoothly."""
    record.paused_s, record.bytes = 0.0, 0.0
    at_us = cut_after(job.wiring)
    over_us = last_before(members[-1].windows, at_us)
    cuts = []
    before = _copies(job, members)
    for member in members:
        alone = len(members) == 1 and not _needs_both(member)
        cut = member.cut(flows, at_us, at_us if alone else over_us)
        member.owners.cut(cut)
        cuts.append(cut)
    yield from change_hands(job, members, cuts, flows)
    record.detail["copies"] = _copies(job, members) - before


def _needs_both(member: Member) -> bool:
    """Whether a window around the cut must be whole at the old owner: the contents of two computes are not merged."""
    logic = member.replicas[0]
    return logic.results if isinstance(logic, ComputeLogic) else True


def _copies(job: RunningJob, members: Sequence[Member]) -> int:
    """Number of copies of tuples that came to the component so far, not counting streams inside it."""
    names = {member.name for member in members}
    coming = {ends: made.counts.copies for ends, made in job.world.streams.items() if ends[0] not in names}
    return sum(n for (_, consumer), n in coming.items() if consumer in names)
