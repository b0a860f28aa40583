"""Failures, and restarts, which are planned failovers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

import simpy

from twin.change.checkpoint import Storage
from twin.change.fan import regions
from twin.change.kept import Checkpoint, finish, restore, stop_all
from twin.change.running_job import Process, RunningJob, relocate
from twin.checkpoints import Checkpoints
from twin.events import Failure
from twin.plan import Location
from twin.scheduling import emptiest
from twin.world.meters import EventRecord
from twin.world.parts import Task

if TYPE_CHECKING:
    from twin.change.checkpoint import FreeCheckpoints

# failures ------------------------------------------------------------------------------------------------------------
# Failures: all tasks connected with one on the failed host (Flink's regions), or the whole job, start again.
#
# Tasks stop, and the records on their way to them are lost. They go on from a checkpoint, at their places or, if the
# host does not come back, on other hosts.


@dataclass(slots=True, eq=False)
class Outage:
    """Tasks that are down together, until `until_s`. hosts: the failed hosts.

    ready: called in a planned restart when the tasks have their state again, before they go on; None after a failure.
    """

    tasks: list[Task]
    until_s: float
    record: EventRecord
    hosts: set[str] = field(default_factory=set)
    ready: Callable[[], None] | None = None


class Failover:
    """Stops and restarts regions, or the whole job. A failure that hits tasks that are down prolongs their outage."""

    def __init__(self, checkpoints: FreeCheckpoints) -> None:
        self.checkpoints = checkpoints
        self.job = checkpoints.job
        self.availability = checkpoints.availability
        self.world = checkpoints.world
        self.env = checkpoints.env
        self.ledger = checkpoints.world.ledger
        self.outages: list[Outage] = []

    def restart(self, record: EventRecord, after_s: float, ready: Callable[[], None]) -> Process:
        """Stops the whole job on purpose. It goes on from the last checkpoint after `after_s`. ready: see `Outage`."""
        tasks = self.world.every_task()
        yield from self._down(Outage(tasks, self.env.now + after_s, record, ready=ready))

    def give_up(self, why: str) -> Process:
        """Lets the whole job fail, for a reason. It goes on from the last checkpoint when it is deployed again; nobody
        has to notice."""
        self.checkpoints.abort("the job failed")
        record = self.ledger.record("failure", "job", self.env.now, why=why)
        engine = self.world.engine
        until_s = self.env.now + engine.recovery.delay_s + engine.rescaling.redeploy_s
        yield from self._down(Outage(self.world.every_task(), until_s, record))

    def fail(self, failure: Failure) -> Process:
        """Waits until the host fails, and until the tasks that this stops run again."""
        yield from self.checkpoints.before(failure.at_s)
        yield self.env.timeout(max(0.0, failure.at_s - self.env.now))  # floor(x / y) * y may be more than x
        tasks = self.world.every_task()
        if not self.outages and all(task.halted for task in tasks):
            return  # it ran out of memory, which is final
        if failure.lost:
            self.job.lost.add(failure.host)
        if not any(task.place.host == failure.host for task in tasks):
            record = self.ledger.record(failure.kind, failure.host, self.env.now)
            record.detail["effect"] = "none: it carries no operator"
            self.ledger.warnings.append(
                f"failure of {failure.host} at {failure.at_s:g} s changes nothing: it carries no operator"
            )
            return
        until_s = math.inf if failure.recover_after_s is None else self.env.now + failure.recover_after_s
        self.checkpoints.abort(f"{failure.host} failed")
        hit = self._hit(failure.host)
        for outage in self.outages:
            if hit.intersection(outage.tasks):
                self._prolong(outage, failure.host, until_s)
                hit.difference_update(outage.tasks)
        if hit:
            record = self.ledger.record(failure.kind, failure.host, self.env.now)
            yield from self._down(Outage([task for task in tasks if task in hit], until_s, record, {failure.host}))

    def _hit(self, host: str) -> set[Task]:
        """Tasks that start again: all, if the whole job always does or the plan changes; else all of the regions
        hit."""
        whole = self.checkpoints.whole or self.availability.changes
        groups = [self.world.every_task()] if whole else regions(self.world)
        return {task for group in groups if any(task.place.host == host for task in group) for task in group}

    def _prolong(self, outage: Outage, host: str, until_s: float) -> None:
        outage.until_s = max(outage.until_s, until_s)
        outage.hosts.add(host)
        hosts = outage.record.component.split(", ")
        if outage.ready is not None:
            record = self.ledger.record("failure", host, self.env.now)
            record.detail["effect"] = "it prolongs the restart that is under way"
        elif host not in hosts:
            outage.record.component += f", {host}"

    def _down(self, outage: Outage) -> Process:
        record, checkpoint, count = outage.record, self.checkpoints.last, len(self.world.every_task())
        self.outages.append(outage)
        self.availability.fail()
        lost, duplicates = self.stop(checkpoint, outage.tasks)
        record.detail |= {
            "restarted": len(outage.tasks),
            "of": count,
            "checkpoint_s": checkpoint.at_s,
            "lost": lost,
            "duplicates": duplicates,
        }
        while self.env.now < outage.until_s < math.inf:
            yield self.env.timeout(outage.until_s - self.env.now)
            self._replace(outage)
            if outage.ready is None:
                yield from self.checkpoints.fetch(outage.tasks, record)
        if outage.until_s == math.inf:
            for task in outage.tasks:
                task.halted = True
            record.detail |= {"restarted": 0, "duplicates": 0}  # nothing is read again, so no result comes again
            self.ledger.duplicates -= duplicates
            what = "the job" if len(outage.tasks) == count else "what was there"
            self.ledger.warnings.append(
                f"{record.component} failed at {record.at_s:g} s and never recovers: {what} stays down"
            )
        elif not all(task.halted for task in outage.tasks):
            self._up(outage)

    def _replace(self, outage: Outage) -> None:
        """Moves the subtasks on lost hosts to the other hosts.

        The k-th subtasks of all operators of a slot sharing group on a host move together, as in a slot of Flink. The
        processor with the fewest subtasks per core takes the next slot. A host that only stores checkpoints takes none,
        but where no other is left.
        """
        slots: dict[tuple[str, str, int], list[tuple[str, Task]]] = defaultdict(list)
        groups = self.world.query.slot_sharing_groups
        for name, tasks in self.world.tasks.items():
            for host in sorted(self.job.lost & outage.hosts):
                there = [task for task in tasks if task.place.host == host and task in outage.tasks]
                for number, task in enumerate(there):
                    slots[host, groups[name], number].append((name, task))
        for slot in slots.values():
            place = self._emptiest(len(slot), outage)
            for name, task in slot:
                relocate(self.job, task, name, place)
                outage.record.detail.setdefault("moved", {})[task.name] = str(place)

    def _emptiest(self, more: int, outage: Outage) -> Location:
        """Place that has the fewest subtasks per core with `more` added; the first of several."""
        tasks = self.world.every_task()
        storage = None if self.world.checkpoints is None else self.world.checkpoints.storage
        left = [host for name, host in self.world.hosts.items() if name not in self.job.lost]
        used = {task.place.host for task in tasks}
        hosts = [host for host in left if host.name != storage or host.name in used] or left
        down = {name for other in self.outages if other is not outage for name in other.hosts}
        up = [host for host in hosts if host.name not in down] or hosts
        cores = {
            Location(host.name, socket): host.socket_capacity(socket)
            for host in up
            for socket in range(host.socket_count)
        }
        return emptiest(cores, Counter(task.place for task in tasks), more)

    def stop(self, checkpoint: Checkpoint, tasks: Sequence[Task]) -> tuple[int, int]:
        """Stops subtasks; see `twin.change.kept.stop_all`."""
        return stop_all(self.world, checkpoint, tasks)

    def go_on(self, checkpoint: Checkpoint, outage: Outage) -> int:
        """Lets the subtasks of an outage go on from a checkpoint. Returns the number of records that sources read
        again."""
        replayed = restore(self.world, checkpoint, outage.tasks)
        finish(self.world, checkpoint, set(outage.tasks))
        if outage.ready is not None:
            outage.ready()
        for task in outage.tasks:
            task.unblock()
        return replayed

    def _up(self, outage: Outage) -> None:
        record = outage.record
        self.outages.remove(outage)
        record.detail["replayed"] = self.go_on(self.checkpoints.last, outage)
        self.checkpoints.went_back(outage.tasks)
        record.end_s = self.env.now
        record.paused_s = record.end_s - record.at_s
        if not self.outages:
            self.availability.recover()


# restarts ------------------------------------------------------------------------------------------------------------
# Restarts: changes of the plan by an engine that stops the whole job for them, as Flink does.
#
# A restart is a planned failover. `restart` stops with a savepoint: sources pause, records under way are processed,
# all state is written to storage, and the job goes on from there: no record is read twice. Calls that have no answer
# yet are state, and are made again (Flink's AsyncWaitOperator); sinks wait for their answers (AsyncSinkWriter).
# `reactive` goes back to the last checkpoint instead, and sources read again. Changes that are asked for while the job
# is down share one restart.


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
            ports = [port for task in tasks for port in task.ports]  # a watermark in a batch may let windows leave
            waiting = [(port, port.remaining, port.gathers) for port in ports if port.holds_records or port.gathers]
            for port, _, _ in waiting:
                port.flush()
            sent = sent or any(gathers or port.remaining < count for port, count, gathers in waiting)
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
