"""Parts of a run as Python sees them: views of their structures, under the words of `twin.kernel.layout`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_int64
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.engine.arrival.broker import Broker as EngineBroker
from twin.engine.arrival.clock import ArrivalClock
from twin.engine.streams.network import Jitter as Variation
from twin.kernel import layout as k
from twin.kernel.advance import work_on
from twin.partitionings.traits import Partitioning
from twin.world.memory import Draws, RunMemory, StructView

if TYPE_CHECKING:
    from twin.plan import Location
    from twin.world.clock import Clock
    from twin.world.lanes import Lanes
    from twin.world.logics import Logics

BUCKETS = 2048
"""Number of buckets of a histogram of latencies: up to more seconds than a run may last."""


def chain(here: int, link: int = k.NEXT) -> Iterator[int]:
    """Addresses in a list. link: offset at which its structures hold the next address; by default that of items."""
    while here:
        yield here
        here = c_int64.from_address(here + link).value


class Item(StructView, layout=k.ITEM):
    """Record on its way, or in a queue."""


def link(items: Sequence[Item]) -> tuple[int, int]:
    """Links records into a list; returns its two ends, 0 if it is empty."""
    for each, following in pairwise(items):
        each.next = following.here
    if not items:
        return 0, 0
    items[-1].next = 0
    return items[0].here, items[-1].here


class Path(StructView, layout=k.PATH):
    """Way from a port to a subtask."""


class RecordLane(StructView, layout=k.LANE):
    """Records that come to a subtask, or to the next hop, over one card."""


class Counts(StructView, layout=k.COUNTS):
    """Counts of a stream. copies: records that were sent to two owners of a key."""

    copies = 0


class SinkCounts(StructView, layout=k.SINK):
    """Counts and latencies of results, of this period and (`counted`) of the run."""

    def __init__(self, memory: RunMemory) -> None:
        super().__init__(memory.add(k.SINK))
        self.counts = np.zeros((2, BUCKETS), np.int64)
        self.raw_processing, self.raw_e2e = (each.ctypes.data for each in self.counts)

    @property
    def repeats(self) -> bool:
        """Whether results that a replay makes again count again."""
        return not self.commits

    @property
    def processing(self) -> dict[int, int]:
        """Histogram of processing latencies (`twin.engine.sketch`)."""
        return _histogram(self.counts[0])

    @property
    def e2e(self) -> dict[int, int]:
        """Histogram of end-to-end latencies."""
        return _histogram(self.counts[1])

    def clear(self) -> None:
        """Begins a new period."""
        self.count, self.processing_sum_s, self.e2e_sum_s = 0, 0.0, 0.0
        self.counts[:] = 0


def _histogram(counts: np.ndarray) -> dict[int, int]:
    where = np.flatnonzero(counts)
    return dict(zip(where.tolist(), counts[where].tolist(), strict=True))


class Card(StructView, layout=k.CARD):
    """Network card, or one direction of a link.

    hops: paths and hops that lead over it. jitter: how its latency varies; None if it does not. pieces: number of
    pieces of state under way. resumes_s: when it sends again, if it waits for records under way. latency_factor:
    product of all factors on its latency so far.
    """

    def __init__(self, memory: RunMemory, clock: Clock, lanes: Lanes, bandwidth_mbps: float) -> None:
        super().__init__(memory.add(k.CARD, bytes_per_s=bandwidth_mbps * 1e6 / 8))
        self.clock = clock
        self.lanes = lanes
        memory.at[self.here] = self
        self.hops: list[StructView] = []
        self.jitter: Jitter | None = None
        self.pieces = 0
        self.resumes_s = 0.0
        self.latency_factor = 1.0
        self._capacity_bytes = self._since_s = 0.0

    @property
    def tuples_out(self) -> int:
        """Records, and pieces of state, that have arrived."""
        return int(self.tuples_in - self.flying - self.pieces)

    def send(self, size: float, at_s: float, latency_s: float) -> tuple[float, int]:
        """Sends a piece of state behind all that waits; returns when it arrives, and its number among events.

        `twin.kernel.wires.transmit` does the same for records.
        """
        time_s, elapsed_s, backlog_s = size / self.bytes_per_s, at_s - self.last_s, self.backlog_s
        if elapsed_s > 0.0:
            self.set(last_s=at_s)
            backlog_s = max(0.0, backlog_s - elapsed_s)
        backlog_s += time_s
        self.set(backlog_s=backlog_s)
        self.bytes_out += size
        self.tuples_in += 1
        self.pieces += 1
        return at_s + (max(backlog_s, time_s) + latency_s), next(self.clock._eid)

    def wait_s(self, at_s: float) -> float:
        """Seconds that a record that is handed over at `at_s` waits before it is sent."""
        return float(max(0.0, self.backlog_s - max(0.0, at_s - self.last_s)))

    def unsent_bytes(self) -> float:
        """Bytes that wait to be sent now."""
        now_s = self.clock.now
        return float(max(0.0, self.wait_s(now_s) - max(0.0, self.resumes_s - now_s)) * self.bytes_per_s)

    def capacity_bytes(self) -> float:
        """Bytes that could have been sent so far."""
        return float(self._capacity_bytes + (self.clock.now - self._since_s) * self.bytes_per_s)

    def carry(self, hop: StructView) -> None:
        """Adds a use of it by a stream."""
        hop.latency_s *= self.latency_factor
        self.hops.append(hop)

    def degrade(self, bandwidth_factor: float = 1.0, latency_factor: float = 1.0) -> None:
        """Multiplies bandwidth and latency, from now on; the inverse factors restore them. What is not sent yet is
        planned again (`twin.world.lanes`).

        Raises ValueError for factors that are not positive.
        """
        if bandwidth_factor <= 0.0 or latency_factor <= 0.0:
            raise ValueError(
                f"a link needs factors > 0 of its bandwidth and latency, got {bandwidth_factor} and {latency_factor}; "
                "for a broken link use a very small bandwidth factor"
            )
        now_s = self.clock.now
        self._capacity_bytes, self._since_s = self.capacity_bytes(), now_s
        begun_s = max(now_s, self.resumes_s)
        self.bytes_per_s *= bandwidth_factor
        self.latency_factor *= latency_factor
        shorter_s = 0.0
        for hop in self.hops:
            shorter_s = max(shorter_s, hop.latency_s * (1.0 - latency_factor))
            hop.latency_s *= latency_factor
        self.resumes_s = begun_s + shorter_s
        leaves_s = self.lanes.plan_again(self, begun_s, bandwidth_factor, latency_factor)
        last_s = max(self.last_s, now_s)
        self.set(last_s=last_s, backlog_s=max(0.0, leaves_s - last_s))


class Leg(StructView, layout=k.LEG):
    """One hop of a route. onward: the next one. end: address of what records go to on it, or itself."""

    onward: Leg | None
    end: object


class Jitter(StructView, layout=k.JITTER):
    """Jitter of the latency of a card or link. variation: its random numbers."""

    def __init__(self, memory: RunMemory, rng: np.random.Generator, scv: float) -> None:
        super().__init__(memory.add(k.JITTER))
        self.variation = Variation(rng, scv)
        self.show()
        memory.at[self.here] = self

    def move(self) -> None:
        """Goes on to the next knot."""
        self.variation.move()
        self.show()

    def factor(self, now_s: float) -> float:
        """Factor at `now_s`, which must not be before the time of the last call."""
        found = self.variation.factor(now_s)
        self.show()
        return found

    def show(self) -> None:
        """Writes its state into the structure."""
        self.knot, self.low, self.high = self.variation.knot, self.variation.low, self.variation.high


class Processor(StructView, layout=k.PROCESSOR):
    """Socket, whose cores its subtasks share. tasks: those that sit there. factors: slowdowns, by cause."""

    def __init__(self, memory: RunMemory, clock: Clock, cores: float) -> None:
        one = min(1.0, cores)
        here = memory.add(k.PROCESSOR, capacity=cores, slowdown=1.0, speed=one, level=one, armed_s=math.inf)
        super().__init__(here)
        self.slot = memory.slots.add(k.PROCESSORS, here)
        self.memory, self.env = memory, clock
        self.tasks: list[Task] = []
        self.factors: dict[str, float] = {}
        self.room = 0

    def slow(self, cause: str, factor: float) -> None:
        """Sets one cause's factor on work; the slowdown is the product of all causes' factors."""
        if self.factors.get(cause) != factor:
            self.factors[cause] = factor
            self.slowdown = math.prod(self.factors.values())

    def attach(self, task: Task) -> None:
        """Adds a subtask."""
        self.tasks.append(task)
        shared = len(self.tasks) > 1 and len(self.tasks) > self.capacity
        task.shared = shared
        if shared and not self.shared:
            for each in (self, *self.tasks):
                each.shared = True
        if len(self.tasks) >= self.room:
            self.room = 2 * len(self.tasks) + 2
            self.heap = self.memory.array(k.JOB, self.here, "heap", self.room)

    def pause(self, until_s: float) -> None:
        """Stops all work until `until_s`."""
        self._advance()
        self.set(since=max(self.since, until_s))

    def _advance(self) -> None:
        elapsed_s = self.env.now - self.since
        if elapsed_s > 0.0:
            self.clock += self.level * elapsed_s
            self.set(since=self.env.now)

    def left_s(self, task: Task) -> float:
        """Core-seconds that a subtask's job still needs; 0 without one."""
        clock = self.clock + self.level * max(0.0, self.env.now - self.since)
        jobs = self.memory.blocks[self.here, "heap"][: self.jobs]
        ends = jobs["end"][jobs["task"] == task.here].tolist()
        return sum([max(0.0, end - clock) for end in ends])


