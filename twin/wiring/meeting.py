"""Whose segments, and whose streams of tuples, meet at a replica of an operator in a fast run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.compute.hidden import HiddenWait
from twin.engine.streams.confluence import round_of
from twin.query import Windowed

if TYPE_CHECKING:
    from twin.job import Component, Edge
    from twin.wiring.wiring import Wiring


def overlapping(wiring: Wiring) -> set[str]:
    """Components at whose replicas segments that arrive can overlap in time."""
    job = wiring.job
    at: set[str] = set()
    after: set[str] = set()  # those that they send: the results of time windows are bursts, in order
    for component in job.components:  # in data-flow order
        inputs = job.inputs(component.name)
        several = sum(map(wiring.producers, inputs)) > 1 or (bool(inputs) and wiring.noise.jitter_scv > 0.0)
        if several or any(job.component(each.stream.producer).name in after for each in inputs):
            at.add(component.name)
            if not _follows_clock(component):
                after.add(component.name)
    return at


def rounds(wiring: Wiring) -> dict[tuple[str, str], int]:
    """By stream: segments after which those that reach a consumer replica come again at the same distances.

    Those of one producer come as they came to it.
    """
    job, found = wiring.job, dict[tuple[str, str], int]()
    for component in job.components:  # in data-flow order
        inputs = job.inputs(component.name)
        most = 1 if _follows_clock(component) else max([found[each.ends] for each in inputs], default=1)
        for edge in job.outputs(component.name):
            producers = wiring.producers(edge)
            if producers > 1:
                found[edge.ends] = round_of(producers, wiring.replicas(edge.stream.consumer))
            else:
                found[edge.ends] = most * len(inputs) if most > 1 else 1
    return found


def flushed(wiring: Wiring, edge: Edge) -> tuple[int, float]:
    """Tuples that travel together, and seconds between two flushes, where these set bursts apart: right behind windows.

    Behind another stage, how long a burst lasts is told by its segments.
    """
    flush_s = wiring.engine.flush_s
    if flush_s is None or not _follows_clock(wiring.job.components[edge.producer]):
        return 1, 0.0
    return wiring.engine.batch_of(edge.bytes_each), flush_s


def streams(wiring: Wiring, operator: str) -> list[tuple[int, HiddenWait | None]]:
    """Streams of tuples whose gaps have nothing to do with each other, that meet at a replica of the operator.

    By input; and, where it gets all that a producer replica sends, what meets there and is in each of them.
    """
    found: list[tuple[int, HiddenWait | None]] = []
    for edge in wiring.job.inputs(operator):
        producer, producers = wiring.job.components[edge.producer], wiring.producers(edge)
        many = min(2, producers) if _in_step(wiring, producer.name) else producers
        found.append((many, wiring.world.tasks[producer.name][0].hidden if _whole(wiring, edge) else None))
    return found


def passed_whole(wiring: Wiring, operator: str) -> bool:
    """Whether one of its consumers gets all that a replica of the operator sends."""
    return any(_whole(wiring, edge) for edge in wiring.job.outputs(operator))


def _whole(wiring: Wiring, edge: Edge) -> bool:
    """Whether a consumer replica gets, tuple by tuple, all that a producer replica sends."""
    windowed = any(isinstance(each, Windowed) for each in wiring.job.components[edge.producer].operators)
    return (edge.how.paired or wiring.replicas(edge.stream.consumer) == 1) and not windowed


def _in_step(wiring: Wiring, operator: str) -> bool:
    """Whether the replicas of an operator get their tuples in turn and pass all of them on, back to a source.

    Who gets theirs in turn then gets about one a round: rounds of one length stay in step, stage after stage.
    """
    while True:
        component, inputs = wiring.job.component(operator), wiring.job.inputs(operator)
        if wiring.replicas(operator) == 1 or component.operator.is_source:
            return True
        if len(inputs) != 1 or not all(each.one_to_one for each in component.operators):
            return False
        if not inputs[0].how.in_turn:
            return False
        operator = inputs[0].stream.producer


def _follows_clock(component: Component) -> bool:
    """Whether what leaves it are the results of windows over time, all of one evaluation at once."""
    windows = [each.window for each in component.operators if isinstance(each, Windowed)]
    return any(window.policy == "time" for window in windows)
