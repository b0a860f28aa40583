"""Physics chooses plans near the best, a black box chooses among them: the safe way to use a learned model.

The harder one searches under a learned model, the more one finds its errors. Within one per cent of the analytic
optimum, of what placement can change, are plans that the rate model calls ties; what a learned model knows beyond it,
it says of these, and it can never lose more than that one per cent of what the physics says. Nothing is proved.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from optimizers.counted import as_plans
from optimizers.driving.physics import weigh
from optimizers.interface import Problem, Propose, Solution, Traits
from optimizers.selection import choose, estimate, said

SHARE = 0.01
"""How near, of what placement can change."""
WIDER = (1.0, 10.0, 100.0, 1e9)
"""Times the share, one after the other while the black box calls no plan sane."""
FEWER = "of {count:,} plans {within} by rates, {model} chose"


def near(problem: Problem, propose: Propose, traits: Traits) -> Solution:
    """What is proposed under the rate model, then the problem's cost model on what is near. The budget is of plans that
    the cost model is asked about."""
    started_s = time.perf_counter()
    weighed = weigh(problem, propose, traits)
    settled = replace(weighed.problem, cost_model=problem.cost_model, alternatives=problem.alternatives)
    rows = np.zeros(0, int)
    for wider in WIDER:
        share, before = wider * SHARE, len(rows)
        rows = weighed.near(share)[: problem.budget]
        if len(rows) > before:
            found = estimate(settled, as_plans(problem.deployment, weighed.counts_nol[rows]))
        if found.sane.any() or len(rows) == problem.budget:
            break
    chosen = choose(settled, found, evaluations=len(rows), started_s=started_s, complete=False)
    within = "that keep up" if share > 1.0 else f"within {share:.0%} of the best"
    words = FEWER.format(count=len(rows), within=within, model=problem.cost_model.name)
    given = estimate(settled, [problem.deployment.plan]).candidate(0)
    return replace(chosen, weighed=len(weighed.counts_nol), message=said(chosen.message, words), given=given)
