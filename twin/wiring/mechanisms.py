"""Mechanisms: which task does what an operator says of itself. Kinds that do the same share one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.engine.arrival.replay import ReplayableSource
from twin.engine.event_time.compute import PANES, ComputeTask
from twin.engine.event_time.consolidate import ConsolidateTask
from twin.engine.event_time.source import TimedSource
from twin.engine.operators import SelectTask, SinkTask, SourceTask
from twin.engine.task import Task
from twin.engine.windows.aggregate import AggregateTask
from twin.engine.windows.join import JoinTask
from twin.event_windows.window import US_PER_S
from twin.job import Component
from twin.keys import groups_of
from twin.kinds.mechanism import Collecting, Computing, Consolidating, Grouping, Matching, Reading, Selecting
from twin.windows import Window

if TYPE_CHECKING:
    from twin.wiring.wiring import Wiring


class Making(NamedTuple):
    """A replica to be made. common: what every task is made of."""

    wiring: Wiring
    component: Component
    replica: int
    common: dict[str, Any]

    @property
    def result_s(self) -> float:
        """CPU seconds of a result of a window over event time; a service time that was given covers it."""
        given = self.component.operator.service_time_s is not None
        return 0.0 if given else self.wiring.engine.result_us * 1e-6

    def windowed(self, window: Window) -> dict[str, Any]:
        """What every task with a window is made of."""
        each = self.component
        return {**self.common, "window": window, "result_s": each.result_s, "scan_s": each.scan_s}


def _reading(making: Making, _: Reading) -> Task:
    times = making.wiring.event_times
    if making.component.name in times.heeding:
        spec = making.component.operator
        late_us, slack_us = (round(getattr(spec, field) * US_PER_S) for field in ("disorder_s", "slack_s"))
        return TimedSource(**making.common, panes=times.finest, disorder_us=late_us, slack_us=slack_us)
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


def _computing(making: Making, does: Computing) -> Task:
    name, times = making.component.name, making.wiring.event_times
    return ComputeTask(
        **making.common,
        key_bytes=does.key_bytes,
        panes=times.panes(name),
        windows=times.merged_windows(name),
        results=bool(does.windows),
        sharing=PANES if does.sharing == "auto" else does.sharing,
        execute_s=does.execute_s,
        result_s=making.result_s,
    )


def _consolidating(making: Making, does: Consolidating) -> Task:
    panes = making.wiring.event_times.panes(making.component.name)
    assert panes is not None
    return ConsolidateTask(
        **making.common,
        key_bytes=does.key_bytes,
        panes=panes,
        windows=does.windows,
        merge_s=does.merge_s,
        result_s=making.result_s,
        results_per_key=does.results_per_key,
    )


MECHANISMS: Mapping[type, Callable[[Making, Any], Task]] = {
    Reading: _reading,
    Selecting: _selecting,
    Grouping: _grouping,
    Matching: _matching,
    Collecting: _collecting,
    Computing: _computing,
    Consolidating: _consolidating,
}


def made(making: Making) -> Task:
    """The task that does it."""
    does = making.component.operator.mechanism
    return MECHANISMS[type(does)](making, does)
