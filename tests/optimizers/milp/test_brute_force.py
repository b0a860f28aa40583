"""What is answered and claimed, held against every plan of small random jobs under the rate model."""

from __future__ import annotations

import pytest

from optimizers.enumeration import PlacementSpace
from optimizers.interface import Problem, Status
from optimizers.milp.highest_rate import highest_rate
from optimizers.milp.optimizer import Milp
from optimizers.milp.placing import Placing
from optimizers.program import ProgramLimits, ProgramOutcome
from optimizers.requirements import Requirements, at_rate
from optimizers.space import Space
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.parameter_space import COSTREAM
from tests.optimizers.judged_jobs import hosts_of
from tests.optimizers.milp.jobs import jobs
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.scenario import RunSettings

ROOM = Requirements(head_room=0.05)
SEEDS = range(40)


@pytest.mark.slow
def test_the_fewest_hosts_of_all_plans():
    compared = 0
    for job in jobs(SEEDS):
        problem = Problem(scenario=job.deployment, cost_model=RateModel(), space=job.space, requirements=ROOM)
        found, bears = Milp(goal="hosts").solve(problem), job.sane(1.05)
        if not bears.any():
            assert "no plan was found" in found.message
            continue
        assert found.status is not Status.INFEASIBLE
        ahead = RateModel().predict(at_rate(job.deployment, 1.05), [found.plan])
        assert ahead["backpressured"][0] < 0.5 <= ahead["success"][0]
        assert len(hosts_of(found.plan)) == job.hosts_used[bears].min(), job.seed
        compared += 1
    assert compared >= 8


def test_the_highest_rate_of_all_plans():
    """Some plan is sane at it, and none 3 % above (up to a utilisation of 1.01 a plan counts as sane)."""
    compared = 0
    for job in jobs(SEEDS):
        factor = highest_rate(job.deployment, job.space, ProgramLimits()).factor
        calm = not PlacementCoefficients.of(at_rate(job.deployment, factor * 1.03)).bursty if factor else False
        if not calm:
            continue
        assert (job.costs(factor)["backpressured"] < 0.5).any(), job.seed
        assert not (job.costs(factor * 1.03)["backpressured"] < 0.5).any(), job.seed
        compared += 1
    assert compared > 8


def test_programs_hold_as_many_plans_as_the_rules():
    """Costream's rules are exact: one plan after the other is excluded, until none is left."""
    compared = 0
    for seed in range(60):
        scenario = random_scenario(COSTREAM, seed, RunSettings())
        space = PlacementSpace(scenario.query, scenario.cluster)
        if not 2 <= space.count <= 25:
            continue
        job = at_rate(scenario.deployment, 1e-4)  # so that the rules alone decide
        program = Placing(PlacementCoefficients.of(job), Space(costream_rules=True), "balanced")
        count = 0
        while (found := program.solve()).outcome is not ProgramOutcome.INFEASIBLE:
            assert found.counts_ol is not None
            program.exclude(found.counts_ol)
            count += 1
            assert count <= space.count
        assert count == space.count, seed
        compared += 1
    assert compared >= 3
