"""An optimizer of one's own: every operator goes, one after the other, where it makes the least busy socket busiest.

Run it against the others:

    twin benchmark --optimizers milp,docs/examples/coolest_host.py:CoolestHost --families numa --most 3
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from optimizers.interface import Problem, Solution
from optimizers.selection import choose, estimate
from optimizers.space import as_plans
from twin.rates.coefficients import PlacementCoefficients


@dataclass(frozen=True)
class CoolestHost:
    """Satisfies `optimizers.interface.Optimizer`: a name, and `solve`."""

    name: str = "coolest-host"

    def solve(self, problem: Problem) -> Solution:
        """The heaviest operator first; one plan, which the problem's cost model estimates."""
        started_s = time.perf_counter()
        job = PlacementCoefficients.of(problem.deployment)
        allowed_ol = problem.space.allows_ol(problem.deployment)  # what is pinned, or on some hosts only
        load_l = np.zeros(len(job.places.capacity_l))
        counts_ol = np.zeros(allowed_ol.shape, np.int64)
        for o in np.argsort(-job.operators.work):
            then_l = (load_l + job.operators.work[o]) / job.places.capacity_l
            here = int(np.argmin(np.where(allowed_ol[o], then_l, np.inf)))
            load_l[here] += job.operators.work[o]
            counts_ol[o, here] = job.operators.parallelism[o]
        found = estimate(problem, as_plans(problem.deployment, counts_ol[None]))
        return choose(problem, found, evaluations=1, started_s=started_s, complete=False)
