"""Branch and bound over placements, against every plan of random jobs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.branching.optimizer import BranchAndBound
from optimizers.branching.relaxation import Relaxation
from optimizers.interface import Status
from optimizers.space import Space, counts_of
from optimizers.space_plans import SpacePlans
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.parameter_space import COSTREAM
from tests.optimizers import judged_jobs
from tests.optimizers.judged_jobs import edge, small_job
from twin.errors import BadInput
from twin.rates.coefficients import PlacementCoefficients
from twin.scenario import RunSettings

TOGETHER = Space(spread=False)


asked = partial(judged_jobs.asked, space=TOGETHER)


def test_most_ordinary_jobs_are_proved_with_a_handful_of_estimates():
    proved, few = [], []
    for seed in (3, 7, 8, 11, 15, 23):
        job = random_scenario(COSTREAM, seed, RunSettings())
        problem = replace(asked(job), space=Space(costream_rules=True))
        found = BranchAndBound().solve(problem)
        few.append(found.evaluations < 40)
        proved.append(found.status is Status.OPTIMAL)
    assert sum(proved) >= 4 and sum(few) >= 5


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), placed=st.integers(0, 3))
def test_a_partial_placement_is_bounded_by_its_completions(seed, placed):
    """Whatever the network makes of it: the relaxation of fewer decisions is never above that of more."""
    job = small_job(seed)
    relaxation = Relaxation.of(PlacementCoefficients.of(job), TOGETHER, end_to_end=False)
    whole = SpacePlans(job, TOGETHER).all().argmax(axis=2)
    part = whole.copy()
    part[:, placed:] = -1
    bound, completed = relaxation.solve(part)
    exact, same = relaxation.solve(whole)
    assert (bound <= exact * (1 + 1e-9)).all()
    np.testing.assert_array_equal(same, whole)
    np.testing.assert_array_equal(completed[:, :placed], whole[:, :placed])
    reached, _ = relaxation.solve(completed)
    assert (reached >= bound * (1 - 1e-9)).all()


def test_replicas_stay_together_unless_the_space_wants_them_parted():
    found = BranchAndBound().solve(replace(asked(edge()), space=Space()))
    assert {len(set(places)) for places in found.plan.placement.values()} == {1}
    assert "an operator on one socket" in found.among
    for space in (Space(spread=True), Space(pinned=frozenset({"sensors"}))):
        with pytest.raises(BadInput, match="one socket; use milp"):
            BranchAndBound().solve(replace(asked(edge()), space=space))


def test_a_budget_of_one_gives_the_given_plan_and_no_proof():
    job = random_scenario(COSTREAM, 3, RunSettings())
    found = BranchAndBound().solve(asked(job, budget=1))
    assert found.evaluations == 1
    assert (counts_of(job, found.plan) == counts_of(job, job.plan)).all()
    assert found.status is Status.FEASIBLE
