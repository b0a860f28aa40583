"""Fast: through which components on a processor the results of a window pass, one beside another."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from twin.job import Component, Job
from twin.query import Windowed

MANY = 8.0
"""Results of an evaluation, from which on the first are at the last of the components while others are at the first."""
ROOM = 0.95
"""Of a channel, that results of an evaluation take on average: more would often have to wait before it."""
NEARLY_ALL = 0.9
"""Of a component's tuples."""


def passed_by_bursts(job: Job, here: Sequence[str]) -> tuple[str, Collection[str]]:
    """(the window, these): of the window whose results mean most work here. here: components, in data-flow order."""
    most = 0.0
    found: tuple[str, Collection[str]] = ("", ())
    for window in job.components:
        if _sends_many(job, window):
            behind = _behind(job, window, here)
            work = sum(job.rates[name].in_per_s * job.component(name).service_s for name in behind)
            if work > most and len(behind) > 1:
                most, found = work, (window.name, tuple(behind))
    return found


def _sends_many(job: Job, component: Component) -> bool:
    """Results at once, and not more than there is room for."""
    last = component.operators[-1]
    rates, room = job.rates[last.name], min([job.edges[number].room for number in component.outputs], default=0)
    results = rates.out_per_s / rates.fires_per_s if rates.fires_per_s > 0.0 else 0.0
    return isinstance(last, Windowed) and MANY <= results <= ROOM * room


def _behind(job: Job, window: Component, here: Sequence[str]) -> list[str]:
    """Those that get nearly all of their tuples from the window or from one another, in data-flow order."""
    passing = {window.name}
    for name in here:
        inputs = [
            (job.components[each.producer].name, job.rates[each.stream.producer].out_per_s * each.share)
            for each in job.inputs(name)
        ]
        passed = sum(rate for producer, rate in inputs if producer in passing)
        if passed > 0.0 and passed >= NEARLY_ALL * sum(rate for _, rate in inputs) and not _slides(job, name):
            passing.add(name)
    return [name for name in here if name in passing and name != window.name]


def _slides(job: Job, name: str) -> bool:
    """Whether it sends at times of its own."""
    last = job.component(name).operators[-1]
    return isinstance(last, Windowed) and last.window.policy != "count"
