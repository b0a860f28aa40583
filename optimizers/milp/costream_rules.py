"""Costream's rules for placements (`optimizers.rules`), exact and linear.

Never weaker: floor[o, k] is 1 if the data of o have been where no bin below k is left to them (k = 1, 2); it never
falls along a stream, and forbids hosts whose strongest bin is below k. No return: seen[o, h] is 1 if the data of o have
been on h; a stream may go to a host that its data have seen only if it is there already. Both need no integrality: they
are pushed up by x and held down by nothing else.
"""

from __future__ import annotations

import numpy as np

from optimizers.milp.assignment import Assignment
from optimizers.program import Program
from optimizers.rules import bin_ranges
from twin.rates.coefficients import PlacementCoefficients

HIGHER = (1, 2)


def obey_costream(program: Program, job: PlacementCoefficients, assignment: Assignment) -> None:
    """Adds both rules; the sockets of a host count as one."""
    _never_weaker(program, job, assignment)
    _no_return(program, job, assignment)


def _never_weaker(program: Program, job: PlacementCoefficients, assignment: Assignment) -> None:
    bins = list(bin_ranges(job.deployment.cluster).values())
    lowest_l, highest_l = np.array(bins)[job.places.host_l].T
    place = assignment.place
    for k in HIGHER:
        floor = program.variables((len(place),), upper=1.0)
        program.rows((place[:, lowest_l >= k], 1.0), (floor[:, None], -1.0), high=0.0)
        program.rows((place[:, highest_l < k], 1.0), (floor[:, None], 1.0), high=1.0)
        start, end = floor[list(job.producer_s)], floor[list(job.consumer_s)]
        program.rows((start[:, None], 1.0), (end[:, None], -1.0), high=0.0)


def _no_return(program: Program, job: PlacementCoefficients, assignment: Assignment) -> None:
    host_l = job.places.host_l
    seen = program.variables((len(assignment.place), int(host_l.max()) + 1), upper=1.0)
    start, end = list(job.producer_s), list(job.consumer_s)
    for h in range(seen.shape[1]):
        here = assignment.place[:, host_l == h]
        program.rows((here, 1.0), (seen[:, h, None], -1.0), high=0.0)
        program.rows((seen[start, h, None], 1.0), (seen[end, h, None], -1.0), high=0.0)
        program.rows((here[end], 1.0), (seen[start, h, None], 1.0), (here[start], -1.0), high=1.0)
