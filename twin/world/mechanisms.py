"""Logics of the mechanisms of operators (`LOGICS`): kinds of operators with the same mechanism share one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.calls import Calls
from twin.job import Component, Stage
from twin.kinds import mechanism
from twin.machine import layout as k
from twin.machine.layout import addresses
from twin.operators.compute import ComputeLogic, TimedSessionLogic
from twin.operators.consolidate import ConsolidateLogic
from twin.operators.joins import IntervalLogic, TimedIntervalLogic, TimedJoinLogic, TimedTableLogic
from twin.operators.key_groups import Likeness, keys_for
from twin.operators.logic import Logic as Inner
from twin.operators.panes import PANES
from twin.operators.rows import OverLogic, RegularJoinLogic, TimedDeduplicateLogic, TimedOverLogic, TopLogic
from twin.operators.updates import BatchLogic, DeduplicateLogic, GlobalLogic, GroupLogic, LocalLogic
from twin.operators.watermark import TimedLogic
from twin.partitionings import groups_of
from twin.query import Windowed
from twin.windows import TimeWindow, microseconds, slice_of
from twin.world.event_time import ComputeInMemory, ComputingLogic
from twin.world.logic import CollectLogic, Logic, ReadLogic, RememberLogic, RouteLogic, SelectLogic, SessionLogic, Store
from twin.world.logics import CallLogic, FlyingCalls, Gate, Tail
from twin.world.parts import SinkCounts, Task
from twin.world.python_logics import DatedSource, PythonLogic, watermarks
from twin.world.windows import Content, WindowLogic, WindowState

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.world.world import World


LOOKS_S = 0.2
"""Seconds between two looks at whether a source is idle that announces its progress at ends of panes."""


class Making(NamedTuple):
    """Arguments for making the logic of one operator of a subtask. subtask, number: of subtask and logic."""

    world: World
    component: Component
    stage: Stage
    subtask: int
    task: Task
    number: int

    @property
    def where(self) -> tuple[Any, ...]:
        """First arguments of every logic."""
        return self.world.memory, self.task, self.number, self.stage.bytes_in if self.number else 0.0

    @property
    def result_s(self) -> float:
        """CPU seconds of a result of a window over event time; a service time that was given covers it, but for
        accesses to stored state."""
        given, engine = self.component.operator.service_time_s is not None, self.world.engine
        return (0.0 if given else engine.result_us * 1e-6) + engine.result_access_s(self.stage.operator)

    @property
    def key_bytes(self) -> float:
        """Bytes that a key has in a pane of event time, or in a session: of an accumulator, or of a result."""
        size = self.world.engine.accumulator_bytes_of(self.stage.operator)
        return self.stage.bytes_out if size is None else size

    def output_to(self, consumer: str | None) -> int | None:
        """Number of the output stream to a consumer, if there is one."""
        outputs = [edge.ends for edge in self.world.job.outputs(self.component.name)]
        return None if consumer is None else outputs.index((self.component.name, consumer))

    def input_from(self, side: str) -> int:
        """Number of the input stream of that name, by default that of its producer."""
        return [edge.stream.side for edge in self.world.job.inputs(self.component.name)].index(side)

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
        return max(1, groups_of(keys, self.subtask, self.component.parallelism)) if self.keyed else keys


def _grouping(making: Making, does: mechanism.Grouping) -> Logic:
    keys = making.keys_of(does.groups)
    logic = _window(making, does.window, [Likeness(keys, keys)], [1.0])

    def known(share: float, values: list[int]) -> Any:
        shared = max(1, round(values[0] * share))
        return ([Likeness(shared, shared)], [1.0]) if making.keyed else None

    logic.likeness_for = known
    operator, engine = making.stage.operator, making.world.engine
    size = engine.accumulator_bytes_of(operator)
    holds = engine.window_state_of(operator)
    logic.copies = holds == "copies"
    if size is not None:
        shares = holds == "slices"
        store = Store(making.world.memory, making.world.expire, task=making.task.here, keep_s=math.inf, slot=k.NONE)
        logic.keep_accumulators(store, size, slice_of(does.window) if shares else 0.0)
    return logic


def _matching(making: Making, does: mechanism.Matching) -> Logic:
    if isinstance(does.window, TimeWindow) and does.window.event is not None:
        return _python(making, _timed_join(making, does, does.window))
    whole = [edge.how.whole for edge in making.world.job.inputs(making.stage.operator.name)]

    def known(share: float, _: object = None) -> tuple[list[Likeness], list[float]]:
        share, own = (1.0 if all(whole) else share), None
        if does.selectivity:
            own = Likeness.of(keys_for(does.selectivity, len(whole)) * share, len(whole))
        return [own or Likeness(1, 1.0)] * len(whole), [share if own is not None and each else 1.0 for each in whole]

    keys, here = known(1.0 / making.component.parallelism)
    likeness = (keys[0] if does.selectivity else None) if making.groups is None else making.groups.likeness
    logic = _window(making, does.window, keys, here)
    logic.likeness_for = known
    window = logic.window
    window.matches = True
    window.amplification = -1.0 if does.amplification is None else does.amplification
    window.repeats = 1.0 if likeness is None else likeness.repeats
    logic.copies = making.world.engine.window_state_of(making.stage.operator) == "copies"
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
        content.keys, content.scale, content.here_share, content.task = like.keys, like.scale, share, task
        memory.at[content.here] = content
    for each in addresses(tables):
        table = KeyTable(each)
        table.raw_here, table.room, table.task = each, k.LEAST_ROOM, task
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


def _timed_join(making: Making, does: mechanism.Matching, window: TimeWindow) -> TimedLogic:
    assert window.event is not None
    return TimedJoinLogic(
        window=window.event,
        lateness_us=microseconds(window.allowed_lateness_s),
        sides=len(making.world.job.inputs(making.component.name)),
        amplification=does.amplification,
        scan_s=making.stage.scan_s,
        result_s=making.stage.result_s,
        late=making.output_to(does.late_to),
        copied=making.world.engine.window_state_of(making.stage.operator) == "copies",
    )


def _sessioning(making: Making, does: mechanism.Sessioning) -> Logic:
    if does.by_event:
        inner = TimedSessionLogic(
            gap_us=microseconds(does.gap_s),
            lateness_us=microseconds(does.lateness_s),
            result_s=0.0,
            key_bytes=making.key_bytes,
            late=making.output_to(does.late_to),
        )
        return _python(making, inner)
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
    size = making.world.engine.accumulator_bytes_of(making.stage.operator)
    return SessionLogic(*making.where, store=store, keyed=making.keyed, bytes_each=size)


def _remembering(making: Making, does: mechanism.Remembering) -> Logic:
    keep_s = math.inf if does.ttl_s is None else does.ttl_s
    store = Store(making.world.memory, making.world.expire, task=making.task.here, keep_s=keep_s, slot=k.NONE)
    return RememberLogic(*making.where, selectivity=does.selectivity, store=store, bytes_each=does.bytes_each)


def _tabling(making: Making, does: mechanism.Tabling) -> Logic:
    side = making.input_from(does.side)
    if does.by_event:
        return _python(making, TimedTableLogic(side=side, selectivity=does.selectivity))
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
            answers=memory.draws(f"calls:{name}#{making.subtask}", calls.latency_scv).here,
            capacity=math.inf if calls.capacity is None else calls.capacity,
            selectivity=selectivity,
            hit_ratio=calls.hit_ratio,
            hit_s=calls.hit_s,
            latency_s=calls.latency_s,
            ordered=calls.ordered,
            gate=world.gates[name].here if calls.rate_per_s is not None else 0,
            room=k.LEAST_ROOM,
            unsure=not calls.sure,
            retries=calls.retries,
            late_lost=calls.late_lost,
            failed_lost=calls.failed_lost,
            failure_share=calls.failure_share,
            timeout_s=calls.timeout_s,
            delay_s=calls.delay_s,
            multiplier=calls.multiplier,
            most_delay_s=calls.most_delay_s,
            retry_s=calls.retry_s,
        )
    )
    memory.at[calling.here] = calling
    calling.slot, calling.turn = (memory.slots.add(kind, calling.here) for kind in (k.ANSWERS, k.TURNS))
    calling.heap = memory.array(k.JOB, calling.here, "heap", k.LEAST_ROOM)
    logic.gate, logic.sends = world.gates.get(name), selectivity * calls.answered
    if ends:
        logic.end = SinkCounts(memory)
        calling.sink = logic.end.here
    logic.calls = calling.here
    return logic


def _reading(making: Making, does: mechanism.Reading) -> Logic:
    world, spec = making.world, making.stage.operator
    if spec.name not in world.event_times.heeding:
        return ReadLogic(*making.where)
    every_s, idle_s = does.watermark_interval_s or world.engine.watermark_interval_s, does.idle_s
    logic = DatedSource(
        *making.where,
        panes=world.event_times.finest if every_s is None else (0, 0),
        disorder_us=microseconds(does.disorder_s),
        slack_us=microseconds(does.slack_s),
        lasting=world.replayable,
    )
    if every_s is not None or idle_s is not None:
        idle_s = math.inf if idle_s is None else idle_s
        world.env.process(watermarks(world, logic, every_s or min(idle_s, LOOKS_S), idle_s))
    return logic


def _in_python(making: Making, does: Any) -> Logic:
    """Logic of a mechanism that is written in Python alone."""
    make = IN_PYTHON.get(type(does))
    if make is None:
        kind = type(making.stage.operator).__name__
        raise NotImplementedError(f"{type(does).__name__}, the mechanism of {kind}, has no logic; add one to IN_PYTHON")
    return _python(making, make(making, does))


def _python(making: Making, inner: Inner) -> Logic:
    """Logic in Python of an operator."""
    inner.kin = making.stage.operator.name in making.world.kin.meet
    timed = making.component.name in making.world.event_times.heeding
    return PythonLogic(*making.where, inner=inner, timed=timed, inboxes=making.world.network.inboxes)


def _computing(making: Making, does: mechanism.Computing) -> Logic:
    name, times, memory = making.component.name, making.world.event_times, making.world.memory
    fields: dict[str, Any] = {
        "key_bytes": making.key_bytes if does.key_bytes is None else does.key_bytes,
        "panes": times.panes(name),
        "windows": times.merged_windows(name),
        "results": bool(does.windows),
        "sharing": PANES if does.sharing == "auto" else does.sharing,
        "execute_s": does.execute_s,
        "result_s": making.result_s,
        "scan_s": making.stage.scan_s,
        "late": making.output_to(does.late_to),
        "by_window": bool(does.windows) and (making.world.engine.lateness == "window" or does.lateness_s > 0.0),
        "lateness_us": microseconds(does.lateness_s),
        "holds": making.world.engine.window_state_of(making.stage.operator) if does.key_bytes is None else "slices",
    }
    eager = fields["panes"] is None
    inner = ComputeLogic(**fields) if eager else ComputeInMemory(memory, **fields)
    inner.kin = name in making.world.kin.meet
    if isinstance(inner, ComputeInMemory):
        return ComputingLogic(*making.where, inner=inner, inboxes=making.world.network.inboxes)
    return PythonLogic(*making.where, inner=inner, timed=True, inboxes=making.world.network.inboxes)


def _meeting(making: Making, does: mechanism.Meeting) -> Inner:
    left, keys = making.input_from(does.left), making.keys_of(does.keys)
    if not does.by_event:
        return IntervalLogic(left, does.lower_s, does.upper_s, keys, making.keyed)
    return TimedIntervalLogic(left, does.lower_s, does.upper_s, making.output_to(does.late_to))


def _preceding(making: Making, does: mechanism.Preceding) -> Inner:
    if not does.by_event:
        return OverLogic(does.rows, does.range_s, does.row_bytes)
    range_us = None if does.range_s is None else microseconds(does.range_s)
    return TimedOverLogic(does.rows, range_us, does.row_bytes, making.output_to(does.late_to))


def _aggregating(making: Making, does: mechanism.Aggregating) -> Inner:
    name, job, world = making.component.name, making.world.job, making.world
    state = does.retracts, does.ttl_s, does.bytes_each
    if does.batch_s is None:
        return GroupLogic(*state, does.changing)
    batches = does.batch_s, does.batch_size, making.stage.result_s
    if does.first_phase:
        (after,) = [edge.stream.consumer for edge in job.outputs(name)]
        return LocalLogic(lambda: world.key_groups[after], *batches)
    if does.second_phase:
        before = [edge.stream.producer for edge in job.inputs(name)]
        return GlobalLogic(lambda: [task.name for each in before for task in world.tasks_of(each)], *state, *batches)
    return BatchLogic(*state, *batches)


def _consolidating(making: Making, does: mechanism.Consolidating) -> Inner:
    panes = making.world.event_times.panes(making.component.name)
    assert panes is not None
    return ConsolidateLogic(
        key_bytes=does.key_bytes,
        panes=panes,
        windows=does.windows,
        sides=making.world.event_times.sides(making.component.name),
        merge_s=does.merge_s,
        result_s=making.result_s,
        results_per_key=does.results_per_key,
    )


LOGICS: Mapping[type, Callable[[Making, Any], Logic]] = {
    mechanism.Reading: _reading,
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
    mechanism.Computing: _computing,
    mechanism.Asking: lambda making, does: _calling(making, does.calls, does.selectivity, False),
    mechanism.Writing: lambda making, does: _calling(making, does.calls, 1.0, True),
}
"""Logics that compiled code works on, by the class of the mechanism."""
IN_PYTHON: Mapping[type, Callable[[Making, Any], Inner]] = {
    mechanism.Meeting: _meeting,
    mechanism.Consolidating: _consolidating,
    mechanism.Aggregating: _aggregating,
    mechanism.Pairing: lambda making, does: RegularJoinLogic(
        making.input_from(does.left), does.outer, does.ttl_s, does.last, does.row_bytes
    ),
    mechanism.Preceding: _preceding,
    mechanism.Ranking: lambda _, does: TopLogic(
        does.n, does.numbered, does.retracts, does.enters, does.ttl_s, does.row_bytes
    ),
    mechanism.Deduplicating: lambda _, does: (TimedDeduplicateLogic if does.by_event else DeduplicateLogic)(
        does.last, does.retracts, does.ttl_s, does.bytes_each
    ),
}
"""Logics that are written in Python, which compiled code calls. A new mechanism is added here first."""


def tail_of(world: World, component: Component) -> Tail | None:
    """Followers of a component's first operator that take at once what it sends: filters, maps or a sink, where event
    times pass. The CPU time of these for records that pass at once is part of the service; for results of windows, of
    the work of sending them. None without such followers."""
    if len(component.stages) == 1 or component.name not in world.event_times.heeding:
        return None
    rates = [world.job.rates[stage.operator.name] for stage in component.stages]
    come = max(rates[1].in_per_s, 1e-12)
    each_s = sum(
        stage.service_s * rate.in_per_s / come for stage, rate in zip(component.stages[1:], rates[1:], strict=True)
    )
    return Tail(each_s if component.operator.needs_event_time else 0.0, [rate.out_per_s / come for rate in rates])


def service_scv(world: World, component: Component) -> float:
    """Squared coefficient of variation of the service of an incoming record through all chained operators.

    From the last to the first, the variance of a compound sum: Var = E[N] Var[X] + Var[N] E[X]^2, where X is the work
    of all operators that follow.
    """
    noise = 1.0 if world.settings.noise else 0.0
    if len(component.stages) == 1:
        return noise * component.service_scv
    behind = [[0.0, 0.0] for _ in component.stages]  # mean and variance of what follows each, together
    mean_s = variance = 0.0
    for number, stage in reversed(list(enumerate(component.stages))):
        chance, gain = _becomes(world, stage)
        after_s, varies = behind[number]
        lump_s = gain * after_s
        variance = noise * stage.service_scv * stage.service_s**2 + chance * (
            gain * varies + (1.0 - chance) * lump_s**2
        )
        mean_s = stage.service_s + chance * lump_s
        if number:
            behind[component.before[number]][0] += mean_s
            behind[component.before[number]][1] += variance
    return variance / mean_s**2 if mean_s > 0.0 else 0.0


def _becomes(world: World, stage: Stage) -> tuple[float, float]:
    """Probability that anything leaves an operator with an incoming record, and the mean number of records then.

    Both are 0 for a window by time: its evaluations are no part of any record's service.
    """
    operator = stage.operator
    if not isinstance(operator, Windowed):
        return min(1.0, operator.gain), max(1.0, operator.gain)
    rates = world.job.rates[operator.name]
    if operator.window.policy == "time" or not rates.fires_per_s:
        return 0.0, 0.0
    return min(1.0, rates.fires_per_s / rates.in_per_s), rates.out_per_s / rates.fires_per_s


def make_logics(world: World, component: Component, subtask: int, task: Task) -> list[Logic]:
    """Makes the steps of a subtask."""
    steps = []
    for number, stage in enumerate(component.stages):
        does = stage.operator.mechanism
        make = LOGICS.get(type(does), _in_python)
        logic = make(Making(world, component, stage, subtask, task, number), does)
        logic.kin = stage.operator.name in world.kin.meet
        if len(component.stages) > 1 and task.logic.tail is None:
            logic.stream = task.draws.here if not number else world.draws_of(stage, subtask).here
            logic.service_s = stage.service_s if number else component.service_s
        steps.append(logic)
    task.timers, task.timers_room = world.memory.array(k.TIMER, task.here, "timers", k.LEAST_ROOM), k.LEAST_ROOM
    return steps
