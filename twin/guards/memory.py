"""How much memory a run may take, estimated before it begins: what no machine holds is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from twin.errors import BadInput
from twin.events import AnyEvent, Scale
from twin.guards.arriving import arriving
from twin.job import Edge, Job
from twin.query import Windowed
from twin.scenario import Scenario

MOST_BYTES = 4e9
RECORD, UNREAD, OPEN, KEY, REPLICA, PAIR, ROW = 100.0, 8.0, 500.0, 16.0, 5000.0, 150.0, 2000.0
"""Bytes of a record that waits, one that no source has read, a session that is open, a key group, a replica, a pair of
connected replicas, and a row of statistics."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of what a run holds: bytes, what it is, and what makes it smaller."""

    size: float
    what: str
    remedy: str


def require_memory(job: Job, scenario: Scenario, taken_per_s: Mapping[str, float]) -> None:
    """Raises BadInput, naming the largest part, if a run would hold more than `MOST_BYTES`.

    taken_per_s: tuples that each operator takes in, held up as it is.
    """
    found = sorted(parts(job, scenario, taken_per_s), key=lambda part: -part.size)
    total = sum(part.size for part in found)
    if total > MOST_BYTES:
        raise BadInput(
            f"the run would hold {found[0].what}: about {total / 1e9:,.1f} GB in all, and the limit is "
            f"{MOST_BYTES / 1e9:g} GB; {found[0].remedy}"
        )


def parts(job: Job, scenario: Scenario, taken_per_s: Mapping[str, float]) -> Iterator[Part]:
    """All of it."""
    settings, replicas = scenario.run, most_replicas(job, scenario.events)
    rows = settings.horizon_s / settings.period_s * len(job.query.operators)
    yield Part(ROW * rows, f"{rows:.1e} rows of statistics", f"make run.period_s ({settings.period_s:g}) longer")
    for name, come in arriving(scenario).items():
        unread = come - min(come, taken_per_s[name] * settings.horizon_s)
        yield Part(
            UNREAD * unread, f"{unread:.1e} records that {name!r} has not read", "lower its rate or run.horizon_s"
        )
    for each in job.edges:
        yield from _stream(job, each, replicas, settings.horizon_s)
    for component in job.components:
        count = replicas[component.name]
        yield Part(REPLICA * count, f"the {count:,} replicas of {component.name!r}", "use fewer replicas")
        groups = component.key_groups or 0
        yield Part(KEY * groups, f"the {groups:,} key groups of {component.name!r}", "use fewer")
        for stage in component.stages:
            if isinstance(stage.operator, Windowed):
                yield from _window(
                    job, stage.operator, stage.service_s, taken_per_s[stage.operator.name], settings.horizon_s
                )
            elif held := job.rates[stage.operator.name].state_tuples:
                sessions = min(held, taken_per_s[stage.operator.name] * settings.horizon_s)
                what = f"{sessions:.1e} open sessions of {stage.operator.name!r}"
                yield Part(OPEN * sessions, what, "make its gap shorter or its keys fewer")


def most_replicas(job: Job, events: Sequence[AnyEvent]) -> dict[str, int]:
    """The most replicas of each operator at any time, policies apart."""
    most = {each.name: each.replicas for each in job.components}
    for event in events:
        if isinstance(event, Scale):
            most[event.operator] = max(most[event.operator], len(event.placement))
    return most


def _stream(job: Job, each: Edge, replicas: dict[str, int], horizon_s: float) -> Iterator[Part]:
    """Its connections, and the records that its channels have room for, but no more than ever come."""
    producer, consumer = job.components[each.producer].name, job.components[each.consumer].name
    pairs = replicas[producer] * (1 if each.how.paired else replicas[consumer])
    what = f"the {pairs:,} pairs of replicas that stream {producer} -> {consumer} connects"
    yield Part(PAIR * pairs, what, "use fewer replicas")
    come = job.rates[job.components[each.producer].operators[-1].name].out_per_s * each.share * horizon_s
    held = min(each.room * replicas[consumer], come * each.how.count_of_copies(replicas[consumer]))
    what = f"up to {held:.1e} tuples in the channels {producer} -> {consumer}"
    yield Part(RECORD * held, what, "make engine.channel_tuples or the rates smaller")


def _window(job: Job, operator: Windowed, stage_s: float, taken_per_s: float, horizon_s: float) -> Iterator[Part]:
    """Its content, and the results of one evaluation, which wait together: of all combinations of what it holds."""
    usual = job.rates[operator.name]
    share = min(1.0, taken_per_s / max(usual.in_per_s, 1e-300))
    content = min(usual.state_tuples * share, taken_per_s * horizon_s)
    yield Part(RECORD * content, f"{content:.1e} tuples in the windows of {operator.name!r}", "make them shorter")
    first = min(
        1.0, job.component(operator.name).replicas / max(stage_s * usual.in_per_s, 1e-300)
    )  # nothing blocks yet
    full = first * min(1.0, usual.in_per_s * horizon_s / max(usual.state_tuples, 1e-300))
    results = usual.out_per_s / max(usual.fires_per_s, 1e-300) * full ** max(1, len(job.query.inputs(operator.name)))
    what = f"{results:.1e} results of one evaluation of the window of {operator.name!r}"
    yield Part(RECORD * results, what, "make the window shorter or its results fewer")