class Inbox(StructView, layout=k.INBOX):
    """Receiving end of a stream at a subtask, or at the queue that subtasks share. tuple_bytes: size of a record."""

    task: Task | Pool

    def __init__(self, here: int, task: Task | Pool, tuple_bytes: float) -> None:
        super().__init__(here)
        self.task = task
        self.tuple_bytes = tuple_bytes
        self.gated = False
        self.floating = 0


class Channel(StructView, layout=k.CHANNEL):
    """Channel with network buffers, from a port (`sender`) to an inbox (`receiver`)."""

    sender: Port
    receiver: Inbox


class Port(StructView, layout=k.PORT):
    """Sending end of a stream at a subtask.

    weights: shares of the consumer's subtasks. costs: CPU seconds of sending a record to each. ends: their places.
    """

    task: Task
    inboxes: Sequence[Inbox]
    ends: Sequence[Location]
    costs: Sequence[float]
    weights: Sequence[float]
    bytes_each: float
    counts: Counts
    how: Partitioning

    def __init__(self, memory: RunMemory, task: Task) -> None:
        super().__init__(memory.add(k.PORT, task=task.here))
        memory.at[self.here] = self
        self.memory = memory
        self.task = task
        self.channels: dict[int, Channel] = {}

    @property
    def elsewhere(self) -> int:
        """Number of records that have not left, as `waiting`."""
        return self.waiting()

    def receiver(self, replica: int) -> Task | Pool:
        """Subtask, or shared queue, to which records for a replica go."""
        return self.inboxes[replica].task

    def waiting(self) -> int:
        """Number of records that have not left."""
        gathered = 0
        if self.kind == k.GATHERING:
            gathered = int(self.memory.blocks[self.here, "buffers"]["count"].sum())
        lists = [self.first_held, *[each.first_unsent for each in self.channels.values() if each.unsent]]
        marks = sum([Item(here).mark != 0 for first in lists for here in chain(first)]) if self.task.barriers else 0
        return int(self.held + gathered + sum([each.unsent for each in self.channels.values()]) - marks)


