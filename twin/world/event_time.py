"""Event time in a job: its panes, the inputs that decide on each subtask's watermark, and computes."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import simpy

from twin.events import combined_with, is_combined
from twin.forms import WindowForm, cost, period_of_job, unit_costs
from twin.histograms import bucket
from twin.machine import layout as k
from twin.operators.compute import ComputeLogic
from twin.operators.consolidate import ConsolidateLogic
from twin.operators.ownership import Cut, EventTimePartitioner, Owed, Ownership, Shipping
from twin.operators.panes import PANES, WINDOWS, Came, OperatorNotes, SpanContent, SpanStore, WindowNotes
from twin.operators.records import Input, InputProgress, Record
from twin.operators.watermark import MODIFICATION, TimedLogic
from twin.query import Query, Stream, merged_windows, partial_panes
from twin.windows import US_PER_S, EventWindow, Panes, Span, panes_of
from twin.world.memory import RunMemory, StructView
from twin.world.parts import SinkCounts
from twin.world.python_logics import DatedSource, PythonLogic, timed_logic

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.world.memory import Draws
    from twin.world.parts import Counts, Task
    from twin.world.streams import Keys
    from twin.world.world import World


# computes ------------------------------------------------------------------------------------------------------------
# Computes over event time in memory: compiled code takes records in, and Python adds many at once to their panes,
# before anybody looks at these.


class Notes(StructView, layout=k.NOTES):
    """Notes of compiled code on records that came to an operator."""


class NotesInMemory(WindowNotes):
    """Notes of a producer's subtask, of which compiled code makes some."""

    def __init__(self, operator: OperatorNotes, memory: RunMemory) -> None:
        self.memory = memory
        self.notes = Notes(memory.add(k.NOTES, room=k.LEAST_ROOM))
        self.notes.came = memory.array(k.CAME, self.notes.here, "came", k.LEAST_ROOM)
        memory.at[self.notes.here] = self.notes
        super().__init__(operator)

    @property
    def came(self) -> list[Came]:
        """Event time, key and digest of each record sent to it."""
        notes = self.notes
        if notes.count:
            self._came += self.memory.blocks[notes.here, "came"][: notes.count].tolist()
            notes.count = 0
        return self._came

    @came.setter
    def came(self, came: list[Came]) -> None:
        self._came, self.notes.count = came, 0


class OperatorNotesInMemory(OperatorNotes):
    """Notes of all subtasks on the windows of one operator."""

    def __init__(self, memory: RunMemory) -> None:
        super().__init__()
        self.memory = memory

    def of_producer(self) -> WindowNotes:
        return self.take(NotesInMemory(self, self.memory))


class OwnershipInMemory(Ownership):
    """Owners of one operator's key groups. dealt_by: key groups as compiled code knows them, which deals by the present
    owners while there are no cuts; None if Python deals."""

    def __init__(self, keys: KeyGroups) -> None:
        super().__init__(keys)
        self.dealt_by: Keys | None = None

    def cut(self, cut: Cut) -> None:
        super().cut(cut)
        self._show()

    def over(self, cut: Cut) -> None:
        super().over(cut)
        self._show()

    def _show(self) -> None:
        if self.dealt_by is not None:
            self.dealt_by.cuts = len(self.cuts)


class TakenIn(SinkCounts):
    """Counts and ages of the records that were taken in."""

    repeats = False  # they are no results to count again

    def emit(self, record: Record, at_s: float) -> None:
        """Notes the age of a record."""
        processing_s, e2e_s = max(0.0, at_s - record.taken_s), at_s - record.born_s
        e2e_s = max(e2e_s, processing_s)
        self.count += 1
        self.counted += 1
        self.processing_sum_s += processing_s
        self.e2e_sum_s += e2e_s
        self.counts[0, bucket(processing_s)] += 1
        self.counts[1, bucket(e2e_s)] += 1
        delay_s = max(0.0, at_s - record.ready_s)
        self.delay_sum_s += delay_s
        self.counts[2, bucket(delay_s)] += 1


class PaneEntry(StructView, layout=k.COMPUTING):
    """What compiled code knows of a compute."""


class OwedInMemory(Owed):
    """CPU work that a thread beside a subtask still has to do."""

    def __init__(self, computing: PaneEntry) -> None:
        self.computing = computing
        super().__init__()

    @property
    def work_s(self) -> float:
        """CPU seconds of it."""
        return float(self.computing.owed_s)

    @work_s.setter
    def work_s(self, work_s: float) -> None:
        self.computing.owed_s = work_s


