"""Resources that sockets share besides cores: memory bandwidth, channels between sockets, and the cost of too many
tasks.

BriskStream, equations 4 and 5: the traffic of all tasks together cannot exceed a socket's local bandwidth, nor that of
a channel between two sockets. Here traffic in excess makes memory slower: every byte gets a *price*, CPU time for which
its user waits, that rises until the traffic equals the bandwidth. Prices follow from counters that tasks keep anyway,
at ticks of simulated time, so tuples take no longer to simulate.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import simpy

from twin.engine.calendar import Calendar
from twin.engine.processor import Processor
from twin.engine.station.task import Task
from twin.engine.streams.channel import Port

GAIN = 0.5
"""Share of the excess that one tick takes away: below 1, as several limits may act on one task."""
ROUNDS = 4
"""Records that each user of a limit takes, on average, before its price moves: fewer tell where in their services users
are, and more make it settle later."""
SMOOTHING = 0.1
"""Weight of a tick in the number of runnable tasks."""


@runtime_checkable
class Busy(Protocol):
    """Worker whose time at work is known: a subtask, but no other user of a processor."""

    busy_s: float


class Surcharge:
    """Time that one task waits for memory, in reference-core seconds per input tuple, beyond its own service."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._service_s = task.service_s
        self._by_limit: dict[int, float] = {}

    def set(self, limit: int, seconds: float) -> None:
        """Replaces the time that the limit of that number adds."""
        self._by_limit[limit] = seconds
        self.task.service_s = self._service_s + sum(self._by_limit.values())


class Traffic:
    """Use of a limit by one task. mean_bytes: returns the present bytes per input tuple of the task."""

    def __init__(self, surcharge: Surcharge, mean_bytes: Callable[[], float]) -> None:
        self.surcharge = surcharge
        self.task = surcharge.task
        self.mean_bytes = mean_bytes
        self._tuples = 0

    def moved_bytes(self) -> float:
        """Bytes moved since the last call."""
        tuples, self._tuples = self.task.tuples_in - self._tuples, self.task.tuples_in
        return tuples * self.mean_bytes()


def fetched_bytes(task: Task, port: Port, index: int, bytes_each: float) -> float:
    """Bytes that a task fetches from a producer on another socket, per input tuple.

    index: the path of the producer's port, whose share of the task's input counts. bytes_each: size of a tuple.
    """
    sent = port.task.output.tuples_out * port.weights[index]
    came = sum([inbox.sent for inbox in task.inputs.inboxes])
    return bytes_each * min(1.0, sent / max(1, came))


class BandwidthLimit:
    """Limit of one socket's memory, or of one channel between sockets. price_s: seconds a byte, 0 below the limit."""

    def __init__(self, number: int, bytes_per_s: float, traffic: Sequence[Traffic]) -> None:
        self.number = number
        self.bytes_per_s = bytes_per_s
        self.traffic = traffic
        self.price_s = 0.0
        self._tasks = tuple(dict.fromkeys(each.task for each in traffic))
        self._processor = self._tasks[0].processor  # all users of a limit sit on one socket
        users: set[object] = set(self._tasks)
        self._beside = [each for each in self._processor.tasks if isinstance(each, Busy) and each not in users]
        self._elapsed_s = 0.0
        self._tuples = 0
        self._totals = [0.0, 0.0, 0.0]

    def tick(self, elapsed_s: float) -> None:
        """Moves the price towards the one at which traffic equals the limit.

        If every byte now takes its users t seconds of CPU time, (demand / limit - 1) t more each would make tasks that
        are always busy move just the limit; for others the price falls until it is 0. It stays until users have taken
        ROUNDS records each at it, as traffic does not follow sooner.
        """
        self._elapsed_s += elapsed_s
        tuples = sum([task.tuples_in for task in self._tasks])
        if tuples - self._tuples < ROUNDS * len(self._tasks):
            return
        moved = sum([each.moved_bytes() for each in self.traffic])
        cpu_s = self._cpu_s()
        excess = moved / self._elapsed_s / self.bytes_per_s - 1.0
        self._elapsed_s, self._tuples = 0.0, tuples
        if moved <= 0.0 or (excess <= 0.0 and self.price_s == 0.0):
            return
        self.price_s = max(0.0, self.price_s + GAIN * excess * cpu_s / moved)
        charged: dict[Surcharge, float] = {}
        for each in self.traffic:
            charged[each.surcharge] = charged.get(each.surcharge, 0.0) + each.mean_bytes() * self.price_s
        for surcharge, seconds in charged.items():
            surcharge.set(self.number, seconds)

    def _cpu_s(self) -> float:
        """CPU time of the users since the last call, in reference-core seconds: of all work on their socket, as much as
        their part of the time for which tasks are busy there, since tasks share cores evenly."""
        totals = [self._processor.work_s]
        totals += [float(sum([each.busy_s for each in some])) for some in (self._tasks, self._beside)]
        work_s, mine_s, others_s = (now - before for now, before in zip(totals, self._totals, strict=True))
        self._totals = totals
        return work_s / self._processor.slowdown * mine_s / max(mine_s + others_s, 1e-300)


@dataclass(slots=True)
class OverSubscription:
    """Cost of more runnable tasks than cores on a socket. share: extra work per task and core beyond one."""

    processor: Processor
    tasks: Sequence[Task]
    cores: float
    share: float
    runnable: float = 0.0
    _busy_s: float = 0.0

    def tick(self, elapsed_s: float) -> None:
        """Updates the slowdown from the number of tasks in service, on average since the last tick, against cores."""
        busy_s = sum([task.busy_s for task in self.tasks])
        runnable, self._busy_s = (busy_s - self._busy_s) / elapsed_s, busy_s
        self.runnable += SMOOTHING * (runnable - self.runnable)  # a service is booked when it ends, so not each tick
        more = min(self.runnable, len(self.tasks)) / self.cores - 1.0
        self.processor.slow("switches", 1.0 + self.share * max(0.0, more))


def control(
    env: Calendar, controls: Sequence[BandwidthLimit | OverSubscription], tick_s: float
) -> Generator[simpy.Event, object, None]:
    """Ticks all limits every `tick_s` seconds (a SimPy process)."""
    while True:
        yield env.look(tick_s)
        for each in controls:
            each.tick(tick_s)
