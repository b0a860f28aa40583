"""Which hosts are used at all, and what they cost: the columns of a program that looks for the fewest or cheapest."""

from __future__ import annotations

import numpy as np

from optimizers.milp.assignment import stay
from optimizers.program import Program
from optimizers.space import Space
from twin.rates.coefficients import PlacementCoefficients


def open_hosts(
    program: Program, job: PlacementCoefficients, place: np.ndarray, prices_h: np.ndarray, *, alike: bool
) -> np.ndarray:
    """Columns [H], 1 where a host is used, at its price. alike: hosts that are equal may be taken in any order."""
    host_l = job.places.host_l
    used = program.variables((len(prices_h),), upper=1.0, integer=True)
    program.rows((place.reshape(-1, 1), 1.0), (np.tile(used[host_l], len(place))[:, None], -1.0), high=0.0)
    program.costs(used, prices_h)
    if alike:
        for first, second in _twins(job, prices_h):
            program.row((used[[first, second]], np.array([1.0, -1.0])), low=0.0)
    return used


def fluid_bound(job: PlacementCoefficients, space: Space, prices_h: np.ndarray, most: float) -> float:
    """No plan costs less: work flows wherever it is allowed like water, and nothing is lost on the way."""
    program, allowed_ol = Program(), space.allows_ol(job.deployment)
    place = program.variables(allowed_ol.shape, upper=allowed_ol)
    program.rows((place, 1.0), low=1.0, high=1.0)
    program.rows((place.T, job.operators.work[None]), high=most * job.places.capacity_l)
    stay(program, job, place, space)
    open_hosts(program, job, place, prices_h, alike=bool(allowed_ol.all()))
    return program.solve().bound


def _twins(job: PlacementCoefficients, prices_h: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of neighbours among hosts that are equal in everything but their names."""
    last: dict[str, int] = {}
    pairs = []
    for h, host in enumerate(job.deployment.cluster.hosts):
        kind = host.model_copy(update={"name": "host"}).model_dump_json() + repr(prices_h[h])
        if kind in last:
            pairs.append((last[kind], h))
        last[kind] = h
    return pairs
