"""Event time in a job: its panes, who tells whom how far it is, and where partial results go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING
from zlib import crc32

from twin.engine.record import Alignment, Input
from twin.engine.windows.compute import ComputeLogic
from twin.engine.windows.consolidate import ConsolidateLogic
from twin.engine.windows.forms import PANES
from twin.engine.windows.ownership import Copied, EventTimePartitioner, Ownership
from twin.engine.windows.panes import Audit, Content
from twin.engine.windows.shipping import Shipping
from twin.engine.windows.watermark import TimedLogic
from twin.event_migrations import combined_with
from twin.event_time import merged_windows, partial_panes
from twin.panes import Panes, Span, panes_of
from twin.windows import US_PER_S, EventWindow
from twin.wiring.sharing import Shared

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.station.task import Task
    from twin.query import Query, Stream
    from twin.wiring.wiring import Wiring
    from twin.wiring.world import World


def as_window(panes: Panes) -> EventWindow:
    """Panes as the instances of a tumbling window."""
    return EventWindow(length_s=panes.length_us / US_PER_S, start_s=panes.offset_us / US_PER_S)


@dataclass(frozen=True)
class EventTimes:
    """Of a query. Operators over event time, and those that bring it there, heed punctuations."""

    query: Query

    @cached_property
    def timed(self) -> list[str]:
        """Operators over event time, in data-flow order."""
        return [operator.name for operator in self.query.topological if operator.needs_event_time]

    @cached_property
    def heeding(self) -> set[str]:
        """Those and all that their tuples come from."""
        return set(self.timed).union(*(self.query.ancestors(name) for name in self.timed))

    def panes(self, name: str) -> Panes | None:
        """Of an operator over event time; None for one that keeps its state forever."""
        operator = self.query.operator(name)
        windows: tuple[EventWindow, ...] = getattr(operator, "windows", ())
        if operator.hands_over == "partials":
            return partial_panes(self.query, name)
        if operator.merges:
            return panes_of([*windows, *(each for stream in self.query.inputs(name) for each in self._sent(stream))])
        return panes_of(windows) if windows else None

    def _sent(self, stream: Stream) -> tuple[EventWindow, ...]:
        """Over which spans results come that are merged."""
        producer = self.query.operator(stream.producer)
        if producer.hands_over == "partials":
            return (as_window(partial_panes(self.query, producer.name)),)
        return tuple(getattr(producer, "windows", ()))

    def sides(self, name: str) -> list[tuple[EventWindow, ...]]:
        """By input of a consolidate, the windows that come whole; none where its own panes come."""
        own, sent = self.panes(name), [self._sent(stream) for stream in self.query.inputs(name)]
        assert own is not None
        return [() if windows == (as_window(own),) else windows for windows in sent]

    @cached_property
    def finest(self) -> Panes:
        """Of which all panes are made."""
        found = [panes for name in self.timed if (panes := self.panes(name)) is not None]
        return panes_of([as_window(panes) for panes in found]) if found else Panes(US_PER_S, 0)

    def merged_windows(self, name: str) -> tuple[EventWindow, ...]:
        """All windows that are made of an operator's panes."""
        return merged_windows(self.query, name)


def prepare(wiring: Wiring) -> None:
    """Who has which key groups, before there are streams."""
    world, times = wiring.world, wiring.event_times
    for name in times.timed:
        owners = world.owners[name] = Ownership(world.key_groups[name])
        audit = world.audits[name] = Audit()
        for task in world.tasks[name]:
            logic = task.logic
            assert isinstance(logic, TimedLogic)
            logic.ownership, logic.audit = owners, audit
            if isinstance(logic, ConsolidateLogic):
                logic.know_inputs(times.sides(name))


