"""The message broker in front of a source's subtask, and the times at which records arrive there."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np

from twin.arrivals.laws import ArrivalLaw, Phase
from twin.arrivals.replay import Replay
from twin.machine import layout as k
from twin.machine.checks import know
from twin.query import AnyOperator
from twin.randomness import random_stream
from twin.workload import read_by, readers
from twin.world.memory import RunMemory, StructView

if TYPE_CHECKING:
    from twin.world.clock import Clock
    from twin.world.parts import Task
    from twin.world.world import World


# clocks --------------------------------------------------------------------------------------------------------------
# Clocks: times at which records arrive, by an arrival law or as they were recorded.


BLOCK = 1024
"""Most records in a block."""
NEVER = np.array([math.inf])


class RecordedClock:
    """Clock of recorded records: of R subtasks, subtask k plays every R-th record, beginning with number k.

    A rate factor of 2 plays every record twice, of 1/2 every second one.
    """

    def __init__(self, law: Replay, subtask: int, parallelism: int) -> None:
        self._times_s = law.times_s
        self._cycle_s = law.cycle_s if law.loop else math.inf
        self._step = parallelism / law.rate_factor  # recorded ones per record played
        self._number = subtask / law.rate_factor  # number of the last block's first record, among the recorded ones
        self._used = 0  # records in the last block

    def block(self) -> np.ndarray:
        """Returns the next arrivals, in seconds; fewer than a block at the end of a recording that does not loop."""
        self._number += self._used * self._step
        self._used = BLOCK
        numbers = np.floor(self._number + self._step * np.arange(BLOCK)).astype(np.int64)
        count = len(self._times_s)
        if math.isinf(self._cycle_s):
            found = self._times_s[numbers[numbers < count]]
            return np.asarray(found) if len(found) else NEVER
        return np.asarray(self._times_s[numbers % count] + numbers // count * self._cycle_s)

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Plays each record `factor` times as often from now on."""
        self._number += came * self._step
        self._used = 0
        self._step /= factor


ROUNDING = 1e-9
"""Share of a gap within which a due record counts as arrived."""
SILENT_PER_S = 1e-200
"""Highest rate at which no record comes: gaps could exceed the largest number."""


class ArrivalClock(Protocol):
    """Interface of the clocks, which give arrivals in blocks, each after the one before."""

    def block(self) -> np.ndarray:
        """Returns the next arrivals, in seconds; at least one, an infinite one if nothing comes any more. [1 to
        BLOCK]"""

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Multiplies all rates from now on. came: records of the last block that have come; the rest are drawn anew."""


def arrival_clock(
    law: ArrivalLaw,
    subtask: int,
    parallelism: int,
    rng: np.random.Generator,
    shared: np.random.Generator,
    part: float | None = None,
) -> ArrivalClock:
    """Clock of one subtask of a source, which gets its equal share of the records; of evenly spaced ones, every n-th.

    part: the subtask's share, if shares are not equal; a law with recorded times must have equal ones. rng: the
    subtask's own generator. shared: a generator that is in the same state for all subtasks of a source, which so see
    the same bursts.
    """
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        return RecordedClock(law, subtask, parallelism)
    if part is None:
        part = 1.0 / parallelism
    share = law.scaled(part) if part != 1.0 else law
    if law.gap_scv == 0.0:
        return EvenClock(share.phases(shared), (parallelism - 1 - subtask) / parallelism)
    return PoissonClock(share.phases(shared), rng)


def silent() -> ArrivalClock:
    """Clock of a subtask to which nothing comes."""
    return EvenClock(())


def gone_on(clock: ArrivalClock, now_s: float, factor: float) -> ArrivalClock:
    """Advances a new clock to what comes after `now_s`, at `factor` times the law's rate."""
    block = clock.block()
    while block[-1] <= now_s:
        block = clock.block()
    clock.scale(factor, now_s, int(np.searchsorted(block, now_s, side="right")))
    return clock


