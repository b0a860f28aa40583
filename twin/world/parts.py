"""Parts of a run as Python sees them: views of their structures, under the words of `twin.machine.layout`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from ctypes import addressof, c_int64
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.histograms import BUCKETS, WAYS, place
from twin.machine import layout as k
from twin.machine.advance import work_on
from twin.machine.checks import know
from twin.machine.layout import addresses
from twin.machine.wires import CONTROL_S, KNOT_S
from twin.world.memory import KINDS, Draws, RunMemory, Station, StructView

if TYPE_CHECKING:
    from twin.operators.records import Mark
    from twin.plan import Location
    from twin.world.brokers import Broker
    from twin.world.clock import Clock
    from twin.world.logics import Logics
    from twin.world.network import Lanes
    from twin.world.ports import Inbox, Port


class Way(StructView, layout=k.SPENT):
    """Times that are spent in one way."""


class Spent:
    """Times of one component's records in this period. here: where compiled code notes them."""

    def __init__(self, memory: RunMemory) -> None:
        rows = memory.arena.make(k.SPENT, len(WAYS))
        self.counts = np.zeros((len(WAYS), BUCKETS), np.int64)
        know(self.counts)
        self.here = int(rows.ctypes.data)
        self.ways = [Way(each) for each in addresses(rows)]
        for way, counts in zip(self.ways, self.counts, strict=True):
            way.counts = counts.ctypes.data

    def note(self, way: int, time_s: float) -> None:
        """Notes a time, as compiled code does (`twin.machine.items.spend`)."""
        time_s = max(0.0, time_s)
        self.ways[way].sum_s += time_s
        self.counts[way, place(time_s)] += 1

    def rows(self) -> list[dict[str, Any]]:
        """The times of this period, of each way that any record went. Begins a new period."""
        found = []
        for name, way, counts in zip(WAYS, self.ways, self.counts, strict=True):
            held = np.flatnonzero(counts)
            if len(held):
                times = {"buckets": held.tolist(), "counts": counts[held].tolist()}
                found.append({"way": name, "count": sum(times["counts"]), "sum_s": float(way.sum_s), **times})
                counts[held], way.sum_s = 0, 0.0
        return found


def _nothing() -> None:
    """Does nothing."""


LINE_VARIANCE = 2.0 / 3.0
"""Mean variance on a line between two independent values, as a share of the variance of these."""


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


class RecordLane(StructView, layout=k.LANE):
    """Records that come to a subtask, or to the next hop, over one card."""

    def empty(self) -> None:
        """Drops all records."""
        self.head = self.tail = self.coming = self.total = self.came = 0


class Counts(StructView, layout=k.COUNTS):
    """Counts of a stream. copies: records that were sent to two owners of a key."""

    copies = 0


