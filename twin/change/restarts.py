"""Restarts: changes of the plan by an engine that stops the whole job for them, as Flink does.

A restart is a planned failover. `restart` stops with a savepoint: sources pause, records under way are processed, all
state is written to storage, and the job goes on from there: no record is read twice. Calls that have no answer yet are
state, and are made again (Flink's AsyncWaitOperator); sinks wait for their answers (AsyncSinkWriter). `reactive` goes
back to the last checkpoint instead, and sources read again. Changes that are asked for while the job is down share one
restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import methodcaller
from typing import Any, NamedTuple

import simpy

from twin.change.failover import Failover
from twin.change.running_job import Process, RunningJob
from twin.change.storage import Storage
from twin.checkpoints import Checkpoints
from twin.plan import Location
from twin.world.ledger import EventRecord
from twin.world.parts import Task

BLOCK, UNBLOCK = methodcaller("block"), methodcaller("unblock")


class Request(NamedTuple):
    """Change that waits for a restart. attempt: makes the change while the job stands still, which takes no time.
    records: rows of the ledger. made: an event that occurs when the job runs again, with the change."""

    attempt: Callable[[], Process]
    records: Sequence[EventRecord]
    made: simpy.Event


class Restarts:
    """Makes changes of the plan by restarts. leaving: processes that end unused subtasks, once the job runs again."""

    def __init__(self, job: RunningJob, failover: Failover) -> None:
        self.job = job
        self.failover = failover
        self.spec = job.world.engine.rescaling
        self.env = job.env
        self.leaving: list[Process] = []
        self._waiting: list[Request] = []
        self._under_way = False
        self._stores: dict[str, Storage] = {}

    def change(self, attempt: Callable[[], Process], records: Sequence[EventRecord]) -> Process:
        """Makes a change with the next restart, and ends when the job runs again."""
        request = Request(attempt, records, self.env.event())
        self._waiting.append(request)
        if not self._under_way:
            self._under_way = True
            self.env.process(self._run())
        yield request.made

    def _run(self) -> Process:
        while self._waiting:
            yield from self._restart()
        self._under_way = False

    def _restart(self) -> Process:
        availability, record = self.job.availability, EventRecord("restart", "", self.env.now)
        changed: list[Request] = []
        while not changed:
            yield from availability.up()
            self.job.checkpoints.plan_changes()
            record.at_s = self.env.now
            if self.spec.how == "reactive" or (yield from availability.all_done([self._save(record)])):
                yield from self.failover.restart(record, self.spec.redeploy_s, self._block)
                yield from availability.all_done([self._change(record, changed)])
            if not changed:
                record.detail["interrupted"] = record.detail.get("interrupted", 0) + 1
        yield from availability.up()  # a failure while state was fetched has started the job again by itself
        self._close(record, [row for request in changed for row in request.records])
        leaving, self.leaving = self.leaving, []
        yield self.env.all_of([self.env.process(work) for work in leaving])
        if leaving:
            self.job.checkpoints.plan_changed()
        for request in changed:
            request.made.succeed()

    def _close(self, restart: EventRecord, records: Sequence[EventRecord]) -> None:
        """Puts the bytes and details of the restart into the row of the first change, and the pause into all rows."""
        for record in records:
            record.bytes, record.paused_s = 0.0, float(self.env.now - restart.at_s)
        records[0].bytes = restart.bytes
        records[0].detail |= restart.detail

    # stop -----------------------------------------------------------------------------------------------------------

    def _save(self, record: EventRecord) -> Process:
        """Stops the job with a savepoint."""
        self._outputs(BLOCK, sources=True)
        yield self.env.until(self._passed)
        record.detail["drained_s"] = float(self.env.now - record.at_s)
        self._outputs(BLOCK, sources=False)
        record.detail["saved_s"] = yield from self._pass(record, Storage.put)
        self.job.checkpoints.plan_changed()

    def _block(self) -> None:
        self._outputs(BLOCK, sources=True)
        self._outputs(BLOCK, sources=False)

    def _outputs(self, change: Callable[[Any], None], *, sources: bool) -> None:
        """Blocks or unblocks sources, or all others."""
        for task in self.job.world.every_task():
            if task.polls == sources:
                change(task.output)

    def _passed(self) -> bool:
        """Whether only sources have records. Moves a barrier on as far as it gets: it passes operators with nothing to
        process, and sends their records that wait for the next flush, which may let it pass others."""
        at_work, sent = True, True
        while sent:
            at_work, sent = self._pass_barrier()
        return not at_work

    def _pass_barrier(self) -> tuple[bool, bool]:
        """Whether an operator has something to process, and whether records were sent that waited for a flush."""
        world, query = self.job.world, self.job.world.query
        behind = cache(self.job.awaiting)  # called last, as it looks at all records on their way, and after each event
        at_work: set[str] = set()
        sent = False
        for name in (each.name for each in query.topological if each.name in world.tasks):
            tasks = world.tasks[name]
            works = at_work & query.ancestors(name) or any(map(_works, tasks))
            if works or any(not task.polls and task in behind() for task in tasks):
                at_work.add(name)
                continue
            for task in tasks:
                task.logic.save()
            waiting = [(port, count) for task in tasks for port in task.ports if (count := port.waiting())]
            for port, _ in waiting:
                port.flush()
            sent = sent or any(port.waiting() < count for port, count in waiting)
            if waiting:
                at_work.add(name)
        return bool(at_work), sent

    # restart --------------------------------------------------------------------------------------------------------

    def _change(self, record: EventRecord, changed: list[Request]) -> Process:
        """Makes the waiting changes while all tasks are held. changed: gets them when no failure can undo them."""
        job = self.job
        if self.spec.how == "reactive":  # the checkpoint may hold records under way to the former owners of keys
            self._outputs(UNBLOCK, sources=False)
            yield self.env.until(self._passed)
            self._outputs(BLOCK, sources=False)
        # calls of the savepoint belong to no key, and stay where they are
        asked = [(task, task.hide_queue()) for task in job.world.every_task() if not task.polls]
        job.stopped = True
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            yield from request.attempt()
        job.stopped = False
        for task, queue in asked:
            task.show_queue(queue)
        job.checkpoints.plan_changed()
        changed += waiting
        record.detail["fetched_s"] = yield from self._pass(record, Storage.get)
        for task in job.world.every_task():
            task.logic.resume()
        self._outputs(UNBLOCK, sources=False)
        self._outputs(UNBLOCK, sources=True)

    def _pass(self, record: EventRecord, way: Callable[[Storage, Location, float], Process]) -> Process:
        """Moves all state to storage or from it. Returns the seconds it takes; the record gets the bytes."""
        since_s, job = self.env.now, self.job
        sizes = [(task, job.state_bytes(task, name)) for name, tasks in job.world.tasks.items() for task in tasks]
        works = [way(self._store(task.place), task.place, size) for task, size in sizes if size > 0.0]
        yield self.env.all_of([self.env.process(work) for work in works])
        record.bytes = float(sum(size for _, size in sizes))
        return float(self.env.now - since_s)

    def _store(self, place: Location) -> Storage:
        """Storage of checkpoints if the scenario names one; else a storage of its own for the host of `place`."""
        spec = self.job.world.checkpoints
        if spec is not None and (spec.storage is not None or spec.storage_mbps is not None):
            where, given = "", spec
        else:
            where, given = place.host, Checkpoints(storage_mbps=self.spec.state_mbps)
        return self._stores.setdefault(where, Storage(self.job.world, given))


def _works(task: Task) -> bool:
    """Whether a task has something to do before a barrier passes it."""
    logic, blocked = task.logic, task.output.blocked > task.polls
    return bool(task.busy or blocked or task.waits or (logic.sinks() and logic.away()))