class _PhaseClock:
    """Base of clocks that go through the phases of a law. The present phase lasts from `_at_s` until `_until_s`, with
    `_base` records a second.

    _elapsed: share of the gap to the next record that is over at `_at_s`, where gaps are equal.
    """

    def __init__(self, phases: Iterable[Phase]) -> None:
        self._phases: Iterator[Phase] = iter(phases)
        self._factor = 1.0
        self._at_s = self._until_s = self._base = self._elapsed = 0.0
        self._mark = (0.0, 0.0, 0.0, 0.0)  # state at the beginning of the last block
        self._entered: list[Phase] = []  # phases that the last block went through

    @property
    def _rate(self) -> float:
        rate = self._base * self._factor
        return rate if rate > SILENT_PER_S else 0.0

    def _enter(self) -> None:
        """Begins the next phase."""
        phase = next(self._phases, (math.inf, 0.0))
        self._entered.append(phase)
        length_s, self._base = phase
        self._at_s = self._until_s
        self._until_s = self._at_s + length_s

    def block(self) -> np.ndarray:
        """Returns the next arrivals, in seconds; an infinite one if nothing comes any more."""
        self._mark = self._at_s, self._until_s, self._base, self._elapsed
        self._entered = []
        while True:
            if self._at_s >= self._until_s:
                self._enter()
            if self._rate > 0.0:
                found = self._within(self._rate)
                if len(found):
                    return found
            elif self._until_s == math.inf:
                return NEVER
            else:
                self._at_s = self._until_s

    def _within(self, rate: float) -> np.ndarray:
        """Arrivals in the present phase. Moves the clock to the last of them, or to the end of the phase."""
        raise NotImplementedError

    def scale(self, factor: float, now_s: float, came: int) -> None:
        """Multiplies all rates from `now_s` on: goes back to where the last block began, and from there to `now_s`."""
        self._at_s, self._until_s, self._base, self._elapsed = self._mark
        self._phases, self._entered = chain(self._entered, self._phases), []
        while self._until_s <= now_s:
            self._pass(self._until_s)
            self._enter()
        self._pass(now_s)
        self._factor *= factor

    def _pass(self, to_s: float) -> None:
        """Moves the clock to a time in the present phase."""
        self._at_s = max(self._at_s, to_s)


class PoissonClock(_PhaseClock):
    """Clock with exponential gaps. They have no memory, so each phase begins with a new one."""

    def __init__(self, phases: Iterable[Phase], rng: np.random.Generator) -> None:
        super().__init__(phases)
        self._rng = rng

    def _within(self, rate: float) -> np.ndarray:
        expected = rate * (self._until_s - self._at_s)
        count = BLOCK if expected > BLOCK else min(BLOCK, 8 + int(1.5 * expected))
        found = self._at_s + np.cumsum(self._rng.standard_exponential(count)) / rate
        if found[-1] <= self._until_s:
            self._at_s = float(found[-1])
            return np.asarray(found)
        self._at_s = self._until_s
        return np.asarray(found[: found.searchsorted(self._until_s, side="right")])


class EvenClock(_PhaseClock):
    """Clock with equal gaps. A gap that is cut short by the end of a phase goes on in the next phase, at its rate.

    elapsed: share of the first gap that is over at time 0.
    """

    def __init__(self, phases: Iterable[Phase], elapsed: float = 0.0) -> None:
        super().__init__(phases)
        self._elapsed = elapsed

    def _within(self, rate: float) -> np.ndarray:
        gaps = self._elapsed + (self._until_s - self._at_s) * rate
        count = BLOCK if gaps > BLOCK else int(gaps + ROUNDING)
        found = np.minimum(self._at_s + (np.arange(1, count + 1) - self._elapsed) / rate, self._until_s)
        if gaps > BLOCK:
            self._at_s, self._elapsed = float(found[-1]), 0.0
        else:
            self._at_s, self._elapsed = self._until_s, min(1.0, max(0.0, gaps - count))
        return np.asarray(found)

    def _pass(self, to_s: float) -> None:
        """Moves the clock to a time in the present phase, and `_elapsed` with it; records on the way have come."""
        gaps = self._elapsed + max(0.0, to_s - self._at_s) * self._rate
        self._elapsed = min(1.0, max(0.0, gaps - int(gaps + ROUNDING)))
        super()._pass(to_s)


# brokers -------------------------------------------------------------------------------------------------------------
# The message broker in front of a source subtask: records arrive by a law and wait without bound.


class BrokerRow(StructView, layout=k.BROKER):
    """Structure of a broker."""