def timed_deal(wiring: Wiring, each: Stream, draws: Draws, first: int) -> EventTimePartitioner:
    """The partitioner of a producer replica."""
    world = wiring.world
    ends = each.producer, each.consumer
    copied = world.copied.setdefault(ends, Copied())
    audit = world.audits[each.consumer]
    return EventTimePartitioner(world.owners[each.consumer], draws, copied, audit, first, _mask(wiring, each))


def _mask(wiring: Wiring, each: Stream) -> int:
    """That what is read again is the same, if nothing on the way to there is left to chance."""
    query, before = wiring.query, [each.producer, *wiring.query.ancestors(each.producer)]
    streams = [each, *(stream for name in before for stream in query.inputs(name))]
    operators = [query.operator(name) for name in before]
    if not all(operator.is_source or operator.one_to_one for operator in operators):
        return 0
    if not wiring.replayable or any(stream.overflow == "drop" for stream in streams):
        return 0
    return 1 + crc32(f"{each.producer}->{each.consumer}".encode())


def finish(wiring: Wiring) -> None:
    """Alignments and ways of partial results, when all streams are there."""
    world, times = wiring.world, wiring.event_times
    live = set[str]()
    for operator in wiring.query.topological:
        if operator.name in times.heeding and operator.name in world.tasks:
            for index, task in enumerate(world.tasks[operator.name]):
                _align(wiring, operator.name, index, task, live)
    for name in times.timed:
        for task in world.tasks[name]:
            assert isinstance(task.logic, TimedLogic)
            task.logic.shippings = shippings(wiring, name, task)
        if wiring.query.operator(name).hands_over == "partials":
            _share(wiring, name)


def as_far(_kind: str, _value: float) -> None:
    """Nothing is done but to pass it on."""


def _align(wiring: Wiring, name: str, index: int, task: Task, live: set[str]) -> None:
    """Its inputs: producers from which it may get tuples. live: tasks that any tuples can come from."""
    inputs: list[Input] = []
    for side, stream in enumerate(wiring.query.inputs(name)):
        position = wiring.query.outputs(stream.producer).index(stream)
        for producer in wiring.tasks_of(stream.producer):
            partitioner = producer.ports[position].partitioner
            if producer.name in live and (partitioner.tags or partitioner.weights[index] > 0.0):
                inputs.append((side, producer.name))
    if inputs or wiring.query.operator(name).is_source:
        live.add(task.name)
    if inputs:
        task.alignment = Alignment(inputs, as_far)


def shippings(wiring: Wiring, name: str, task: Task) -> list[Shipping]:
    """To the consolidates behind a replica."""
    world, found = wiring.world, []
    for position, stream in enumerate([edge.stream for edge in wiring.job.outputs(name)]):
        consumer = world.tasks[stream.consumer][0].logic
        if isinstance(consumer, ConsolidateLogic):
            copied = world.copied[stream.producer, stream.consumer]
            owners = world.owners[stream.consumer]
            made_s = task.logic.result_s if isinstance(task.logic, ComputeLogic | ConsolidateLogic) else 0.0
            shipping = Shipping(task, task.ports[position], owners, copied, consumer.longest_us, made_s)
            shipping.together = bool(getattr(wiring.query.operator(stream.consumer), "combined", False))
            if combined_with(wiring.query, name) == stream.consumer:
                shipping.here = _here(world, stream.consumer, world.tasks[name].index(task))
                shipping.held = task.logic.over if isinstance(task.logic, ComputeLogic) else None
            found.append(shipping)
    return found


def _here(world: World, consumer: str, index: int) -> Callable[[Span, Content], None] | None:
    """To the consolidate that is, or may be, one component with a compute of that index."""
    if index >= len(world.tasks[consumer]):
        return None
    logic = world.tasks[consumer][index].logic
    assert isinstance(logic, ConsolidateLogic)
    return partial(logic.add, 0)


def _share(wiring: Wiring, name: str) -> None:
    """The form in which a compute begins."""
    if getattr(wiring.query.operator(name), "sharing", PANES) == "auto":
        Shared(wiring, name).start()
