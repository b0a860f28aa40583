"""Stateless or stateful, flexible or rigid (Enorm, Table 1 and Section 5): derived, because both depend on what else is
in a component.

Table 1 calls every compute flexible. It is so only where a consolidate of another component merges its partial
results; and a consolidate is stateless only where those who sent its partial results can send them again.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from optimizers.fusion.job import STATEFUL, FusionJob


class Handover(StrEnum):
    """What an operator gives to those behind it (Enorm, Fig. 5).

    PARTIALS: results of parts of windows, which consolidates merge (5.1). WINDOWS: results of whole windows at their
    end (5.2). RESULTS: of complete windows, as parts of longer ones (5.3). EAGER: tuple by tuple (5.4).
    """

    PARTIALS = "partials"
    WINDOWS = "windows"
    RESULTS = "results"
    EAGER = "eager"


class Class(NamedTuple):
    """stateful: keeps state that would be lost. flexible: how its input is split can change without moving state."""

    stateful: bool
    flexible: bool

    def __str__(self) -> str:
        return f"{'stateful' if self.stateful else 'stateless'} {'flexible' if self.flexible else 'rigid'}"


def handover(job: FusionJob, name: str) -> Handover:
    """A compute hands over partial results only if all of its consumers are consolidates."""
    operator = job.by_name[name]
    consumers = {job.by_name[each].kind for each in job.consumers[name]}
    merged = consumers == {"consolidate"}
    match operator.kind:
        case "compute" if merged:
            return Handover.PARTIALS
        case "compute" if operator.windows:
            return Handover.WINDOWS
        case "consolidate" if merged:
            return Handover.RESULTS
    return Handover.EAGER


def class_of(job: FusionJob, members: Collection[str]) -> Class:
    """Of a component: stateful if any member is, flexible if all are."""
    each = [_operator(job, name, members) for name in members]
    return Class(any(found.stateful for found in each), all(found.flexible for found in each))


def _operator(job: FusionJob, name: str, members: Collection[str]) -> Class:
    match job.by_name[name].kind:
        case "compute":
            outside = all(consumer not in members for consumer in job.consumers[name])
            return Class(stateful=True, flexible=outside and handover(job, name) is Handover.PARTIALS)
        case "consolidate":
            inside = any(job.by_name[each].kind in STATEFUL for each in job.producers[name] if each in members)
            return Class(stateful=inside, flexible=False)
    return Class(stateful=False, flexible=True)
