"""What is counted in a run: meters, one row a period, and the ledger of what changes of the job did."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.histograms import COLUMNS, merge
from twin.kinds.registry import SOURCES
from twin.world.brokers import Broker
from twin.world.clock import Clock
from twin.world.parts import Card, Counts, Processor, Task
from twin.world.sockets import HostMemory

if TYPE_CHECKING:
    from twin.world.network import Buffer


# meters --------------------------------------------------------------------------------------------------------------
# Meters: differences of counters that the mechanisms keep, one row a period, under Flink's names.


Row = dict[str, Any]
SUMMED = ("numRecordsIn", "numRecordsOut", "numRecordsDropped", "queueLength", "stateBytes", "arrived", "backlog")
"""Columns of an operator's row that are the sums of its subtasks' rows."""


class _Counters(NamedTuple):
    """Counts of one subtask since the run began: records, and seconds busy and blocked."""

    taken: int = 0
    sent: int = 0
    dropped: int = 0
    arrived: int = 0
    busy_s: float = 0.0
    blocked_s: float = 0.0


class OperatorMeter:
    """Meter of one operator: gives a row a period, and one for each subtask that was there.

    number: position of the operator among chained ones. These are busy, blocked and idle together; records wait before
    the first of them. results: whether what it takes in counts; late records at a sink of their own are no results.
    """

    def __init__(self, name: str, kind: str, tasks: Sequence[Task], number: int = 0, results: bool = True) -> None:
        self.name = name
        self.kind = kind
        self.number = number
        self.results = results
        self.among = tasks  # the present subtasks
        self.tasks = list(tasks)  # all present and former subtasks, in the order in which they were added
        self.brokers: dict[int, Broker] = {}  # by subtask, the one that it has or had
        self.since_s = [0.0] * len(tasks)
        self.until_s = [math.inf] * len(tasks)
        # records that arrive as the run begins count in the first period
        self._before = [self._counters(k)._replace(arrived=0) for k in range(len(tasks))]

    def joined(self, task: Task, now_s: float) -> None:
        """Adds a new subtask."""
        self.tasks.append(task)
        self.since_s.append(now_s)
        self.until_s.append(math.inf)
        self._before.append(self._counters(len(self.tasks) - 1))

    def left(self, task: Task, now_s: float) -> None:
        """Notes that a subtask is gone; its counts stay."""
        self.until_s[self.tasks.index(task)] = now_s

    def _counters(self, k: int) -> _Counters:
        task = self.tasks[k]
        return _Counters(
            taken=task.logic.taken(self.number),
            sent=task.logic.sent(self.number),
            dropped=sum([port.dropped for port in task.logic.ports(self.number)]),
            arrived=broker.arrived if (broker := self._broker(k)) is not None else 0,
            busy_s=task.busy_until_now_s(),
            blocked_s=task.output.blocked_until_now_s(),
        )

    def _broker(self, k: int) -> Broker | None:
        polling = self.tasks[k].polling
        if polling is not None and polling.broker is not None:
            self.brokers[k] = polling.broker
        return self.brokers.get(k)

    def rows(self, period: int, start_s: float, end_s: float) -> tuple[Row, list[Row]]:
        """Returns the operator's row of a period and the rows of its subtasks. Resets the meter."""
        length_s, busy, blocked, there = end_s - start_s, 0.0, 0.0, 0.0
        subtasks: list[Row] = []
        for k in range(len(self.tasks)):
            since_s, until_s = max(start_s, self.since_s[k]), min(end_s, self.until_s[k])
            if until_s <= since_s:
                continue
            there_s, before = until_s - since_s, self._before[k]
            now = self._before[k] = self._counters(k)
            # work that goes on while a batch waits for room counts as blocked
            held_s = min(there_s, now.blocked_s - before.blocked_s)
            worked_s = min(there_s - held_s, now.busy_s - before.busy_s)
            there += there_s / length_s
            busy += worked_s / length_s
            blocked += held_s / length_s
            span = {"period": period, "start_s": since_s, "end_s": until_s}
            counts = self._counted(now, before) | _times(worked_s, held_s, there_s) | self._held(k)
            host, socket = self.tasks[k].place
            subtasks.append({"operator": self.name, "subtask": k, "host": host, "socket": socket, **span, **counts})
        row: Row = {
            "operator": self.name,
            "kind": self.kind,
            "parallelism": sum([until >= end_s for until in self.until_s]),
            "period": period,
            "start_s": start_s,
            "end_s": end_s,
            **_times(busy, blocked, there),
            **{key: _sum([subtask[key] for subtask in subtasks]) for key in SUMMED},
        }
        spent = [] if self.number else self.tasks[0].spent.rows()
        return row | {"spent": spent} | self._latencies() | self._watched(), subtasks

    def _counted(self, now: _Counters, before: _Counters) -> Row:
        return {
            "numRecordsIn": int(now.taken - before.taken),
            "numRecordsOut": int(now.sent - before.sent),
            "numRecordsDropped": int(now.dropped - before.dropped),
            "arrived": int(now.arrived - before.arrived) if self.kind in SOURCES else None,
        }

    def waiting(self, now_s: float) -> int:
        """Number of records that wait for the present subtasks; those of a source at its broker."""
        return sum([self._waiting(k) for k, until_s in enumerate(self.until_s) if until_s > now_s])

    def _waiting(self, k: int) -> int:
        if self.kind in SOURCES:
            return broker.backlog if (broker := self._broker(k)) is not None else 0
        return 0 if self.number else self.tasks[k].queued

    def _held(self, k: int) -> Row:
        """Queue, state and broker backlog of subtask `k` now."""
        task, source = self.tasks[k], self.kind in SOURCES
        waiting = self._waiting(k)
        return {
            "queueLength": 0 if source else waiting,
            "stateBytes": task.logic.part(self.number).held_bytes() + (0.0 if self.number else task.state_bytes),
            "backlog": waiting if source else None,
        }

    def _latencies(self) -> Row:
        sinks = [sink for task in self.tasks if (sink := task.logic.part(self.number).sink()) is not None]
        if not sinks:
            return {}
        if not self.results:
            for sink in sinks:
                sink.clear()
        row: Row = {
            "latencyCount": sum([sink.count for sink in sinks]),
            "processingLatencySum_s": sum([sink.processing_sum_s for sink in sinks]),
            "e2eLatencySum_s": sum([sink.e2e_sum_s for sink in sinks]),
            "resultDelaySum_s": sum([sink.delay_sum_s for sink in sinks]),
        }
        for key, column in COLUMNS.items():
            merged = merge(getattr(sink, key) for sink in sinks)
            row[f"{column}Buckets"] = sorted(merged)
            row[f"{column}Counts"] = [merged[index] for index in sorted(merged)]
        for sink in sinks:
            sink.clear()
        return row

    def _watched(self) -> Row:
        """Late records and the lag of the watermark, of an operator over event time."""
        logics = [task.logic.part(self.number) for task in self.among]
        found = [each for logic in logics if (each := logic.watched()) is not None]
        if not found:
            return {}
        known_s = sum([each.known_s for each in found])
        row: Row = {
            "numLateRecordsDropped": sum([each.dropped for each in found]),
            "numLateRecordsAside": sum([each.aside for each in found]),
            "watermarkLagMean_s": sum([each.lag_s for each in found]) / known_s if known_s else None,
            "watermarkLagMax_s": max([each.worst_s for each in found]) if known_s else None,
        }
        for each in found:
            each.clear()
        return row


