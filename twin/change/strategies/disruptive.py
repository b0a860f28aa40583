"""Disruptive migration: redirect, drain, serialise, transfer, install, go on (ALBIC, section 3; Enorm, 3.2 and 4.5).

Key groups, or a share of a keyed operator without them, move between replicas that go on working: new tuples wait at
the target until the state is there; old ones are served at the source before it is serialised. If a failure comes in
between, everything stays as it was, and the state comes back from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy

from twin.change.fan import Fan, KeyFlow, keys_of
from twin.change.running_job import Process, RunningJob
from twin.change.storage import carry
from twin.change.strategies.member import Member
from twin.engine.measure.ledger import Buffer, EventRecord
from twin.engine.state import State
from twin.engine.station.barriers import occupy
from twin.engine.station.task import Task

LONG_AGO_US = -(1 << 62)


class StateTransfer:
    """Transfer of one flow of an operator, from the redirection on. size: bytes of its state. part: share of the old
    owner's tuples that moves. until: number of tuples that the old owner has taken when all tuples from before the
    redirection are there.
    """

    def __init__(self, job: RunningJob, fan: Fan, flow: KeyFlow) -> None:
        self.job = job
        self.fan = fan
        self.flow = flow
        self.source, self.target = self._task(flow.source), self._task(flow.target)
        self.part = min(1.0, flow.amount / fan.shares[flow.source]) if flow.amount > 0.0 else 0.0
        self.state = State()
        self.size = 0.0
        self.buffer = Buffer()
        job.world.ledger.buffers.append(self.buffer)
        fan.shift(flow.source, fan.add(self.buffer, fan.places[flow.target]), flow.amount, flow.groups)
        self.until = self.source.tuples_in + job.outstanding(self.source)

    def _task(self, index: int) -> Task:
        task = self.fan.slots[index]
        assert isinstance(task, Task)
        return task

    @property
    def drained(self) -> bool:
        """Whether the old owner has served all tuples of the flow that were under way to it."""
        source, alone = self.source, not self.fan.shares[self.flow.source]
        if source.tuples_in < self.until:
            return False
        return not (source.busy and (source.tuples_in == self.until or alone))

    def take(self) -> None:
        """Takes the state out of the old owner."""
        keys = self.fan.keys
        self.state = self.source.logic.take(self.part, None if keys is None else keys_of(keys, self.flow))
        self.size = self.state.bytes + (len(self.flow.groups) * keys.state_bytes_each if keys else 0.0)

    def give(self) -> None:
        """Gives the state to the new owner, which serves the tuples that have waited."""
        self.target.logic.give(self.state)
        self.settle(self.flow.target)
        if not (self.target.busy or self.target.output.blocked):
            self.target.work()  # windows that are due

    def undo(self) -> None:
        """Undoes the redirection, as the job is down and will go on with the old owner."""
        self.settle(self.flow.source)

    def settle(self, index: int) -> None:
        """Redirects the share, and the tuples that were buffered, to `index`."""
        self.fan.shift(self.fan.index(self.buffer), index, self.flow.amount, self.flow.groups)
        self.fan.leave(self.buffer)
        self.buffer.open(self._task(index), self.job.env.now)

    def work(self, task: Task, work_s: float) -> None:
        """Charges CPU work to a task that goes on working: it is done before the next record."""
        occupy(task, work_s)


class TimedTransfer(StateTransfer):
    """Transfer of an operator over event time. far_us: windows up to it are the old owner's, which has their tuples.

    The new owner does not announce its progress until it has served the tuples that waited: else windows would be
    closed without them. The old owner's watermark does not pass the point that both had reached when tuples were
    redirected. So all windows of the operator wait for the key groups that move.
    """

    def __init__(self, member: Member, flow: KeyFlow, far_us: float) -> None:
        self.far_us = far_us
        self.owners = member.owners
        self.old, self.new = member.replica(flow.source), member.replica(flow.target)
        super().__init__(member.job, member.fan, flow)
        for replica in (self.old, self.new):
            replica.held_us.append(far_us)
        cut_us = int(max(far_us, LONG_AGO_US))
        self._cut = member.cut([flow], cut_us, cut_us, by_end=True)
        self.owners.leaving.append(self._cut)

    @property
    def drained(self) -> bool:
        """Whether the old owner has served all tuples of the flow that were on their way, and has reached `far_us`."""
        if self.source.tuples_in < self.until or (self.source.busy and self.source.tuples_in == self.until):
            return False
        return self.old.watermark_us >= self.far_us

    def take(self) -> None:
        super().take()
        self.old.sent_off.append(self.state)

    def give(self) -> None:
        """Gives the state to the new owner; then the watermarks of both owners may rise again."""
        self.old.sent_off = [state for state in self.old.sent_off if state is not self.state]
        for group in self.flow.groups:
            self.new.emitted_us[group] = self.far_us
        super().give()
        for replica in (self.old, self.new):
            replica.release(self.far_us)

    def undo(self) -> None:
        self.buffer.undone = True
        self.settle(self.flow.source)

    def settle(self, index: int) -> None:
        self.owners.leaving[:] = [cut for cut in self.owners.leaving if cut is not self._cut]
        super().settle(index)

    def work(self, task: Task, work_s: float) -> None:
        """Charges CPU work to a task that goes on working: it is done along with the next records."""
        logic = self.old if task is self.source else self.new
        logic.owed.work_s += work_s


def disruptive(job: RunningJob, operator: str, flows: Sequence[KeyFlow], record: EventRecord) -> Process:
    """Moves parts of an operator, all flows at the same time. Returns whether no failure undid any of it."""
    transfers = [[StateTransfer(job, job.fan(operator), flow)] for flow in flows]
    done = yield from job.availability.all_done([_carried(job, together, record) for together in transfers])
    _tell_shares(job, job.fan(operator))
    return done


def _tell_shares(job: RunningJob, fan: Fan) -> None:
    """Tells each replica without key groups its new share, which decides on its number of keys and its matches."""
    operators, replicas = job.wiring.job.component(fan.operator).operators, len(fan.slots)
    for task, share in zip(fan.slots, fan.shares, strict=True) if fan.keys is None else ():
        if share > 0.0 and isinstance(task, Task):
            task.logic.know_share(share, [operator.values(replicas) for operator in operators])


def disruptive_in_event_time(
    job: RunningJob, members: Sequence[Member], flows: Sequence[KeyFlow], record: EventRecord
) -> Process:
    """Moves key groups of a component over event time, all flows at the same time; each flow ends in a checkpoint.
    Returns whether no failure undid any of it."""
    redirected_s: float = job.env.now
    # all tuples from before the progress of the furthest owner have been sent to all owners
    far_us = [max(logic.watermark_us for logic in member.owning(flows)) for member in members]
    transfers = [
        [TimedTransfer(member, flow, far) for member, far in zip(members, far_us, strict=True)] for flow in flows
    ]
    works = [_carried(job, together, record, job.checkpoints.plan_changed) for together in transfers]
    done = yield from job.availability.all_done(works)
    record.detail["held_s"] = float(job.env.now - redirected_s)
    return done


def _carried(
    job: RunningJob, together: Sequence[StateTransfer], record: EventRecord, then: Callable[[], None] = lambda: None
) -> Process:
    """Carries state from drained sources to the target. together: transfers of all operators of a component."""
    env, wiring, first = job.env, job.wiring, together[0]
    start, place = first.fan.places[first.flow.source], first.fan.places[first.flow.target]
    try:
        yield env.until(lambda: all(transfer.drained for transfer in together))
        paused_s = env.now
        for transfer in together:
            transfer.take()
        size = sum(transfer.size for transfer in together)
        if not job.stopped:  # else the state comes from storage
            send_s, fetch_s = wiring.network.costs_s(start, place, size)
            yield from _beside(first, first.source, send_s)
            yield from carry(wiring, start, place, size)
            yield from _beside(first, first.target, fetch_s)
    except simpy.Interrupt:
        for transfer in together:
            transfer.undo()
        raise
    for transfer in together:
        transfer.give()
    record.paused_s = float(max(record.paused_s or 0.0, env.now - paused_s))
    record.bytes = float((record.bytes or 0.0) + size)
    then()


def _beside(transfer: StateTransfer, task: Task, work_s: float) -> Process:
    """Charges CPU work to a task beside its records, and waits as long as the work takes."""
    if work_s > 0.0:
        transfer.work(task, work_s)
        yield task.env.timeout(work_s * task.processor.slowdown / task.processor.speed)
