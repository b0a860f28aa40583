"""Migrations: parts of an operator move between its subtasks, by one protocol and three strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import simpy

from twin.change.checkpoint import carry
from twin.change.fan import Fan, KeyFlow, flows_to, keys_of
from twin.change.running_job import Process, RunningJob
from twin.events import Strategy, combined_with, mobility, why_not
from twin.operators.compute import ComputeLogic
from twin.operators.ownership import Cut, Ownership
from twin.operators.records import State
from twin.operators.watermark import TimedLogic
from twin.plan import Location
from twin.windows import EventWindow, covering
from twin.world.event_time import cut_after
from twin.world.meters import EventRecord
from twin.world.parts import Task
from twin.world.python_logics import timed_logic

# migrations ----------------------------------------------------------------------------------------------------------
# Migrations: parts of an operator move between its subtasks, by one protocol and three strategies.
#
# The disruptive strategy (redirect, drain, carry, go on) is for every operator with keys. Operators over event time
# have two more: smooth, where old and new owner work side by side for a while, and instant, where the new owner begins
# at once and a consolidate merges what the old one has left. Over event time a compute and its consolidate may be one
# component (Enorm, Section 4.5), whose key groups then stay together. Enorm's `migrate`, which takes an operator from
# one component to another, is a split or a combination here.


def is_together(job: RunningJob, name: str) -> bool:
    """Whether an operator is one component with another now."""
    both = [name, *_other(job, name)]
    logics = [timed_logic(task) for operator in both for task in job.world.tasks[operator]]
    return any(shipping.together for logic in logics if logic is not None for shipping in logic.shippings)


def component(job: RunningJob, name: str) -> str:
    """Name of the component of an operator: a consolidate goes by the name of its compute."""
    return next(iter(_other(job, name)), name) if job.world.query.operator(name).merges else name


def _other(job: RunningJob, name: str) -> list[str]:
    """Operator with which an operator is, or may be, one component; empty if there is none."""
    other = combined_with(job.world.query, name)
    return [] if other is None else [other]


def migrate(
    job: RunningJob, name: str, flows: Sequence[KeyFlow], strategy: Strategy | None, record: EventRecord
) -> Process:
    """Moves parts of an operator by a strategy; None: the cheapest possible one. Returns whether no failure undid
    it."""
    by_event = job.world.query.operator(name).needs_event_time
    if name not in job.world.event_times.heeding or (job.stopped and not by_event):
        return (yield from disruptive(job, name, flows, record))
    query, together = job.world.query, is_together(job, name)
    by_window = job.world.engine.lateness == "window" and not job.stopped
    obstacle = why_not(query, name, strategy, together, by_window)
    if obstacle:
        job.refuse(record, obstacle)
        return True
    if job.stopped:
        strategy = "disruptive"
    strategy = strategy or mobility(query, name, together).strategies[0]
    record.detail["strategy"] = strategy
    yield from job.availability.up()
    if not flows:
        return True
    if strategy == "instant":
        yield from instant(job, name, flows, record)
        return True
    names = [name, *_other(job, name)] if together else [name]
    return (yield from _by(strategy, job, [Member(job, operator) for operator in names], flows, record))


def _by(
    strategy: Strategy, job: RunningJob, members: Sequence[Member], flows: Sequence[KeyFlow], record: EventRecord
) -> Process:
    """Moves key groups of one component by a strategy. Returns whether no failure undid it."""
    if strategy == "disruptive":
        return (yield from disruptive_in_event_time(job, members, flows, record))
    yield from smooth(job, members, flows, record)
    return True


def split(job: RunningJob, name: str, owners: Sequence[int] | None, record: EventRecord) -> Process:
    """Makes a consolidate a component of its own; then its key groups may go to owners of its own, at once."""
    if not is_together(job, name):
        job.refuse(record, f"{name!r} is a component of its own already")
        return True
    _set_together(job, name, False)
    record.paused_s, record.bytes = 0.0, 0.0
    flows = [] if owners is None else flows_to_subtasks(job, name, dict(enumerate(owners)), record)
    if flows:
        yield from instant(job, name, flows, record)
    return True


def combine(job: RunningJob, name: str, strategy: Strategy, record: EventRecord) -> Process:
    """Brings a consolidate's key groups to the subtasks where its compute has them, and makes both one component.

    First it waits for the panes that are open, so that partial results are where their key group is.
    """
    if is_together(job, name):
        job.refuse(record, f"{name!r} is one component with its compute already")
        return True
    compute = _compute_of(job, name)
    if compute.seats != Member(job, name).seats:
        job.refuse(record, f"{name!r} and {compute.name!r} have other subtasks since they were scaled")
        return True
    at_us = cut_after(job.world)
    yield from reached(job, [(logic, at_us) for logic in compute.subtasks])
    flows = flows_to(Member(job, name).owners.keys, dict(enumerate(compute.owners.keys.owner)))
    record.paused_s, record.bytes = 0.0, 0.0
    record.detail["strategy"] = strategy
    done = not flows or (yield from _by(strategy, job, [Member(job, name)], flows, record))
    if done:
        _set_together(job, name, True)
    return done


def flows_to_subtasks(job: RunningJob, name: str, owners: Mapping[int, int], record: EventRecord) -> list[KeyFlow]:
    """Flows that bring key groups to subtasks, by number. Refuses if scaling has taken one of these subtasks away."""
    tasks, fan = job.world.tasks[name], job.fan(name)
    gone = [owner for owner in owners.values() if owner >= len(tasks)]
    if gone:
        job.refuse(record, f"it has no subtask {gone[0]}; it has {len(tasks)}, counted from 0")
        return []
    keys = job.world.key_groups[name]
    return flows_to(keys, {group: fan.index(tasks[owner]) for group, owner in owners.items()})


def _compute_of(job: RunningJob, name: str) -> Member:
    return Member(job, cast("str", combined_with(job.world.query, name)))


def _set_together(job: RunningJob, name: str, together: bool) -> None:
    for logic in _compute_of(job, name).subtasks:
        for shipping in logic.shippings:
            shipping.together = together


# members -------------------------------------------------------------------------------------------------------------
# Members: operators whose key groups move together, either one alone or a compute and its consolidate.


@dataclass(frozen=True)
class Member:
    """One operator over event time whose key groups move."""

    job: RunningJob
    name: str

    @property
    def fan(self) -> Fan:
        """Fan of the operator."""
        return self.job.fan(self.name)

    @property
    def owners(self) -> Ownership:
        """Owners of its key groups."""
        return self.job.world.owners[self.name]

    @property
    def seats(self) -> list[Location | None]:
        """Places of its subtasks, by index of the fan; None where there is no subtask."""
        seats = zip(self.fan.slots, self.fan.places, strict=True)
        taken = [place if isinstance(receiver, Task) else None for receiver, place in seats]
        while taken and taken[-1] is None:
            taken.pop()
        return taken

    @property
    def subtasks(self) -> list[TimedLogic]:
        """Logics of its subtasks."""
        return [self._timed(task) for task in self.job.world.tasks[self.name]]

    def subtask(self, index: int) -> TimedLogic:
        """Logic of the subtask at an index of its fan."""
        return self._timed(self.fan.slots[index])

    def _timed(self, task: Any) -> TimedLogic:
        found = timed_logic(task)
        assert found is not None
        return found

    @property
    def windows(self) -> tuple[EventWindow, ...]:
        """Windows that its state belongs to."""
        return self.job.world.event_times.merged_windows(self.name)

    @property
    def longest_us(self) -> int:
        """Length of its longest window."""
        return max(window.length_us for window in self.windows)

    def cut(self, flows: Sequence[KeyFlow], at_us: int, over_us: int, *, by_end: bool = False) -> Cut:
        """Cut at which the key groups of these flows change hands."""
        old = {group: flow.source for flow in flows for group in flow.groups}
        new = {group: flow.target for flow in flows for group in flow.groups}
        return Cut(at_us, over_us, old, new, by_end)

    def settle(self, flows: Iterable[KeyFlow]) -> None:
        """Sends records of the key groups to their new owners from now on."""
        for flow in flows:
            self.fan.shift(flow.source, flow.target, flow.amount, flow.groups)

    def owning(self, flows: Sequence[KeyFlow]) -> list[TimedLogic]:
        """Logics of all old and new owners."""
        return [self.subtask(index) for flow in flows for index in (flow.source, flow.target)]


def reached(job: RunningJob, far: Sequence[tuple[TimedLogic, int]]) -> Process:
    """Waits until the job is up and all subtasks have reached their event times. A failure may take them back."""
    up = job.availability
    yield job.env.until(lambda: up.outage is None and all(logic.watermark_us >= us for logic, us in far))


def change_hands(job: RunningJob, members: Sequence[Member], cuts: Sequence[Cut], flows: Sequence[KeyFlow]) -> Process:
    """Waits until the last windows of the old owners are complete, and then gives everything to the new owners."""
    yield from reached(
        job, [(logic, cut.over_us) for member, cut in zip(members, cuts, strict=True) for logic in member.owning(flows)]
    )
    for member, cut in zip(members, cuts, strict=True):
        member.owners.over(cut)
        member.settle(flows)
        for flow in flows:
            member.subtask(flow.source).drop(keys_of(member.owners.keys, flow), cut.at_us)
    job.checkpoints.plan_changed()


def last_before(windows: Iterable[EventWindow], at_us: int) -> int:
    """End of the last window that begins before `at_us`."""
    return max(span.end for window in windows for span in covering(window, at_us - 1))


# disruptive ----------------------------------------------------------------------------------------------------------
# Disruptive migration: redirect, drain, serialise, transfer, install, go on (ALBIC, section 3; Enorm, 3.2 and 4.5).
#
# Key groups, or a share of a keyed operator without them, move between subtasks that go on working: new records wait at
# the new owner until the state is there; the old one serves old ones before it is serialised. If a failure comes in
# between, everything stays as it was, and the state comes back from the checkpoint.


LONG_AGO_US = -(1 << 62)


class StateTransfer:
    """Transfer of one flow of an operator, from the redirection on. size: bytes of its state. part: share of the old
    owner's records that moves. until: number of records that the old owner has taken when all records from before the
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
        self.buffer = fan.make_buffer()
        job.world.ledger.buffers.append(self.buffer)
        fan.shift(flow.source, fan.add(self.buffer, fan.places[flow.target]), flow.amount, flow.groups)
        self.until = self.source.records_in + job.outstanding(self.source)

    def _task(self, index: int) -> Task:
        return cast("Task", self.fan.slots[index])

    @property
    def drained(self) -> bool:
        """Whether the old owner has served all records of the flow that were under way to it."""
        source, alone = self.source, not self.fan.shares[self.flow.source]
        if source.records_in < self.until:
            return False
        return not (source.busy and (source.records_in == self.until or alone))

    def take(self) -> None:
        """Takes the state out of the old owner."""
        keys = self.fan.keys
        self.state = self.source.logic.take(self.part, None if keys is None else keys_of(keys, self.flow))
        self.size = self.state.bytes + (len(self.flow.groups) * keys.state_bytes_each if keys else 0.0)

    def give(self) -> None:
        """Gives the state to the new owner, which serves the records that have waited."""
        self.target.logic.give(self.state)
        self.settle(self.flow.target)
        if not (self.target.busy or self.target.output.blocked):
            self.target.work()  # windows that are due

    def undo(self) -> None:
        """Undoes the redirection, as the job is down and will go on with the old owner."""
        self.settle(self.flow.source)

    def settle(self, index: int) -> None:
        """Redirects the share, and the records that were buffered, to `index`."""
        self.fan.shift(self.fan.index(self.buffer), index, self.flow.amount, self.flow.groups)
        self.fan.leave(self.buffer)
        self.buffer.open(self._task(index), self.job.env.now)

    def work(self, task: Task, work_s: float) -> None:
        """Charges CPU work to a task that goes on working: it is done before the next record."""
        task.occupy(work_s)


