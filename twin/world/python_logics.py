"""Logics in Python at subtasks in memory: those over event time, interval joins, and what users write themselves."""

from __future__ import annotations

from collections.abc import Callable, Generator
from ctypes import addressof
from typing import TYPE_CHECKING, Any

import simpy

from twin.machine import layout as k
from twin.operators.consolidate import ConsolidateLogic
from twin.operators.logic import Logic as Inner
from twin.operators.panes import DIGEST_BITS
from twin.operators.records import IDLE, WATERMARK, Leaves, Mark, Outlet, Record, State
from twin.operators.watermark import TimedLogic, Watch
from twin.world.logic import Logic, ReadLogic
from twin.world.memory import FastView, ItemCells, RunMemory, StructView, cells, dated, partial, plain, write

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.world.parts import Task
    from twin.world.ports import Inbox
    from twin.world.world import World


class LogicCells(FastView):
    """Logic in memory."""

    _fields_ = cells(k.LOGIC)


class Out(Outlet):
    """Outlet of a logic in Python: to the logics that follow, and to the subtask's streams."""

    def __init__(self, logic: PythonLogic) -> None:
        super().__init__()
        self.logic = logic

    def send(self, record: Record) -> None:
        """Lists a record. One that the logic has just taken goes on in its own item."""
        logic = self.logic
        if record is logic.record:
            item = logic.item
            logic.record = None
            logic.cells.passing = item.path = item.step = item.mark = 0
            write(item, record)
        else:
            item = logic.memory.item(record)
        logic.task.leave(item)


class PythonLogic(Logic):
    """Logic that compiled code calls. inner: what decides on records. record, item: the record in service.

    inboxes: where records come to, by the address of their path. reads: makes the record of an item.
    """

    code = k.IN_PYTHON
    record: Record | None

    def __init__(self, *where: Any, inner: Inner, timed: bool, inboxes: dict[int, Inbox]) -> None:
        super().__init__(*where)
        self.inner, self.inboxes, self.out = inner, inboxes, Out(self)
        self.cells = LogicCells.from_address(self.here)
        self.item = ItemCells()
        self.record = None
        self.reads: Callable[[ItemCells], Record] = self._partial if isinstance(inner, ConsolidateLogic) else plain
        if timed and self.reads is plain:
            self.reads = dated
        inner.inner_bytes = self.bytes_in
        station: Any = self.task
        inner.start(station, self.out)

    def _partial(self, item: ItemCells) -> Record:
        assert isinstance(self.inner, TimedLogic)
        return partial(item, self.inner.groups)

    # what compiled code calls ----------------------------------------------------------------------------------------

    def plan(self) -> None:
        """Plans the record that compiled code shows."""
        cells = self.cells
        cells.work_s = self.inner.plan(self._taken(cells.passing))

    def emit(self) -> None:
        """Lists what the record became."""
        here = self.cells.passing
        record = self.record
        if record is None or addressof(self.item) != here:  # of a checkpoint
            record = self._taken(here)
        task = self.task
        task.listing = True
        self.inner.emit(record, self.item.at_s)
        task.listing = False
        self.record = None

    def _taken(self, here: int) -> Record:
        self.item = item = ItemCells.from_address(here)
        self.record = record = self.reads(item)
        if item.path:
            record.inbox = self.inboxes[item.path]
        return record

    def due(self) -> None:
        """Does what was due."""
        task = self.task
        task.listing = True
        self.inner.due(float(self.memory.state.asked))
        task.listing = False

    def heed(self, mark: Mark) -> None:
        """Takes a mark that it has given itself, or one of a logic before it."""
        self.inner.heed(mark)

    def follow(self, kind: str, value: float) -> bool:
        """Lets a mark of event time wait; returns whether it has to."""
        return self.inner.follow(kind, value)

    # what its subtask asks -------------------------------------------------------------------------------------------

    def know_send(self, send_s: float) -> None:
        self.out.send_s = send_s

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        """Notes a change of the key groups that it owns."""
        self.inner.know_keys(keys, subtask)

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share of an operator without key groups. values: distinct keys, its own first."""
        self.inner.know_share(share, values)

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes state out of what it holds: that of keys that leave, or else a share of it."""
        return self.inner.take(share, leaves)

    def give(self, state: State) -> None:
        """Merges the state of another subtask into its own."""
        self.inner.give(state)

    def stores(self) -> int:
        """Number of stores that it gives and takes."""
        return self.inner.stores()

    @property
    def law(self) -> str:  # type: ignore[override]
        """The balance of its records, in words; empty if there is none."""
        return self.inner.law

    @property
    def keeps(self) -> bool:  # type: ignore[override]
        """Whether a record in service has changed its state already."""
        return self.inner.keeps

    @property
    def fires(self) -> int:
        """Evaluations of its windows so far."""
        return self.inner.fires

    @property
    def begun(self) -> int:
        return self.inner.finished + self.inner.unfinished()

    @property
    def finished(self) -> int:
        return self.inner.finished

    def snapshot(self, again: bool) -> Any:
        return self.inner.snapshot(again)

    def restore(self, kept: Any, at_s: float) -> int:
        return self.inner.restore(kept, at_s)

    def complete(self, kept: Any, now_s: float) -> None:
        if kept is not None:
            self.inner.complete(kept, now_s)

    def stopped(self) -> None:
        self.record = None
        self.inner.stopped()

    def watched(self) -> Watch | None:
        return self.inner.watched() if isinstance(self.inner, TimedLogic) else None

    def ended(self) -> int:
        return self.inner.ended()

    def in_service(self) -> int:
        return self.inner.in_service()

    def away(self) -> int:
        return self.inner.away()

    def held(self) -> float:
        return self.inner.held()

    def held_bytes(self) -> float:
        return self.inner.held_bytes()

    def changed_bytes(self, came: int) -> float:
        """Size of what the last records changed; over event time, each has changed the state of its key, or is kept."""
        if isinstance(self.inner, TimedLogic) and not self.inner.held():
            return self.inner.changed_bytes(came)
        return super().changed_bytes(came)

    def held_keys(self) -> list[tuple[list[int], float]]:
        return self.inner.held_keys()

    def sink(self) -> Any:
        return self.inner.sink()


