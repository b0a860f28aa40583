"""A running job, as those see it who change it."""

from __future__ import annotations

from dataclasses import dataclass

from twin.change.availability import Availability
from twin.change.fan import Fan
from twin.change.free_checkpoints import NoCheckpoints
from twin.change.rewiring import Rewiring
from twin.engine.calendar import Calendar
from twin.engine.logic import Station
from twin.engine.measure.ledger import EventRecord
from twin.engine.measure.meters import Statistics
from twin.engine.streams.route import destination
from twin.wiring.world import World


@dataclass(frozen=True, slots=True)
class RunningJob:
    """Its wiring and meters, whether it is up, and its checkpoints."""

    wiring: Rewiring
    statistics: Statistics
    availability: Availability
    checkpoints: NoCheckpoints

    @property
    def world(self) -> World:
        """What it consists of."""
        return self.wiring.world

    @property
    def env(self) -> Calendar:
        """Its clock."""
        return self.wiring.world.env

    def fan(self, operator: str) -> Fan:
        """The ways into an operator."""
        return self.wiring.fan(operator)

    def heeds_event_time(self, operator: str) -> bool:
        """Whether watermarks pass an operator."""
        return operator in self.wiring.event_times.heeding

    def outstanding(self, task: Station) -> int:
        """Tuples queued at a task, on the way to it, and waiting to be sent to it."""
        flying = sum(
            record.n
            for record in self.world.in_flight()
            if (inbox := destination(record)) is not None and inbox.task is task
        )
        ports = [port for producer in self.world.every_task() for port in producer.ports]
        unsent = sum(record.n for port in ports for path, record in port.unsent() if path.inbox.task is task)
        return task.queued + flying + unsent

    def refuse(self, record: EventRecord, why: str) -> None:
        """Notes that nothing was done, and why."""
        record.detail["refused"] = why
        self.world.ledger.warnings.append(f"{record.kind} of {record.component} at {record.at_s:g} s: {why}")
