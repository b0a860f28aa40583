"""Checkpoints of a whole job, taken at once or by barriers, and the storage to which their state goes over the network.

What a subtask does with barriers is in `twin.change.barriers`, and what a checkpoint keeps of it in `twin.change.kept`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import simpy

from twin.change.barriers import Awaited, Barriers, CheckpointPart, Way, let_overtake
from twin.change.fan import channels
from twin.change.kept import Checkpoint, bytes_of, counted, keep, take, told_only
from twin.plan import Location
from twin.workload import touched
from twin.world.meters import EventRecord
from twin.world.network import Pieces
from twin.world.parts import Task

if TYPE_CHECKING:
    from twin.change.running_job import Process, RunningJob
    from twin.checkpoints import Checkpoints
    from twin.world.meters import Ledger
    from twin.world.world import World


# transfer and storage of state ---------------------------------------------------------------------------------------
# State goes over the same cards and links as the records. The storage of checkpoints is on a host of the network, or
# of limited speed, or both; or neither, and then free.


PIECE_S = 1e-2
"""Seconds that a piece of state takes on the slowest card or link of its way.
State travels in pieces, so that records of other streams get their turn in between."""
PIECES = 1000
"""Most pieces; those of larger states are larger."""


def pieces_of(size: float, bytes_per_s: float) -> int:
    """In how many pieces so many bytes go over a way with such a slowest card or link."""
    return min(PIECES, math.ceil(size / (bytes_per_s * PIECE_S)))


def carry(
    world: World, start: Location, end: Location, size: float, wanted: Callable[[], bool] = lambda: True
) -> Process:
    """Sends `size` bytes of state from one place to another. Ends when the last piece is there, or when `wanted` says
    that they are no longer needed; within a host, at once."""
    if not size or start.host == end.host:
        return
    hops = world.network.hops(start.host, end.host)
    cards = [card for card, _ in hops]
    count = pieces_of(size, min(card.bytes_per_s for card in cards))
    each = size / count
    pieces = Pieces(world, hops, each, count)
    for left in range(count, 0, -1):
        now = world.env.now
        if not wanted():
            return
        pieces.send()
        if left > 1:  # the next piece goes when each card and link has sent this one, as far as is known now
            after_s = [card.wait_s(now) + each / card.bytes_per_s for card in cards[1:]]
            yield world.env.timeout(max(cards[0].wait_s(now), *after_s, 0.0))
    yield pieces.arrived


class Storage:
    """Storage of checkpoints, which takes state and gives it back."""

    def __init__(self, world: World, spec: Checkpoints) -> None:
        self.world = world
        self.env = world.env
        self.place = None if spec.storage is None else Location.parse(spec.storage)
        self.bytes_per_s = None if spec.storage_mbps is None else spec.storage_mbps * 1e6 / 8
        self._free_s = 0.0

    def put(self, start: Location, size: float, wanted: Callable[[], bool] = lambda: True) -> Process:
        """Sends `size` bytes of state from `start` over the network into the store. Ends when all bytes are there, or
        when `wanted` says that they are no longer needed."""
        if self.place is not None:
            yield from carry(self.world, start, self.place, size, wanted)
        if wanted():
            yield from self._pass(size)

    def clear(self) -> None:
        """Drops the state that is being stored."""
        self._free_s = self.env.now

    def get(self, end: Location, size: float) -> Process:
        """Fetches `size` bytes of state from the store to a place."""
        yield from self._pass(size)
        if self.place is not None:
            yield from carry(self.world, self.place, end, size)

    def _pass(self, size: float) -> Process:
        """Waits until the store has passed `size` bytes, first in, first out."""
        if self.bytes_per_s is not None and size > 0.0:
            self._free_s = max(self._free_s, self.env.now) + size / self.bytes_per_s
            yield self.env.timeout(self._free_s - self.env.now)


# checkpoints taken at once -------------------------------------------------------------------------------------------
# Such a checkpoint is unaligned and costs nothing (`FreeCheckpoints`): besides window contents it holds records that
# are queued or on the network. Sources keep positions in their brokers instead, and read again what they took since.


def complete(checkpoint: Checkpoint, now_s: float) -> None:
    """Tells all tasks that none of them will go back to before this checkpoint."""
    for task, snapshot in checkpoint.tasks.items():
        task.logic.complete(snapshot.kept, now_s)


class NoCheckpoints:
    """Base of the checkpoints of a job, which are told of its changes. It takes none, for jobs that never fail."""

    def plan_changes(self) -> None:
        """Notes that a change of the plan begins."""

    def plan_changed(self) -> None:
        """Notes that a change of the plan has ended: checkpoints from before it are of no use any more."""

    def joined(self, task: Task) -> None:
        """Notes that a new subtask came."""

    def abort(self, why: str) -> None:
        """Gives up the checkpoint that is under way, if there is one."""


class FreeCheckpoints(NoCheckpoints):
    """Checkpoints that are taken at once and cost nothing. last: the checkpoint to which a failure takes the job back.
    whole: whether a failure takes the whole job back.

    Only the last checkpoint before a failure, and those after changes of the plan, are really taken. every_one: takes
    all of them, for jobs that may go back to the last one at a time that is not known beforehand.
    """

    whole = True

    def __init__(self, job: RunningJob, interval_s: float, every_one: bool = False) -> None:
        self.job = job
        self.world = job.world
        self.env = job.env
        self.availability = job.availability
        self.interval_s = interval_s
        self.every_one = every_one
        self.last = self.take()
        self.world.announced = self.plan_changed

    def take(self) -> Checkpoint:
        """Takes a checkpoint now."""
        return take(self.world)

    def run(self) -> Process:
        """Takes checkpoints regularly, if all are taken (a SimPy process)."""
        while self.every_one:
            yield self.env.timeout(self.interval_s)
            self.plan_changed()

    def plan_changed(self) -> None:
        """Takes a checkpoint after a change of the plan, if the job is up."""
        if self.availability.outage is None:
            self.last = self.take()
            complete(self.last, self.env.now)

    def joined(self, task: Task) -> None:
        """Adds a new subtask to the last checkpoint: if the job fails, it goes back to how it came, empty."""
        self.last.tasks[task] = keep(task)

    def before(self, failure_s: float) -> Process:
        """Waits for the last time before a failure at which a checkpoint is due, and takes that checkpoint."""
        due_s = math.floor(failure_s / self.interval_s) * self.interval_s
        if due_s > self.env.now:
            yield self.env.timeout(due_s - self.env.now)
            self.plan_changed()

    def fetch(self, tasks: Sequence[Task], record: EventRecord) -> Process:
        """Fetches the state of each task from storage; here this takes no time."""
        yield from ()

    def went_back(self, tasks: Iterable[Task]) -> None:
        """Notes that tasks are at the last checkpoint again."""


# checkpoints by barriers ---------------------------------------------------------------------------------------------
# As in Flink, barriers leave the sources, and the state of each task that they reach is uploaded. A checkpoint is put
# together from the state of each task when a barrier came (`Coordinator`).
#
# A change of the plan, or a failure, ends the checkpoints that are under way, of which there is one, or as many as the
# scenario says. A change is followed by a checkpoint that is taken at once and costs nothing.


KIND = "checkpoint"
"""Kind of a checkpoint's row among the events."""


