"""Worlds of one or two tasks, wired by hand, for tests that list every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import simpy

from twin.engine.draws import Draws
from twin.engine.logic import Logic
from twin.engine.logics.select import SelectLogic
from twin.engine.partitioners.partitioner import Partitioner
from twin.engine.processor import Processor
from twin.engine.record import Record
from twin.engine.station.task import Task
from twin.engine.streams.channel import Inbox, Path, Paths, Port
from twin.engine.windows.combiner import GroupCombiner
from twin.engine.windows.join import MatchCombiner
from twin.engine.windows.trigger import CountTrigger, TimeTrigger, extent_of
from twin.engine.windows.window import WindowLogic
from twin.query import CountWindow, TimeWindow
from twin.spec import parse


class Listener:
    """Takes what comes, and notes when and how much."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.heard: list[tuple[float, int]] = []
        self.records: list[Record] = []

    def deliver(self, record: Record) -> None:
        self.heard.append((round(self.env.now, 9), record.n))
        self.records.append(record)


def setup(env: simpy.Environment, service_s: float, name: str = "task", seed: int = 1) -> tuple[Any, ...]:
    """A core of its own, and services that do not vary."""
    return env, name, Processor(env, 1.0), Draws(np.random.default_rng(seed), 0.0), service_s


def map_logic() -> Logic:
    """One out for one in."""
    return SelectLogic(1.0, thins=False)


def map_task(env: simpy.Environment, service_s: float = 1.0, name: str = "task") -> Task:
    """A station of a map."""
    return Task(*setup(env, service_s, name), map_logic())


def window(policy: str, size: float, slide: float) -> CountWindow | TimeWindow:
    """In tuples or seconds."""
    if policy == "count":
        return parse(CountWindow, {"policy": "count", "size_tuples": int(size), "slide_tuples": int(slide)})
    return parse(TimeWindow, {"policy": "time", "size_s": size, "slide_s": slide})


def aggregate(env: simpy.Environment, over: CountWindow | TimeWindow, groups: int = 3) -> Task:
    """A grouped window."""
    extent = extent_of(over)
    trigger = TimeTrigger(extent) if extent.by_time else CountTrigger(extent)
    return Task(*setup(env, 0.001), WindowLogic(trigger, GroupCombiner(extent, 0.0, 0.0, groups)))


def join(env: simpy.Environment, over: CountWindow | TimeWindow, selectivity: float = 0.02) -> Task:
    """Two sides, by key."""
    extent = extent_of(over)
    trigger = TimeTrigger(extent) if extent.by_time else CountTrigger(extent)
    combiner = MatchCombiner(extent, 0.0, 0.0, (False, False), selectivity=selectivity, amplification=None)
    return Task(*setup(env, 0.001), WindowLogic(trigger, combiner, 2))


def inbox_of(task: Any, capacity: int = 1000, side: int = 0) -> Inbox:
    """A stream into a task, or into whatever takes records."""
    inbox = Inbox(task, side, capacity)
    if isinstance(task, Task):
        task.inputs.add(inbox)
    return inbox


def connect(producer: Task, inboxes: Sequence[Inbox], partitioner: Partitioner | None = None) -> Port:
    """A stream within a host, dealt evenly in turn."""
    paths = Paths(lambda k: Path(inboxes[k], None, 0.0, 0.0, 0.0, 0.0), [0.0] * len(inboxes), inboxes.__getitem__)
    port = Port(producer, paths, partitioner or Partitioner([1.0 / len(inboxes)] * len(inboxes)))
    producer.ports.append(port)
    return port


def record(at_s: float, inbox: Inbox | None = None) -> Record:
    """One that was born when it came."""
    made = Record(at_s, at_s, at_s)
    if inbox is not None:
        made.inbox = inbox
        inbox.credits -= 1
        inbox.sent += 1
    return made


def deliver_at(env: simpy.Environment, task: Any, records: Sequence[Record]) -> None:
    """Hands records over as they come."""

    def run() -> Any:
        for record in sorted(records, key=lambda each: each.at_s):
            if record.at_s > env.now:
                yield env.timeout(record.at_s - env.now)
            task.deliver(record)

    env.process(run())