class SinkCounts(StructView, layout=k.SINK):
    """Counts and latencies of results, of this period and (`counted`) of the run."""

    def __init__(self, memory: RunMemory) -> None:
        super().__init__(memory.add(k.SINK))
        self.counts = np.zeros((3, BUCKETS), np.int64)
        self.raw_processing, self.raw_e2e, self.raw_delay = (each.ctypes.data for each in self.counts)
        know(self.counts)

    @property
    def repeats(self) -> bool:
        """Whether results that a replay makes again count again."""
        return not self.commits

    @property
    def processing(self) -> dict[int, int]:
        """Histogram of processing latencies (`twin.histograms`)."""
        return _histogram(self.counts[0])

    @property
    def e2e(self) -> dict[int, int]:
        """Histogram of end-to-end latencies."""
        return _histogram(self.counts[1])

    @property
    def delay(self) -> dict[int, int]:
        """Histogram of delays after all that results waited for was there."""
        return _histogram(self.counts[2])

    def clear(self) -> None:
        """Begins a new period."""
        self.count, self.processing_sum_s, self.e2e_sum_s, self.delay_sum_s = 0, 0.0, 0.0, 0.0
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
    def records_out(self) -> int:
        """Records, and pieces of state, that have arrived."""
        return int(self.records_in - self.flying - self.pieces)

    def send(self, size: float, at_s: float, latency_s: float) -> tuple[float, int]:
        """Sends a piece of state behind all that waits; returns when it arrives, and its number among events.

        `twin.machine.wires.transmit` does the same for records.
        """
        time_s = size / self.bytes_per_s
        self.bytes_out += size
        self.records_in += 1
        self.pieces += 1
        return self._send(time_s, time_s, at_s, latency_s)

    def signal(self, bytes_each: float, at_s: float, latency_s: float) -> tuple[float, int]:
        """Sends a barrier, which takes up no time, but arrives no sooner than a record would; returns when it arrives,
        and its number among events."""
        return self._send(CONTROL_S, bytes_each / self.bytes_per_s + CONTROL_S, at_s, latency_s)

    def _send(self, time_s: float, least_s: float, at_s: float, latency_s: float) -> tuple[float, int]:
        elapsed_s, backlog_s = at_s - self.last_s, self.backlog_s
        if elapsed_s > 0.0:
            self.set(last_s=at_s)
            backlog_s = max(0.0, backlog_s - elapsed_s)
        backlog_s += time_s
        self.set(backlog_s=backlog_s)
        return at_s + (max(backlog_s, least_s) + latency_s), next(self.clock._eid)

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
        planned again (`twin.world.network`).

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
    """Factor on the latency of a card or link, which varies in time: mean 1, squared coefficient of variation scv."""

    def __init__(self, memory: RunMemory, rng: np.random.Generator, scv: float) -> None:
        super().__init__(memory.add(k.JITTER))
        self._rng, self._scv = rng, scv / LINE_VARIANCE
        self.low, self.high = self._draw(), self._draw()
        memory.at[self.here] = self

    def _draw(self) -> float:
        return float(self._rng.standard_gamma(1.0 / self._scv)) * self._scv

    def move(self) -> None:
        """Goes on to the next knot."""
        self.knot += 1
        self.low, self.high = self.high, self._draw()

    def factor(self, now_s: float) -> float:
        """Factor at `now_s`, which must not be before the time of the last call."""
        while now_s >= (self.knot + 1) * KNOT_S:
            self.move()
        share = max(0.0, now_s / KNOT_S - self.knot)
        return float(self.low + share * (self.high - self.low))


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
        if len(self.tasks) >= self.room:
            self.room = 2 * len(self.tasks) + 2
            before = self.memory.blocks.get((self.here, "heap"))
            self.heap = self.memory.array(k.JOB, self.here, "heap", self.room)
            if before is not None:
                self.memory.blocks[self.here, "heap"][: len(before)] = before
        self._count()
        self.memory.do(k.REFRESH, self.here)

    def detach(self, task: Task) -> None:
        """Takes a subtask away, with the work that it still had to do."""
        self.cancel(task)
        self.tasks.remove(task)
        self._count()

    def _count(self) -> None:
        """Notes whether more subtasks sit here than there are cores."""
        self.shared = len(self.tasks) > 1 and len(self.tasks) > self.capacity
        for each in self.tasks:
            each.shared = self.shared

    def start(self, task: Task, work_s: float, done: Callable[[], None]) -> None:
        """Runs a job of `work_s` core-seconds for a subtask that is not at work; calls `done` when it has been
        served."""
        task.worked = done
        self.memory.do(k.START_JOB, task.here, asked=work_s)

    def cancel(self, task: Task) -> None:
        """Drops a subtask's job."""
        self.memory.do(k.CANCEL_JOB, task.here)

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


class Polling:
    """What a source reads. broker: None if it reads no partition. reads: the broker that it has, or had last: what it
    will read again is kept with this one."""

    broker: Broker | None = None
    reads: Broker | None = None