class ComputeInMemory(ComputeLogic):
    """Logic of a compute that keeps panes. Records that were taken in are added to these as soon as anybody looks."""

    def __init__(self, memory: RunMemory, **fields: Any) -> None:
        self.memory = memory
        self.computing = PaneEntry(memory.add(k.COMPUTING, room=k.LEAST_ROOM))
        self.computing.added = memory.array(k.ADDED, self.computing.here, "added", k.LEAST_ROOM)
        memory.at[self.computing.here] = self.computing
        self._spans: Sequence[SpanStore[Any]] = []
        super().__init__(**fields)
        taken, owed = TakenIn(memory), OwedInMemory(self.computing)
        self.taken_in: Any = taken
        self.owed = owed
        self.computing.taken, self.computing.execute_s = taken.here, self.execute_s
        self.judge()

    def judge(self) -> None:
        """Notes whether each record belongs to one state."""
        since = self.forms.since
        self.computing.simple = not self.windows or (len(since) == 1 and since[0][1] == PANES)

    @property
    def watermark_us(self) -> float:
        """Event time up to which its work is done."""
        return float(self.computing.watermark)

    @watermark_us.setter
    def watermark_us(self, watermark_us: float) -> None:
        self.computing.watermark = watermark_us

    @property
    def spans(self) -> Sequence[SpanStore[Any]]:
        """Content by input."""
        self._add()
        return self._spans

    @spans.setter
    def spans(self, spans: Sequence[SpanStore[Any]]) -> None:
        self.computing.count = 0
        self._spans = spans

    @property
    def notes(self) -> WindowNotes:
        """Notes on its operator's windows."""
        self._add()
        return self._notes

    @notes.setter
    def notes(self, notes: WindowNotes) -> None:
        self._notes = notes

    def _add(self) -> None:
        """Adds the records that were taken in to their panes."""
        computing, panes = self.computing, self.panes
        if not computing.count or panes is None:
            return
        rows: np.ndarray = self.memory.blocks[computing.here, "added"][: computing.count]
        numbers = ((rows["at_us"] - panes.offset_us) // panes.length_us).tolist()
        added = rows.tolist()
        computing.count = 0
        self._notes.kept.extend(rows["digest"].tolist())
        store, number, content = self._spans[0], None, None
        for pane, (_, key, digest, born_s, taken_s) in zip(numbers, added, strict=True):
            if pane != number or content is None:
                number, content = pane, store.at(pane)
            content.add(key, (1, digest, born_s, taken_s))

    def modify(self, cut_us: int) -> None:
        super().modify(cut_us)
        self.judge()

    def come(self, sibling: TimedLogic, values: dict[str, float]) -> None:
        super().come(sibling, values)
        self.judge()

    def restore(self, kept: object, at_s: float) -> int:
        found = super().restore(kept, at_s)
        self.judge()
        return found


class ComputingLogic(PythonLogic):
    """Logic of a compute that keeps panes: compiled code takes most records in, and Python the others."""

    code = k.COMPUTE

    def __init__(self, *where: Any, inner: ComputeInMemory, inboxes: Any) -> None:
        super().__init__(*where, inner=inner, timed=True, inboxes=inboxes)
        self.computing = inner.computing.here


# event time ----------------------------------------------------------------------------------------------------------
# Event time in a job: its panes, the inputs that decide on each subtask's watermark, the ways of partial results, and
# forms of windows.
#
# Whether windows share the state of panes, or each has its own, is chosen by the cost model from measured rates
# (Enorm, Sections 4.2 and 5.1.2), again each time the longest window has passed. A change holds for windows that begin
# after a cut ahead of all records, which a modification punctuation takes to all subtasks (6.2).


WATERMARKS = Panes(US_PER_S // 5, 0)
"""Panes at whose ends sources send watermarks if there are no windows: Flink's pipeline.auto-watermark-interval."""


def as_window(panes: Panes) -> EventWindow:
    """Tumbling window whose instances are the panes."""
    return EventWindow(length_s=panes.length_us / US_PER_S, start_s=panes.offset_us / US_PER_S)


@dataclass(frozen=True)
class EventTimes:
    """Event time of a query. Operators over event time, and those before them, heed punctuations."""

    query: Query

    @cached_property
    def timed(self) -> list[str]:
        """Operators over event time, in data-flow order."""
        return [operator.name for operator in self.query.topological if operator.needs_event_time]

    @cached_property
    def heeding(self) -> set[str]:
        """Names of operators over event time, and of all operators before them."""
        return set(self.timed).union(*(self.query.ancestors(name) for name in self.timed))

    def panes(self, name: str) -> Panes | None:
        """Panes of an operator over event time; None for one that keeps its state forever."""
        operator = self.query.operator(name)
        windows = operator.event_windows
        if operator.hands_over == "partials":
            return partial_panes(self.query, name)
        if operator.merges:
            return panes_of([*windows, *(each for stream in self.query.inputs(name) for each in self._sent(stream))])
        if windows:
            return panes_of(windows)
        return WATERMARKS if operator.hands_over == "results" else None

    def _sent(self, stream: Stream) -> tuple[EventWindow, ...]:
        """Windows over whose instances a stream brings results that are merged."""
        producer = self.query.operator(stream.producer)
        if producer.hands_over == "partials":
            return (as_window(partial_panes(self.query, producer.name)),)
        return producer.event_windows

    def sides(self, name: str) -> list[tuple[EventWindow, ...]]:
        """Windows that come whole on each input of a consolidate; none for an input that brings its own panes."""
        own, sent = self.panes(name), [self._sent(stream) for stream in self.query.inputs(name)]
        assert own is not None
        return [() if windows == (as_window(own),) else windows for windows in sent]

    @cached_property
    def finest(self) -> Panes:
        """Panes of which all other panes are made."""
        found = [panes for name in self.timed if (panes := self.panes(name)) is not None]
        return panes_of([as_window(panes) for panes in found]) if found else Panes(US_PER_S, 0)

    def merged_windows(self, name: str) -> tuple[EventWindow, ...]:
        """Windows that are made of an operator's panes."""
        return merged_windows(self.query, name)


def prepare(world: World) -> None:
    """Assigns key groups to the subtasks of operators over event time, before there are streams."""
    for name in world.event_times.timed:
        owners = world.owners[name] = OwnershipInMemory(world.key_groups[name])
        notes = world.notes[name] = OperatorNotesInMemory(world.memory)
        for task in world.tasks[name]:
            timed(task).belong(owners, notes.more())


def timed(task: Task) -> TimedLogic:
    """Logic over event time of a subtask that has one."""
    found = timed_logic(task)
    assert found is not None
    return found


def timed_deal(world: World, each: Stream, draws: Draws, counts: Counts) -> EventTimePartitioner:
    """Partitioner of a producer subtask on a stream into an operator over event time."""
    owners, notes = world.owners[each.consumer], world.notes[each.consumer].of_producer()
    kin = each.consumer in world.kin.meet
    return EventTimePartitioner(owners, draws, counts, notes, mask_of(world, each), kin)


def finish(world: World) -> None:
    """Sets alignments and the ways of partial results, when all streams are there."""
    times, live = world.event_times, set[str]()
    for operator in world.query.topological:
        if operator.name in times.heeding and operator.name in world.tasks:
            for index, task in enumerate(world.tasks[operator.name]):
                _align(world, operator.name, index, task, live)
    for name in times.timed:
        for task in world.tasks[name]:
            timed(task).shippings = shippings(world, name, task)
        operator = world.query.operator(name)
        if operator.hands_over == "partials" and getattr(operator, "sharing", PANES) == "auto":
            FormChoice(world, name).start()


def _align(world: World, name: str, index: int, task: Task, live: set[str]) -> None:
    """Sets the inputs of a subtask: producers from which it may get records. live: subtasks that any records can come
    from."""
    inputs: list[Input] = []
    for side, stream in enumerate(world.query.inputs(name)):
        position = world.job.position(stream)
        for producer in world.tasks_of(stream.producer):
            port = producer.ports[position]
            if producer.name in live and (port.tags or port.weights[index] > 0.0):
                inputs.append((side, producer.name))
    if inputs or world.query.operator(name).is_source:
        live.add(task.name)
    if inputs:
        task.alignment = InputProgress(inputs)
    task.heeds = True


def shippings(world: World, name: str, task: Task) -> list[Shipping]:
    """Ways of partial results from a subtask to the consolidates behind it."""
    found, logic = [], timed(task)
    for position, stream in enumerate([edge.stream for edge in world.job.outputs(name)]):
        consumer = timed_logic(world.tasks[stream.consumer][0])
        if not isinstance(consumer, ConsolidateLogic):
            continue
        made_s = logic.result_s if isinstance(logic, ComputeLogic | ConsolidateLogic) else 0.0
        port = task.ports[position]
        shipping = Shipping(port, world.owners[stream.consumer], port.counts, consumer.longest_us, made_s)
        shipping.together = bool(getattr(world.query.operator(stream.consumer), "combined", False))
        if combined_with(world.query, name) == stream.consumer:
            index, consumers = world.tasks[name].index(task), world.tasks[stream.consumer]
            if index < len(consumers):
                shipping.here = partial(_hand_over, task, consumers[index])
            shipping.held = logic.over if isinstance(logic, ComputeLogic) else None
        found.append(shipping)
    return found


def _hand_over(sender: Task, merging: Task, span: Span, content: SpanContent) -> None:
    """Hands a partial result over within a component, unless a barrier lies between both of its subtasks."""
    logic = timed(merging)
    assert isinstance(logic, ConsolidateLogic)
    add = partial(logic.add, 0, span, content)
    if merging.barriers is None:
        add(logic.spans)
    else:
        merging.barriers.handed_over(sender, add)


def mask_of(world: World, each: Stream) -> int:
    """Mask of `EventTimePartitioner`, which fixes the keys of replayed records; 0 if replays are not the same."""
    query, before = world.query, [each.producer, *world.query.ancestors(each.producer)]
    streams = [each, *(stream for name in before for stream in query.inputs(name))]
    operators = [query.operator(name) for name in before]
    if not all(operator.is_source or operator.one_to_one for operator in operators):
        return 0
    if not world.replayable or any(stream.overflow == "drop" for stream in streams):
        return 0
    return 1 + crc32(f"{each.producer}->{each.consumer}".encode())


class FormChoice:
    """Chooses the form in which a compute keeps its state, by panes or by windows, as each longest window ends."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.windows = world.event_times.merged_windows(name)
        self.form = PANES

    @property
    def subtasks(self) -> list[ComputeLogic]:
        """Logics of the present subtasks."""
        logics = [timed_logic(task) for task in self.world.tasks[self.name]]
        return [logic for logic in logics if isinstance(logic, ComputeLogic)]

    def start(self) -> None:
        """Chooses the form by the expected rates, and later by the measured ones."""
        self.form = self.cheaper(self.world.job.rates[self.name].in_per_s)
        for each in self.subtasks:
            each.forms.become([(-math.inf, self.form)])
        self.world.env.process(self._looking())

    def cheaper(self, records_per_s: float) -> str:
        """Form that costs less CPU at that rate, without migrations."""
        if records_per_s <= 0.0:
            return self.form
        job = self.world.job
        period = period_of_job(job, self.name, records_per_s)
        together = is_combined(job.query, self.name)
        forms = (
            (WindowForm.COMBINED_PANES, WindowForm.COMBINED_WINDOWS)
            if together
            else (WindowForm.SPLIT_PANES, WindowForm.SPLIT_WINDOWS)
        )
        costs = unit_costs(job, self.name, period)
        panes_s, windows_s = (cost(form, period, costs).cpu_s for form in forms)
        return WINDOWS if windows_s < panes_s else PANES

    def _looking(self) -> Generator[simpy.Event, Any, None]:
        env = self.world.env
        period_s = max(window.length_us for window in self.windows) / US_PER_S
        taken = 0
        while True:
            yield env.timeout(period_s)
            now = sum(each.station.records_in for each in self.subtasks)
            form, taken = self.cheaper((now - taken) / period_s), now
            if form != self.form:
                self.form = form
                self._announce(cut_after(self.world), form)

    def _announce(self, cut_us: int, form: str) -> None:
        for each in self.subtasks:
            each.forms.to_come[cut_us] = form
        for name in self.world.query.ancestors(self.name):
            for source in self.world.tasks.get(name, ()):
                head = source.logic.steps[0]
                if isinstance(head, DatedSource):
                    head.announce(MODIFICATION, cut_us)
        self.world.announced()


def cut_after(world: World) -> int:
    """End of a pane, of all operators, after all that sources have sent. [us]"""
    now_us = math.ceil(world.env.now * US_PER_S) + 1
    finest = world.event_times.finest
    return finest.bounds(finest.pane(now_us)).end
