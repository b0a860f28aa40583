"""A bound on load distances that is better than that by counting, for clusters that the full program cannot solve.

Groups are sorted by work into classes of about equal size. Each group leaves its node or not; a node receives so many
of each class, and counts them as light as the lightest of it where that is too much, and as heavy as the heaviest where
it is too little. Without the pairing of origin and destination, HiGHS solves it at sizes where the full program does
not even start; what it proves holds for the full program.
"""

from __future__ import annotations

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.program import Program, ProgramLimits, summed


def class_bound(balance: Balance, *, classes: int = 20, seconds: float = 10.0) -> float:
    """Percentage points; 0 if HiGHS proves nothing in time. Side constraints are relaxed."""
    groups, nodes = len(balance.home_g), len(balance.capacity_h)
    rank = np.empty(groups, dtype=int)
    rank[np.argsort(balance.work_g, kind="stable")] = np.arange(groups)
    class_g = rank * min(classes, groups) // groups
    count = int(class_g.max()) + 1
    low_c = np.array([balance.work_g[class_g == each].min() for each in range(count)])
    high_c = np.array([balance.work_g[class_g == each].max() for each in range(count)])
    over_h = balance.mean * balance.capacity_h - np.bincount(balance.home_g, balance.work_g, nodes)
    unmarked = np.flatnonzero(~balance.marked_h)
    program = Program()
    leaves = program.variables((groups,), upper=~balance.stays_g, integer=True)
    receives = np.where(balance.marked_h, 0.0, np.inf)[:, None]
    arrives = program.variables((nodes, count), upper=receives, integer=True)
    distance = np.repeat(program.variables((1, 1)), nodes, axis=0)
    leave_h, room_h = summed(balance.home_g, balance.work_g, nodes), balance.capacity_h[:, None]
    program.rows((leaves, summed(class_g, np.ones(groups))), (arrives.T, -1.0), low=0.0, high=0.0)
    program.rows((leaves, -leave_h), (arrives, low_c), (distance, -room_h), high=over_h)
    program.rows(
        (leaves, -leave_h[unmarked]),
        (arrives[unmarked], high_c),
        (distance[unmarked], room_h[unmarked]),
        low=over_h[unmarked],
    )
    if np.isfinite(balance.budget):
        program.row((leaves, balance.costs_g), high=balance.budget)
    program.costs(distance[:1], 1.0)
    bound = program.solve(ProgramLimits(seconds=seconds, gap=1e-6)).bound
    return max(bound, 0.0) if np.isfinite(bound) else 0.0
