"""Failures: all tasks connected with one on the failed host (Flink's regions), or the whole job, start again.

Tasks stop, and the records on their way to them are lost. They go on from a checkpoint, at their places or, if the host
does not come back, on other hosts.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twin.change.fan import regions
from twin.change.kept import Checkpoint, finish, restore, stop_all
from twin.change.running_job import Process
from twin.change.subtasks import relocate
from twin.events import Failure
from twin.plan import Location
from twin.scheduling import emptiest
from twin.world.ledger import EventRecord
from twin.world.parts import Task

if TYPE_CHECKING:
    from twin.change.checkpoint import FreeCheckpoints


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