class CheckpointUnderWay:
    """Progress of checkpoint `number`. parts: parts of all tasks. ended: occurs when it is complete or given up."""

    def __init__(self, ledger: Ledger, env: simpy.Environment, number: int) -> None:
        self.number = number
        self.parts: dict[Task, CheckpointPart] = {}
        self.ended = env.event()
        self.record = ledger.record(KIND, "job", env.now, number=number, status="under way")

    def checkpoint(self) -> Checkpoint:
        """Checkpoint that is put together from all parts."""
        made = Checkpoint(self.record.at_s)
        for task, part in self.parts.items():
            assert part.snapshot is not None
            made.tasks[task], made.counted[task] = part.snapshot, part.counted
            made.reached[task], made.sizes[task] = part.reached_s, part.fetched_bytes
        for parts in ([part.behind for part in self.parts.values()], [part.unsent for part in self.parts.values()]):
            for flying in parts:
                made.flying += flying
        return made

    def completed(self, now_s: float) -> None:
        """Closes the checkpoint's row as completed."""
        parts = self.parts.values()
        self.record.bytes = sum(part.uploaded_bytes for part in parts)
        self.record.detail |= {
            "status": "completed",
            "state_bytes": sum(part.held_bytes for part in parts),
            "flying_bytes": sum(part.flying_bytes for part in parts),
            "alignment_s": max(part.waited_s for part in parts),
            "put_aside": sum(part.put_aside for part in parts),
            "sync_cpu_s": sum(part.work_s for part in parts),
        }
        self._end(now_s)

    def failed(self, why: str, now_s: float) -> None:
        """Closes the checkpoint's row as failed, and says why."""
        self.record.detail |= {"status": "failed", "why": why}
        self._end(now_s)

    def _end(self, now_s: float) -> None:
        self.record.end_s = now_s
        self.ended.succeed()


