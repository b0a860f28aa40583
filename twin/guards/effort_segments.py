"""Into how many segments a run's tuples are cut: by the sources, by dealing, and by channels that are full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from twin.engine.dealing.in_turn import BURST_PARTS, SPLIT_AT_LEAST
from twin.engine.streams.channel import DEEP, FINER, LOTS
from twin.events import AnyEvent, Scale
from twin.guards.effort_rates import Outlook
from twin.job import Edge, Job
from twin.query import AnyOperator, Windowed
from twin.scenario import RunSettings
from twin.wiring.resolution import resolution

LEISURELY = 0.5
"""A source that is busy for less of its time passes on what waited for it in bursts."""


def most_replicas(job: Job, events: Sequence[AnyEvent]) -> dict[str, int]:
    """The most replicas of each operator at any time, policies apart."""
    most = {each.name: each.replicas for each in job.components}
    for event in events:
        if isinstance(event, Scale):
            most[event.operator] = max(most[event.operator], len(event.placement))
    return most


@dataclass(frozen=True)
class Cut:
    """See the file. `replicas`: the most of each operator."""

    job: Job
    settings: RunSettings
    replicas: dict[str, int]
    seen: Outlook

    @cached_property
    def cap(self) -> int:
        """Tuples that travel together at most, where a channel is not idle."""
        return 1 if self.settings.fidelity == "exact" else max(1, self.job.least_room // 2)

    @cached_property
    def _span_s(self) -> float:
        return resolution(self.job, self.settings).span_s

    def copies(self, each: Edge) -> int:
        """Of each tuple of a stream."""
        return each.how.count_of_copies(self.replicas[each.stream.consumer])

    def read(self, source: AnyOperator, offered_per_s: float, taken: float) -> float:
        """Segments of `taken` tuples that a source reads in a fast run, all replicas together."""
        horizon_s = self.settings.horizon_s
        keeps_up = self.seen.busy[source.name] < 1.0 and self.cap >= DEEP
        whole = self.replicas[source.name] * (horizon_s / self._span_s + 2)
        return whole if keeps_up else max(whole, min(offered_per_s * horizon_s, 2.0 * taken) / self.cap)

    def sent(self, operator: AnyOperator, each: Edge, made: float, tuples: float) -> float:
        """Segments on a stream that carries so many tuples. made: by its producer, before they are dealt."""
        if self.settings.fidelity == "exact" or tuples <= made:
            return tuples
        windowed = isinstance(operator, Windowed)
        size = tuples / made / self.copies(each)
        parts = self._parts(each, size, windowed)
        fan, full = self.replicas[each.stream.consumer], self.seen.full(each)
        if windowed:  # all at once: what the channels do not hold is cut
            cut, full = self.cap / FINER, 1.0 if size > 2 * self.cap * fan else full
        else:
            leisurely = operator.is_source and self.seen.busy_share(operator.name) < LEISURELY
            cut = self.cap / FINER if leisurely else float(self.cap)
        pieces = max(1.0, size / parts / max(1.0, cut)) ** full if self.copies(each) == 1 else 1.0
        wide = tuples * LOTS / self.cap if fan > BURST_PARTS and self.copies(each) == 1 else 0.0
        return min(tuples, max(made * parts * pieces, wide))

    def _parts(self, each: Edge, size: float, burst: bool) -> float:
        """Consumer replicas that get a part of a segment of so many tuples."""
        how, fan = each.how, self.replicas[each.stream.consumer]
        if how.copies or how.one_queue:
            return float(fan)
        if how.paired or how.whole:
            return 1.0
        fair = math.ceil(fan / self.replicas[each.stream.producer])
        if burst:
            return max(1.0, min(fan, max(fair, BURST_PARTS), size))
        return max(1.0, min(fair, size, max(1.0, size / SPLIT_AT_LEAST, fair / BURST_PARTS)))
