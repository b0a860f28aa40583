"""Logics of the mechanisms of operators (`MECHANISMS`). Kinds of operators with the same mechanism share one class."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from twin.calls import Calls
from twin.engine.draws import Draws
from twin.engine.logic import Logic, SinkLogic
from twin.engine.logics.calls import CallLogic, Gate
from twin.engine.logics.remember import RememberLogic
from twin.engine.logics.select import RouteLogic, SelectLogic, TableLogic
from twin.engine.logics.sink import CommittingSink
from twin.engine.logics.source import ReplayableSource, SourceLogic
from twin.engine.windows.combiner import GroupCombiner, MatchCombiner
from twin.engine.windows.compute import ComputeLogic
from twin.engine.windows.consolidate import ConsolidateLogic
from twin.engine.windows.forms import PANES
from twin.engine.windows.interval import IntervalLogic, TimedIntervalLogic
from twin.engine.windows.session import SessionLogic
from twin.engine.windows.source import TimedSource
from twin.engine.windows.trigger import CountTrigger, Extent, TimeTrigger, Trigger, extent_of
from twin.engine.windows.window import WindowLogic
from twin.job import Component, Stage
from twin.kinds import mechanism
from twin.partitionings.registry import groups_of
from twin.randomness import random_stream
from twin.windows import US_PER_S
from twin.wiring.wiring import Wiring


class Making(NamedTuple):
    """Arguments for making the logic of one operator of a replica."""

    wiring: Wiring
    component: Component
    stage: Stage
    replica: int

    @property
    def result_s(self) -> float:
        """CPU seconds of a result of a window over event time; a service time that was given covers it."""
        given = self.component.operator.service_time_s is not None
        return 0.0 if given else self.wiring.engine.result_us * 1e-6

    @property
    def keyed(self) -> bool:
        """Whether all records of a key come to the same replica; else each replica gets records of any key."""
        inputs = self.wiring.job.inputs(self.component.name)
        return bool(inputs) and all(edge.how.keeps_keys for edge in inputs)

    def keys_of(self, keys: int) -> int:
        """Number of keys, of `keys` in all, whose records the replica gets; for operators without key groups. At least
        1."""
        return max(1, groups_of(keys, self.replica, self.component.replicas)) if self.keyed else keys


def _reading(making: Making, _: mechanism.Reading) -> Logic:
    times = making.wiring.event_times
    if making.component.name in times.heeding:
        spec = making.component.operator
        late_us, slack_us = (round(getattr(spec, field) * US_PER_S) for field in ("disorder_s", "slack_s"))
        return TimedSource(times.finest, late_us, slack_us, making.wiring.replayable)
    return ReplayableSource() if making.wiring.replayable else SourceLogic()


def _grouping(making: Making, does: mechanism.Grouping) -> Logic:
    each, extent = making.stage, extent_of(does.window)
    combiner = GroupCombiner(extent, each.scan_s, each.result_s, making.keys_of(does.groups), making.keyed)
    return WindowLogic(_trigger(extent), combiner)


def _trigger(extent: Extent) -> Trigger:
    return TimeTrigger(extent) if extent.by_time else CountTrigger(extent)


def _matching(making: Making, does: mechanism.Matching) -> Logic:
    each, extent = making.stage, extent_of(does.window)
    ways = [edge.how for edge in making.wiring.job.inputs(each.operator.name)]
    combiner = MatchCombiner(
        extent,
        each.scan_s,
        each.result_s,
        whole=[way.whole for way in ways],
        selectivity=does.selectivity,
        amplification=does.amplification,
        share=1.0 / making.component.replicas,
    )
    return WindowLogic(_trigger(extent), combiner, len(ways))


def _meeting(making: Making, does: mechanism.Meeting) -> Logic:
    producers = [edge.stream.producer for edge in making.wiring.job.inputs(making.component.name)]
    left, keys = producers.index(does.left), making.keys_of(does.keys)
    if not does.by_event:
        return IntervalLogic(left, does.lower_s, does.upper_s, keys, making.keyed)
    late = None if does.late_to is None else _output_to(making, does.late_to)
    return TimedIntervalLogic(left, does.lower_s, does.upper_s, late)


def _collecting(making: Making, _: mechanism.Collecting) -> Logic:
    checkpoints = making.wiring.checkpoints
    return CommittingSink() if checkpoints is not None and checkpoints.sinks == "exactly-once" else SinkLogic()


def _remembering(_: Making, does: mechanism.Remembering) -> Logic:
    return RememberLogic(does.selectivity, math.inf if does.ttl_s is None else does.ttl_s, does.bytes_each)


def _tabling(making: Making, does: mechanism.Tabling) -> Logic:
    producers = [each.stream.producer for each in making.wiring.job.inputs(making.component.name)]
    return TableLogic(does.selectivity, producers.index(does.side))


def _routing(making: Making, does: mechanism.Routing) -> Logic:
    outputs = making.wiring.job.outputs(making.component.name)
    return RouteLogic([does.shares[each.stream.consumer] for each in outputs], does.exclusive)


def _calling(making: Making, calls: Calls, selectivity: float, end: SinkLogic | None) -> Logic:
    wiring, name = making.wiring, making.stage.operator.name
    if not wiring.settings.noise:
        calls = replace(calls, latency_scv=0.0)
    gates = wiring.world.gates
    if calls.rate_per_s is not None and name not in gates:
        gates[name] = Gate(calls.rate_per_s)
    answers = Draws(random_stream(wiring.settings.seed, f"calls:{name}#{making.replica}"), calls.latency_scv)
    return CallLogic(calls, selectivity, gates.get(name), answers, end)


def _computing(making: Making, does: mechanism.Computing) -> Logic:
    name, times = making.component.name, making.wiring.event_times
    return ComputeLogic(
        key_bytes=does.key_bytes,
        panes=times.panes(name),
        windows=times.merged_windows(name),
        results=bool(does.windows),
        sharing=PANES if does.sharing == "auto" else does.sharing,
        execute_s=does.execute_s,
        result_s=making.result_s,
        late=None if does.late_to is None else _output_to(making, does.late_to),
        by_window=bool(does.windows) and making.wiring.engine.lateness == "window",
    )


def _output_to(making: Making, consumer: str) -> int:
    """Number of the output stream to a consumer."""
    return [edge.stream.consumer for edge in making.wiring.job.outputs(making.component.name)].index(consumer)


def _consolidating(making: Making, does: mechanism.Consolidating) -> Logic:
    panes = making.wiring.event_times.panes(making.component.name)
    assert panes is not None
    return ConsolidateLogic(
        key_bytes=does.key_bytes,
        panes=panes,
        windows=does.windows,
        sides=making.wiring.event_times.sides(making.component.name),
        merge_s=does.merge_s,
        result_s=making.result_s,
        results_per_key=does.results_per_key,
    )


MECHANISMS: Mapping[type, Callable[[Making, Any], Logic]] = {
    mechanism.Reading: _reading,
    mechanism.Selecting: lambda _, does: SelectLogic(does.selectivity, does.thins),
    mechanism.Grouping: _grouping,
    mechanism.Matching: _matching,
    mechanism.Meeting: _meeting,
    mechanism.Collecting: _collecting,
    mechanism.Sessioning: lambda making, does: SessionLogic(does.gap_s, making.keys_of(does.keys), making.keyed),
    mechanism.Remembering: _remembering,
    mechanism.Tabling: _tabling,
    mechanism.Routing: _routing,
    mechanism.Asking: lambda making, does: _calling(making, does.calls, does.selectivity, None),
    mechanism.Writing: lambda making, does: _calling(making, does.calls, 1.0, SinkLogic()),
    mechanism.Computing: _computing,
    mechanism.Consolidating: _consolidating,
}


def make_logic(making: Making) -> Logic:
    """Makes the logic that runs the operator's mechanism."""
    does = making.stage.operator.mechanism
    made = MECHANISMS[type(does)](making, does)
    made.kin = making.stage.operator.name in making.wiring.kin.meet
    return made