class Coordinator(FreeCheckpoints):
    """Takes the checkpoints of a job by barriers. base: records that each task had taken at the last checkpoint.

    running: checkpoints under way, by number. failed: checkpoints in a row that have timed out. restart: restarts the
    job, for a reason.
    """

    restart: Callable[[str], Process]

    def __init__(self, job: RunningJob, spec: Checkpoints) -> None:
        super().__init__(job, spec.interval_s)
        self.spec = spec
        self.whole = spec.failover == "full"
        self.storage = Storage(job.world, spec)
        self.base: dict[Task, int] = {}
        self.running: dict[int, CheckpointUnderWay] = {}
        self.failed = 0
        self._number = 0

    def take(self) -> Checkpoint:
        """Takes a checkpoint of the job as it is, without barriers."""
        if self.world.goes_back:
            return take(self.world)
        tasks = {task: told_only(task) for task in self.world.every_task()}  # to which nothing ever goes back
        return Checkpoint(self.world.env.now, tasks)

    def joined(self, task: Task) -> None:
        self.last.tasks[task] = keep(task) if self.world.goes_back else told_only(task)

    def abort(self, why: str) -> None:
        """Gives up the checkpoints that are under way."""
        for running in list(self.running.values()):
            self._give_up(running, why)

    def _give_up(self, running: CheckpointUnderWay, why: str) -> None:
        del self.running[running.number]
        for task in running.parts:
            assert task.barriers is not None
            task.barriers.abandon(running.number)
        if not self.running:
            self.storage.clear()
        running.failed(why, self.env.now)

    # changes of the plan, and failures -----------------------------------------------------------------------------

    def plan_changes(self) -> None:
        self.abort("the plan changes")

    def plan_changed(self) -> None:
        self.abort("the plan changed")
        super().plan_changed()
        if self.availability.outage is None:
            self.last.sizes = {task: self._held(task) for task in self.last.tasks}
            self.base = {task: task.records_in for task in self.last.tasks}

    def before(self, failure_s: float) -> Process:
        """Waits for nothing before a failure, as `run` takes checkpoints regularly."""
        yield from ()

    def fetch(self, tasks: Sequence[Task], record: EventRecord) -> Process:
        wanted = [(task.place, self.last.sizes.get(task, 0.0)) for task in tasks]
        record.bytes = sum(size for _, size in wanted)
        since_s = self.env.now
        yield self.env.all_of([self.env.process(self.storage.get(place, size)) for place, size in wanted if size > 0.0])
        record.detail["fetched_s"] = self.env.now - since_s

    def went_back(self, tasks: Iterable[Task]) -> None:
        self.base |= {task: task.records_in for task in tasks if task in self.base}

    # checkpoints, one after the other ------------------------------------------------------------------------------

    def run(self) -> Process:
        """Takes checkpoints, one after the other. Chance draws the start of the first, so that none are in step with
        windows, which end at multiples of their slides."""
        due_s = self.spec.first_of_s(self.world.settings.seed)
        while True:
            yield self.env.timeout(max(0.0, due_s - self.env.now))
            yield from self.availability.up()
            started_s = self.env.now
            if self.availability.changes:
                self._next().failed("the plan changes", started_s)
            else:
                running = self._begin()
                self.env.process(self._expire(running))
                if self.spec.aligned_timeout_s:
                    self.env.process(self._overtake(running, self.spec.aligned_timeout_s))
            while len(self.running) >= self.spec.concurrent:
                yield self.env.any_of([each.ended for each in self.running.values()])
            due_s = max(started_s + self.spec.interval_s, self.env.now + self.spec.min_pause_s)

    def _expire(self, running: CheckpointUnderWay) -> Process:
        """Gives a checkpoint up when it has taken too long. Restarts the job after too many of these in a row."""
        yield running.ended | self.env.timeout(self.spec.timeout_s)
        if running.number not in self.running:
            return
        self._give_up(running, f"not complete after {self.spec.timeout_s:g} s")
        self.failed += 1
        tolerated = self.spec.tolerated_failures
        if tolerated is not None and self.failed > tolerated:
            why = f"{self.failed} checkpoints in a row timed out, and checkpoints.tolerated_failures is {tolerated}"
            self.failed = 0
            yield from self.restart(why)

    def _overtake(self, running: CheckpointUnderWay, after_s: float) -> Process:
        """Lets barriers that begin aligned overtake when the checkpoint has taken so long. What they overtake at tasks
        that have passed them on already is uploaded, too."""
        yield running.ended | self.env.timeout(after_s)
        if running.number not in self.running:
            return
        for task, copies in let_overtake(self.world, running.number, list(running.parts)).items():
            part, size = running.parts[task], bytes_of(self.world, copies)
            part.unsent += copies
            part.flying_bytes += size
            part.uploads += 1
            self.env.process(self._upload(running, task, size))

    def _next(self) -> CheckpointUnderWay:
        self._number += 1
        return CheckpointUnderWay(self.world.ledger, self.env, self._number)

    def _begin(self) -> CheckpointUnderWay:
        ways: defaultdict[Task, set[Way]] = defaultdict(set)
        outs: dict[Task, list[list[int]]] = {task: [[] for _ in task.ports] for task in self.world.every_task()}
        for channel in channels(self.world):
            ways[channel.consumer].add((channel.side, channel.producer))
            outs[channel.producer][channel.port].append(channel.subtask)
        running = self._next()
        self.running[running.number] = running
        running.parts = {task: CheckpointPart() for task in outs}
        overtakes = self.spec.mode == "unaligned" and not self.spec.aligned_timeout_s
        gates = {task: self._gate(task) for task in outs}
        for task, gate in gates.items():
            gate.expect(Awaited(running.number, running.parts[task], ways[task], outs[task], overtakes))
        for task, gate in gates.items():
            if not ways[task]:
                gate.begin()
        return running

    def _gate(self, task: Task) -> Barriers:
        if task.barriers is None:
            task.barriers = Barriers(self.world, task, self._work_s, self._passed)
        gate: Barriers = task.barriers
        return gate

    # one task ------------------------------------------------------------------------------------------------------

    def _held(self, task: Task) -> float:
        return self.job.state_bytes(task, self.job.operator_of(task))

    def _work_s(self, task: Task, part: CheckpointPart) -> float:
        """Notes the sizes of a task's state as the checkpoint keeps it. Returns the CPU seconds of this."""
        part.held_bytes = part.changed_bytes = self._held(task)
        part.came, part.counted = task.records_in, counted(task)
        if self.spec.state == "incremental" and task in self.base:
            came = task.records_in - self.base[task]
            changed = changed_bytes(self.job, task, self.job.operator_of(task), came)
            part.changed_bytes = min(part.held_bytes, changed)
        part.work_s = self.spec.sync_ms * 1e-3 + part.changed_bytes * self.spec.sync_ns_per_byte * 1e-9
        return part.work_s

    def _passed(self, task: Task, number: int) -> None:
        running = self.running[number]
        self.env.process(self._keep(running, task, running.parts[task].uploaded_bytes))

    def _keep(self, running: CheckpointUnderWay, task: Task, size: float) -> Process:
        """Uploads a task's part when its work is done, and what each upload takes has passed."""
        part = running.parts[task]
        sync_s = part.work_s * task.processor.slowdown / task.processor.speed
        async_s = self.spec.async_ms * 1e-3
        yield self.env.timeout(max(0.0, part.reached_s + sync_s + async_s - self.env.now))
        yield from self._upload(running, task, size)

    def _upload(self, running: CheckpointUnderWay, task: Task, size: float) -> Process:
        """Uploads so many bytes of a task's part. The last of all uploads completes the checkpoint, and ends those that
        began before it."""
        yield from self.storage.put(task.place, size, lambda: running.number in self.running)
        running.parts[task].uploads -= 1
        if running.number in self.running and not any(part.uploads for part in running.parts.values()):
            for other in [each for number, each in self.running.items() if number < running.number]:
                self._give_up(other, "a later one is complete")
            del self.running[running.number]
            self.last, self.failed = running.checkpoint(), 0
            complete(self.last, self.env.now)
            self.base = {task: part.came for task, part in running.parts.items()}
            running.completed(self.env.now)


def changed_bytes(job: RunningJob, task: Task, operator: str, came: int) -> float:
    """Bytes of a subtask's present state that `came` records changed.

    Windows hold the records that came last, or accumulators to which these were added. Within a key group, all keys are
    equally likely to be the key of a record; a key that no record touched has not changed.
    """
    changed: float = task.logic.changed_bytes(came)
    keys = job.world.key_groups.get(operator)
    if keys is None or not keys.state_bytes_each:
        return changed
    mine = keys.owners() == job.fan(operator).index(task)
    weights, distinct = keys.weights[mine], keys.distinct[mine]
    total = float(weights.sum())
    if total <= 0.0:
        return changed
    chances = np.where(distinct > 0, weights / total / np.maximum(distinct, 1), 0.0)
    return changed + keys.state_bytes_each * float(np.sum(touched(came, chances)))