class Broker:
    """Message broker of one source subtask. Arrivals are drawn on demand: nothing happens here while the source is
    busy.

    blocks: times of arrivals in seconds, in blocks as they were drawn; in the first block, the source has taken those
    before `place`. drawn: number of arrivals drawn so far. taken: records that the source has taken, each counted once.
    moved: records that came to another broker and wait here now, less those that went from here to others. factor: on
    the law's rate. row: what compiled code sees and counts. forgotten: records that will not be read again. number,
    among: that of the subtask, and of how many, when partitions were dealt.
    """

    number: int
    among: int

    def __init__(self, env: Clock, memory: RunMemory, source: Task, clock: ArrivalClock, replayable: bool) -> None:
        """replayable: whether records may be read a second time."""
        self.env = env
        self.memory = memory
        self.source = source
        self.clock = clock
        self.row = BrokerRow(memory.add(k.BROKER, task=source.here, logs=replayable))
        self.blocks: deque[array[float]] = deque()
        self.drawn = 0
        self.moved = 0
        self.factor = 1.0
        self.forgotten = 0
        memory.at[self.row.here] = self
        assert source.polling is not None
        source.polling.broker = source.polling.reads = self
        source.broker = self.row.here
        if replayable:
            self.row.log_room = k.LEAST_ROOM
            self.row.log = memory.block(self.row.here, "log", (), room=k.LEAST_ROOM)

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

    def first(self) -> array[float]:
        """Block with the first record that the source has not taken."""
        if self.blocks and self.place == len(self.blocks[0]):
            self.blocks.popleft()
            self.place = 0
        if not self.blocks:
            self._draw()
        return self.blocks[0]

    def _draw(self) -> None:
        block = array("d", self.clock.block().tobytes())
        self.blocks.append(block)
        self.drawn += len(block)
        self.env.watch.hold()

    def show(self) -> None:
        """Shows the first block with a record that was not taken to compiled code, drawing one if there is none."""
        times = self.first()
        self.row.times, self.row.count = times.buffer_info()
        know(times)

    def _coming(self) -> int:
        """Number of drawn records that have not come yet. All of them are in the last block."""
        now_s: float = self.env.now
        while not self.blocks or self.blocks[-1][-1] <= now_s:
            self._draw()
        return len(self.blocks[-1]) - bisect_right(self.blocks[-1], now_s)

    def _waiting(self) -> int:
        """Number of records that have come and were not taken."""
        return self.arrived + self.moved - self.taken

    @property
    def arrived(self) -> int:
        """Number of records that have come so far."""
        coming = self._coming()  # may draw
        return self.drawn - coming

    @property
    def backlog(self) -> int:
        """Number of records that wait, with those that will be read again."""
        return self.source.queued + self._waiting()

    def scale(self, factor: float) -> None:
        """Multiplies the rate from now on. Raises ValueError unless the factor is finite and > 0."""
        if not (math.isfinite(factor) and factor > 0.0):
            raise ValueError(f"a rate's factor must be finite and > 0, got {factor}")
        came = self._forget_coming()
        self.clock.scale(factor, self.env.now, came)
        self.factor *= factor
        self.source.poll_anew()

    def _forget_coming(self) -> int:
        """Drops drawn records that have not come. Returns the number of records of the last block that had come."""
        coming = self._coming()
        block = self.blocks.pop()
        came = len(block) - coming
        self.drawn -= coming
        if came:
            self.blocks.append(block[:came])
        return came

    def hand_over(self) -> list[float]:
        """Gives away the records that wait: returns their times of arrival. Nothing comes here any more."""
        self._forget_coming()
        waiting = [at_s for block in self.blocks for at_s in block][self.place :]
        self.moved -= len(waiting)
        self.become(silent(), [])
        return waiting

    def become(self, clock: ArrivalClock, waiting: list[float]) -> None:
        """Goes on with other partitions: with their waiting records, the oldest first, and arrivals by their clock."""
        self.clock, self.place = clock, 0
        self.moved += len(waiting)
        self.blocks = deque([array("d", waiting)] if waiting else [])
        self.source.poll_anew()

    # records that are read again -------------------------------------------------------------------------------------

    def take_notes(self) -> None:
        """Keeps the event times of the records that it may read again."""
        self.row.notes = self.memory.array(k.NOTE, self.row.here, "notes", self.row.log_room)

    def grow_notes(self) -> None:
        """Gives the notes the room of the records."""
        before = self.memory.blocks.get((self.row.here, "notes"))
        if before is not None:
            self.take_notes()
            self.memory.blocks[self.row.here, "notes"][: len(before)] = before

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
            notes = self.memory.blocks.get((row.here, "notes"))
            if notes is not None:
                notes[:left] = notes[gone : row.logged].copy()
            row.logged, self.forgotten = left, count

    def read_again(self, count: int) -> int:
        """Lets the source read what it took after the first `count` records once more; returns their number. Without a
        log, it has taken none since."""
        if not self.row.logs:
            return 0
        row, kept = self.row, count - self.forgotten
        again = self.memory.blocks[row.here, "log"][kept : row.logged].tolist()
        before = self.memory.blocks.get((row.here, "again"))
        rest = [] if before is None else before[row.again_place : row.again_count].tolist()
        row.again = self.memory.block(row.here, "again", [*again, *rest])
        notes = self.memory.blocks.get((row.here, "notes"))
        if notes is not None:
            noted = self.memory.blocks.get((row.here, "again_notes"), notes[:0])
            rest = noted[row.again_place : row.again_count]
            row.again_notes = self.memory.put(row.here, "again_notes", np.concatenate([notes[kept : row.logged], rest]))
        row.again_place, row.again_count, row.logged = 0, len(again) + len(rest), kept
        return len(again)


