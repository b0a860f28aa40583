"""Along which streams backpressure goes: from an operator that is full, against the tuples, up to the sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from twin.query import Query
from twin.run import Run

FULL = 0.9
"""An operator that is busier holds its producers up."""
HELD = 0.05
"""An operator that could not send for a longer share of the time is held up."""


class OperatorLoad(NamedTuple):
    """Shares of the time of an operator's replicas, and the tuples that it emits."""

    busy: float
    blocked: float
    rate_out_per_s: float

    @property
    def presses(self) -> bool:
        """Whether it is full, or held up itself."""
        return self.busy >= FULL or self.blocked >= HELD


def loads(run: Run | None) -> dict[str, OperatorLoad]:
    """By operator; nothing is known without a run. While all of a job stands still, nothing is held up by anything."""
    totals = run.operators if run is not None else ()
    still = min((each.backpressured for each in totals), default=0.0)
    return {each.operator: OperatorLoad(each.busy, each.backpressured - still, each.rate_out_per_s) for each in totals}


def held_up(query: Query, known: Mapping[str, OperatorLoad]) -> set[tuple[str, str]]:
    """(producer, consumer) of streams that hold their producer up: those into consumers that press.

    Where none of its consumers presses, the network in between does, and all of its streams count.
    """
    found = set()
    pressing: dict[str, list[str]] = {}
    consumers: dict[str, list[str]] = {}
    for stream in query.streams:
        consumers.setdefault(stream.producer, []).append(stream.consumer)
        if stream.consumer in known and known[stream.consumer].presses:
            pressing.setdefault(stream.producer, []).append(stream.consumer)
    for name, load in known.items():
        if load.blocked >= HELD:
            found |= {(name, each) for each in pressing.get(name) or consumers.get(name, [])}
    return found