class Task(Station, StructView, layout=k.TASK):
    """Subtask. logic: its operators. output, inputs: itself, as these are part of it. state_bytes: beside windows.
    spent: where the time goes that records spend at its component."""

    logic: Logics
    ports: list[Port]
    spent: Spent

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
        spent: Spent,
    ) -> None:
        """counted: brings the numbers of waiting records up to date."""
        here = memory.add(k.TASK, service_s=service_s, stream=draws.here)
        super().__init__(here)
        self.slot = memory.slots.add(k.TASKS, here)
        self.memory, self.env, self.name, self.place, self.draws = memory, clock, name, place, draws
        self.processor, self.counted = processor, counted
        self.spent, self.raw_spent = spent, spent.here
        self.polling = Polling() if polls else None
        self.inboxes: list[Inbox] = []
        self.ports = []
        self.state_bytes = 0.0
        self.barriers: Any = None  # of its checkpoints (`twin.change.barriers`)
        self.worked: Callable[[], None] = _nothing  # called when work beside its records is done
        self.heeds = False  # whether marks of event time pass it
        self.own_lane: Callable[[], int]
        memory.at[here] = self
        processor.attach(self)

    @property
    def processor(self) -> Processor:
        """Socket on which it sits."""
        return self._processor

    @processor.setter
    def processor(self, processor: Processor) -> None:
        self._processor, self.raw_processor = processor, processor.here

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
            row = self.polling.reads.row if self.polling.reads is not None else None
            return int(row.again_count - row.again_place) if row is not None else 0
        self.counted()
        return int(self.raw_queued) + (self.barriers.waiting if self.barriers is not None else 0)

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
        due_s = float(self.memory.slots.times[self.slot])
        if not self.busy or due_s == math.inf:
            return self.processor.left_s(self)
        return float(max(0.0, min(self.in_service_work_s, (due_s - self.env.now) * self.processor.speed)))

    @property
    def engaged_until_s(self) -> float:
        """Time at which begun work and pauses end; in the past if there are none."""
        return float(max(self.free_s, self.blocked_since_s))

    def record_bytes(self) -> float:
        """Mean size of the records that came, in bytes; 0 without an input."""
        sizes = [each.record_bytes for each in self.inboxes]
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
        elif (end_s := float(self.memory.slots.times[self.slot])) < math.inf:  # else its processor has paused the work
            slots, slot = self.memory.slots, self.slot
            lost_s = until_s - self.env.now
            slots.set(slot, end_s + lost_s, next(self.env._eid))
            if not self.evaluating:
                self.end_s = end_s + lost_s
                self.time_s += lost_s

    def timers_due(self) -> list[tuple[int, float]]:
        """Evaluations that wait, by the address of their window, and other work (0), the first one first."""
        ring = np.roll(self.memory.blocks[self.here, "timers"], -self.timers_first)[: self.timers_count]
        return [(window, at_s) for window, at_s in ring.tolist()]

    def timers_become(self, timers: Sequence[tuple[int, float]]) -> None:
        """Replaces the evaluations that wait."""
        room = max(k.LEAST_ROOM, 2 * len(timers))
        self.timers, self.timers_room = self.memory.array(k.TIMER, self.here, "timers", room), room
        self.memory.blocks[self.here, "timers"][: len(timers)] = timers
        self.timers_first, self.timers_count = 0, len(timers)

    def deliver(self, mark: Mark) -> None:
        """Takes a mark that it gives itself, behind all that waits."""
        item = self.memory.item(mark)
        item.mark, item.born_s, item.sender, item.step = KINDS[mark.kind], mark.value, self.here, self.own_lane()
        item.at_s, item.order = self.env.now, self.memory.state.event_sequence
        self.memory.do(k.PUT_BACK, addressof(item))
        if not (self.listing or self.busy or self.blocked):
            work_on(self.memory.state.here, self.here)

    def block(self) -> None:
        """Lets it begin no service until `unblock`, as a full channel does."""
        self.memory.do(k.BLOCK, self.here)

    def unblock(self) -> None:
        """Ends a block; after the last one it goes on."""
        self.memory.do(k.UNBLOCK, self.here)

    def poll_anew(self) -> None:
        """Looks at its broker again, whose records have changed."""
        assert self.polling is not None
        assert self.polling.reads is not None
        row = self.polling.reads.row
        row.count = row.place  # compiled code asks for the records to come
        if not self.busy:
            self.memory.slots.set(self.slot, math.inf, 0)
        self.work()

    def work(self) -> None:
        """Serves waiting records, until a service takes time or it is blocked."""
        work_on(self.memory.state.here, self.here)

    def occupy(self, work_s: float) -> None:
        """Gets `work_s` CPU seconds of work: before the next record, or now if it is idle."""
        self.memory.do(k.OCCUPY, self.here, asked=work_s)

    def hide_queue(self) -> list[Item]:
        """Takes all that waits out of the queue; returns it, for `show_queue`. Nothing may be on its way to it."""
        hidden = self.queue
        for here in chain(self.lane, k.NEXT_LANE):
            RecordLane(here).empty()
        self.coming = 0
        return hidden

    def show_queue(self, hidden: Sequence[Item]) -> None:
        """Puts back what `hide_queue` has returned."""
        for item in hidden:
            item.at_s, item.order, item.step = self.env.now, self.memory.state.event_sequence, self.lane
            self.memory.do(k.PUT_BACK, item.here)

    def know_ports(self) -> None:
        """Notes that its ports have changed, and tells its operators the cost of sending."""
        self.raw_ports = len(self.ports)
        self.port = self.memory.block(self.here, "port", [port.here for port in self.ports], np.int64)
        self.send_s = sum([port.send_s for port in self.ports])
        self.logic.know_send()

    @property
    def waits(self) -> bool:
        """Whether records, but those of a broker, or other work wait here."""
        if self.timers_count or self.polls or not self.coming:
            return bool(self.timers_count)
        first = self.memory.blocks[self.here, "heads"][0]
        return bool((first["end"], first["order"]) <= (self.env.now, self.memory.state.event_sequence))

    @property
    def queue(self) -> list[Item]:
        """Records and marks that wait, in the order in which they came; a source's are its broker's."""
        if self.polling is not None:
            return []
        now = self.env.now, self.memory.state.event_sequence
        items = [Item(here) for lane in chain(self.lane, k.NEXT_LANE) for here in chain(RecordLane(lane).head)]
        came = [item for item in items if (item.at_s, item.order) <= now]
        return sorted(came, key=lambda item: (item.at_s, item.order))
