"""Which plans are scored together: those with the same replicas of each operator, so that they share its features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.plan import ExecutionPlan, Location
from twin.rates.placements import Placements

CHUNK = 16_384
"""Plans scored at a time: the more, the more they have in common, but their states must fit in memory."""


def groups(
    deployment: Deployment, plans: Sequence[ExecutionPlan]
) -> Iterator[tuple[np.ndarray, Sequence[ExecutionPlan]]]:
    """Plans with the same replicas, `CHUNK` at most, and their rows. Raises BadInput for one that does not fit."""
    for rows in [np.arange(len(plans))] if isinstance(plans, Placements) else _same_replicas(deployment, plans):
        for part in np.split(rows, range(CHUNK, len(rows), CHUNK)):
            if len(part):
                yield part, plans.take(part) if isinstance(plans, Placements) else [plans[row] for row in part]


def _same_replicas(deployment: Deployment, plans: Sequence[ExecutionPlan]) -> list[np.ndarray]:
    names = [operator.name for operator in deployment.query.operators]
    hosts = {host.name for host in deployment.cluster.hosts}
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, plan in enumerate(plans):
        try:
            places = [plan.placement[name] for name in names]
        except KeyError as error:
            raise BadInput(f"plan {row} places nothing for operator {error}; add it") from None
        for text in {text for place in places for text in place}:
            host = Location.parse(text).host
            if host not in hosts:
                raise BadInput(f"plan {row} uses the unknown host {host!r}; {suggest(host, hosts)}")
        groups.setdefault(tuple(map(len, places)), []).append(row)
    return [np.array(rows) for rows in groups.values()]
