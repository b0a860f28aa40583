"""World: all mechanisms of one run, by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from twin.engine.arrival.broker import Broker
from twin.engine.calendar import Calendar
from twin.engine.host import HostMemory
from twin.engine.keys.aligned import AlignedKeys
from twin.engine.keys.groups import KeyGroups
from twin.engine.logics.calls import Gate
from twin.engine.measure.ledger import Ledger
from twin.engine.processor import Processor
from twin.engine.record import Record
from twin.engine.sockets import BandwidthLimit
from twin.engine.station.pool import Pool
from twin.engine.station.task import Task
from twin.engine.streams.channel import Inbox, StreamCounts
from twin.engine.streams.network import Nic
from twin.engine.windows.ownership import Ownership
from twin.engine.windows.panes import History, WindowAudit
from twin.engine.windows.watermark import TimedLogic
from twin.plan import Location


@dataclass(slots=True)
class StreamParts:
    """Parts of one stream. inboxes: inboxes of all receivers that it has had. aligned: pattern between the key groups
    of its producer and of its consumer; None without an alignment."""

    counts: StreamCounts = field(default_factory=StreamCounts)
    inboxes: list[Inbox] = field(default_factory=list)
    aligned: AlignedKeys | None = None


@dataclass(slots=True)
class World:
    """All parts of one run, as `twin.wiring.build` makes them."""

    env: Calendar
    processors: dict[Location, Processor] = field(default_factory=dict)
    nics: dict[str, Nic] = field(default_factory=dict)
    links: dict[str, Nic] = field(default_factory=dict)  # one a direction: "a->b"
    tasks: dict[str, list[Task]] = field(default_factory=dict)
    streams: dict[tuple[str, str], StreamParts] = field(default_factory=dict)  # by their ends
    brokers: dict[str, list[Broker]] = field(default_factory=dict)
    memories: dict[str, HostMemory] = field(default_factory=dict)
    key_groups: dict[str, KeyGroups] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    owners: dict[str, Ownership] = field(default_factory=dict)  # of operators over event time
    audits: dict[str, WindowAudit] = field(default_factory=dict)  # of operators over event time
    undone: list[History] = field(default_factory=list)  # by failures
    gates: dict[str, Gate] = field(default_factory=dict)  # by operator whose external system has a rate limit
    limits: list[BandwidthLimit] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)

    def every_task(self) -> list[Task]:
        """Tasks of all operators."""
        return [task for tasks in self.tasks.values() for task in tasks]

    def every_nic(self) -> list[Nic]:
        """Cards of all hosts, and all directions of links."""
        return [*self.nics.values(), *self.links.values()]

    def history(self) -> History:
        """History of operators over event time, which the run goes on writing."""
        far_us = {
            name: [task.logic.watermark_us for task in self.tasks[name] if isinstance(task.logic, TimedLogic)]
            for name in self.owners
        }
        return History(self.audits, far_us)

    def in_flight(self) -> list[Record]:
        """Records on the network, in order of arrival: those that a pending event will deliver."""
        return [value for value in self.env.pending() if isinstance(value, Record)]