def _times(busy: float, blocked: float, there: float) -> Row:
    """Milliseconds a second, under Flink's names, from the seconds busy, blocked and present."""
    return {
        "busyTimeMsPerSecond": 1000 * busy / there,
        "backPressuredTimeMsPerSecond": 1000 * blocked / there,
        "idleTimeMsPerSecond": 1000 * (1 - (busy + blocked) / there),
    }


def _sum(values: Sequence[Any]) -> Any:
    """Sum of the values; None if the operator has no such quantity."""
    return None if None in values else sum(values)


class HostMeter:
    """Meter of one host: gives a row a period."""

    def __init__(self, name: str, processors: Sequence[Processor], card: Card, memory: HostMemory) -> None:
        self.name = name
        self.processors = processors
        self.card = card
        self.memory = memory
        self._work_s = 0.0
        self._bytes = 0.0

    def row(self, period: int, start_s: float, end_s: float) -> Row:
        """Returns the host's row of a period, and resets the meter. Work counts when it is done, not when it begins."""
        capacity_s = sum([processor.capacity for processor in self.processors]) * (end_s - start_s)
        taken_s = sum([processor.work_s for processor in self.processors])
        due_s = (
            taken_s - sum([task.left_s() for processor in self.processors for task in processor.tasks]) - self._work_s
        )
        done_s = max(0.0, min(due_s, capacity_s))  # a task that moves takes all of its work up at once
        self._work_s += done_s
        sent = self.card.bytes_out - self._bytes
        self._bytes = self.card.bytes_out
        return {
            "host": self.name,
            "period": period,
            "start_s": start_s,
            "end_s": end_s,
            "cpuUtilisation": done_s / capacity_s,
            "memoryUsedMb": self.memory.used_mb,
            "gcSlowdown": self.memory.slowdown,
            "bytesOut": sent,
        }


