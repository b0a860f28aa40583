"""Worlds of one or two tasks, wired by hand, for tests that list every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import simpy

from twin.engine.compute.processor import Processor
from twin.engine.dealing.in_turn import Deal
from twin.engine.draws import Draws
from twin.engine.logic import Logic
from twin.engine.logics.select import SelectLogic
from twin.engine.segment import Segment
from twin.engine.station.setup import Setup
from twin.engine.station.task import Task
from twin.engine.streams.channel import Inbox, Path, Paths, Port
from twin.engine.windows.aggregate import GroupCombiner
from twin.engine.windows.boundaries import TimeTrigger
from twin.engine.windows.extent import extent_of
from twin.engine.windows.join import MatchCombiner
from twin.engine.windows.merged import MergedTrigger
from twin.engine.windows.store import Store
from twin.engine.windows.trigger import CountTrigger
from twin.engine.windows.window import WindowLogic
from twin.query import CountWindow, TimeWindow
from twin.spec import parse


class Listener:
    """Takes what comes, and notes when and how much."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.heard: list[tuple[float, int]] = []
        self.segments: list[Segment] = []

    def deliver(self, segment: Segment) -> None:
        self.heard.append((round(self.env.now, 9), segment.n))
        self.segments.append(segment)


def setup(env: simpy.Environment, service_s: float, exact: bool, name: str = "task", seed: int = 1) -> Setup:
    """A core of its own, and services that do not vary."""
    return Setup(env, name, Processor(env, 1.0), Draws(np.random.default_rng(seed), 0.0), service_s, 0.0, exact)


def map_logic() -> Logic:
    """One out for one in."""
    return SelectLogic(1.0, thins=False)


def map_task(env: simpy.Environment, service_s: float = 1.0, exact: bool = True, name: str = "task") -> Task:
    """A station of a map."""
    return Task(setup(env, service_s, exact, name), map_logic())


def window(policy: str, size: float, slide: float) -> CountWindow | TimeWindow:
    """In tuples or seconds."""
    if policy == "count":
        return parse(CountWindow, {"policy": "count", "size_tuples": int(size), "slide_tuples": int(slide)})
    return parse(TimeWindow, {"policy": "time", "size_s": size, "slide_s": slide})


def aggregate(env: simpy.Environment, over: CountWindow | TimeWindow, exact: bool, groups: int = 3) -> Task:
    """A grouped window."""
    extent, store = extent_of(over), Store(1)
    trigger = TimeTrigger(extent, store) if extent.by_time else CountTrigger(extent, store)
    return Task(setup(env, 0.001, exact), WindowLogic(trigger, GroupCombiner(extent, store, 0.0, 0.0, groups)))


def join(env: simpy.Environment, over: CountWindow | TimeWindow, exact: bool, selectivity: float = 0.02) -> Task:
    """Two sides, by key."""
    extent, store = extent_of(over), Store(2)
    counting = CountTrigger if exact else MergedTrigger
    trigger = TimeTrigger(extent, store) if extent.by_time else counting(extent, store)
    combiner = MatchCombiner(extent, store, 0.0, 0.0, keyed=2, selectivity=selectivity, amplification=None)
    return Task(setup(env, 0.001, exact), WindowLogic(trigger, combiner))


def inbox_of(task: Any, capacity: int = 1000, side: int = 0) -> Inbox:
    """A stream into a task, or into whatever takes segments."""
    inbox = Inbox(task, side, capacity)
    if isinstance(task, Task):
        task.inputs.add(inbox)
    return inbox


def connect(producer: Task, inboxes: Sequence[Inbox], cap: int = 1000, deal: Deal | None = None) -> Port:
    """A stream within a host, dealt evenly in turn."""
    paths = Paths(lambda k: Path(inboxes[k], None, 0.0, 0.0, 0.0, 0.0), [0.0] * len(inboxes))
    port = Port(producer, paths, deal or Deal([1.0 / len(inboxes)] * len(inboxes)), cap)
    producer.ports.append(port)
    return port


def burst(at_s: float, n: int = 1, inbox: Inbox | None = None, since_s: float | None = None) -> Segment:
    """n tuples that were born when they came, at one moment or since another."""
    from_s = at_s if since_s is None else since_s
    segment = Segment(n, from_s, at_s, from_s, at_s, from_s, at_s)
    if inbox is not None:
        segment.inbox = inbox
        inbox.credits -= n
        inbox.sent += n
    return segment


def deliver_at(env: simpy.Environment, task: Any, segments: Sequence[Segment]) -> None:
    """Hands segments over as their last tuples come."""

    def run() -> Any:
        for segment in sorted(segments, key=lambda each: each.b_s):
            if segment.b_s > env.now:
                yield env.timeout(segment.b_s - env.now)
            task.deliver(segment)

    env.process(run())
