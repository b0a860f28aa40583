"""Instant migration: the new owner begins at once; missing records are merged, or sent again, later (Enorm, Section 5).

A compute's key group leaves its partial results behind: for the panes that are open there are two, and a consolidate
merges one more (key expansion). A consolidate's windows that end after the next pane are the new owner's: computes send
it the partial results of those windows that they still have, and new partial results go to the owners that need them.
"""

from __future__ import annotations

from collections.abc import Sequence

from twin.change.fan import KeyFlow, keys_of
from twin.change.running_job import Process, RunningJob
from twin.change.strategies.member import Member, change_hands
from twin.engine.measure.ledger import EventRecord
from twin.engine.windows.compute import ComputeLogic
from twin.engine.windows.ownership import Cut
from twin.wiring.event_time import cut_after


def instant(job: RunningJob, name: str, flows: Sequence[KeyFlow], record: EventRecord) -> Process:
    """Moves key groups of one operator, which must admit instant migration."""
    operator = job.wiring.query.operator(name)
    record.paused_s, record.bytes = 0.0, 0.0
    if not operator.merges:
        fan = job.fan(name)
        if operator.needs_event_time:
            member = Member(job, name)
            left = [member.replica(flow.source).bytes_of(keys_of(member.owners.keys, flow)) for flow in flows]
            record.detail["left_bytes"] = sum(left, 0.0)
        for flow in flows:
            fan.shift(flow.source, flow.target, flow.amount, flow.groups)
        job.checkpoints.plan_changed()
        return
    member = Member(job, name)
    cut = member.cut(flows, at_us := cut_after(job.wiring), at_us, by_end=True)
    _send_again(member, flows, cut, record)
    member.owners.cut(cut)
    job.checkpoints.plan_changed()
    yield from change_hands(job, [member], [cut], flows)


def _send_again(member: Member, flows: Sequence[KeyFlow], cut: Cut, record: EventRecord) -> None:
    """Lets computes send again, to the new owners, the results that the new owners' windows need."""
    longest_us, sent = member.longest_us, 0
    for stream in member.job.wiring.query.inputs(member.name):
        position = member.job.wiring.query.outputs(stream.producer).index(stream)
        for task in member.job.world.tasks[stream.producer]:
            compute = task.logic
            assert isinstance(compute, ComputeLogic)
            shipping = next(to for to in compute.shippings if to.port is task.ports[position])
            before = shipping.counts.copies
            for flow in flows:
                held = compute.sent_spans(list(flow.groups), cut.at_us - longest_us)
                for span, content in held.items():
                    if content.keys and cut.needed(span, longest_us)[1]:
                        compute.owed.work_s += shipping.to(flow.target, span, content, compute.now_s)
            again = shipping.counts.copies - before
            record.bytes = (record.bytes or 0.0) + again * compute.key_bytes
            sent += again
    record.detail["sent_again"] = sent