class Pool(StructView, layout=k.POOL):
    """Queue that all subtasks of an operator share."""

    members: Sequence[Task]

    def __init__(self, memory: RunMemory, tasks: Sequence[Task]) -> None:
        there = [each.here for each in tasks]
        super().__init__(memory.add(k.POOL, count=len(tasks)))
        self.members = tasks
        self.raw_members = memory.block(self.here, "members", there, np.int64)
        self.first_idle, self.last_idle = there[0], there[-1]
        for each, following in zip(tasks, [*there[1:], 0], strict=True):
            each.pool, each.listed, each.next_idle = self.here, 1, following


class Broker(EngineBroker):
    """Broker of a source's subtask, whose taken records are counted by compiled code."""

    def __init__(self, clock: Clock, memory: RunMemory, source: Task, arrivals: ArrivalClock, replayable: bool) -> None:
        """replayable: whether records may be read a second time."""
        self.row = BrokerRow(memory.add(k.BROKER, task=source.here, logs=replayable))
        source_: Any = source
        super().__init__(clock, source_, arrivals)
        self.memory = memory
        self.forgotten = 0
        memory.at[self.row.here] = self
        source.broker = self.row.here
        if replayable:
            self.row.log_room = k.LEAST_ROOM
            self.row.log = memory.block(self.row.here, "log", (), room=k.LEAST_ROOM)

    def read(self) -> int:
        """Number of records that the source has taken so far, as if none had been read again."""
        return int(self.forgotten + self.row.logged)

    def forget(self, count: int) -> None:
        """Forgets the first `count` records that were taken: they will not be read again."""
        row, log = self.row, self.memory.blocks.get((self.row.here, "log"))
        if log is not None:
            gone = count - self.forgotten
            left = row.logged - gone
            log[:left] = log[gone : row.logged].copy()
            row.logged, self.forgotten = left, count

    def read_again(self, count: int) -> int:
        """Lets the source read what it took after the first `count` records once more; returns their number."""
        row, kept = self.row, count - self.forgotten
        again = self.memory.blocks[row.here, "log"][kept : row.logged].tolist()
        before = self.memory.blocks.get((row.here, "again"))
        rest = [] if before is None else before[row.again_place : row.again_count].tolist()
        row.again = self.memory.block(row.here, "again", [*again, *rest])
        row.again_place, row.again_count, row.logged = 0, len(again) + len(rest), kept
        return len(again)

    @property
    def place(self) -> int:
        """Number of the first record of the first block that the source has not taken."""
        return int(self.row.place)

    @place.setter
    def place(self, place: int) -> None:
        self.row.place = place

    @property
    def taken(self) -> int:
        """Records that the source has taken."""
        return int(self.row.taken)

    @taken.setter
    def taken(self, taken: int) -> None:
        self.row.taken = taken

    def show(self) -> None:
        """Shows the first block with a record that was not taken to compiled code, drawing one if there is none."""
        self.row.times, self.row.count = self.first().buffer_info()