class Statistics:
    """Closes a row of every meter each period, and a last, shorter one at the horizon (a SimPy process)."""

    def __init__(
        self,
        env: Clock,
        operators: Sequence[OperatorMeter],
        hosts: Sequence[HostMeter],
        links: Sequence[LinkMeter],
        streams: Sequence[StreamMeter],
        period_s: float,
        warmup_s: float,
    ) -> None:
        """Lets a period begin at the end of the warm-up: the first period is longer if the warm-up is not a whole
        number of periods, and is the warm-up if that is shorter than a period."""
        self.env = env
        self.operators = operators
        self.hosts = list(hosts)
        self.links = list(links)
        self.streams = list(streams)
        self.listeners: list[Callable[[Sequence[Row], Sequence[Row]], None]] = []  # called at the end of each period
        self.operator_rows: list[Row] = []
        self.subtask_rows: list[Row] = []
        self.host_rows: list[Row] = []
        self.link_rows: list[Row] = []
        self.stream_rows: list[Row] = []
        self._period = 0
        self._start_s = 0.0
        self._warmup_s = warmup_s
        self._period_s = period_s
        whole = int(warmup_s / period_s + 1e-9)
        self._rest_s = max(0.0, warmup_s - whole * period_s)
        if self._rest_s <= 1e-9 * period_s:
            self._rest_s = 0.0
        self._before = max(1, whole) if self._rest_s else whole  # periods of the warm-up
        env.process(self._run())

    def joined(self, operator: str, task: Task, now_s: float) -> None:
        """Notes that an operator, with those chained to it, has a new subtask."""
        for meter in self._meters(operator):
            meter.joined(task, now_s)

    def left(self, operator: str, task: Task, now_s: float) -> None:
        """Notes that an operator, with those chained to it, has lost a subtask."""
        for meter in self._meters(operator):
            meter.left(task, now_s)

    def appeared(self, host: HostMeter, card: LinkMeter) -> None:
        """Adds the meters of a host that is used for the first time."""
        self.hosts.append(host)
        self.links.append(card)

    def _meters(self, operator: str) -> list[OperatorMeter]:
        among = next(meter.among for meter in self.operators if meter.name == operator)
        return [meter for meter in self.operators if meter.among is among]

    def _run(self) -> Any:
        while True:
            yield self.env.first(self._end_s(self._period) - self.env.now)  # as at the horizon
            self.close(self.env.now)

    def _end_s(self, period: int) -> float:
        if self._rest_s:
            return self._warmup_s + (period + 1 - self._before) * self._period_s
        return (period + 1) * self._period_s

    def count(self, horizon_s: float) -> int:
        """Number of periods until `horizon_s`."""
        return self._before + math.ceil((horizon_s - self._warmup_s) / self._period_s - 1e-9)

    def close(self, now_s: float) -> None:
        """Ends the period at `now_s`; a period without length is no row."""
        if now_s - self._start_s <= 1e-9:
            return
        span = (self._period, self._start_s, now_s)
        read = [meter.rows(*span) for meter in self.operators]
        operators = [row for row, _ in read]
        hosts = [meter.row(*span) for meter in self.hosts]
        links = [(meter.card, meter.row(*span)) for meter in self.links]
        self.operator_rows += operators
        self.subtask_rows += [row for _, rows in read for row in rows]
        self.host_rows += hosts
        self.link_rows += [row for card, row in links if card.hops]  # only cards and links that a stream crosses
        self.stream_rows += [meter.row(self._start_s) for meter in self.streams]
        self._period += 1
        self._start_s = now_s
        for listener in self.listeners:
            listener(operators, hosts)


