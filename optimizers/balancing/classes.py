"""The class-aggregated relaxation: a bound in which nobody asks which group goes where.

Groups are sorted by work into classes of about equal size. Each group leaves its node or not; a node receives so many
of each class, and counts them as light as the lightest of it where that is too much, and as heavy as the heaviest
where it is too little. Without the pairing of origin and destination, HiGHS solves it at sizes where the full program
does not even start; what it proves holds for the full program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix, csr_matrix, hstack, identity, vstack

from optimizers.balancing.balance import Balance


def class_bound(balance: Balance, *, classes: int = 20, seconds: float = 10.0) -> float:
    """Percentage points; 0 if HiGHS proves nothing in time. Side constraints are relaxed."""
    groups, nodes = len(balance.home_g), len(balance.capacity_h)
    rank = np.empty(groups, dtype=int)
    rank[np.argsort(balance.work_g, kind="stable")] = np.arange(groups)
    class_g = rank * min(classes, groups) // groups
    count = int(class_g.max()) + 1
    low_c = np.array([balance.work_g[class_g == each].min() for each in range(count)])
    high_c = np.array([balance.work_g[class_g == each].max() for each in range(count)])
    work_h = np.bincount(balance.home_g, balance.work_g, nodes)
    mean_h = balance.mean * balance.capacity_h
    inf, one = np.inf, np.arange(groups)
    leave_h = csr_matrix((balance.work_g, (balance.home_g, one)), shape=(nodes, groups))
    leave_c = csr_matrix((np.ones(groups), (class_g, one)), shape=(count, groups))
    arrive_low, arrive_high = (csr_matrix(np.kron(np.eye(nodes), each)) for each in (low_c, high_c))
    arrive_c = coo_matrix(hstack([identity(count)] * nodes))
    room = csr_matrix(balance.capacity_h[:, None])
    unmarked = np.flatnonzero(~balance.marked_h)
    rows: list[tuple[Any, Any, Any]] = [
        (hstack([leave_c, -arrive_c, csr_matrix((count, 1))]), 0.0, 0.0),
        (hstack([-leave_h, arrive_low, -room]), -inf, mean_h - work_h),
        (hstack([-leave_h, arrive_high, room]).tocsr()[unmarked], (mean_h - work_h)[unmarked], inf),
    ]
    if np.isfinite(balance.budget):
        cost = csr_matrix(np.concatenate([balance.costs_g, np.zeros(nodes * count + 1)])[None, :])
        rows.append((cost, -inf, balance.budget))
    matrix = vstack([each for each, _, _ in rows]).tocsr()
    low = np.concatenate([np.broadcast_to(each, part.shape[0]) for part, each, _ in rows])
    high = np.concatenate([np.broadcast_to(each, part.shape[0]) for part, _, each in rows])
    receives = np.repeat(np.where(balance.marked_h, 0.0, inf), count)
    found = milp(
        np.concatenate([np.zeros(groups + nodes * count), [1.0]]),
        integrality=np.concatenate([np.ones(groups + nodes * count), [0.0]]),
        bounds=Bounds(0.0, np.concatenate([np.where(balance.stays_g, 0.0, 1.0), receives, [inf]])),
        constraints=LinearConstraint(matrix, low, high),
        options={"time_limit": seconds, "mip_rel_gap": 1e-6},
    )
    dual = getattr(found, "mip_dual_bound", None)
    return max(float(dual), 0.0) if dual is not None and np.isfinite(dual) else 0.0
