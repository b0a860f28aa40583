"""Event time in a job: the inputs that decide on each task's watermark, the ways of partial results, and forms of
windows.

Whether windows share the state of panes, or each has its own, is chosen by the cost model from measured rates (Enorm,
Sections 4.2 and 5.1.2), again each time the longest window has passed. A change holds for windows that begin after a
cut ahead of all records, which a modification punctuation takes to all replicas (6.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

import simpy

from twin.engine.record import Input, InputProgress
from twin.engine.windows.compute import ComputeLogic
from twin.engine.windows.consolidate import ConsolidateLogic
from twin.engine.windows.forms import PANES, WINDOWS
from twin.engine.windows.ownership import EventTimePartitioner, Ownership
from twin.engine.windows.panes import SpanContent, WindowAudit
from twin.engine.windows.shipping import Shipping
from twin.engine.windows.source import TimedSource
from twin.engine.windows.watermark import TimedLogic
from twin.event_time_events import combined_with, is_combined
from twin.forms import WindowForm, cost, period_of_job, unit_costs
from twin.panes import Span
from twin.windows import US_PER_S
from twin.wiring.wiring import Wiring

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.station.task import Task
    from twin.query import Stream
    from twin.wiring.world import World


def prepare(wiring: Wiring) -> None:
    """Assigns key groups to the replicas of operators over event time, before there are streams."""
    world, times = wiring.world, wiring.event_times
    for name in times.timed:
        owners = world.owners[name] = Ownership(world.key_groups[name])
        audit = world.audits[name] = WindowAudit()
        for task in world.tasks[name]:
            logic = task.logic
            assert isinstance(logic, TimedLogic)
            logic.belong(owners, audit)


def timed_deal(wiring: Wiring, each: Stream, draws: Draws, first: int) -> EventTimePartitioner:
    """Partitioner of a producer replica on a stream into an operator over event time."""
    world = wiring.world
    counts, audit = world.streams[each.producer, each.consumer].counts, world.audits[each.consumer]
    kin = each.consumer in wiring.kin.meet
    return EventTimePartitioner(world.owners[each.consumer], draws, counts, audit, first, _mask(wiring, each), kin)


def _mask(wiring: Wiring, each: Stream) -> int:
    """Mask of `EventTimePartitioner`, which fixes the keys of replayed records; 0 if replays are not the same."""
    query, before = wiring.query, [each.producer, *wiring.query.ancestors(each.producer)]
    streams = [each, *(stream for name in before for stream in query.inputs(name))]
    operators = [query.operator(name) for name in before]
    if not all(operator.is_source or operator.one_to_one for operator in operators):
        return 0
    if not wiring.replayable or any(stream.overflow == "drop" for stream in streams):
        return 0
    return 1 + crc32(f"{each.producer}->{each.consumer}".encode())


def finish(wiring: Wiring) -> None:
    """Sets alignments and the ways of partial results, when all streams are there."""
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
        operator = wiring.query.operator(name)
        if operator.hands_over == "partials" and getattr(operator, "sharing", PANES) == "auto":
            FormChoice(wiring, name).start()


def _align(wiring: Wiring, name: str, index: int, task: Task, live: set[str]) -> None:
    """Sets the inputs of a task: producers from which it may get tuples. live: tasks that any tuples can come from."""
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
        task.alignment = InputProgress(inputs)


def shippings(wiring: Wiring, name: str, task: Task) -> list[Shipping]:
    """Ways of partial results from a replica to the consolidates behind it."""
    world, found = wiring.world, []
    for position, stream in enumerate([edge.stream for edge in wiring.job.outputs(name)]):
        consumer = world.tasks[stream.consumer][0].logic
        if isinstance(consumer, ConsolidateLogic):
            counts = world.streams[stream.producer, stream.consumer].counts
            owners = world.owners[stream.consumer]
            made_s = task.logic.result_s if isinstance(task.logic, ComputeLogic | ConsolidateLogic) else 0.0
            shipping = Shipping(task, task.ports[position], owners, counts, consumer.longest_us, made_s)
            shipping.together = bool(getattr(wiring.query.operator(stream.consumer), "combined", False))
            if combined_with(wiring.query, name) == stream.consumer:
                shipping.here = _here(world, stream.consumer, world.tasks[name].index(task))
                shipping.held = task.logic.over if isinstance(task.logic, ComputeLogic) else None
            found.append(shipping)
    return found


def _here(world: World, consumer: str, index: int) -> Callable[[Span, SpanContent], None] | None:
    """Way to the consolidate replica of that index, for a compute that is, or may be, one component with it."""
    if index >= len(world.tasks[consumer]):
        return None
    logic = world.tasks[consumer][index].logic
    assert isinstance(logic, ConsolidateLogic)
    return partial(logic.add, 0)


class FormChoice:
    """Chooses the form in which a compute keeps its state, by panes or by windows, as each longest window ends."""

    def __init__(self, wiring: Wiring, name: str) -> None:
        self.wiring = wiring
        self.name = name
        self.windows = wiring.event_times.merged_windows(name)
        self.form = PANES

    @property
    def replicas(self) -> list[ComputeLogic]:
        """Logics of the present replicas."""
        logics = [task.logic for task in self.wiring.world.tasks[self.name]]
        return [logic for logic in logics if isinstance(logic, ComputeLogic)]

    def start(self) -> None:
        """Chooses the form by the expected rates, and later by the measured ones."""
        self.form = self.cheaper(self.wiring.job.rates[self.name].in_per_s)
        for each in self.replicas:
            each.forms.become([(-math.inf, self.form)])
        self.wiring.world.env.process(self._looking())

    def cheaper(self, tuples_per_s: float) -> str:
        """Form that costs less CPU at that rate, without migrations."""
        if tuples_per_s <= 0.0:
            return self.form
        job = self.wiring.job
        period = period_of_job(job, self.name, tuples_per_s)
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
        env = self.wiring.world.env
        period_s = max(window.length_us for window in self.windows) / US_PER_S
        taken = 0
        while True:
            yield env.timeout(period_s)
            now = sum(each.station.tuples_in for each in self.replicas)
            form, taken = self.cheaper((now - taken) / period_s), now
            if form != self.form:
                self.form = form
                self._announce(cut_after(self.wiring), form)

    def _announce(self, cut_us: int, form: str) -> None:
        for each in self.replicas:
            each.forms.to_come[cut_us] = form
        for name in self.wiring.query.ancestors(self.name):
            for source in self.wiring.world.tasks.get(name, ()):
                if isinstance(source.logic, TimedSource):
                    source.logic.announce(cut_us)
        self.wiring.announced()


def cut_after(wiring: Wiring) -> int:
    """End of a pane, of all operators, after all that sources have sent. [us]"""
    now_us = math.ceil(wiring.world.env.now * US_PER_S) + 1
    finest = wiring.event_times.finest
    return finest.bounds(finest.pane(now_us)).end
