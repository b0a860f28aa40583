"""Takes checkpoints: barriers leave the sources, each task that they reach is kept and uploaded. After Flink.

One at a time. A change of the plan, or a failure, ends the one that is under way; a change is followed by one that is
taken at once and costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.channels import channels
from twin.change.checkpoint import complete, counted, take_checkpoint
from twin.change.increments import changed_bytes
from twin.change.progress import Progress
from twin.change.restarting import all_tasks
from twin.change.storage import Storage
from twin.engine.station.barriers import BarrierGate, Way
from twin.engine.station.task import Task

if TYPE_CHECKING:
    from twin.change.reconfiguration import Reconfigurer
    from twin.checkpoints import Checkpoints

Process = Generator[simpy.Event, Any, None]


class Coordinator:
    """last: the checkpoint to which a failure takes the job back. base: tuples that each task had taken up then."""

    def __init__(self, change: Reconfigurer, spec: Checkpoints) -> None:
        self.change = change
        self.spec = spec
        self.wiring = change.wiring
        self.world = change.world
        self.env = change.env
        self.storage = Storage(self.wiring, spec)
        self.last = take_checkpoint(self.world)
        self.base: dict[Task, int] = {}
        self.running: Progress | None = None
        self._number = 0
        change.on_begin = self._plan_changes
        change.on_change = self._plan_changed
        change.on_arrival = self._arrived
        self.env.process(self._run())

    def abort(self, why: str) -> None:
        """Gives up the checkpoint that is under way, if there is one."""
        running, self.running = self.running, None
        if running is not None:
            for task in running.parts:
                assert task.gate is not None
                task.gate.abandon()
            self.storage.clear()
            running.failed(why, self.env.now)

    # changes of the plan -------------------------------------------------------------------------------------------

    def _plan_changes(self) -> None:
        self.abort("the plan changes")

    def _plan_changed(self) -> None:
        self.abort("the plan changed")
        if self.change.outage is None:
            self.last = take_checkpoint(self.world)
            self.last.sizes = {task: self._held(task) for task in self.last.tasks}
            self._completed()

    def _arrived(self, task: Task) -> None:
        """A replica that came since the checkpoint goes back to how it came: empty."""
        self.last.tasks[task] = task.snapshot()

    # one after the other -------------------------------------------------------------------------------------------

    def _run(self) -> Process:
        due_s = self.spec.interval_s
        while True:
            yield self.env.timeout(max(0.0, due_s - self.env.now))
            while self.change.outage is not None:
                yield self.change.outage
            started_s = self.env.now
            if self.change.under_way:
                self._next().failed("the plan changes", started_s)
            else:
                running = self._begin()
                yield running.ended | self.env.timeout(self.spec.timeout_s)
                if self.running is running:
                    self.abort(f"not complete after {self.spec.timeout_s:g} s")
            due_s = max(started_s + self.spec.interval_s, self.env.now + self.spec.min_pause_s)

    def _next(self) -> Progress:
        self._number += 1
        return Progress(self.world.ledger, self.env, self._number)

    def _begin(self) -> Progress:
        ways: defaultdict[Task, set[Way]] = defaultdict(set)
        outs: dict[Task, list[list[int]]] = {task: [[] for _ in task.ports] for task in all_tasks(self.wiring)}
        for each in channels(self.wiring):
            ways[each.consumer].add((each.side, each.producer))
            outs[each.producer][each.port].append(each.replica)
        running = self.running = self._next()
        running.await_all(outs)
        gates = [self._gate(task) for task in outs]
        for gate in gates:
            gate.expect(self._number, ways[gate.station], outs[gate.station])
        for gate in gates:
            if not gate.ways:
                gate.begin()
        return running

    def _gate(self, task: Task) -> BarrierGate:
        if task.gate is None:
            task.gate = BarrierGate(task, self.spec.mode == "unaligned", self._work_s, self._passed)
        return task.gate

    # one task ------------------------------------------------------------------------------------------------------

    def _held(self, task: Task) -> float:
        return self.wiring.state_bytes(task, self.wiring.operator_of(task))

    def _work_s(self, gate: BarrierGate) -> float:
        """A task is as it will be kept: notes what that is, and what it takes."""
        assert self.running is not None
        task, part = gate.station, self.running.parts[gate.station]
        part.held_bytes = part.changed_bytes = self._held(task)
        part.came, part.counted = task.tuples_in, counted(task)
        if self.spec.state == "incremental" and task in self.base:
            came = task.tuples_in - self.base[task]
            changed = changed_bytes(self.wiring, task, self.wiring.operator_of(task), came)
            part.changed_bytes = min(part.held_bytes, changed)
        part.work_s = self.spec.sync_ms * 1e-3 + part.changed_bytes * self.spec.sync_ns_per_byte * 1e-9
        return part.work_s

    def _passed(self, gate: BarrierGate) -> None:
        assert self.running is not None
        self.running.parts[gate.station].know(gate)
        self.env.process(self._upload(self.running, gate.station))

    def _upload(self, running: Progress, task: Task) -> Process:
        part = running.parts[task]
        sync_s = part.work_s * task.processor.slowdown / task.processor.speed
        yield self.env.timeout(max(0.0, part.reached_s + sync_s - self.env.now))
        yield from self.storage.put(self.wiring.places[task], part.uploaded_bytes, lambda: running is self.running)
        part.done = True
        if running is self.running and all(each.done for each in running.parts.values()):
            self.last, self.running = running.checkpoint(), None
            self._completed()
            self.base = {each: known.came for each, known in running.parts.items()}
            running.completed(self.env.now)

    def _completed(self) -> None:
        complete(self.last, self.env.now)
        self.base = {task: task.tuples_in for task in self.last.tasks}
