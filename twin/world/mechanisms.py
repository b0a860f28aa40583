"""Logics of the mechanisms of operators (`LOGICS`): kinds of operators with the same mechanism share one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.calls import Calls
from twin.engine.keys.likeness import Likeness, keys_for
from twin.job import Component, Job, Stage
from twin.kernel import layout as k
from twin.kernel.arena import addresses
from twin.kinds import mechanism
from twin.partitionings.registry import groups_of
from twin.windows import TimeWindow
from twin.world.logics import (
    CallLogic,
    CollectLogic,
    Content,
    FlyingCalls,
    Gate,
    Logic,
    ReadLogic,
    RememberLogic,
    RouteLogic,
    SelectLogic,
    SessionLogic,
    Store,
    WindowLogic,
    WindowState,
)
from twin.world.parts import SinkCounts, Task

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups
    from twin.world.world import World


class Making(NamedTuple):
    """Arguments for making the logic of one operator of a subtask. replica, number: of subtask and logic."""

    world: World
    component: Component
    stage: Stage
    replica: int
    task: Task
    number: int

    @property
    def where(self) -> tuple[Any, ...]:
        """First arguments of every logic."""
        return self.world.memory, self.task, self.number, self.stage.bytes_in if self.number else 0.0

    @property
    def groups(self) -> KeyGroups | None:
        """Key groups of the operator, if it has any: keys are dealt on the way to the first operator."""
        return None if self.number else self.world.key_groups.get(self.component.name)

    @property
    def keyed(self) -> bool:
        """Whether all records of a key come to the same subtask; else each subtask gets records of any key."""
        inputs = self.world.job.inputs(self.component.name)
        return bool(inputs) and all(edge.how.keeps_keys for edge in inputs)

    def keys_of(self, keys: int) -> int:
        """Number of keys, of `keys` in all, whose records the subtask gets; for operators without key groups."""
        return max(1, groups_of(keys, self.replica, self.component.replicas)) if self.keyed else keys


def _grouping(making: Making, does: mechanism.Grouping) -> Logic:
    keys = making.keys_of(does.groups)
    return _window(making, does.window, [Likeness(keys, keys)], [1.0])


def _matching(making: Making, does: mechanism.Matching) -> Logic:
    whole = [edge.how.whole for edge in making.world.job.inputs(making.stage.operator.name)]
    share = 1.0 if all(whole) else 1.0 / making.component.replicas
    own = None
    if does.selectivity:
        own = Likeness.of(keys_for(does.selectivity, len(whole)) * share, len(whole))
    likeness = own if making.groups is None else making.groups.likeness
    logic = _window(
        making,
        does.window,
        [own or Likeness(1, 1.0)] * len(whole),
        [share if own is not None and each else 1.0 for each in whole],
    )
    window = logic.window
    window.matches = True
    window.amplification = -1.0 if does.amplification is None else does.amplification
    window.repeats = 1.0 if likeness is None else likeness.repeats
    return logic


def _window(making: Making, spec: Any, keys: Sequence[Likeness], here: Sequence[float]) -> WindowLogic:
    """Logic of a window. keys: of each side, if records get their keys here. here: the share of them that are."""
    memory, task, sides = making.world.memory, making.task, len(keys)
    logic = WindowLogic(*making.where)
    rows, tables = memory.arena.make(k.CONTENT, sides), memory.arena.make(k.TABLE, sides)
    window = logic.window = WindowState(
        memory.add(
            k.WINDOW,
            task=task.here,
            logic=logic.here,
            by_time=isinstance(spec, TimeWindow),
            keyed=making.groups is not None,
            sides=sides,
            contents=rows.ctypes.data,
            tables=tables.ctypes.data,
            length=float(spec.size),
            slide=float(spec.slide),
            scan_s=making.stage.scan_s,
            result_s=making.stage.result_s,
            amplification=-1.0,
            repeats=1.0,
            slot=k.NONE,
        )
    )
    logic.raw_window = window.here
    memory.at[window.here] = window
    window.contents = [Content(each) for each in addresses(rows)]
    for content, like, share in zip(window.contents, keys, here, strict=True):
        rows_here = memory.array(k.ROW, content.here, "rows", k.LEAST_ROOM)
        content.raw_here, content.rows, content.room = content.here, rows_here, k.LEAST_ROOM
        content.keys, content.scale, content.here_share = like.keys, like.scale, share
        memory.at[content.here] = content
    for each in addresses(tables):
        table = KeyTable(each)
        table.raw_here, table.room = each, k.LEAST_ROOM
        table.entries = memory.array(k.ENTRY, each, "entries", k.LEAST_ROOM)
        memory.at[each] = table
    window.found, window.found_room = memory.array(k.RESULT, window.here, "found", k.LEAST_ROOM), k.LEAST_ROOM
    if window.by_time:
        env = making.world.env
        window.boundary_s = (env.now // window.slide + 1.0) * window.slide
        window.slot = memory.slots.add(k.WINDOWS, window.here)
        memory.slots.set(window.slot, window.boundary_s, next(env._eid))
    return logic


class KeyTable(Content, layout=k.TABLE):
    """Hash table of keys, while a window is evaluated."""


def _sessioning(making: Making, does: mechanism.Sessioning) -> Logic:
    memory, slots = making.world.memory, making.world.memory.slots
    store = Store(
        memory,
        making.world.expire,
        task=making.task.here,
        keep_s=does.gap_s,
        keys=making.keys_of(does.keys),
        drawn=making.groups is None,
    )
    store.slot = slots.add(k.SESSIONS, store.here)
    return SessionLogic(*making.where, store=store)


def _remembering(making: Making, does: mechanism.Remembering) -> Logic:
    keep_s = math.inf if does.ttl_s is None else does.ttl_s
    store = Store(making.world.memory, making.world.expire, task=making.task.here, keep_s=keep_s, slot=k.NONE)
    return RememberLogic(*making.where, selectivity=does.selectivity, store=store, bytes_each=does.bytes_each)


def _tabling(making: Making, does: mechanism.Tabling) -> Logic:
    producers = [each.stream.producer for each in making.world.job.inputs(making.component.name)]
    side = producers.index(does.side)
    return SelectLogic(*making.where, selectivity=does.selectivity, thins=does.selectivity <= 1.0, side=side)


def _routing(making: Making, does: mechanism.Routing) -> Logic:
    outputs = making.world.job.outputs(making.component.name)
    shares = [does.shares[each.stream.consumer] for each in outputs]
    return RouteLogic(*making.where, shares=shares, exclusive=does.exclusive)


def _calling(making: Making, calls: Calls, selectivity: float, ends: bool) -> Logic:
    world, memory, name = making.world, making.world.memory, making.stage.operator.name
    if not world.settings.noise:
        calls = replace(calls, latency_scv=0.0)
    if calls.rate_per_s is not None and name not in world.gates:
        world.gates[name] = Gate(memory.add(k.GATE, each_s=1.0 / calls.rate_per_s))
    logic = CallLogic(*making.where)
    calling = logic.calling = FlyingCalls(
        memory.add(
            k.CALLING,
            task=making.task.here,
            logic=logic.here,
            answers=memory.draws(f"calls:{name}#{making.replica}", calls.latency_scv).here,
            capacity=math.inf if calls.capacity is None else calls.capacity,
            selectivity=selectivity,
            hit_ratio=calls.hit_ratio,
            hit_s=calls.hit_s,
            latency_s=calls.latency_s,
            ordered=calls.ordered,
            gate=world.gates[name].here if calls.rate_per_s is not None else 0,
            room=k.LEAST_ROOM,
        )
    )
    memory.at[calling.here] = calling
    calling.slot, calling.turn = (memory.slots.add(kind, calling.here) for kind in (k.ANSWERS, k.TURNS))
    calling.heap = memory.array(k.JOB, calling.here, "heap", k.LEAST_ROOM)
    if ends:
        logic.end = SinkCounts(memory)
        calling.sink = logic.end.here
    logic.calls = calling.here
    return logic


LOGICS: Mapping[type, Callable[[Making, Any], Logic]] = {
    mechanism.Reading: lambda making, _: ReadLogic(*making.where),
    mechanism.Selecting: lambda making, does: SelectLogic(
        *making.where, selectivity=does.selectivity, thins=does.thins
    ),
    mechanism.Grouping: _grouping,
    mechanism.Matching: _matching,
    mechanism.Collecting: lambda making, _: CollectLogic(*making.where, commits=making.world.commits),
    mechanism.Sessioning: _sessioning,
    mechanism.Remembering: _remembering,
    mechanism.Tabling: _tabling,
    mechanism.Routing: _routing,
    mechanism.Asking: lambda making, does: _calling(making, does.calls, does.selectivity, False),
    mechanism.Writing: lambda making, does: _calling(making, does.calls, 1.0, True),
}
ALONE = {mechanism.Routing, mechanism.Sessioning, mechanism.Asking, mechanism.Writing}
"""Mechanisms that send by themselves: no operator can follow them in a chain."""


def knows(job: Job) -> bool:
    """Whether all parts of a job can be built in memory."""
    stages = [stage.operator for component in job.components for stage in component.stages]
    alone = [
        stage.operator
        for component in job.components
        for stage in component.stages
        if len(component.stages) > 1 and type(stage.operator.mechanism) in ALONE
    ]
    return not (alone or any(type(each.mechanism) not in LOGICS or each.needs_event_time for each in stages))


def make_logics(world: World, component: Component, replica: int, task: Task) -> list[Logic]:
    """Makes the steps of a subtask."""
    steps = []
    for number, stage in enumerate(component.stages):
        does = stage.operator.mechanism
        logic = LOGICS[type(does)](Making(world, component, stage, replica, task, number), does)
        logic.kin = stage.operator.name in world.kin.meet
        if len(component.stages) > 1:
            logic.stream = task.draws.here if not number else world.draws_of(stage, replica).here
            logic.service_s = stage.service_s if number else component.service_s
        steps.append(logic)
    task.errands, task.errands_room = world.memory.array(k.ERRAND, task.here, "errands", k.LEAST_ROOM), k.LEAST_ROOM
    return steps