class BrokerRow(StructView, layout=k.BROKER):
    """Structure of a broker."""


class Polling:
    """What a source reads. broker: None if it reads no partition."""

    broker: Broker | None = None


class Task(StructView, layout=k.TASK):
    """Subtask. logic: its operators. output, inputs: itself, as these are part of it. state_bytes: beside windows."""

    logic: Logics
    ports: list[Port]
    processor: Processor

    def __init__(
        self,
        memory: RunMemory,
        clock: Clock,
        name: str,
        place: Location,
        processor: Processor,
        draws: Draws,
        service_s: float,
        polls: bool,
        counted: Callable[[], None],
    ) -> None:
        """counted: brings the numbers of waiting records up to date."""
        here = memory.add(k.TASK, processor=processor.here, service_s=service_s, stream=draws.here)
        super().__init__(here)
        self.slot = memory.slots.add(k.TASKS, here)
        self.memory, self.env, self.name, self.place, self.draws = memory, clock, name, place, draws
        self.processor, self.counted = processor, counted
        self.polling = Polling() if polls else None
        self.inboxes: list[Inbox] = []
        self.ports = []
        self.state_bytes = 0.0
        self.barriers: Any = None  # of its checkpoints (`twin.change.barriers`)
        memory.at[here] = self
        processor.attach(self)

    @property
    def output(self) -> Task:
        """The subtask, as far as it sends."""
        return self

    inputs = output

    @property
    def polls(self) -> bool:
        """Whether it takes records from a broker."""
        return self.polling is not None

    @property
    def queued(self) -> int:
        """Number of records that wait; for a source, of those that it will read again before those of its broker."""
        if self.polling is not None:
            row = self.polling.broker.row if self.polling.broker is not None else None
            return int(row.again_count - row.again_place) if row is not None else 0
        self.counted()
        return int(self.raw_queued) + (len(self.barriers.aside) if self.barriers is not None else 0)

    @property
    def in_service(self) -> int:
        """Records taken up and not yet emitted."""
        return int(self.busy and not self.evaluating)

    def busy_until_now_s(self) -> float:
        """Seconds spent at work so far."""
        return float(self.busy_s + (max(0.0, self.env.now - self.since_s) if self.busy else 0.0))

    def blocked_until_now_s(self) -> float:
        """Seconds spent blocked so far."""
        return float(self.blocked_s + (self.env.now - self.blocked_since_s if self.blocked else 0.0))

    def left_s(self) -> float:
        """Core-seconds that the work under way still needs."""
        if not self.busy or self.shared:
            return self.processor.left_s(self)
        due_s = float(self.memory.slots.times[self.slot])
        return float(max(0.0, min(self.in_service_work_s, (due_s - self.env.now) * self.processor.speed)))

    @property
    def engaged_until_s(self) -> float:
        """Time at which begun work and pauses end; in the past if there are none."""
        return float(max(self.free_s, self.blocked_since_s))

    def tuple_bytes(self) -> float:
        """Mean size of the records that came, in bytes; 0 without an input."""
        sizes = [each.tuple_bytes for each in self.inboxes]
        if not sizes or min(sizes) == max(sizes):
            return sizes[0] if sizes else 0.0
        sent = [each.sent for each in self.inboxes]
        if not any(sent):
            sent = [1] * len(sent)
        return float(sum([size * count for size, count in zip(sizes, sent, strict=True)]) / sum(sent))

    def pause(self, until_s: float) -> None:
        """Does nothing until `until_s`; work under way ends that much later."""
        if not self.busy:
            self.set(free_s=max(self.free_s, until_s))
        elif not self.shared:  # otherwise its processor has paused the work
            slots, slot = self.memory.slots, self.slot
            lost_s, end_s = until_s - self.env.now, float(slots.times[slot])
            slots.set(slot, end_s + lost_s, next(self.env._eid))
            if not self.evaluating:
                self.end_s = end_s + lost_s
                self.time_s += lost_s

    def errands_due(self) -> list[tuple[int, float]]:
        """Evaluations that wait, by the address of their window, and other work (0), the first one first."""
        ring = np.roll(self.memory.blocks[self.here, "errands"], -self.errands_first)[: self.errands_count]
        return [(window, at_s) for window, at_s in ring.tolist()]

    def errands_become(self, errands: Sequence[tuple[int, float]]) -> None:
        """Replaces the evaluations that wait."""
        room = max(k.LEAST_ROOM, 2 * len(errands))
        self.errands, self.errands_room = self.memory.array(k.ERRAND, self.here, "errands", room), room
        self.memory.blocks[self.here, "errands"][: len(errands)] = errands
        self.errands_first, self.errands_count = 0, len(errands)

    def block(self) -> None:
        """Lets it begin no service until `unblock`, as a full channel does."""
        self.memory.do(k.BLOCK, self.here)

    def unblock(self) -> None:
        """Ends a block; after the last one it goes on."""
        self.memory.do(k.UNBLOCK, self.here)

    def poll_anew(self) -> None:
        """Looks at its broker again, whose records have changed."""
        assert self.polling is not None
        assert self.polling.broker is not None
        row = self.polling.broker.row
        row.count = row.place  # compiled code asks for the records to come
        if not self.busy:
            self.memory.slots.set(self.slot, math.inf, 0)
        work_on(self.memory.state.here, self.here)
