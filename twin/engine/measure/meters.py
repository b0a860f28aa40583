"""Meters: differences of counters that the mechanisms keep, one row a period, under Flink's names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from twin.engine.arrival.broker import Broker
from twin.engine.calendar import Calendar
from twin.engine.host import HostMemory
from twin.engine.processor import Processor
from twin.engine.station.task import Task
from twin.engine.streams.channel import Port, Way
from twin.engine.streams.network import Nic
from twin.kinds.registry import SOURCES

Row = dict[str, Any]


class OperatorMeter:
    """Reads all replicas of one operator; one row a period.

    number: which of the operators it is that run as one. They are busy, blocked and idle together; what waits does so
    before the first of them.
    """

    def __init__(self, name: str, kind: str, tasks: Sequence[Task], brokers: Sequence[Broker], number: int = 0) -> None:
        self.name = name
        self.kind = kind
        self.number = number
        self.among = tasks  # of which those that there are now
        self.tasks = list(tasks)  # all that there ever were
        self.brokers = brokers
        self.since_s = [0.0] * len(tasks)
        self.until_s = [math.inf] * len(tasks)
        self._before = self._counters() | {"arrived": 0}  # what comes as the run begins is of the first period

    def joined(self, task: Task, now_s: float) -> None:
        """A new replica."""
        before = self._counters()
        self.tasks.append(task)
        self.since_s.append(now_s)
        self.until_s.append(math.inf)
        fresh = self._counters()
        self._before |= {key: value for key, value in fresh.items() if key not in before}

    def left(self, task: Task, now_s: float) -> None:
        """A replica is gone; what it did still counts."""
        self.until_s[self.tasks.index(task)] = now_s

    def present(self, start_s: float, end_s: float) -> float:
        """Replicas on average over a period."""
        spans = zip(self.since_s, self.until_s, strict=True)
        return sum([max(0.0, min(end_s, until) - max(start_s, since)) / (end_s - start_s) for since, until in spans])

    def _counters(self) -> dict[str, float]:
        return {
            "in": sum([task.logic.taken(self.number) for task in self.tasks]),
            "out": sum([task.logic.sent(self.number) for task in self.tasks]),
            "dropped": sum([port.dropped for task in self.tasks for port in self._ports(task)]),
            "arrived": sum([broker.arrived for broker in self.brokers]),
            **{f"busy{k}": task.busy_until_now_s() for k, task in enumerate(self.tasks)},
            **{f"blocked{k}": task.output.blocked_until_now_s() for k, task in enumerate(self.tasks)},
        }

    def _ports(self, task: Task) -> Sequence[Port]:
        """The last of several operators has them."""
        return task.ports if self.number + 1 == task.logic.operators() else ()

    def _state_bytes(self, task: Task) -> float:
        return task.logic.part(self.number).window_bytes() + (0.0 if self.number else task.state_bytes)

    def row(self, period: int, start_s: float, end_s: float) -> Row:
        """The period's row; resets the meter."""
        now, before = self._counters(), self._before
        self._before = now
        busy, blocked = self._times(now, before, start_s, end_s)
        count = self.present(start_s, end_s)
        source = self.kind in SOURCES
        row: Row = {
            "operator": self.name,
            "kind": self.kind,
            "replicas": sum([until >= end_s for until in self.until_s]),
            "period": period,
            "start_s": start_s,
            "end_s": end_s,
            "numRecordsIn": int(now["in"] - before["in"]),
            "numRecordsOut": int(now["out"] - before["out"]),
            "numRecordsDropped": int(now["dropped"] - before["dropped"]),
            "busyTimeMsPerSecond": 1000 * busy / count,
            "backPressuredTimeMsPerSecond": 1000 * blocked / count,
            "idleTimeMsPerSecond": 1000 * (1 - (busy + blocked) / count),
            "queueLength": 0 if source or self.number else sum([task.queued for task in self.tasks]),
            "stateBytes": sum([self._state_bytes(task) for task in self.tasks]),
            "arrived": int(now["arrived"] - before["arrived"]) if source else None,
            "backlog": sum([broker.backlog for broker in self.brokers]) if source else None,
        }
        return row | self._latencies()

    def _times(
        self, now: dict[str, float], before: dict[str, float], start_s: float, end_s: float
    ) -> tuple[float, float]:
        """Shares of the period that all replicas together were busy and blocked.

        Work that goes on while a batch waits for room counts as blocked.
        """
        busy = blocked = 0.0
        length_s = end_s - start_s
        for k in range(len(self.tasks)):
            there_s = min(end_s, self.until_s[k]) - max(start_s, self.since_s[k])
            if there_s <= 0.0:
                continue
            held = min(there_s, now[f"blocked{k}"] - before[f"blocked{k}"])
            busy += min(there_s - held, now[f"busy{k}"] - before[f"busy{k}"]) / length_s
            blocked += held / length_s
        return busy, blocked

    def _latencies(self) -> Row:
        sinks = [sink for task in self.tasks if (sink := task.logic.part(self.number).sink()) is not None]
        if not sinks:
            return {}
        row: Row = {
            "latencyCount": sum([sink.count for sink in sinks]),
            "processingLatencySum_s": sum([sink.processing_sum_s for sink in sinks]),
            "e2eLatencySum_s": sum([sink.e2e_sum_s for sink in sinks]),
        }
        for key in ("processing", "e2e"):
            merged: dict[int, int] = {}
            for sink in sinks:
                for index, count in getattr(sink, key).items():
                    merged[index] = merged.get(index, 0) + count
            row[f"{key}LatencyBuckets"] = sorted(merged)
            row[f"{key}LatencyCounts"] = [merged[index] for index in sorted(merged)]
        for sink in sinks:
            sink.clear()
        return row