class TimedTransfer(StateTransfer):
    """Transfer of an operator over event time. far_us: windows up to it are the old owner's, which has their records.

    The new owner does not announce its progress until it has served the records that waited: else windows would be
    closed without them. The old owner's watermark does not pass the point that both had reached when records were
    redirected. So all windows of the operator wait for the key groups that move.
    """

    def __init__(self, member: Member, flow: KeyFlow, far_us: float) -> None:
        self.far_us = far_us
        self.owners = member.owners
        self.old, self.new = member.subtask(flow.source), member.subtask(flow.target)
        super().__init__(member.job, member.fan, flow)
        for subtask in (self.old, self.new):
            subtask.held_us.append(far_us)
        cut_us = int(max(far_us, LONG_AGO_US))
        self._cut = member.cut([flow], cut_us, cut_us, by_end=True)
        self.owners.leaving.append(self._cut)

    @property
    def drained(self) -> bool:
        """Whether the old owner has served all records of the flow that were on their way, and both have reached
        `far_us`: the new one may hold what an instant migration left with it, and hands it over by itself until then.
        Of a job that is stopped, which has no such migrations, the old one alone has to."""
        if self.source.records_in < self.until or (self.source.busy and self.source.records_in == self.until):
            return False
        return self.old.watermark_us >= self.far_us and (self.job.stopped or self.new.watermark_us >= self.far_us)

    def take(self) -> None:
        super().take()
        self.old.sent_off.append(self.state)

    def give(self) -> None:
        """Gives the state to the new owner; then the watermarks of both owners may rise again."""
        self.old.sent_off = [state for state in self.old.sent_off if state is not self.state]
        for group in self.flow.groups:
            self.new.emitted_us[group] = self.far_us
        super().give()
        for subtask in (self.old, self.new):
            subtask.release(self.far_us)

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
    """Tells each subtask without key groups its new share, which decides on its number of keys and its matches."""
    operators, subtasks = job.world.job.component(fan.operator).operators, len(fan.slots)
    for task, share in zip(fan.slots, fan.shares, strict=True) if fan.keys is None else ():
        if share > 0.0:
            task.logic.know_share(share, [operator.values(subtasks) for operator in operators])


