"""Disruptive migration: redirect, drain, serialise, transfer, install, go on (Enorm, Sections 3.2 and 4.5).

The new owner keeps tuples of the key groups waiting, and does not say how far it is until it has worked them off: else
their windows would be closed without them. The old one goes no further than both had come when tuples were redirected.
So all windows of the operator wait for the key groups that move.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.migration import Flow
from twin.change.strategies.component import Member, beside
from twin.change.transfer import carry
from twin.engine.measure.ledger import Buffer, EventRecord
from twin.engine.windows.compute import ComputeLogic
from twin.engine.windows.consolidate import ConsolidateLogic

if TYPE_CHECKING:
    from twin.change.reconfiguration import Reconfigurer

Process = Generator[simpy.Event, Any, None]
LONG_AGO_US = -(1 << 62)


class Moving:
    """Key groups of one operator on their way from one replica to another, from the redirection on. far_us: up to where
    their windows are the old owner's; all tuples before it have been sent to that."""

    def __init__(self, member: Member, flow: Flow, far_us: float) -> None:
        self.member = member
        self.flow = flow
        self.groups = list(flow.groups)
        self.source = member.replica(flow.source)
        self.target = member.replica(flow.target)
        self.far_us = far_us
        self.buffer = Buffer()
        self.state: Any = None
        self.size = 0.0
        self._redirect()

    def _redirect(self) -> None:
        change, fan, flow = self.member.change, self.member.fan, self.flow
        change.world.ledger.buffers.append(self.buffer)
        slot = fan.add(self.buffer, fan.places[flow.target])
        fan.shift(flow.source, slot, flow.amount, flow.groups)
        for each in (self.source, self.target):
            each.held_us.append(self.far_us)
        far_us = int(max(self.far_us, LONG_AGO_US))
        self._cut = self.member.cut([flow], far_us, far_us, by_end=True)
        self.member.owners.leaving.append(self._cut)
        self._until = self.source.station.tuples_in + change.outstanding(self.source.station)

    @property
    def drained(self) -> bool:
        """Whether the old owner has served all that was under way to it, and is as far as it should be."""
        station = self.source.station
        if station.tuples_in < self._until or (station.busy and station.tuples_in == self._until):
            return False
        return self.source.watermark_us >= self.far_us

    def take(self) -> None:
        """Out of the old owner."""
        source = self.source
        assert isinstance(source, ComputeLogic | ConsolidateLogic)
        self.state = source.take_groups(self.groups)
        self.size = source.bytes_of(self.state)
        source.sent_off.append(self.state)

    def give(self) -> None:
        """To the new owner, which serves what has waited and then says how far it is; the old one goes on as well."""
        target = self.target
        assert isinstance(target, ComputeLogic | ConsolidateLogic)
        target.give_groups(self.state)
        self.source.sent_off = [each for each in self.source.sent_off if each is not self.state]
        for group in self.groups:
            target.emitted_us[group] = self.far_us
        self._settle(self.flow.target)
        for each in (self.source, target):
            each.release(self.far_us)

    def undo(self) -> None:
        """The job is down, and goes on with the old owner; what it had comes back from the checkpoint."""
        self.buffer.undone = True
        self._settle(self.flow.source)

    def _settle(self, index: int) -> None:
        """Its tuples, and those that waited, go to that index from now on."""
        fan, leaving = self.member.fan, self.member.owners.leaving
        leaving[:] = [each for each in leaving if each is not self._cut]
        fan.shift(fan.index(self.buffer), index, self.flow.amount, self.flow.groups)
        fan.leave(self.buffer)
        station = self.member.replica(index).station
        self.buffer.open(station, station.env.now)


def disruptive(
    change: Reconfigurer, members: Sequence[Member], flows: Sequence[Flow], record: EventRecord
) -> Generator[simpy.Event, Any, bool]:
    """Moves key groups of one component, its flows all at the same time; whether no failure undid any of it."""
    redirected_s: float = change.env.now
    far_us = [_far_us(member, flows) for member in members]
    moving = [[Moving(member, flow, far) for member, far in zip(members, far_us, strict=True)] for flow in flows]
    done = yield from change.all_done([_flow(change, each, record) for each in moving])
    record.detail["held_s"] = float(change.env.now - redirected_s)
    return bool(done)


def _far_us(member: Member, flows: Sequence[Flow]) -> float:
    """Up to where any of the owners is: all that comes before has been sent to all of them."""
    return max(member.replica(index).watermark_us for flow in flows for index in (flow.source, flow.target))


def _flow(change: Reconfigurer, together: Sequence[Moving], record: EventRecord) -> Process:
    try:
        yield from _carried(change, together, record)
    except simpy.Interrupt:
        for each in together:
            each.undo()
        raise
    for each in together:
        each.give()
    change.on_change()


def _carried(change: Reconfigurer, together: Sequence[Moving], record: EventRecord) -> Process:
    env, wiring = change.env, change.wiring
    yield env.until(lambda: all(each.drained for each in together))
    paused_s = env.now
    for each in together:
        each.take()
    size = sum(each.size for each in together)
    start, place = (together[0].member.place(index) for index in (together[0].flow.source, together[0].flow.target))
    send_s, fetch_s = wiring.network.costs_s(start, place, size)
    yield from beside(together[0].source, send_s)
    yield from carry(wiring, start, place, size)
    yield from beside(together[0].target, fetch_s)
    record.paused_s = float(max(record.paused_s or 0.0, env.now - paused_s))
    record.bytes = float((record.bytes or 0.0) + size)