class HostMeter:
    """Reads one host."""

    def __init__(self, name: str, processors: Sequence[Processor], nic: Nic, memory: HostMemory) -> None:
        self.name = name
        self.processors = processors
        self.nic = nic
        self.memory = memory
        self._work_s = 0.0
        self._bytes = 0.0

    def row(self, period: int, start_s: float, end_s: float) -> Row:
        """The period's row; resets the meter. Of services under way what is still to be done counts when it is done."""
        capacity_s = sum([processor.capacity for processor in self.processors]) * (end_s - start_s)
        taken_s = sum([processor.work_s for processor in self.processors])
        due_s = (
            taken_s - sum([task.left_s() for processor in self.processors for task in processor.tasks]) - self._work_s
        )
        done_s = max(0.0, min(due_s, capacity_s))  # a task that moves takes all of its work up at once
        self._work_s += done_s
        sent = self.nic.bytes_out - self._bytes
        self._bytes = self.nic.bytes_out
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
    """A SimPy process that closes a row of every meter each period, and the last, shorter one at the horizon."""

    def __init__(
        self,
        env: Calendar,
        operators: Sequence[OperatorMeter],
        hosts: Sequence[HostMeter],
        links: Sequence[LinkMeter],
        ways: Sequence[WayMeter],
        period_s: float,
    ) -> None:
        self.env = env
        self.operators = operators
        self.hosts = list(hosts)
        self.links = list(links)
        self.ways = list(ways)
        self.listeners: list[Callable[[Sequence[Row], Sequence[Row]], None]] = []  # hear of each period that ends
        self.operator_rows: list[Row] = []
        self.host_rows: list[Row] = []
        self.link_rows: list[Row] = []
        self.way_rows: list[Row] = []
        self._period = 0
        self._start_s = 0.0
        self._period_s = period_s
        env.process(self._run())

    def joined(self, operator: str, task: Task, now_s: float) -> None:
        """An operator, with those that run as one with it, has a new replica."""
        for meter in self._meters(operator):
            meter.joined(task, now_s)

    def left(self, operator: str, task: Task, now_s: float) -> None:
        """It has lost a replica."""
        for meter in self._meters(operator):
            meter.left(task, now_s)

    def appeared(self, host: HostMeter, card: LinkMeter) -> None:
        """A host is used for the first time."""
        self.hosts.append(host)
        self.links.append(card)

    def _meters(self, operator: str) -> list[OperatorMeter]:
        among = next(meter.among for meter in self.operators if meter.name == operator)
        return [meter for meter in self.operators if meter.among is among]

    def _run(self) -> Any:
        while True:
            yield self.env.look((self._period + 1) * self._period_s - self.env.now)
            self.close(self.env.now)

    def close(self, now_s: float) -> None:
        """Ends the period at `now_s`; a period without length is no row."""
        if now_s - self._start_s <= 1e-9:
            return
        span = (self._period, self._start_s, now_s)
        operators = [meter.row(*span) for meter in self.operators]
        hosts = [meter.row(*span) for meter in self.hosts]
        links = [(meter.nic, meter.row(*span)) for meter in self.links]
        self.operator_rows += operators
        self.host_rows += hosts
        self.link_rows += [row for nic, row in links if nic.hops]  # of those that a stream crosses
        self.way_rows += [meter.row(self._start_s) for meter in self.ways]
        self._period += 1
        self._start_s = now_s
        for listener in self.listeners:
            listener(operators, hosts)


class LinkMeter:
    """Reads one card or link; one row a period."""

    def __init__(self, name: str, nic: Nic) -> None:
        self.name = name
        self.nic = nic
        self._sent = 0.0
        self._before = self._counters()

    def _counters(self) -> tuple[float, float, int, int]:
        nic = self.nic
        self._sent = max(self._sent, nic.bytes_out - nic.unsent_bytes())  # unsent jumps when the bandwidth changes
        return self._sent, nic.capacity_bytes(), nic.tuples_in, nic.tuples_out

    def row(self, period: int, start_s: float, end_s: float) -> dict[str, Any]:
        """The period's row; resets the meter.

        Stamps of records may run ahead of the clock by the service of a tuple, so what was sent may exceed what
        could be sent by that much: the utilisation is held to 1.
        """
        now, before = self._counters(), self._before
        self._before = now
        sent, possible, tuples_in, tuples_out = (new - old for new, old in zip(now, before, strict=True))
        return {
            "link": self.name,
            "period": period,
            "start_s": start_s,
            "end_s": end_s,
            "bytesOut": sent,
            "utilisation": min(1.0, sent / possible),
            "tuplesIn": int(tuples_in),
            "tuplesOut": int(tuples_out),
        }


class WayMeter:
    """Reads the way of one stream, by the names of its ends; one row a period."""

    def __init__(self, ends: tuple[str, str], way: Way) -> None:
        self.ends = ends
        self.way = way
        self._tuples = 0
        self._took_s = 0.0

    def row(self, start_s: float) -> dict[str, Any]:
        """Of the period that began then; resets the meter."""
        tuples, took_s = self.way.tuples - self._tuples, self.way.took_s - self._took_s
        self._tuples, self._took_s = self.way.tuples, self.way.took_s
        return {"ends": self.ends, "start_s": start_s, "tuples": tuples, "took_s": took_s}