def disruptive_in_event_time(
    job: RunningJob, members: Sequence[Member], flows: Sequence[KeyFlow], record: EventRecord
) -> Process:
    """Moves key groups of a component over event time, all flows at the same time; each flow ends in a checkpoint.
    Returns whether no failure undid any of it."""
    redirected_s: float = job.env.now
    # all records from before the progress of the furthest owner have been sent to all owners
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
    """Carries state from old owners, once drained, to new ones. together: transfers of all operators of a component."""
    env, world, first = job.env, job.world, together[0]
    start, place = first.fan.places[first.flow.source], first.fan.places[first.flow.target]
    try:
        yield env.until(lambda: all(transfer.drained for transfer in together))
        paused_s = env.now
        for transfer in together:
            transfer.take()
        size = sum(transfer.size for transfer in together)
        if not job.stopped:  # else the state comes from storage
            send_s, fetch_s = world.network.costs_s(start, place, size)
            yield from _beside(first, first.source, send_s)
            yield from carry(world, start, place, size)
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


# instant -------------------------------------------------------------------------------------------------------------
# Instant migration: the new owner begins at once; missing records are merged, or sent again, later (Enorm, Section 5).
#
# A compute's key group leaves its partial results behind: for the panes that are open there are two, and a consolidate
# merges one more (key expansion). A consolidate's windows that end after the next pane are the new owner's: computes
# send it the partial results of those windows that they still have, and new partial results go to the owners that need
# them.


