"""What readers of a run should know of sources whose partitions its replicas cannot share evenly."""

from __future__ import annotations

from collections.abc import Iterator

from twin.job import Component, Job
from twin.partitions import busiest, counts, even
from twin.wiring.world import World


def partition_cautions(job: Job, world: World) -> list[str]:
    """One line each, with the remedy."""
    return [line for source in job.sources for line in _of(source, world)]


def _of(source: Component, world: World) -> Iterator[str]:
    partitions, replicas = source.operator.parts, source.replicas
    if partitions is None:
        return
    name, each = source.name, counts(partitions, replicas)
    idle = sum(count == 0 for count in each)
    if idle:
        yield f"{name}: {idle} of {replicas} replicas read none of its {partitions} partitions; give it fewer"
    elif not even(partitions, replicas):
        yield (
            f"{name}: {replicas} replicas read {partitions} partitions, so some read {each[0]} and others {each[-1]}: "
            f"the busiest gets {busiest(partitions, replicas):.2f} times the mean; use a divisor of {partitions}"
        )
    lags = {number: broker.backlog / each[number] for number, broker in enumerate(world.brokers[name])}
    least, most = min(lags.values()), max(lags.values())
    if most > 2.0 * least + 1.0 and not even(partitions, replicas):
        worst = max(lags, key=lags.__getitem__)
        yield (
            f"{name}: at the end {most:,.0f} tuples of each partition of replica {worst} are unread, "
            f"and {least:,.0f} of those that lag least"
        )
