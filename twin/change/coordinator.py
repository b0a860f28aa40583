"""Coordinator of checkpoints, as in Flink: barriers leave the sources, and the state of each task that they reach is
uploaded.

There is one checkpoint at a time. A change of the plan, or a failure, ends the one that is under way. A change is
followed by a checkpoint that is taken at once and costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import simpy

from twin.change.channels import channels
from twin.change.checkpoint import Checkpoint, FreeCheckpoints, complete, counted
from twin.change.running_job import Process
from twin.change.storage import Storage
from twin.engine.measure.ledger import EventRecord
from twin.engine.station.barriers import BarrierInput, Barriers, CheckpointPart
from twin.engine.station.task import Task
from twin.keys import touched
from twin.randomness import random_stream

if TYPE_CHECKING:
    from twin.change.running_job import RunningJob
    from twin.checkpoints import Checkpoints
    from twin.engine.measure.ledger import Ledger
    from twin.engine.station.barriers import CheckpointPart
    from twin.engine.station.task import Task

KIND = "checkpoint"
"""Kind of a checkpoint's row among the events."""


class CheckpointUnderWay:
    """Progress of checkpoint `number`. parts: parts of all tasks. ended: occurs when it is complete or given up."""

    def __init__(self, ledger: Ledger, env: simpy.Environment, number: int) -> None:
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
            made.flying += part.flying
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
    """Takes the checkpoints of a job by barriers. base: tuples that each task had taken at the last checkpoint."""

    def __init__(self, job: RunningJob, spec: Checkpoints) -> None:
        super().__init__(job, spec.interval_s)
        self.spec = spec
        self.whole = spec.failover == "full"
        self.storage = Storage(job.wiring, spec)
        self.base: dict[Task, int] = {}
        self.running: CheckpointUnderWay | None = None
        self._number = 0

    def abort(self, why: str) -> None:
        """Gives up the checkpoint that is under way, if there is one."""
        running, self.running = self.running, None
        if running is not None:
            for task in running.parts:
                assert task.barriers is not None
                task.barriers.abandon()
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
            self.base = {task: task.tuples_in for task in self.last.tasks}

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
        self.base |= {task: task.tuples_in for task in tasks if task in self.base}

    # checkpoints, one after the other ------------------------------------------------------------------------------

    def run(self) -> Process:
        """Takes checkpoints, one after the other. Chance draws the start of the first, so that none are in step with
        windows, which end at multiples of their slides."""
        due_s = float(self.spec.phases_s(random_stream(self.wiring.settings.seed, "checkpoints").random(1))[0])
        while True:
            yield self.env.timeout(max(0.0, due_s - self.env.now))
            yield from self.availability.up()
            started_s = self.env.now
            if self.availability.changes:
                self._next().failed("the plan changes", started_s)
            else:
                running = self._begin()
                yield running.ended | self.env.timeout(self.spec.timeout_s)
                if self.running is running:
                    self.abort(f"not complete after {self.spec.timeout_s:g} s")
            due_s = max(started_s + self.spec.interval_s, self.env.now + self.spec.min_pause_s)

    def _next(self) -> CheckpointUnderWay:
        self._number += 1
        return CheckpointUnderWay(self.world.ledger, self.env, self._number)

    def _begin(self) -> CheckpointUnderWay:
        ways: defaultdict[Task, set[BarrierInput]] = defaultdict(set)
        outs: dict[Task, list[list[int]]] = {task: [[] for _ in task.ports] for task in self.world.every_task()}
        for channel in channels(self.wiring):
            ways[channel.consumer].add((channel.side, channel.producer))
            outs[channel.producer][channel.port].append(channel.replica)
        running = self.running = self._next()
        running.parts = {task: CheckpointPart() for task in outs}
        gates = [self._gate(task) for task in outs]
        for gate in gates:
            gate.expect(self._number, running.parts[gate.station], ways[gate.station], outs[gate.station])
        for gate in gates:
            if not gate.ways:
                gate.begin()
        return running

    def _gate(self, task: Task) -> Barriers:
        if task.barriers is None:
            task.barriers = Barriers(task, self.spec.mode == "unaligned", self._work_s, self._passed)
        return task.barriers

    # one task ------------------------------------------------------------------------------------------------------

    def _held(self, task: Task) -> float:
        return self.job.state_bytes(task, self.job.operator_of(task))

    def _work_s(self, gate: Barriers) -> float:
        """Notes the sizes of a task's state as the checkpoint keeps it. Returns the CPU seconds of this."""
        task, part = gate.station, gate.part
        part.held_bytes = part.changed_bytes = self._held(task)
        part.came, part.counted = task.tuples_in, counted(task)
        if self.spec.state == "incremental" and task in self.base:
            came = task.tuples_in - self.base[task]
            changed = changed_bytes(self.job, task, self.job.operator_of(task), came)
            part.changed_bytes = min(part.held_bytes, changed)
        part.work_s = self.spec.sync_ms * 1e-3 + part.changed_bytes * self.spec.sync_ns_per_byte * 1e-9
        return part.work_s

    def _passed(self, gate: Barriers) -> None:
        assert self.running is not None
        self.env.process(self._upload(self.running, gate.station))

    def _upload(self, running: CheckpointUnderWay, task: Task) -> Process:
        part = running.parts[task]
        sync_s = part.work_s * task.processor.slowdown / task.processor.speed
        yield self.env.timeout(max(0.0, part.reached_s + sync_s - self.env.now))
        yield from self.storage.put(task.place, part.uploaded_bytes, lambda: running is self.running)
        part.done = True
        if running is self.running and all(part.done for part in running.parts.values()):
            self.last, self.running = running.checkpoint(), None
            complete(self.last, self.env.now)
            self.base = {task: part.came for task, part in running.parts.items()}
            running.completed(self.env.now)


def changed_bytes(job: RunningJob, task: Task, operator: str, came: int) -> float:
    """Bytes of a replica's present state that `came` tuples changed.

    Windows hold the tuples that came last. Within a key group, all keys are equally likely to be the key of a tuple; a
    key that no tuple touched has not changed.
    """
    held = task.logic.held()
    changed = task.logic.held_bytes() * min(1.0, came / held) if held > 0.0 else 0.0
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