def instant(job: RunningJob, name: str, flows: Sequence[KeyFlow], record: EventRecord) -> Process:
    """Moves key groups of one operator, which must admit instant migration."""
    operator = job.world.query.operator(name)
    record.paused_s, record.bytes = 0.0, 0.0
    if not operator.merges:
        fan = job.fan(name)
        if operator.needs_event_time:
            member = Member(job, name)
            left = [member.subtask(flow.source).bytes_of(keys_of(member.owners.keys, flow)) for flow in flows]
            record.detail["left_bytes"] = sum(left, 0.0)
        for flow in flows:
            fan.shift(flow.source, flow.target, flow.amount, flow.groups)
        job.checkpoints.plan_changed()
        return
    member = Member(job, name)
    cut = member.cut(flows, at_us := cut_after(job.world), at_us, by_end=True)
    _send_again(member, flows, cut, record)
    member.owners.cut(cut)
    job.checkpoints.plan_changed()
    yield from change_hands(job, [member], [cut], flows)


def _send_again(member: Member, flows: Sequence[KeyFlow], cut: Cut, record: EventRecord) -> None:
    """Lets computes send again, to the new owners, the results that the new owners' windows need."""
    job, longest_us, sent = member.job, member.longest_us, 0
    for stream in job.world.query.inputs(member.name):
        position = job.world.job.position(stream)
        for task in job.world.tasks[stream.producer]:
            compute = timed_logic(task)
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


# smooth --------------------------------------------------------------------------------------------------------------
# Smooth migration: windows that have begun stay with the old owner, later ones belong to the new owner.
#
# Enorm, Section 4.5. Nothing is moved and nobody waits. Where windows overlap, records around the cut are in windows of
# both, so they are sent to both. The migration is over when the last window of the old owner is complete. The cut lies
# ahead of all that was sent, and so of all that is sent again after a failure: a migration that is under way then goes
# on.


def smooth(job: RunningJob, members: Sequence[Member], flows: Sequence[KeyFlow], record: EventRecord) -> Process:
    """Moves key groups of one component smoothly."""
    record.paused_s, record.bytes = 0.0, 0.0
    at_us = cut_after(job.world)
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
    logic = member.subtasks[0]
    return logic.results if isinstance(logic, ComputeLogic) else True


def _copies(job: RunningJob, members: Sequence[Member]) -> int:
    """Number of copies of records that came to the component so far, not counting streams inside it."""
    names = {member.name for member in members}
    coming = {key: made.counts.copies for key, made in job.world.streams.items() if key[0] not in names}
    return sum(n for key, n in coming.items() if key[1] in names)
