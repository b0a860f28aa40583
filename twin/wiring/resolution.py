"""How finely a fast run follows time: the span of a source's segments, chosen by what there is to resolve.

Waiting in queues is added to the stamps whatever the span (`twin.engine.compute.waiting`). What a span hides is the
clock: a window is looked at when the segments that cover its end have come, and a channel gives back credits segment by
segment. That matters where a window's results are more than a channel holds: they block the task that made them, and
whether it catches up before the next evaluation is a question of parts of a slide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from twin.deployment import Deployment
from twin.job import Component, Edge, Job, compile
from twin.plan import Location
from twin.query import AnyOperator, Windowed
from twin.scenario import RunSettings
from twin.wiring.fullness import full_places

USUAL_SEGMENTS = 2000
"""Of a run's sources together, one replica each, where nothing needs more."""
USUAL_STEPS = 100_000
"""Segments that all replicas together handle at most, where nothing needs more."""
MOST_STEPS = 400_000
"""... however much is needed."""
PARTS = 8
"""Of a slide, that a segment spans at most, where a window's results block it."""
FULL = 0.9
"""Of the cores that many tasks share, that these need: from there on their channels fill."""
ROOM_PARTS = 16
"""Of a channel between tasks of a full processor, that a segment is at most."""
FINER = 4
"""By so much at most segments are finer for the sake of that."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """span_s: of a source replica's segments. needed_s: at most which it should be, for `operator`; or inf."""

    span_s: float
    needed_s: float
    operator: str

    @property
    def fine_enough(self) -> bool:
        """Whether it is, to a factor of two."""
        return self.span_s <= 2.0 * self.needed_s


def resolution(what: Deployment | Job, settings: RunSettings) -> Resolution:
    """That of a fast run: as `settings.segments` says, or as the windows need it, within bounds."""
    job = compile(what)
    sources = len(job.sources)
    needed_s, operator = _needed(job)

    def span_s(segments: float) -> float:
        return settings.horizon_s * sources / segments

    if settings.segments is not None:
        return Resolution(span_s(settings.segments), needed_s, operator)
    tasks = sum(each.replicas for each in job.components)
    usual_s = max(span_s(USUAL_SEGMENTS), settings.horizon_s * tasks / USUAL_STEPS)
    finest_s = settings.horizon_s * tasks / MOST_STEPS
    crowded_s = max(usual_s / FINER, _in_channels_s(job))
    return Resolution(min(usual_s, max(finest_s, min(needed_s, crowded_s))), needed_s, operator)


def _in_channels_s(job: Job) -> float:
    """That a segment should span at most where most streams stay on a full processor, or inf.

    There a task that is blocked leaves its cores to the very task that it waits for, so who works is settled between
    their channels: which side's tuples meet in a window, how old they are, how much each gets done. Segments that are
    large parts of a channel, or of a window of several sides, settle it by chance.
    """
    within = _within(job, full_places(job, FULL))
    if 2 * len(within) <= len(job.edges):
        return math.inf
    rooms = [each.room * _each_s(job, each) / ROOM_PARTS for each in within]
    consumers = {each.consumer: job.components[each.consumer] for each in within}.values()
    return min(rooms + [_side_s(job, each) for each in consumers])


def _within(job: Job, places: set[Location]) -> list[Edge]:
    """Streams of which a producer and a consumer sit on one of these."""
    at = [places.intersection(each.places) for each in job.components]
    return [each for each in job.edges if at[each.producer] & at[each.consumer]]


def _each_s(job: Job, edge: Edge) -> float:
    """Time from one tuple to the next of a stream into a replica."""
    producer, consumer = job.components[edge.producer], job.components[edge.consumer]
    per_s = edge.share * job.rates[producer.operators[-1].name].out_per_s
    return consumer.replicas / per_s if per_s > 0.0 else math.inf


def _side_s(job: Job, component: Component) -> float:
    """A small part of what fills a window of several sides that counts their tuples."""
    window = component.operator.window if isinstance(component.operator, Windowed) else None
    per_s = job.rates[component.name].in_per_s
    if window is None or window.policy == "time" or per_s <= 0.0 or len(component.inputs) == 1:
        return math.inf
    return window.size * component.replicas / (PARTS * per_s)


def _needed(job: Job) -> tuple[float, str]:
    found = [(math.inf, "")]
    for component in job.components:
        windowed = [each for each in component.operators if isinstance(each, Windowed)][-1:]
        for operator in windowed:
            if _blocks(job, component, operator):
                window = operator.window
                rate = job.rates[operator.name].in_per_s / component.replicas
                slide_s = window.slide if window.policy == "time" else window.slide / rate
                found.append((slide_s / PARTS, component.name))
    return min(found)


def _blocks(job: Job, component: Component, windowed: AnyOperator) -> bool:
    """Whether the results of one evaluation, of all replicas, are more than the channels of a consumer hold."""
    out_per_s = job.rates[component.operators[-1].name].out_per_s
    at_once = out_per_s / max(job.rates[windowed.name].fires_per_s, 1e-300)
    return any(
        at_once > each.room * job.components[each.consumer].replicas
        for each in job.outputs(component.name)
        if each.blocks
    )