class DatedSource(ReadLogic):
    """Logic of a source of records with event times, which compiled code draws. dated: its structure."""

    code = k.READ_DATED
    restored = False
    """Whether it has gone back to a checkpoint, since it was last looked at."""

    def __init__(self, *where: Any, panes: tuple[int, int], disorder_us: int, slack_us: int, lasting: bool) -> None:
        """panes: length and offset of the panes at whose ends it announces its progress. lasting: whether records that
        are read again have the same event times."""
        super().__init__(*where)
        length, offset = panes
        fields = {"newest": k.UNMARKED, "marked": k.UNMARKED, "length": length, "offset": offset}
        self.times = Times(self.memory, lasting=lasting, disorder=disorder_us, slack=slack_us, **fields)
        self.dated = self.times.here

    def tell(self) -> None:
        """Lists a watermark: no record before it will come."""
        task = self.task
        task.listing = True
        task.mark(WATERMARK, float(self.times.marked), float(task.end_s))
        task.listing = False

    def look(self) -> None:
        """Announces its progress: now, or if it is at work, behind the record in service."""
        times, task = self.times, self.task
        reached = times.newest - times.slack
        if times.length or times.newest == k.UNMARKED or reached <= times.marked:
            return
        if task.busy or task.blocked or task.halted or task.free_s > task.env.now:
            times.due = 1
        else:
            times.marked = reached
            task.mark(WATERMARK, float(reached))

    def draw(self) -> None:
        """Draws the digest of a record."""
        self.passing = int(self.task.draws.rng.integers(1, 1 << DIGEST_BITS))

    def announce(self, kind: str, cut_us: int) -> None:
        """Announces a change from `cut_us` on, an event time which none of its records has reached."""
        self.task.mark(kind, float(cut_us))

    def snapshot(self, again: bool) -> Any:
        return super().snapshot(again), self.times.newest, self.times.marked

    def restore(self, kept: Any, at_s: float) -> int:
        count, self.times.newest, self.times.marked = kept
        self.restored = True
        return super().restore(count, at_s)

    def complete(self, kept: Any, now_s: float) -> None:
        super().complete(None if kept is None else kept[0], now_s)


def watermarks(world: World, logic: DatedSource, every_s: float, idle_s: float) -> Generator[simpy.Event, Any, None]:
    """Lets a source's subtask announce its progress in time (a SimPy process, from a phase of its own), and that it is
    idle when it has read nothing for `idle_s`."""
    task, operator = logic.task, logic.task.name.rpartition("#")[0]
    read, since_s, idle = 0, 0.0, False
    yield world.env.timeout(float(world.memory.random(f"watermarks:{task.name}").random()) * every_s)
    while any(each is task for each in world.tasks[operator]):
        logic.look()
        if logic.restored:  # it is not known any more whether it has announced that it is idle
            since_s, idle, logic.restored = world.env.now, False, False
        if task.records_in != read:
            if idle and logic.times.marked != k.UNMARKED:  # else its first watermark says so
                task.mark(WATERMARK, float(logic.times.marked))
            read, since_s, idle = task.records_in, world.env.now, False
        elif not idle and world.env.now - since_s >= idle_s and not (task.busy or task.blocked or task.halted):
            task.mark(IDLE, 0.0)
            idle = True
        yield world.env.timeout(every_s)


class Times(StructView, layout=k.DATED):
    """Event times of a source."""

    def __init__(self, memory: RunMemory, **fields: float) -> None:
        super().__init__(memory.add(k.DATED, **fields))


def timed_logic(task: Task) -> TimedLogic | None:
    """Logic over event time of a subtask; None if it has none."""
    head = task.logic.steps[0]
    return head.inner if isinstance(head, PythonLogic) and isinstance(head.inner, TimedLogic) else None
