"""Mechanisms: which task does what an operator says of itself. Kinds that do the same share one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.engine.arrival.replay import ReplayableSource
from twin.engine.operators import SelectTask, SinkTask, SourceTask
from twin.engine.task import Task
from twin.engine.windows.aggregate import AggregateTask
from twin.engine.windows.join import JoinTask
from twin.job import Component
from twin.keys import groups_of
from twin.kinds.mechanism import Collecting, Grouping, Matching, Reading, Selecting
from twin.windows import Window

if TYPE_CHECKING:
    from twin.wiring.wiring import Wiring


class Making(NamedTuple):
    """A replica to be made. common: what every task is made of."""

    wiring: Wiring
    component: Component
    replica: int
    common: dict[str, Any]

    def windowed(self, window: Window) -> dict[str, Any]:
        """What every task with a window is made of."""
        each = self.component
        return {**self.common, "window": window, "result_s": each.result_s, "scan_s": each.scan_s}


def _reading(making: Making, _: Reading) -> Task:
    return (ReplayableSource if making.wiring.replayable else SourceTask)(**making.common)


def _selecting(making: Making, does: Selecting) -> Task:
    return SelectTask(**making.common, selectivity=does.selectivity, thins=does.thins)


def _grouping(making: Making, does: Grouping) -> Task:
    groups = max(1, groups_of(does.groups, making.replica, making.component.replicas))
    return AggregateTask(**making.windowed(does.window), groups=groups)


def _matching(making: Making, does: Matching) -> Task:
    ways = [each.how for each in making.wiring.job.inputs(making.component.name)]
    task = JoinTask(
        **making.windowed(does.window),
        sides=len(ways),
        keyed=sum(not way.whole for way in ways),
        selectivity=does.selectivity,
        amplification=does.amplification,
    )
    task.law = task.law_of(1.0 / making.component.replicas)  # key groups, if there are any, will know better
    return task


def _collecting(making: Making, _: Collecting) -> Task:
    return SinkTask(**making.common)


MECHANISMS: Mapping[type, Callable[[Making, Any], Task]] = {
    Reading: _reading,
    Selecting: _selecting,
    Grouping: _grouping,
    Matching: _matching,
    Collecting: _collecting,
}


def made(making: Making) -> Task:
    """The task that does it."""
    does = making.component.operator.mechanism
    return MECHANISMS[type(does)](making, does)