class LinkMeter:
    """Meter of one card or link: gives a row a period."""

    def __init__(self, name: str, card: Card) -> None:
        self.name = name
        self.card = card
        self._sent = 0.0
        self._before = self._counters()

    def _counters(self) -> tuple[float, float, int, int]:
        card = self.card
        self._sent = max(self._sent, card.bytes_out - card.unsent_bytes())  # unsent jumps when the bandwidth changes
        return self._sent, card.capacity_bytes(), card.records_in, card.records_out

    def row(self, period: int, start_s: float, end_s: float) -> dict[str, Any]:
        """Returns the link's row of a period, and resets the meter.

        Stamps of records may run ahead of the clock by the service of a record, so the bytes sent may exceed what could
        be sent by that much: the utilisation is held to 1.
        """
        now, before = self._counters(), self._before
        self._before = now
        sent, possible, records_in, records_out = (new - old for new, old in zip(now, before, strict=True))
        return {
            "link": self.name,
            "period": period,
            "start_s": start_s,
            "end_s": end_s,
            "bytesOut": sent,
            "utilisation": min(1.0, sent / possible) if possible else 0.0,  # 0: the link's first use is now
            "recordsIn": int(records_in),
            "recordsOut": int(records_out),
        }


class StreamMeter:
    """Meter of one stream, by the names of its ends: gives a row a period."""

    def __init__(self, ends: tuple[str, str], counts: Counts) -> None:
        self.ends = ends
        self.counts = counts
        self._records = 0
        self._took_s = 0.0

    def row(self, start_s: float) -> dict[str, Any]:
        """Returns the row of the period that began at `start_s`, and resets the meter."""
        records, took_s = self.counts.records - self._records, self.counts.took_s - self._took_s
        self._records, self._took_s = self.counts.records, self.counts.took_s
        return {"ends": self.ends, "start_s": start_s, "records": records, "took_s": took_s}


# the ledger of changes -----------------------------------------------------------------------------------------------
# Ledger of a run that changes: what was lost, replayed and restored, and which events happened.


@dataclass(slots=True)
class EventRecord:
    """Record of one event of a run. end_s: None while it lasts. bytes: state that was moved over the network."""

    kind: str
    component: str
    at_s: float
    end_s: float | None = None
    paused_s: float | None = None
    bytes: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Row of the trace; the detail still as a mapping."""
        columns = ("at_s", "end_s", "kind", "component", "paused_s", "bytes", "detail")
        return {name: getattr(self, name) for name in columns}


@dataclass(slots=True)
class Ledger:
    """Counts of losses and replays, in records, and events; empty in a run in which nothing changes.

    lost: queued at or on the way to a task when the job stopped. restored: put back into queues from a checkpoint. due:
    held by that checkpoint. windows_restored, windows_due: the same for the content of windows. unsent: by stream, lost
    before they were sent. aborted: by task name and number of the operator, in service when the job stopped. replayed:
    by source task name, read from the broker again. transfers: pieces of state, and lost records, that are still on the
    network. cut_short: by card or link, lost records that had more hops to go. moving_s: by processor, core-seconds of
    work on state that moves, booked as it begins and not yet done.
    """

    lost: int = 0
    restored: int = 0
    due: int = 0
    windows_restored: float = 0.0
    windows_due: float = 0.0
    duplicates: int = 0
    transfers: int = 0
    cut_short: Counter[Card] = field(default_factory=Counter)
    unsent: Counter[tuple[str, ...]] = field(default_factory=Counter)
    aborted: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    replayed: Counter[str] = field(default_factory=Counter)
    moving_s: dict[Processor, float] = field(default_factory=lambda: defaultdict(float))
    buffers: list[Buffer] = field(default_factory=list)
    retired: dict[str, list[Task]] = field(default_factory=dict)
    events: list[EventRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def record(self, kind: str, component: str, at_s: float, **detail: Any) -> EventRecord:
        """Adds a new event; the caller fills in its end."""
        event = EventRecord(kind, component, at_s, detail=detail)
        self.events.append(event)
        return event