# the brokers of a source ---------------------------------------------------------------------------------------------


def arrival_clocks(
    world: World, source: AnyOperator, tasks: Sequence[Task], again: str = ""
) -> dict[int, ArrivalClock]:
    """Clocks of the subtasks that read something, by number. again: gives other random numbers than at first."""
    law = world.deployment.workload.arrivals[source.name]
    reading, seed = readers(source, len(tasks), law), world.settings.seed
    return {
        reader.subtask: arrival_clock(
            law,
            turn,
            len(reading),
            random_stream(seed, f"broker:{tasks[reader.subtask].name}{again}"),
            random_stream(seed, f"arrivals:{source.name}"),
            reader.share,
        )
        for turn, reader in enumerate(reading)
    }


def deal_partitions(world: World, source: AnyOperator, tasks: Sequence[Task]) -> None:
    """Deals a source's partitions to these subtasks, with the records that wait in each. A source without partitions
    is given as many as the least common multiple of the two numbers of subtasks.
    """
    now_s, count = world.env.now, len(tasks)
    before, clocks = world.brokers[source.name], arrival_clocks(world, source, tasks, f"@{world.env.now:g}")
    factor, partitions = before[0].factor, source.parts or math.lcm(before[0].among, count)
    reader = {each: number for number, own in enumerate(read_by(source, count, partitions)) for each in own}
    dealt: dict[int, list[float]] = {number: [] for number in clocks}
    for broker in before:
        waiting = broker.hand_over()
        own = read_by(source, broker.among, partitions)[broker.number]
        rng = random_stream(world.settings.seed, f"partitions:{broker.source.name}@{now_s:g}")
        for partition, at_s in zip(_partitions(source, own, len(waiting), rng), waiting, strict=True):
            dealt[reader[partition]].append(at_s)
    reading = [tasks[number] for number in clocks]
    for task in world.tasks[source.name]:
        assert task.polling is not None
        if task not in reading:
            task.polling.broker = None
    world.brokers[source.name] = []
    for task, (number, each) in zip(reading, clocks.items(), strict=True):
        polling = task.polling
        assert polling is not None
        broker = polling.broker or world.broker(task, silent())
        broker.factor, broker.number, broker.among = factor, number, count
        broker.become(gone_on(each, now_s, factor), sorted(dealt[number]))
        world.brokers[source.name].append(broker)


def _partitions(source: AnyOperator, own: range, waiting: int, rng: np.random.Generator) -> list[int]:
    """Partition of each record that waits for a subtask, of those that it reads: in turn, or by their shares at
    random. [waiting]"""
    if source.part_shares is None:
        return [own[turn % len(own)] for turn in range(waiting)]
    shares = source.part_shares[own.start : own.stop : own.step]
    return [own[place] for place in rng.choice(len(own), waiting, p=shares / shares.sum()).tolist()]
