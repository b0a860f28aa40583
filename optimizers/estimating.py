"""Many plans are estimated some at a time, so that whoever waits hears of it and can stop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimizers.counted import as_plans
from optimizers.deadline import Deadline
from optimizers.interface import Problem
from optimizers.selection import Estimated, estimate, goodness
from twin.metrics import Slow
from twin.plan import ExecutionPlan

AT_ONCE = 500
"""Plans that a cost model is asked about together, unless each takes it long."""


def batch(problem: Problem) -> int:
    """Plans after which it is time to look up."""
    return 1 if isinstance(problem.cost_model, Slow) else AT_ONCE


def estimated(problem: Problem, counts_nol: np.ndarray, deadline: Deadline) -> Estimated:
    """The first of these plans [N, O, L], as many as there is time for: one batch at least. Tells of its progress."""
    step, total, parts, best = batch(problem), len(counts_nol), list[Estimated](), None
    for first in range(0, total, step):
        if parts and deadline.over:
            break
        parts.append(estimate(problem, as_plans(problem.deployment, counts_nol[first : first + step])))
        best = better(problem, best, parts[-1])
        problem.tell("plans estimated", min(first + step, total), total, best=best[-1])
    done = sum(len(part.plans) for part in parts)
    return joined(parts, as_plans(problem.deployment, counts_nol[:done]))


def better(problem: Problem, best: tuple[float, ...] | None, found: Estimated) -> tuple[float, ...]:
    """What the best of all is ranked by, with its objective at the end."""
    keys = goodness(problem, found)
    row = int(np.lexsort(keys[::-1])[0])
    here = (*keys[:, row].tolist(), float(found.objective[row]))
    return here if best is None else min(best, here)


def joined(parts: list[Estimated], plans: Sequence[ExecutionPlan]) -> Estimated:
    """Estimates of parts of these plans, in order, as those of all."""
    columns = zip(*((each.objective, each.backpressured, each.success) for each in parts), strict=True)
    objective, backpressured, success = (np.concatenate(column) for column in columns)
    fulfils = [each.fulfils for each in parts if each.fulfils is not None]
    return Estimated(plans, objective, backpressured, success, np.concatenate(fulfils) if fulfils else None)
