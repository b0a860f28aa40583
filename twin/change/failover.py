"""Failures of a part of a job: what is connected with a task on the host starts again. After Flink's regions."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.channels import regions
from twin.change.restarting import all_tasks, restart, stop
from twin.engine.measure.ledger import EventRecord
from twin.engine.station.task import Task
from twin.events import Failure

if TYPE_CHECKING:
    from twin.change.coordinator import Coordinator

Process = Generator[simpy.Event, Any, None]


@dataclass(slots=True, eq=False)
class Outage:
    """Tasks that are down together, until then."""

    tasks: list[Task]
    until_s: float
    record: EventRecord


class Failover:
    """Stops and restarts of regions, or of the whole job; a failure that hits what is down already prolongs that."""

    def __init__(self, coordinator: Coordinator, failures: Sequence[Failure]) -> None:
        self.coordinator = coordinator
        self.change = coordinator.change
        self.wiring = coordinator.wiring
        self.env = coordinator.env
        self.ledger = coordinator.world.ledger
        self.outages: list[Outage] = []
        for failure in failures:
            self.env.process(self._fail(failure))

    def _fail(self, failure: Failure) -> Process:
        yield self.env.timeout(failure.at_s)
        if not any(self.wiring.places[task].host == failure.host for task in all_tasks(self.wiring)):
            record = self.ledger.record(failure.kind, failure.host, self.env.now)
            record.detail["effect"] = "none: it carries no operator"
            self._warn(f"failure of {failure.host} at {failure.at_s:g} s changes nothing: it carries no operator")
            return
        until_s = math.inf if failure.recover_after_s is None else self.env.now + failure.recover_after_s
        self.coordinator.abort(f"{failure.host} failed")
        hit = self._hit(failure.host)
        for outage in self.outages:
            if hit.intersection(outage.tasks):
                outage.until_s = max(outage.until_s, until_s)
                outage.record.component += f", {failure.host}"
                hit.difference_update(outage.tasks)
        if hit:
            tasks = [task for task in all_tasks(self.wiring) if task in hit]
            yield from self._down(Outage(tasks, until_s, self.ledger.record(failure.kind, failure.host, self.env.now)))

    def _hit(self, host: str) -> set[Task]:
        """What starts again: all, if so it is wanted, or while the plan changes."""
        whole = self.coordinator.spec.failover == "full" or self.change.under_way
        groups = [all_tasks(self.wiring)] if whole else regions(self.wiring)
        return {
            task for group in groups if any(self.wiring.places[task].host == host for task in group) for task in group
        }

    def _down(self, outage: Outage) -> Process:
        record, checkpoint = outage.record, self.coordinator.last
        self.outages.append(outage)
        if self.change.outage is None:
            self.change.outage = self.env.event()
        self.change.interrupt()
        lost, duplicates = stop(self.wiring, checkpoint, outage.tasks)
        record.detail |= {
            "restarted": len(outage.tasks),
            "of": len(all_tasks(self.wiring)),
            "checkpoint_s": checkpoint.at_s,
            "lost": lost,
            "duplicates": duplicates,
        }
        while self.env.now < outage.until_s < math.inf:
            yield self.env.timeout(outage.until_s - self.env.now)
            yield from self._fetch(outage)
        if outage.until_s == math.inf:
            for task in outage.tasks:
                task.halted = True
            self._warn(f"{record.component} failed at {record.at_s:g} s and never recovers: what was there stays down")
            return
        self._up(outage)

    def _fetch(self, outage: Outage) -> Process:
        """Each task gets its state back from where it is kept."""
        storage, sizes, places = self.coordinator.storage, self.coordinator.last.sizes, self.wiring.places
        wanted = [(places[task], sizes.get(task, 0.0)) for task in outage.tasks]
        outage.record.bytes = sum(size for _, size in wanted)
        since_s = self.env.now
        yield self.env.all_of([self.env.process(storage.get(place, size)) for place, size in wanted if size > 0.0])
        outage.record.detail["fetched_s"] = self.env.now - since_s

    def _up(self, outage: Outage) -> None:
        record = outage.record
        self.outages.remove(outage)
        ended = self.change.outage
        assert ended is not None
        if not self.outages:
            self.change.outage = None
        record.detail["replayed"] = restart(self.wiring, self.coordinator.last, outage.tasks)
        self.coordinator.base |= {task: task.tuples_in for task in outage.tasks if task in self.coordinator.base}
        record.end_s = self.env.now
        record.paused_s = record.end_s - record.at_s
        if not self.outages:
            ended.succeed()

    def _warn(self, text: str) -> None:
        self.ledger.warnings.append(text)
